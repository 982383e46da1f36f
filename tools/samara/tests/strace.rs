//! Text of strace is replayed: results are compared, and facts that are not in the text are
//! reported as unknown.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{fresh, has, samara, source};
use serde_json::Value;

fn replay(text: &Path) -> (Output, Value) {
    let json = fresh("strace.json");
    let output = samara()
        .arg("replay")
        .arg(text)
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    let summary = fs::read_to_string(&json).unwrap_or_default();
    (
        output,
        serde_json::from_str(&summary).unwrap_or(Value::Null),
    )
}

fn written(text: &str) -> PathBuf {
    let file = fresh("strace");
    fs::write(&file, text).unwrap();
    file
}

/// Returns strace's output for a program, in a file or on standard error, or `None` without strace.
fn straced(options: &[&str], program: &[&str], to_file: bool) -> Option<PathBuf> {
    if !has("strace") {
        return None;
    }
    let file = fresh("strace");
    let mut command = Command::new("strace");
    command.arg("-f").args(options);
    if to_file {
        command.arg("-o").arg(&file);
    }
    let output = command.args(program).output().unwrap();
    if !to_file {
        fs::write(&file, output.stderr).unwrap();
    }
    Some(file)
}

fn agrees(file: &Path) -> Value {
    let (output, summary) = replay(file);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert_eq!(summary["agreed"], true, "{told}");
    assert!(summary["predictions"].as_u64() > Some(0), "{told}");
    // The program's own areas are cut by its loader, and not told.
    assert!(summary["on_unknown"].as_u64() > Some(0), "{told}");
    summary
}

const SHELL: &[&str] = &["sh", "-c", "ls / | sort >/dev/null; (true; true); exit 3"];

#[test]
fn every_way_to_write_it_is_read() {
    let memory: &[&str] = &["-e", "trace=memory,process"];
    let ways: [(&[&str], bool); 12] = [
        (memory, true),
        (memory, false),
        (&["-e", "trace=memory,process", "-y", "-tt", "-T"], true),
        (&["-y", "-r"], true),
        (&[], false),
        (&["-i", "-tt"], true),
        (&["-n", "-i", "-r"], true),
        (&["-Y", "-n"], true),
        (&["-Y"], false),
        (&["-X", "raw"], true),
        (&["-X", "verbose", "-z"], true),
        (&["-C"], true),
    ];
    for (options, to_file) in ways {
        let Some(file) = straced(options, SHELL, to_file) else {
            return;
        };
        let summary = agrees(&file);
        assert_eq!(summary["program"][0], "sh", "{options:?}");
        assert_eq!(summary["execs"], 3, "{options:?}");
        assert_eq!(summary["exit_code"], 3, "{options:?}");
        assert!(summary["forks"].as_u64() >= Some(3), "{options:?}");
    }
}

#[test]
fn threads_are_followed_as_far_as_their_order_is_told() {
    if !has("python3") {
        return;
    }
    let program = source("eight_threads.py");
    let words = ["python3", program.to_str().unwrap(), "20"];
    let all: [&[&str]; 2] = [&["-e", "trace=memory,process"], &["-z"]];
    for options in all {
        let Some(file) = straced(options, &words, true) else {
            return;
        };
        assert!(agrees(&file)["threads"].as_u64() >= Some(8), "{options:?}");
    }
}

/// `-z` tells of a call when it has succeeded: a child may run, and make another, before that.
#[test]
fn a_child_may_come_before_the_call_that_makes_it() {
    let place = "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0)";
    let start: String = START.lines().map(|line| format!("7 {line}\n")).collect();
    let text = format!(
        "{start}7 mprotect(0x560481000000, 4096, PROT_READ) = 0\n\
         8 {place} <unfinished ...>\n = 0x7f000000d000\n\
         9 {place} = 0x7f000000c000\n8 fork() = 9\n8 {place} = 0x7f000000c000\n\
         7 fork() = 8\n7 {place} = 0x7f000000d000\n7 +++ exited with 0 +++\n"
    );
    let summary = agrees(&written(&text));
    assert_eq!(summary["forks"], 2);
    assert_eq!(summary["predictions"], 5);
}

/// Begins a program whose placement starts below 0x7f0000010000.
const START: &str = "\
execve(\"/bin/x\", [\"x\", \"y\"], 0x7ffc1ccabd28 /* 35 vars */) = 0
brk(NULL)                               = 0x560481530000
mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f000000e000
";

#[test]
fn a_wrong_answer_is_found() {
    let place = "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = ";
    let good = format!(
        "{START}mprotect(0x560481000000, 4096, PROT_READ) = 0\n{place}0x7f000000d000\n\
         munmap(0x7f000000d001, 1) = -1 EINVAL (Invalid argument)\n+++ exited with 0 +++\n"
    );
    let summary = agrees(&written(&good));
    assert_eq!(summary["calls_total"], 4);
    assert_eq!(summary["on_unknown"], 1);
    let elsewhere = good.replace("d000\n", "c000\n");
    let no_error = good.replace("-1 EINVAL (Invalid argument)", "0");
    for (text, wrong) in [
        (elsewhere, "wrong_predictions"),
        (no_error, "wrong_results"),
    ] {
        let (output, summary) = replay(&written(&text));
        assert_eq!(output.status.code(), Some(70));
        assert_eq!(summary[wrong], 1);
    }
}

/// The engine refuses a map with an area beyond the addresses that there are: that is one wrong result, of one that was compared.
#[test]
fn a_map_that_is_refused_counts_as_compared() {
    let text =
        "1 mmap(NULL, 8192, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f98c69dc0005957\n";
    let (output, summary) = replay(&written(text));
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(70), "{told}");
    assert!(told.contains("results  0 of 1 agree"), "{told}");
    assert_eq!(summary["wrong_results"], 1);
    assert_eq!(summary["results_compared"], 1);
}

#[test]
fn what_several_threads_do_at_once_is_not_judged() {
    let text = format!(
        "{}7  clone3({{flags=CLONE_VM|CLONE_THREAD, stack=0x7f, stack_size=0x7}} <unfinished ...>\n\
         8  mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0 <unfinished ...>\n\
         7  <... clone3 resumed> => {{parent_tid=[8]}}, 88) = 8\n\
         7  mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f000000c000\n\
         8  <... mmap resumed>) = 0x7f000000d000\n\
         7  munmap(0x7f000000c000, 8192) = 0\n",
        START
            .replace("execve", "7  execve")
            .replace("\nbrk", "\n7  brk")
            .replace("\nmmap", "\n7  mmap")
    );
    let (output, summary) = replay(&written(&text));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert_eq!(summary["threads"], 1, "{told}");
    // The other one was served first: its place is free again when it is asked for.
    assert_eq!(summary["on_unknown"], 1, "{told}");
}

/// Differences after a place where a text leaves out some threads' actions are unknown.
#[test]
fn threads_that_are_not_told_of_are_reckoned_with() {
    if !has("python3") || !has("strace") {
        return;
    }
    let program = source("eight_threads.py");
    let words = ["python3", program.to_str().unwrap(), "5"];
    let of_memory: &[&str] = &["-e", "trace=memory"];
    let options: [&[&str]; 3] = [of_memory, &["-e", "raw=all"], &["-k", "-e", "trace=memory"]];
    for options in options {
        let Some(file) = straced(options, &words, true) else {
            return;
        };
        // A strace without stacks has written nothing.
        if fs::metadata(&file).is_ok_and(|file| file.len() > 0) {
            agrees(&file);
        }
    }
    // One file for each thread.
    let Some(file) = straced(&["-f"], &["true"], true) else {
        return;
    };
    let mut command = Command::new("strace");
    command.arg("-ff").arg("-o").arg(&file).args(words);
    assert!(command.status().unwrap().success());
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let mut read = 0;
    for each in fs::read_dir(file.parent().unwrap()).unwrap() {
        let each = each.unwrap();
        if each
            .file_name()
            .to_string_lossy()
            .starts_with(&format!("{name}."))
        {
            let (output, _) = replay(&each.path());
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(matches!(output.status.code(), Some(0 | 69)), "{told}");
            read += 1;
        }
    }
    assert!(read >= 9, "{read}");
}

/// The line and the column that a complaint names.
fn place(text: &str) -> (u32, u32) {
    let (output, _) = replay(&written(text));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    let number = |name: &str| {
        let from = told.find(name).expect("a place") + name.len();
        let digits = told[from..].chars().take_while(char::is_ascii_digit);
        digits.collect::<String>().parse().unwrap()
    };
    (number(": line "), number(", column "))
}

#[test]
fn what_is_wrong_is_told_by_line_and_column() {
    let with = |line: &str| place(&format!("{START}{line}"));
    assert_eq!(with("munmap(0x1000, 4096"), (4, 20));
    assert_eq!(with("munmap(0x1000, 40x6) = 0\n"), (4, 16));
    assert_eq!(with("munmap(0x1000) = 0\n"), (4, 14));
    assert_eq!(with("munmap(0x1000, 4096)   0\n"), (4, 24));
    assert_eq!(with("munmap(0x1000, 4096) = -1 EWHAT\n"), (4, 27));
    assert_eq!(
        with("mprotect(0x1000, 4096, PROT_READ|PROT_X) = 0\n"),
        (4, 34)
    );
    assert_eq!(with("12  munmap(0x1000, 4096}) = 0\n"), (4, 24));
    assert_eq!(with("execve(\"x) = 0\n"), (4, 15));
    assert_eq!(
        with("mmap(NULL, 1, PROT_READ, MAP_PRIVATE, x, 0) = 0\n"),
        (4, 39)
    );
    assert_eq!(with("7 nonsense\n"), (4, 3));
    // Where a call is told in two pieces, it is the piece that counts.
    let two = "munmap(0x1000,  <unfinished ...>\n<... munmap resumed>what) = 0\n";
    assert_eq!(with(two), (5, 21));
}
