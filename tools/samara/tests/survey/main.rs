//! A survey: what a machine has of programs, traced with the whole map compared after every call.
//!
//! `cargo test --release -p samara --test survey -- --ignored --nocapture --test-threads 1` runs all groups; a group's name runs that one. What the
//! machine lacks is told and left out. Each program is a row: calls, maps, what differs, and what stayed undecided since no map showed who was first.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;

mod programs;

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use common::{fresh, scratch, trace_with};

/// A program that ends by itself, or is ended after some seconds.
pub(crate) struct Program {
    name: String,
    words: Vec<String>,
    seconds: u32,
    folder: PathBuf,
    like_untraced: bool,
}

impl Program {
    fn new<S: AsRef<str>>(name: &str, words: &[S]) -> Self {
        Self {
            name: name.to_owned(),
            words: words.iter().map(|word| word.as_ref().to_owned()).collect(),
            seconds: 120,
            folder: scratch().to_owned(),
            like_untraced: false,
        }
    }

    /// A command of the shell.
    fn shell(name: &str, command: &str) -> Self {
        Self::new(name, &["sh", "-c", command])
    }

    fn seconds(self, seconds: u32) -> Self {
        Self { seconds, ..self }
    }

    /// Requires that it ends as it does without a tracer.
    fn like_untraced(self) -> Self {
        Self {
            like_untraced: true,
            ..self
        }
    }

    /// In a folder that no other program is in.
    fn apart(self) -> Self {
        let folder = fresh("apart");
        std::fs::create_dir(&folder).unwrap();
        Self { folder, ..self }
    }
}

/// The sums of a group.
#[derive(Default)]
struct Report {
    programs: u64,
    calls: u64,
    maps: u64,
    undecided: u64,
    differences: Vec<String>,
}

impl Report {
    fn add(&mut self, program: &Program) {
        let limit = program.seconds.to_string();
        let mut words = vec!["timeout", "--kill-after", "5", &limit];
        words.extend(program.words.iter().map(String::as_str));
        let traced = trace_with(&["--verify", "each"], &words, &program.folder);
        if traced.summary.is_null() {
            let said = traced.stderr();
            self.differences
                .push(format!("{}: no summary: {said}", program.name));
            return;
        }
        let wrong: u64 = [
            "wrong_results",
            "wrong_predictions",
            "wrong_maps",
            "broken_invariants",
        ]
        .iter()
        .map(|name| traced.count(name))
        .sum();
        let (calls, maps) = (traced.count("calls_total"), traced.count("maps_compared"));
        let undecided = traced.count("undecided_maps") + traced.count("undecided_results");
        let ended = traced.output.status.code();
        println!(
            "{:<40} {calls:>8} calls {maps:>8} maps {wrong:>4} differ {undecided:>4} undecided, ends with {ended:?}",
            program.name
        );
        if program.like_untraced {
            let alone = Command::new(words[0])
                .args(&words[1..])
                .current_dir(&program.folder)
                .output()
                .unwrap();
            // As a shell tells it, and the tracer does.
            let killed = || alone.status.signal().map(|signal| 128 + signal);
            let code = alone.status.code().or_else(killed);
            if code != ended {
                self.differences
                    .push(format!("{}: ends with {code:?} untraced", program.name));
            }
        }
        if wrong > 0 || maps == 0 {
            self.differences
                .push(format!("{}: {}", program.name, traced.stderr()));
        }
        self.programs += 1;
        self.calls += calls;
        self.maps += maps;
        self.undecided += undecided;
    }
}

/// One after the other, since some take all of the machine.
fn survey(group: &str, programs: &[Program]) {
    let mut report = Report::default();
    for program in programs {
        report.add(program);
    }
    println!(
        "{group}: {} programs, {} calls, {} maps, {} undecided, {} programs differ",
        report.programs,
        report.calls,
        report.maps,
        report.undecided,
        report.differences.len()
    );
    assert!(
        report.differences.is_empty(),
        "{}",
        report.differences.join("\n")
    );
    assert!(report.undecided <= report.calls.div_ceil(100_000));
}

#[test]
#[ignore = "minutes: 200 programs of /usr/bin, three ways each"]
fn utilities() {
    survey("utilities", &programs::utilities(200));
}

#[test]
#[ignore = "a quarter of an hour: takes processors and memory"]
fn stressors() {
    survey("stressors", &programs::stressors());
}

#[test]
#[ignore = "a minute"]
fn checked() {
    survey("checked", &programs::checked());
}

#[test]
#[ignore = "minutes"]
fn interpreters() {
    survey("interpreters", &programs::interpreters());
}

#[test]
#[ignore = "minutes: starts servers"]
fn servers() {
    survey("servers", &programs::servers());
}

#[test]
fn a_few() {
    survey("a few", &programs::utilities(2));
}
