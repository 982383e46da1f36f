//! Calls as no real program makes them: what the kernel refuses first, and what it looks at.
//!
//! `cargo test --release -p samara --test callers -- --ignored --nocapture` follows random callers; `SAMARA_CALLERS` and `SAMARA_CALLERS_SEED` choose how many and
//! which.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

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
        assert_eq!(traced.stdout(), "200\n10\n1\n");
    }
}

#[test]
fn whoever_changes_limits_may_be_killed_meanwhile() {
    if let Some(program) = compiled("limits_killed") {
        agrees(&[program]);
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
fn moves_are_charged_with_what_they_leave_behind() {
    if let Some(program) = compiled("shrinking_moves") {
        agrees(&[program]);
    }
}

#[test]
fn where_the_search_begins_above_the_only_gap_there_is_no_room() {
    if let Some(program) = compiled("low_room") {
        agrees(&[program]);
    }
}

#[test]
fn what_is_gone_or_sealed_meanwhile_is_refused() {
    for name in ["removed_segment", "sealed_meanwhile", "rings_of_parents"] {
        if let Some(program) = compiled(name) {
            agrees(&[program]);
        }
    }
}

#[test]
fn what_drivers_manage_moves_with_others() {
    if let Some(program) = compiled("moved_devices") {
        let traced = agrees(&[program]);
        assert_eq!(traced.stdout(), "done\n");
    }
}

#[test]
fn what_a_driver_has_made_of_an_area_at_address_0_is_seen() {
    let Some(program) = compiled("mapped_at_zero") else {
        return;
    };
    let traced = agrees(&[program]);
    assert_eq!(traced.summary["started_anew"], serde_json::json!({}));
}

#[test]
fn the_parent_of_a_vfork_that_sleeps_late_is_not_waited_for() {
    if let Some(program) = compiled("late_vfork") {
        let traced = agrees(&[program]);
        assert_eq!(traced.stdout(), "done\n");
    }
}

#[test]
fn a_thread_that_replaces_the_program_waits_for_others_in_calls() {
    if let Some(program) = compiled("exec_beside_calls") {
        let traced = agrees(&[program.as_os_str(), "40".as_ref()]);
        assert_eq!(traced.stdout(), "done\n");
    }
}

#[test]
fn parts_of_the_stack_grow_apart_from_it() {
    let Some(program) = compiled("stack_in_parts") else {
        return;
    };
    for verify in ["each", "exit"] {
        let traced = trace_with(&["--verify", verify], &[&program], scratch());
        traced.assert_agrees();
        assert_eq!(traced.stdout(), "done\n");
        assert_eq!(traced.summary["started_anew"], serde_json::json!({}));
    }
}

#[test]
fn the_kernel_reads_arguments_below_an_area_that_grows() {
    if let Some(program) = compiled("argument_grows") {
        let traced = agrees(&[program]);
        assert_eq!(traced.summary["started_anew"], serde_json::json!({}));
    }
}

#[test]
fn what_moves_pages_in_vain_leaves_an_owner() {
    if let Some(program) = compiled("moved_in_vain") {
        agrees(&[program]);
    }
}

#[test]
fn a_driver_refuses_before_anything_is_cut() {
    if let Some(program) = compiled("refused_first") {
        agrees(&[program]);
    }
}

/// Follows a program whose children make random calls, with addresses, lengths and flags from the edges and beyond.
fn random_callers(first: u64, count: u64, [children, calls, features]: [u64; 3]) {
    let Some(program) = compiled("any_calls") else {
        return;
    };
    let (mut all, mut wrong) = (0, Vec::new());
    // A child begins with the number of its caller's seed and its own.
    for seed in (0..count).map(|number| first + number * 1000) {
        let mut words = vec![program.display().to_string()];
        words.extend([seed, children, calls, features].map(|number| number.to_string()));
        let traced = trace_with(&["--verify", "each"], &words, scratch());
        if traced.summary.is_null() || traced.count("maps_compared") == 0 {
            panic!("seed {seed}: {}", traced.stderr());
        }
        all += traced.count("calls_total");
        let differ = [
            "wrong_results",
            "wrong_predictions",
            "wrong_maps",
            "broken_invariants",
        ];
        if differ.iter().any(|name| traced.count(name) > 0) {
            println!("seed {seed}: {}", traced.stderr());
            println!(
                "repeat: SAMARA_CALLERS_SEED={seed} SAMARA_CALLERS=1 cargo test --release -p samara --test callers -- --ignored --nocapture"
            );
            wrong.push(seed);
        }
    }
    println!("{count} callers, {all} calls, wrong: {wrong:?}");
    assert!(wrong.is_empty());
}

#[test]
fn random_callers_agree() {
    // Without threads: each run is the same.
    random_callers(1_000, 2, [20, 60, 126]);
}

#[test]
#[ignore = "minutes"]
fn many_random_callers_agree() {
    let number = |name: &str, or| {
        let value = std::env::var(name).ok();
        value.map_or(or, |text| text.parse().expect("a number"))
    };
    let first = number("SAMARA_CALLERS_SEED", 100_000);
    random_callers(first, number("SAMARA_CALLERS", 20), [60, 200, 127]);
}
