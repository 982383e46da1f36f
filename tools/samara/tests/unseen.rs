//! Changes of a process between its calls that it has not made itself, or that leave no trace.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use common::{agrees, compiled, fresh, samara, scratch, trace_with};

/// A forced store is not reported: a map that differs because of it is undecided, in the trace and
/// in its recording.
#[test]
fn stores_that_were_forced_where_no_page_is_are_undecided() {
    let Some(program) = compiled("forced") else {
        return;
    };
    let record = fresh("forced.trace");
    let options = ["--verify", "each", "--record", record.to_str().unwrap()];
    for (place, undecided, told) in [
        ("beyond", 1, "2\n"),
        ("extended", 1, "2\n"),
        ("watched", 1, "2\n"),
        ("watched, writable", 0, "2\n"),
        ("opened", 1, "page 1\n1\n"),
    ] {
        let traced = trace_with(&options, &[program.as_os_str(), place.as_ref()], scratch());
        if traced.stdout() == "none watches here\n" {
            continue;
        }
        assert_eq!(traced.stdout(), told, "{place}");
        assert_eq!(traced.count("undecided_maps"), undecided, "{place}");
        let code = if undecided == 0 { 0 } else { 69 };
        assert_eq!(
            traced.output.status.code(),
            Some(code),
            "{}",
            traced.stderr()
        );
        let replayed = samara().arg("replay").arg(&record).output().unwrap();
        assert_eq!(replayed.status.code(), Some(code), "{place}");
    }
}

/// The program's trace agrees, and so does what it has recorded; no area is taken anew from the kernel.
fn is_followed(name: &str) {
    let Some(program) = compiled(name) else {
        return;
    };
    let record = fresh(name);
    let options = ["--verify", "each", "--record", record.to_str().unwrap()];
    let traced = trace_with(&options, &[program], scratch());
    traced.assert_agrees();
    assert_eq!(traced.summary["started_anew"], serde_json::json!({}));
    let replayed = samara().arg("replay").arg(record).output().unwrap();
    let told = String::from_utf8(replayed.stderr).unwrap();
    assert_eq!(replayed.status.code(), Some(0), "{told}");
}

#[test]
fn a_userfaultfd_is_closed_before_a_fork_and_before_what_is_written_next() {
    is_followed("closed_watcher");
}

#[test]
fn a_userfaultfd_is_closed_while_another_takes_its_place() {
    is_followed("closed_beside");
}

#[test]
fn a_userfaultfd_is_closed_before_what_a_call_finds_watched() {
    is_followed("closed_during_calls");
}

#[test]
fn a_userfaultfd_is_made_at_the_number_of_another_one() {
    is_followed("made_beside");
}

#[test]
fn a_userfaultfd_is_made_at_the_number_of_a_parents() {
    is_followed("made_beside_parents");
}

#[test]
fn a_userfaultfd_of_a_parent_is_not_that_of_another_process() {
    is_followed("watched_for_another");
}

#[test]
fn what_a_userfaultfd_fills_in_where_it_does_not_watch_has_an_owner() {
    is_followed("filled_where_none_watches");
}

#[test]
fn pages_that_a_userfaultfd_protects_are_not_to_be_had() {
    if let Some(program) = compiled("write_protected") {
        let told = agrees(&[program]).stdout().to_owned();
        assert!(
            told == "0\n12\n14\n0\n" || told == "none watches here\n",
            "{told}"
        );
    }
}

#[test]
fn what_a_userfaultfd_protects_where_no_page_is_has_no_owner() {
    is_followed("protected_early");
}

/// The limits of who writes count, not those of whose memory it is.
#[test]
fn an_area_grows_as_far_as_another_process_may_make_it_grow() {
    is_followed("grown_by_another");
}

/// Which of the two the kernel comes to first is settled by their order.
#[test]
fn what_others_have_watched_comes_in_the_order_of_calls() {
    is_followed("watched_during_calls");
}

/// Ranges of a userfaultfd that reports forks are not followed: its owner's map is read anew,
/// whichever process has used it.
#[test]
fn what_a_child_has_watched_with_events_is_taken_anew_in_its_parent() {
    let Some(program) = compiled("watched_with_events") else {
        return;
    };
    let traced = agrees(&[program]);
    if traced.stdout() != "none watches here\n" {
        let unknown = &traced.summary["not_modelled"]["ioctl(UFFDIO_REGISTER)"];
        assert_eq!(unknown, 100);
    }
}

/// A thread that waits for its turn among the calls of a process goes on when that process is gone.
#[test]
fn whose_memory_is_watched_by_another_ends_or_becomes_another_program() {
    is_followed("owner_ends");
}

/// A call that is broken off by a signal is made again, and has done a part by then.
#[test]
fn what_a_call_has_done_that_is_made_again_is_followed() {
    is_followed("moved_halfway");
}
