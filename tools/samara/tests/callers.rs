//! Calls as no real program makes them: what the kernel refuses first, and what it looks at.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use common::{agrees, compiled, fresh, samara, scratch, trace_with};

#[test]
fn of_some_file_systems_nothing_may_be_executed() {
    let Some(program) = compiled("noexec_files") else {
        return;
    };
    let data = fresh("data");
    let traced = agrees(&[&program, &data]);
    assert_eq!(traced.stdout(), "some refused\n");
}

#[test]
fn bad_arguments_are_told_when_the_kernel_comes_to_them() {
    let Some(program) = compiled("told_first") else {
        return;
    };
    let traced = agrees(&[program]);
    assert_eq!(traced.summary["started_anew"], serde_json::json!({}));
}

#[test]
fn what_a_refused_mapping_was_to_replace_is_where_the_kernel_left_it() {
    let Some(program) = compiled("refused_by_drivers") else {
        return;
    };
    let record = fresh("refused.trace");
    for verify in ["each", "exit"] {
        let options = ["--verify", verify, "--record", record.to_str().unwrap()];
        let traced = trace_with(&options, &[&program], scratch());
        traced.assert_agrees();
        assert_eq!(traced.summary["started_anew"], serde_json::json!({}));
        let replayed = samara().arg("replay").arg(&record).output().unwrap();
        let told = String::from_utf8(replayed.stderr).unwrap();
        assert_eq!(replayed.status.code(), Some(0), "{told}");
    }
}

#[test]
fn a_thread_that_has_ended_is_not_asked_for_limits() {
    if let Some(program) = compiled("limits") {
        let traced = agrees(&[program]);
        assert_eq!(traced.stdout(), "200\n10\n");
    }
}

#[test]
fn advice_reaches_whoever_has_the_same_memory() {
    if let Some(program) = compiled("advice_between") {
        agrees(&[program]);
    }
}

#[test]
fn what_a_driver_manages_is_not_locked() {
    if let Some(program) = compiled("locked_devices") {
        agrees(&[program]);
    }
}

#[test]
fn where_the_search_begins_above_the_only_gap_there_is_no_room() {
    if let Some(program) = compiled("low_room") {
        agrees(&[program]);
    }
}
