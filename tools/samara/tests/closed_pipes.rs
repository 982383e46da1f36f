//! A reader that has seen enough closes its pipe: every command ends silently, as if all had been read.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use common::{fresh, samara};

/// Runs a command whose output is not read any more.
fn unread(args: &[&str]) -> Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    samara()
        .args(args)
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap()
}

#[test]
fn every_command_ends_silently() {
    let record = fresh("record");
    let record = record.to_str().unwrap();
    let traced = samara()
        .args(["trace", "-q", "--record", record, "--", "true"])
        .status()
        .unwrap();
    assert_eq!(traced.code(), Some(0));
    let start = format!("{record}@0");
    let mut live = Command::new("sh")
        .args(["-c", "echo ready; read line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(live.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let pid = live.id().to_string();
    let map = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../crates/memblock/tests/data/e820-microvm.txt"
    );
    for args in [
        &["--help"][..],
        &["trace", "--help"],
        &["--version"],
        &["boot", "--e820", map],
        &["boot", "--json", "--e820", map],
        &["core", &pid, "-o", "-"],
        &["core", record, "-o", "-"],
        &["show", &pid],
        &["show", &pid, "--maps"],
        &["show", &pid, "--json"],
        &["show", &pid, "--html", "-"],
        &["show", &start],
        &["show", &start, "--svg", "-"],
        &["top", "--once"],
        &["top", "--json"],
        &["replay", "-q", record, "--html", "-"],
        &["replay", "-q", record, "--svg", "-"],
        &["replay", "-q", record, "--json", "-"],
        &["trace", "-q", "--json", "-", "--", "true"],
        &["trace", "-q", "--html", "-", "--", "true"],
        &["trace", "-q", "--record", "/dev/stdout", "--", "true"],
    ] {
        let output = unread(args);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {told}");
        assert!(told.is_empty(), "{args:?}: {told}");
    }
    live.kill().unwrap();
    live.wait().unwrap();
}

/// The report goes to standard error, which may be unread, too. The program's status stays.
#[test]
fn an_unread_report_is_no_error() {
    for (args, code) in [
        (&["trace", "--", "sh", "-c", "exit 6"][..], 6),
        (&["trace", "--calls", "--", "true"], 0),
        (&["boot", "--e820", "/nowhere"], 2),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = samara()
            .args(args)
            .stdout(Stdio::null())
            .stderr(writer)
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(code), "{args:?}");
    }
}
