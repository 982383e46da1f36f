//! Live processes and recordings are shown: the figures are the kernel's, and what cannot be shown is told in a line.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

#[path = "../common/mod.rs"]
mod common;
mod live;
mod recorded;
mod refused;
mod terminal;

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};

use common::{agrees, compiled, copy_program, fresh, has, samara, scratch, settle, trace_with};
use serde_json::Value;

const NOBODY: u32 = 65534;

fn show(words: &[&str]) -> Output {
    samara().arg("show").args(words).output().unwrap()
}

fn text(output: &Output) -> String {
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.stderr.is_empty());
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(words: &[&str]) -> Value {
    let mut all = words.to_vec();
    all.push("--json");
    serde_json::from_str(&text(&show(&all))).unwrap()
}

/// Refused with exit code 2 and one line that holds `what`.
fn refused(output: &Output, what: &str) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(output.stdout.is_empty());
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(
        told.starts_with("samara: ") && told.contains(what),
        "{told}"
    );
}

/// A program that waits; ended with the test.
struct Waiting(Child);

impl Waiting {
    fn start(command: &mut Command) -> Self {
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Waiting(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// Reads the line that it prints when it is ready.
    fn line(&mut self) -> Vec<u64> {
        let mut line = String::new();
        let out = self.0.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        line.split_whitespace()
            .map(|word| u64::from_str_radix(word, 16).unwrap())
            .collect()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `cat` that has begun to wait.
fn cat() -> Waiting {
    let waiting = Waiting::start(&mut Command::new("cat"));
    settle(waiting.0.id());
    waiting
}

fn areas_program(more: u32) -> Option<(Waiting, Vec<u64>)> {
    let program = compiled("areas")?;
    let mut waiting = Waiting::start(Command::new(program).arg(more.to_string()));
    let addresses = waiting.line();
    settle(waiting.0.id());
    Some((waiting, addresses))
}

fn area_at(shown: &Value, address: u64) -> Value {
    let number = |value: &Value| {
        u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
    };
    let areas = shown["areas"].as_array().unwrap();
    let found = areas
        .iter()
        .find(|area| (number(&area["start"])..number(&area["end"])).contains(&address));
    found.unwrap().clone()
}

/// The command, where anybody may run it.
fn public_samara() -> std::path::PathBuf {
    let folder = scratch().join("public");
    let _ = fs::create_dir(&folder);
    for folder in [scratch(), &folder] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let copy = folder.join(format!("samara-{:?}", std::thread::current().id()));
    copy_program(env!("CARGO_BIN_EXE_samara"), &copy);
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    copy
}
