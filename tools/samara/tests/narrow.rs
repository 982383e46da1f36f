//! Programs with 32-bit addresses, and calls of i386's table in others.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::{Traced, compiled, compiled_with, fresh, has, samara, scratch, trace_with};

/// Returns `true` if this machine can build programs with 32-bit addresses, and run them.
fn is_possible() -> bool {
    let program = fresh("nothing");
    let made = Command::new("cc")
        .args(["-m32", "-pthread", "-x", "c", "-", "-o"])
        .arg(&program)
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .and_then(|mut compiler| {
            let mut input = compiler.stdin.take().unwrap();
            input.write_all(b"#include <stdio.h>\nint main(void) { return 0; }\n")?;
            drop(input);
            compiler.wait()
        });
    let possible = made.is_ok_and(|status| status.success())
        && Command::new(program)
            .status()
            .is_ok_and(|status| status.success());
    if !possible {
        eprintln!(
            "skipped: this machine has no programs with 32-bit addresses (Debian's gcc-multilib)"
        );
    }
    possible
}

/// As every program of its kind is linked.
const KINDS: [&[&str]; 5] = [
    &[],
    &["-static"],
    &["-no-pie"],
    &["-static-pie"],
    &["-z", "execstack"],
];

fn narrow() -> Vec<PathBuf> {
    if !is_possible() {
        return Vec::new();
    }
    let made = KINDS.iter().filter_map(|options| {
        let options: Vec<&str> = ["-m32"]
            .into_iter()
            .chain(options.iter().copied())
            .collect();
        compiled_with("narrow", &options)
    });
    made.collect()
}

fn traced(words: &[&OsStr]) -> Traced {
    let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
    let traced = trace_with(&["--verify", "each"], &words, scratch());
    traced.assert_agrees();
    assert_eq!(
        traced.summary["not_modelled"].as_object().unwrap().len(),
        0,
        "{}",
        traced.stderr()
    );
    traced
}

/// Each kind of program, started in each way, becomes one of the other width.
#[test]
fn programs_of_both_widths_become_each_other() {
    let narrow = narrow();
    let Some(wide) = compiled("narrow").filter(|_| !narrow.is_empty() && has("setarch")) else {
        return;
    };
    let wide = wide.as_os_str();
    for program in &narrow {
        let program = program.as_os_str();
        traced(&[program, wide, program]);
        for way in ["-R", "-L", "-3", "-RL", "-X"] {
            let words = ["setarch", way].map(OsStr::new);
            let traced = traced(&[words[0], words[1], program, wide, program]);
            assert_eq!(traced.stdout(), "32 bits\n64 bits\n32 bits\n", "{way}");
        }
    }
}

#[test]
fn both_tables_are_one_map() {
    let Some(program) = compiled("both_tables").filter(|_| is_possible() && has("setarch")) else {
        return;
    };
    let program = program.as_os_str();
    let told = "heap 1\nmoved 1\ntoo large -12\nold 1\nattached 1\n";
    assert_eq!(traced(&[program]).stdout(), told);
    for way in ["-R", "-L", "-3"] {
        let words = ["setarch", way].map(OsStr::new);
        assert_eq!(
            traced(&[words[0], words[1], program]).stdout(),
            told,
            "{way}"
        );
    }
}

/// Sets of nodes have words of 32 bits there.
#[test]
fn policies_of_nodes_that_are_not_there() {
    if is_possible()
        && let Some(program) = compiled_with("nodes", &["-m32"])
    {
        traced(&[program.as_os_str()]);
    }
}

/// Their recordings are compared again.
#[test]
fn records_know_the_tables() {
    let Some(program) = compiled("both_tables").filter(|_| is_possible()) else {
        return;
    };
    let record = fresh("tables.trace");
    let file = record.to_str().unwrap();
    let words = [program.to_str().unwrap()];
    trace_with(&["--record", file], &words, scratch()).assert_agrees();
    let replayed = samara().args(["replay", file]).output().unwrap();
    assert_eq!(replayed.status.code(), Some(0));
}
