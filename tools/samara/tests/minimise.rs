//! The shortest history that differs, as a Rust test and as a C program.
//!
//! A record is made to say that it comes from an older kernel: then the engine follows rules that this machine's kernel has no more.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{compiled, fresh, has, samara, scratch, trace_with};

/// Records the program, and gives the record the name of another kernel of as many letters.
fn record(program: &[&str], older: bool) -> PathBuf {
    let file = fresh("record");
    let options = ["--verify", "each", "--record", file.to_str().unwrap()];
    let traced = trace_with(&options, program, scratch());
    traced.assert_agrees();
    if older {
        let mut bytes = fs::read(&file).unwrap();
        let length = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
        let text = String::from_utf8(bytes[20..20 + length].to_vec()).unwrap();
        for field in ["\"kernel\":\"6.", "\"kernel_version\":\"6."] {
            let from = text.find(field).unwrap() + field.len();
            let digits = text[from..].chars().take_while(char::is_ascii_digit);
            let minor = format!("{:0>1$}", 1, digits.count());
            bytes[20 + from..20 + from + minor.len()].copy_from_slice(minor.as_bytes());
        }
        let sum = crc32(&bytes[20..20 + length]);
        bytes[16..20].copy_from_slice(&sum.to_le_bytes());
        fs::write(&file, bytes).unwrap();
    }
    file
}

/// The check sum of the file format, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |mut sum, byte| {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ ((sum & 1) * 0xedb8_8320);
        }
        sum
    })
}

fn minimise(record: &Path, prefix: &Path) -> (Output, String) {
    let output = samara()
        .args(["replay", "-q"])
        .arg(record)
        .arg("--minimise")
        .arg(prefix)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, text)
}

/// Returns the number of steps in the last line.
fn steps(text: &str) -> usize {
    let line = text.lines().last().unwrap();
    assert!(line.contains(" steps suffice: "), "{text}");
    let number = line.strip_prefix("samara: ").unwrap();
    number.split(' ').next().unwrap().parse().unwrap()
}

/// Compiles and runs the C program: it tells both answers, and that they differ.
fn c_shows_it(prefix: &Path) {
    let program = prefix.with_extension("program");
    let built = Command::new("cc")
        .args(["-Wall", "-Werror", "-o"])
        .arg(&program)
        .arg(prefix.with_extension("c"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&built.stderr).into_owned();
    assert!(built.status.success(), "{errors}");
    let run = Command::new(&program).output().unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert_eq!(run.status.code(), Some(1), "{text}");
    assert!(
        text.contains("kernel:") && text.contains("engine:"),
        "{text}"
    );
}

/// Compiles and runs the Rust test, which fails: the engine's answer is not the kernel's.
fn rust_shows_it(prefix: &Path) {
    if !has("rustc") {
        return;
    }
    let folder = std::env::current_exe().unwrap();
    let folder = folder.parent().unwrap();
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    // Other builds of the library may lie there, too.
    let mut libraries: Vec<PathBuf> = entries
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("libsamara_mm-") && name.ends_with(".rlib")
        })
        .collect();
    libraries.sort_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
    let program = prefix.with_extension("test");
    let mut errors = String::new();
    let built = libraries.iter().rev().any(|library| {
        let output = Command::new("rustc")
            .args(["--edition", "2024", "--test", "-D", "warnings", "-o"])
            .arg(&program)
            .arg(prefix.with_extension("rs"))
            .arg("--extern")
            .arg(format!("samara_mm={}", library.display()))
            .arg("-L")
            .arg(format!("dependency={}", folder.display()))
            .output()
            .unwrap();
        errors += &String::from_utf8_lossy(&output.stderr);
        output.status.success()
    });
    assert!(built, "{errors}");
    let run = Command::new(&program).output().unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert_eq!(run.status.code(), Some(101), "{text}");
    assert!(text.contains("the kernel's a"), "{text}");
}

/// Returns `true` if this machine's kernel has the rules that the older one lacks.
fn is_new_enough() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|n| n.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap(), numbers.next().unwrap());
    if version < (6, 17) {
        eprintln!("skipped: this kernel answers as the older one");
    }
    version >= (6, 17)
}

fn shortest_of(arguments: &[&str], most: usize) {
    if !is_new_enough() {
        return;
    }
    let Some(program) = compiled("many_areas") else {
        return;
    };
    let mut words = vec![program.to_str().unwrap()];
    words.extend(arguments);
    let prefix = fresh("shortest");
    let (output, text) = minimise(&record(&words, true), &prefix);
    assert_eq!(output.status.code(), Some(70), "{text}");
    assert!(steps(&text) <= most, "{text}");
    c_shows_it(&prefix);
    rust_shows_it(&prefix);
}

#[test]
fn a_map_that_differs_becomes_two_calls() {
    shortest_of(&[], 2);
}

#[test]
fn an_answer_that_differs_becomes_one_call() {
    shortest_of(&["remap"], 1);
}

#[test]
fn where_nothing_differs_nothing_is_written() {
    let prefix = fresh("none");
    let (output, text) = minimise(&record(&["true"], false), &prefix);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("there is nothing to minimise"), "{text}");
    assert!(!prefix.with_extension("rs").exists());
}

/// A process that a history forks aside may come to ask for its end with its parent when that has been killed already. One that is left behind
/// has the streams of this program, so that reading them to the end would not return.
#[test]
fn no_process_is_left_behind() {
    let area = "1 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = ";
    let forks: String = (2..10)
        .map(|child| format!("1 fork() = {child}\n"))
        .collect();
    let file = fresh("forks");
    fs::write(
        &file,
        format!("{area}0x7f0000000000\n{forks}{area}0x7e0000000000\n"),
    )
    .unwrap();
    for _ in 0..20 {
        let output = samara()
            .args(["replay", "-q", "--minimise"])
            .arg(fresh("shortest"))
            .arg(&file)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(70));
    }
}
