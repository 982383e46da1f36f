//! Live processes, followed from their exec: maps and smaps of the engine, compared with the
//! kernel's field by field (`compare` has the rule of each field).
//!
//! Each program is traced until it waits, and stopped there. What `/proc` tells of its processes then is compared with what the engine makes of the
//! record of the trace, which ends when they are killed: none of them runs in between.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

#[path = "../common/mod.rs"]
mod common;

mod compare;
mod pages;
mod programs;
mod still;

use std::fs;

use samara_cli::input::{Ended, Recording};
use serde_json::Value;

use compare::Compared;
use programs::Program;
use still::{Followed, Told};

/// The results for some programs.
#[derive(Default)]
struct Report {
    processes: u64,
    /// Of them, those whose engine was started anew, after calls that are not modelled.
    anew: u64,
    compared: Compared,
    differences: Vec<String>,
}

/// Returns the address space of each process: the last one in which its threads have called. For a
/// process without a call since its fork, it is one of those without a call.
fn spaces_of(told: &[Told], mut spaces: Vec<Ended>) -> Vec<Option<Ended>> {
    let mut found: Vec<Option<Ended>> = Vec::new();
    for process in told {
        let called = |space: &Ended| {
            space
                .threads
                .iter()
                .any(|tid| process.threads.contains(tid))
        };
        let last = spaces.iter().rposition(called);
        found.push(last.map(|at| spaces.remove(at)));
    }
    for (process, found) in told.iter().zip(&mut found) {
        if found.is_none() {
            let silent = |space: &Ended| {
                space.threads.is_empty() && compare::maps(&space.space, process).is_ok()
            };
            *found = (spaces.iter().rposition(silent)).map(|at| spaces.remove(at));
        }
    }
    found
}

fn program(program: &Program, report: &mut Report) {
    let mut followed = Followed::start(program);
    let told = followed.look(program);
    followed.end();
    let summary: Value = fs::read_to_string(&followed.json)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let before = report.differences.len();
    let mut differs = |what: String| {
        report.differences.push(format!("{}: {what}", program.name));
    };
    if summary["agreed"] != true {
        differs(followed.told());
    }
    if told.is_empty() {
        let said = followed.told();
        let said = said.lines().next().unwrap_or_default();
        println!("skipped: {} does not wait here: {said}", program.name);
        return;
    }
    let record = fs::read(&followed.record).unwrap();
    let spaces = Recording::read(&record[..]).unwrap().spaces();
    let mut compared = Compared::default();
    for (process, space) in told.iter().zip(spaces_of(&told, spaces)) {
        let who = format!("{} ({})", process.name, process.pid);
        let Some(Ended { space, anew, .. }) = space else {
            differs(format!("{who}: no address space of the trace is its"));
            continue;
        };
        report.processes += 1;
        report.anew += u64::from(anew > 0);
        for result in [
            compare::maps(&space, process),
            compare::smaps(&space, process, told.len() == 1),
        ] {
            match result {
                Ok(more) => compared += more,
                Err(what) => differs(format!("{who}: {what}")),
            }
        }
    }
    println!(
        "{:<28} {} processes, {} areas twice, {} fields exactly, {} by rule, {} pages, {} differences",
        program.name,
        told.len(),
        compared.areas / 2,
        compared.exactly,
        compared.by_rule,
        compared.pages,
        report.differences.len() - before
    );
    report.compared += compared;
}

/// All of them, one after the other.
fn all(programs: &[Program]) -> Report {
    let mut report = Report::default();
    for one in programs {
        program(one, &mut report);
    }
    println!(
        "{} processes ({} of them started anew after what is not modelled): {} areas, {} fields exactly, {} by rule, {} pages",
        report.processes,
        report.anew,
        report.compared.areas / 2,
        report.compared.exactly,
        report.compared.by_rule,
        report.compared.pages
    );
    assert!(
        report.differences.is_empty(),
        "{}",
        report.differences.join("\n")
    );
    report
}

/// A field that is compared exactly must not differ by a digit or a letter.
#[test]
fn no_field_can_be_otherwise() {
    let Some(program) = programs::few().into_iter().next() else {
        return;
    };
    let mut followed = Followed::start(&program);
    let told = followed.look(&program);
    followed.end();
    let record = fs::read(&followed.record).unwrap();
    let spaces = Recording::read(&record[..]).unwrap().spaces();
    let mut seen = 0;
    for (process, space) in told.iter().zip(spaces_of(&told, spaces)) {
        let Ended { space, .. } = space.unwrap();
        let text = pages::smaps(&space, process.pages.as_deref().unwrap_or_default()).unwrap();
        let mut other = Told::clone(process);
        let mut place = 0;
        let mut head = "";
        for (number, line) in process.smaps.split_inclusive('\n').enumerate() {
            let label = line.split(':').next().unwrap_or_default();
            if label.contains('-') {
                head = line.trim_end();
            }
            // One of its bytes: another in each area.
            let bytes = line.bytes().enumerate();
            let mut bytes = bytes.filter(|(_, byte)| matches!(byte, b'0'..=b'8' | b'a'..=b'y'));
            if let Some((at, byte)) = bytes.nth(number % 7) {
                let mut bytes = process.smaps.clone().into_bytes();
                bytes[place + at] = byte + 1;
                other.smaps = String::from_utf8(bytes).unwrap();
                if compare::smaps_as(&text, &other, true).is_err() {
                    seen += 1;
                } else {
                    // Names of files, what a rule leaves open, and pages that are the kernel's.
                    let named = line.trim_end() == head && head.contains('/');
                    let open = compare::is_open(label) || head.contains(" [v");
                    assert!(named || open, "{head}\n{line}: byte {at}");
                }
            }
            place += line.len();
        }
    }
    assert!(told.is_empty() || seen > 100, "{seen}");
}

#[test]
fn a_few_live_processes() {
    let report = all(&programs::few());
    assert!(report.processes >= 1);
}

#[test]
#[ignore = "some minutes: as many programs as the machine has; `cargo test --release -p samara --test live -- --ignored --nocapture`"]
fn fifty_live_processes() {
    let report = all(&programs::many());
    assert!(report.processes >= 50, "{} processes", report.processes);
}
