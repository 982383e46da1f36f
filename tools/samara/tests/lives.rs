//! The beginning, life and end of processes: the calls that make and kill them, and what they
//! share.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::{
    Traced, agrees, compiled, compiled_with, copy_program, fresh, samara, scratch, trace_with,
};

/// Asserts that everything that could be compared agreed.
fn assert_nothing_wrong(traced: &Traced) {
    for name in ["wrong_results", "wrong_predictions", "wrong_maps"] {
        assert_eq!(traced.count(name), 0, "{name}: {}", traced.stderr());
    }
}

#[test]
fn whose_maker_was_killed_goes_on_though_another_is_its_parent_now() {
    let Some(program) = compiled("orphans") else {
        return;
    };
    let traced = trace_with(&["--verify", "each"], &[program], scratch());
    assert_eq!(traced.stdout(), "all ended\n", "{}", traced.stderr());
    assert_nothing_wrong(&traced);
}

#[test]
fn what_was_a_parents_joins_nothing_which_shows_in_the_map() {
    let Some(program) = compiled("inherited") else {
        return;
    };
    let mut parent = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = String::new();
    let mut output = BufReader::new(parent.stdout.take().unwrap());
    output.read_line(&mut child).unwrap();
    common::settle(child.trim().parse().unwrap());
    let tracer = samara()
        .args(["trace", "--verify", "each", "-p", child.trim()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let is_traced = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.trim())).unwrap();
        !status.contains("TracerPid:\t0\n")
    };
    while !is_traced() {
        std::thread::yield_now();
    }
    drop(parent.stdin.take());
    let told = tracer.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&told.stderr);
    assert_eq!(told.status.code(), Some(0), "{text}");
    assert!(parent.wait().unwrap().success());
}

#[test]
fn signals_to_the_process_group_are_not_the_tracers() {
    let Some(program) = compiled("group_signals") else {
        return;
    };
    let output = samara()
        .arg("trace")
        .arg(program)
        .process_group(0)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "3 3 3\n");
}

#[test]
fn a_thread_in_strict_mode_ends_alone() {
    if let Some(program) = compiled("strict_thread") {
        let traced = agrees(&[program]);
        assert_eq!(traced.stdout(), "main goes on\n");
    }
}

#[test]
fn threads_in_strict_mode_that_end_at_once_have_their_process_killed() {
    let Some(program) = compiled("strict_threads") else {
        return;
    };
    let traced = trace_with(&[], &[program], scratch());
    assert_eq!(traced.stdout(), "40\n", "{}", traced.stderr());
    assert_nothing_wrong(&traced);
}

#[test]
fn limits_are_those_of_who_has_that_number_in_its_namespace() {
    let Some(program) = compiled("numbers_of_its_own") else {
        return;
    };
    let told = agrees(&[program]).stdout();
    assert!(matches!(&*told, "0 1 1\n" | "may not\n"), "{told}");
}

#[test]
fn links_in_a_root_of_its_own_lead_on_from_there() {
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let Some(program) = compiled("root_of_its_own") else {
        return;
    };
    let known = [
        "/lib64/ld-linux-x86-64.so.2",
        "/lib/x86_64-linux-gnu/libc.so.6",
    ];
    if !known.iter().all(|path| PathBuf::from(path).exists()) {
        return;
    }
    // The same path leads to the linker in that root, and to another program outside.
    let outside = fresh("linker");
    let root = fresh("root");
    let inside = |path: &str| root.join(path.trim_start_matches('/'));
    let linker = inside(outside.to_str().unwrap());
    for folder in [linker.parent().unwrap(), &inside("/lib/x86_64-linux-gnu")] {
        fs::create_dir_all(folder).unwrap();
    }
    copy_program(known[0], &linker);
    copy_program(known[1], &inside(known[1]));
    let other = compiled_with("root_of_its_own", &["-static"]).unwrap();
    copy_program(other, &outside);
    std::os::unix::fs::symlink(&outside, inside("/interpreter")).unwrap();
    let named = ["-Wl,--dynamic-linker=/interpreter"];
    let pi = compiled_with("written_over", &named).unwrap();
    copy_program(pi, &inside("/pi"));
    assert_eq!(agrees(&[program, root]).stdout(), "6\n0\n");
}

#[test]
fn a_listener_may_be_put_on_all_threads() {
    let Some(program) = compiled("listener_for_all") else {
        return;
    };
    let traced = trace_with(&["--verify", "each"], &[program], scratch());
    assert_eq!(traced.stdout(), "done\n", "{}", traced.stderr());
    assert_eq!(traced.output.status.code(), Some(69), "{}", traced.stderr());
    assert_nothing_wrong(&traced);
}

#[test]
fn what_is_made_is_known_though_its_flags_were_written_over() {
    if let Some(program) = compiled("written_over") {
        assert_eq!(agrees(&[program]).stdout(), "6\n");
    }
}

#[test]
fn a_file_system_may_be_mounted_anew() {
    let Some(program) = compiled("mounted_anew") else {
        return;
    };
    let folder = fresh("mounted");
    fs::create_dir(&folder).unwrap();
    let told = agrees(&[program, folder]).stdout();
    assert!(matches!(&*told, "11001100\n" | "may not\n"), "{told}");
}

/// Whatever it says to a tracer, it is not what the filter of this one says.
#[test]
fn a_filter_of_the_programs_own_finds_no_tracer() {
    let Some(program) = compiled("own_filter") else {
        return;
    };
    let told = agrees(&[program, "all".into()]).stdout();
    assert!(matches!(&*told, "65536 38 38\n" | "may not\n"), "{told}");
}

/// Files of an overlay are mapped by another file system, whose files are not those that are asked for.
#[test]
fn what_is_mapped_of_an_overlay_joins_nothing_until_it_is_changed() {
    let Some(program) = compiled("stacked") else {
        return;
    };
    let folder = fresh("stacked");
    fs::create_dir(&folder).unwrap();
    let told = agrees(&[program, folder]).stdout();
    let known = [
        "2 1 3 1 3 1 1 2 4 3 \n2 1 3 1 3 1 1 2 4 3 1 3 \n",
        "may not\n",
    ];
    assert!(known.contains(&&*told), "{told}");
}

#[test]
fn what_may_only_be_appended_to_is_not_shared_with_who_may_write() {
    let Some(program) = compiled("appended_to") else {
        return;
    };
    let told = agrees(&[program, fresh("appended")]).stdout();
    let known = ["------x-xx-xx-xx-xx-xx-x-\n", "may not\n"];
    assert!(known.contains(&&*told), "{told}");
}

#[test]
fn whoever_shares_memory_goes_on_when_another_is_killed_within_a_call() {
    let Some(program) = compiled("killed_beside") else {
        return;
    };
    let traced = trace_with(&[], &[program], scratch());
    assert_eq!(traced.stdout(), "goes on\n", "{}", traced.stderr());
    assert_nothing_wrong(&traced);
}

#[test]
fn a_heap_ends_where_it_did_when_its_top_is_unmapped_and_who_shares_it_is_killed() {
    if let Some(program) = compiled("end_of_heap") {
        let traced = trace_with(&["--verify", "each"], &[program], scratch());
        assert_nothing_wrong(&traced);
    }
}

/// Nothing tells of the first thread of such a process before the others are gone.
#[test]
fn who_is_killed_twice_within_a_call_is_not_waited_for() {
    if let Some(program) = compiled("killed_twice") {
        let traced = trace_with(&["--verify", "each"], &[program], scratch());
        assert_nothing_wrong(&traced);
    }
}

#[test]
fn whether_pages_are_merged_is_as_it_was_when_exec_began() {
    if let Some(program) = compiled("merged_beside_exec") {
        agrees(&[program]);
    }
}

/// Interpreters that formats of `binfmt_misc` name get a descriptor of the file, if the format says so.
#[test]
fn interpreters_of_other_formats_are_predicted() {
    let Some(program) = compiled("interpreted") else {
        return;
    };
    let folder = fresh("interpreted");
    fs::create_dir(&folder).unwrap();
    let traced = agrees(&[program, folder]);
    let told = traced.stdout();
    let known = ["4\n5\n4f\n4f\n4f\n5f\n4\n5\n", "may not\n"];
    assert!(known.contains(&&*told), "{told}");
    assert_eq!(traced.count("execs"), traced.count("execs_predicted"));
}

#[test]
fn who_is_asked_for_each_file_that_is_opened_may_be_traced() {
    let named = compiled("asked_for_files").zip(compiled("written_over"));
    let Some((program, asked_for)) = named else {
        return;
    };
    let told = agrees(&[program, asked_for]).stdout();
    assert!(matches!(&*told, "6\n0\n" | "may not\n"), "{told}");
}
