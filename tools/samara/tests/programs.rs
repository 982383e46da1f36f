//! Real programs, maps compared after every call: no wrong result, no wrong prediction, no wrong map.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use std::fmt::Write as _;
use std::fs;

use common::{
    agrees, built_by_go, compiled, compiled_with, fresh, has, programs, scratch, source, trace_with,
};

/// The interpreter itself, not a shell script that looks for one.
fn python() -> Option<String> {
    if !has("python3") {
        return None;
    }
    let found = std::process::Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .unwrap();
    let path = String::from_utf8(found.stdout).unwrap().trim().to_owned();
    (!path.is_empty()).then_some(path)
}

#[test]
fn each_test_program_has_a_line_in_the_index() {
    let index = fs::read_to_string(programs().join("README.md")).unwrap();
    let mut listed: Vec<&str> = index
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0))
        .collect();
    listed.sort_unstable();
    let themes = fs::read_dir(programs()).unwrap().flatten();
    let mut there: Vec<String> = themes
        .filter(|theme| theme.path().is_dir())
        .flat_map(|theme| fs::read_dir(theme.path()).unwrap().flatten())
        .map(|program| program.file_name().into_string().unwrap())
        .collect();
    there.sort_unstable();
    assert_eq!(listed, there);
}

#[test]
fn listing_a_large_folder() {
    if has("ls") {
        agrees(&["ls", "-lR", "/usr/share"]);
    }
}

#[test]
fn python_imports() {
    if has("python3") {
        // Through whatever `python3` is, a chain of scripts included.
        agrees(&["python3", "-c", "import json, ssl, asyncio"]);
    }
}

#[test]
fn compiling_c() {
    if !has("gcc") {
        return;
    }
    let mut text = String::from("#include <stdio.h>\n");
    for number in 0..250 {
        write!(
            text,
            "int f{number}(int a, int b) {{\n    int s = {number};\n    for (int k = 0; k < a; k++)\n        s += k * b ^ {number};\n    return s;\n}}\n"
        )
        .unwrap();
    }
    assert!(text.lines().count() > 1000);
    let (from, to) = (fresh("large.c"), fresh("large.o"));
    fs::write(&from, text).unwrap();
    agrees(&[
        "gcc",
        "-O2",
        "-c",
        from.to_str().unwrap(),
        "-o",
        to.to_str().unwrap(),
    ]);
    assert!(to.exists());
}

#[test]
fn git_log() {
    if !has("git") {
        return;
    }
    let folder = fresh("repository");
    fs::create_dir(&folder).unwrap();
    let git = |arguments: &[&str]| {
        let done = std::process::Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
            .args(arguments)
            .current_dir(&folder)
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    git(&["init", "-q"]);
    for number in 0..5 {
        fs::write(folder.join("file"), number.to_string()).unwrap();
        git(&["add", "file"]);
        git(&["commit", "-qm", "change"]);
    }
    let traced = agrees(&[
        "git",
        "--no-pager",
        "-C",
        folder.to_str().unwrap(),
        "log",
        "-p",
    ]);
    assert!(traced.stdout().contains("change"));
}

#[test]
fn building_a_small_crate() {
    if !has("cargo") {
        return;
    }
    let folder = fresh("crate");
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(
        folder.join("Cargo.toml"),
        "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    )
    .unwrap();
    fs::write(
        folder.join("src/main.rs"),
        "fn main() { println!(\"{:?}\", (0..10).map(|x| x * x).collect::<Vec<u32>>()); }\n",
    )
    .unwrap();
    let manifest = folder.join("Cargo.toml");
    let traced = agrees(&[
        "cargo",
        "build",
        "--offline",
        "--manifest-path",
        manifest.to_str().unwrap(),
    ]);
    assert!(traced.count("execs") >= 3);
    assert!(folder.join("target/debug/tiny").exists());
}

#[test]
fn shell_pipeline() {
    if has("sh") && has("sort") && has("uniq") && has("sed") {
        let traced = agrees(&[
            "sh",
            "-c",
            "cat /etc/passwd /etc/group | sort | uniq -c | sed 's/ *//' | head -n 5; for i in 1 2 3; do echo $i | sed s/1/one/; done",
        ]);
        assert!(traced.stdout().contains("one\n2\n3\n"));
    }
}

fn eight_threads(rounds: &str) {
    let Some(python) = python() else { return };
    let traced = agrees(&[
        &python,
        source("eight_threads.py").to_str().unwrap(),
        rounds,
    ]);
    let rounds: u64 = rounds.parse().unwrap();
    assert!(traced.count("calls_total") >= 8 * 4 * rounds);
    assert_eq!(traced.count("threads"), 8);
}

#[test]
fn eight_threads_map_and_unmap() {
    eight_threads("120");
}

#[test]
#[ignore = "half a minute: the whole thousand rounds of each thread; run by the proof tier"]
fn eight_threads_map_and_unmap_a_thousand_times() {
    eight_threads("1000");
}

#[test]
fn multiprocessing_with_fork() {
    let Some(python) = python() else { return };
    let traced = agrees(&[&python, source("forking_pool.py").to_str().unwrap()]);
    assert!(traced.count("forks") >= 4);
}

#[test]
fn java_version() {
    if has("java") {
        agrees(&["java", "-version"]);
    }
}

#[test]
fn node_starts() {
    if has("node") {
        agrees(&["node", "-e", "0"]);
    }
}

#[test]
fn go_with_garbage_collection() {
    if let Some(program) = built_by_go("collector") {
        agrees(&[program]);
    }
}

#[test]
fn recursion_eight_mebibytes_deep() {
    let Some(program) = compiled("deep") else {
        return;
    };
    let traced = agrees(&[program]);
    assert!(traced.count("grown") >= 1);
}

#[test]
fn special_areas_are_not_cut() {
    let Some(program) = compiled("special_areas") else {
        return;
    };
    for seed in ["a", "b", "c", "d", "e", "f"] {
        let traced = agrees(&[program.to_str().unwrap(), seed]);
        assert_eq!(traced.stdout(), "done\n");
        assert!(traced.count("calls_failing") > 0);
    }
}

/// A program's places without a random part, from below upwards, and both: for each a program with a loader, a static one
/// and a script's interpreter.
#[test]
fn other_layouts() {
    if !has("setarch") {
        return;
    }
    let mut programs = vec![vec!["ls".to_owned(), "/".to_owned()]];
    programs.extend(python().map(|python| vec![python, "-c".to_owned(), "import json".to_owned()]));
    for options in [&["-static"][..], &["-static-pie"], &["-no-pie"]] {
        let program = compiled_with("first_break", options);
        programs.extend(program.map(|program| vec![program.display().to_string()]));
    }
    for option in ["-R", "-L", "-RL"] {
        for program in &programs {
            let mut words = vec!["setarch".to_owned(), option.to_owned()];
            words.extend(program.iter().cloned());
            agrees(&words);
        }
    }
}

#[test]
fn every_kind_of_call() {
    let Some(program) = compiled("every_kind") else {
        return;
    };
    let traced = agrees(&[program]);
    assert!(traced.stdout().ends_with("end\n"));
    assert_eq!(traced.summary["not_modelled"], serde_json::json!({}));
}

#[test]
fn threads_that_spawn_and_fork() {
    let Some(program) = compiled("spawn_and_fork") else {
        return;
    };
    agrees(&[program]);
}

#[test]
fn exec_from_another_thread() {
    let Some(program) = compiled("exec_from_thread") else {
        return;
    };
    let traced = agrees(&[program.to_str().unwrap(), "4"]);
    assert_eq!(traced.count("execs"), 5);
    assert_eq!(traced.stdout(), "done\n");
}

#[test]
fn many_threads() {
    let Some(program) = compiled("many_threads") else {
        return;
    };
    let traced = agrees(&[program.to_str().unwrap(), "300"]);
    assert_eq!(traced.stdout(), "300\n");
    assert_eq!(traced.count("threads"), 300);
}

#[test]
fn processes_killed_within_calls() {
    let Some(program) = compiled("killed_in_calls") else {
        return;
    };
    let traced = agrees(&[program]);
    assert_eq!(traced.stdout(), "ok\n");
    assert_eq!(traced.count("processes"), 31);
}

/// The map of each new program follows from its files, in each layout.
#[test]
fn execs_are_predicted() {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|n| n.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < (6, 18) || !has("setarch") {
        println!("skipped: the rules of this kernel's exec are not known, or setarch is missing");
        return;
    }
    let script = "ls /; setarch -R ls /; setarch -L ls /; setarch -R -L ls /; env -i ls /; true";
    let traced = agrees(&["sh", "-c", script]);
    assert!(traced.count("execs") >= 9);
    assert_eq!(traced.count("execs_predicted"), traced.count("execs"));
}

/// Pages that are read from a disk show long after their area has got its owner, to which another thread's call may have come in between.
#[test]
fn writes_that_show_late() {
    let Some(program) = compiled("cold_writes") else {
        return;
    };
    let file = fresh("cold");
    agrees(&[&program, &file]);
    // Without a check after each call the order cannot be known.
    let seldom = trace_with(&["--verify", "exit"], &[&program, &file], scratch());
    assert_eq!(seldom.count("wrong_maps"), 0, "{}", seldom.stderr());
}

/// A thread may wait within its fault until the concurrent call has returned, and longer: only the
/// map shows the owner that its area has got.
#[test]
fn writes_that_wait_for_their_page() {
    let Some(program) = compiled("written_slowly") else {
        return;
    };
    let told = agrees(&[program]).stdout();
    assert!(matches!(&*told, "2\n" | "none watches here\n"), "{told}");
}

#[test]
fn tree_of_forks_and_execs() {
    let Some(program) = compiled("fork_tree") else {
        return;
    };
    agrees(&[program.to_str().unwrap(), "3"]);
}

/// Of maps with many areas, the parts that a call can have changed are compared, and the whole map
/// once in a sixteenth as many calls as it has areas.
#[test]
fn large_maps_are_compared_in_parts() {
    let Some(program) = compiled("thirty_thousand") else {
        return;
    };
    let program = program.to_str().unwrap();
    let traced = agrees(&[program, "2000", "3000"]);
    let (maps, parts) = (
        traced.count("maps_compared"),
        traced.count("maps_compared_in_part"),
    );
    assert!(maps >= traced.count("calls_total"), "{}", traced.stderr());
    // All while there are few areas, and then once in 16 to 125 calls.
    let whole = maps - parts;
    assert!((100..maps / 10).contains(&whole), "{whole} whole maps");
    assert!(
        traced
            .stderr()
            .contains(" where a call can have changed them")
    );
    let few = agrees(&[program, "100", "100"]);
    assert_eq!(few.count("maps_compared_in_part"), 0);
}
