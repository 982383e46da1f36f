//! The kernel's state for threads, processes, open files and whole address spaces that no map
//! shows.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;
// What takes the pool for the comparison of random histories takes it here.
#[path = "../../../crates/mm/tests/oracle/pool.rs"]
mod pool;

use std::io::Read;
use std::process::Stdio;

use common::{
    agrees, compiled, compiled_with, fresh, samara, samara_in_front, scratch, trace_with,
};

/// Root can give up what it has; others have nothing to give up.
fn is_root() -> bool {
    // SAFETY: asks for a number.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        eprintln!("skipped: only root has privileges to lose");
    }
    root
}

#[test]
fn privileges_limits_and_namespaces_are_not_the_memorys() {
    let Some(program) = compiled("privileges").filter(|_| is_root()) else {
        return;
    };
    let traced = agrees(&[program]);
    let expected = "locks 1, stripped child 0, still 1\n\
        stripped thread 0, still 1\n\
        limited child fails 1, parent 0\n\
        in a new user namespace 0, born in one 0\n\
        segments of another namespace 0\n";
    assert_eq!(traced.stdout(), expected);
}

#[test]
fn open_files_are_told_apart_and_drivers_decide_about_flags() {
    let Some(program) = compiled("open_files") else {
        return;
    };
    let traced = agrees(&[program]);
    assert_eq!(traced.stdout(), "lock 0\ndeep 0\n");
}

#[test]
fn drivers_map_files_that_say_they_are_regular() {
    if let Some(program) = compiled("driven_files") {
        let traced = agrees(&[program]);
        assert_eq!(traced.summary["started_anew"], serde_json::json!({}));
    }
}

#[test]
fn what_chooses_its_place_itself_does_not_move_with_others() {
    let Some(program) = compiled("moved_alone") else {
        return;
    };
    let folder = fresh("ramfs");
    std::fs::create_dir(&folder).unwrap();
    let traced = agrees(&[program, folder]);
    assert_eq!(traced.summary["started_anew"], serde_json::json!({}));
}

#[test]
fn rings_of_perf_events_are_not_cut() {
    if let Some(program) = compiled("perf_ring") {
        agrees(&[program]);
    }
}

/// Linked statically: before 6.12 nothing shows then where placement begins.
#[test]
fn hints_for_huge_pages_are_followed_in_a_static_program() {
    if let Some(program) = compiled_with("huge_hints", &["-static"]) {
        let traced = agrees(&[program]);
        assert!(traced.summary["predictions"].as_u64() > Some(100));
    }
}

#[test]
fn policies_of_nodes_that_are_not_there() {
    if let Some(program) = compiled("nodes") {
        let traced = agrees(&[program]);
        assert_eq!(traced.summary["not_modelled"], serde_json::json!({}));
    }
}

#[test]
fn modes_of_address_spaces_and_filters_are_followed() {
    let Some(program) = compiled("modes").filter(|_| is_root()) else {
        return;
    };
    let traced = agrees(&[program]);
    let expected = "strict\nstrict\nstrict\nstrict 5 1009 1009\ntraced 0 0\nrefused 1\n";
    assert_eq!(traced.stdout(), expected);
}

#[test]
fn what_a_listener_may_let_pass_is_not_compared() {
    let Some(program) = compiled("modes") else {
        return;
    };
    let program = [program.to_str().unwrap(), "listen"];
    let traced = trace_with(&["--verify", "each"], &program, scratch());
    assert_eq!(traced.output.status.code(), Some(69), "{}", traced.stderr());
    assert_eq!(traced.summary["verdict"], "not all compared");
    assert!(traced.stderr().contains("listener"), "{}", traced.stderr());
}

#[test]
fn an_engine_that_starts_anew_knows_what_it_knew() {
    starts_anew("anew");
}

#[test]
fn an_engine_that_starts_anew_knows_huge_pages() {
    starts_anew("huge_anew");
}

/// The program makes calls that are not modelled; all others agree, and do so in a replay.
fn starts_anew(name: &str) {
    let Some(program) = compiled(name) else {
        return;
    };
    let record = fresh("anew.trace");
    let options = ["--verify", "each", "--record", record.to_str().unwrap()];
    let traced = trace_with(&options, &[program], scratch());
    traced.assert_agrees();
    let anew = traced.summary["started_anew"].to_string();
    // A kernel without userfaultfd has nothing here that is not known.
    assert!(anew.contains("not modelled") || traced.stdout().contains("all is known"));
    let replayed = samara().arg("replay").arg(record).output().unwrap();
    let told = String::from_utf8(replayed.stderr).unwrap();
    assert_eq!(replayed.status.code(), Some(0), "{told}");
}

#[test]
fn mappings_of_the_pool_of_huge_pages_are_followed() {
    let Some(program) = compiled("huge_pool") else {
        return;
    };
    let record = fresh("pool.rec");
    for taken in [false, true] {
        let pool = taken.then(pool::Pool::take);
        if let Some(Err(why)) = &pool {
            eprintln!("skipped: the pool of huge pages cannot be had: {why}");
            return;
        }
        let options = ["--verify", "each", "--record", record.to_str().unwrap()];
        let traced = trace_with(&options, &[&program], scratch());
        traced.assert_agrees();
        assert_eq!(traced.summary["started_anew"], serde_json::json!({}));
        let some = traced.stdout() == "some\n";
        assert!(some || !taken, "{}", traced.stdout());
        let replayed = samara().arg("replay").arg(&record).output().unwrap();
        let told = String::from_utf8(replayed.stderr).unwrap();
        assert_eq!(replayed.status.code(), Some(0), "{told}");
    }
}

/// Segments (`SHM_HUGETLB`) and sealed files of the pool, where it has pages and where it has none.
#[test]
fn segments_and_seals_of_huge_pages_are_followed() {
    let Some(program) = compiled("huge_kinds") else {
        return;
    };
    let record = fresh("huge-kinds.rec");
    for taken in [false, true] {
        let pool = taken.then(pool::Pool::take);
        if let Some(Err(why)) = &pool {
            eprintln!("skipped: the pool of huge pages cannot be had: {why}");
            return;
        }
        let options = ["--verify", "each", "--record", record.to_str().unwrap()];
        let traced = trace_with(&options, &[&program], scratch());
        traced.assert_agrees();
        assert_eq!(traced.summary["started_anew"], serde_json::json!({}));
        let replayed = samara().arg("replay").arg(&record).output().unwrap();
        let told = String::from_utf8(replayed.stderr).unwrap();
        assert_eq!(replayed.status.code(), Some(0), "{told}");
    }
}

#[test]
fn huge_pages_are_cut_at_their_borders() {
    let Some(program) = compiled("huge_pages") else {
        return;
    };
    let traced = agrees(&[program]);
    if traced.stdout() != "none here\n" {
        assert_eq!(traced.stdout(), "-1 -1 -1\n0\n0 0\n");
    }
}

#[test]
fn accesses_beyond_the_end_of_a_file_leave_their_trace_in_areas() {
    let Some(program) = compiled("beyond_the_end") else {
        return;
    };
    let traced = agrees(&[program]);
    let expected = "write 7 0 2\nread 7 0 1\nfill 0 -1 2\nlock 0 -1 2\n\
        locked -1 1\nlocked below 2\nfilled -1 1\nfilled below 2\n";
    assert_eq!(traced.stdout(), expected);
}

#[test]
fn calls_that_store_beyond_the_end_of_a_file_leave_their_trace_too() {
    let Some(program) = compiled("read_beyond") else {
        return;
    };
    let traced = agrees(&[&program]);
    let expected = "untouched 0 1\nread 14 2\nmade writable 0 1\nmade writable and read 14 2\n";
    assert_eq!(traced.stdout(), expected);
    // Of a file that becomes shorter, that is noticed when the maps have parted.
    let program = [program.as_os_str(), "shorter".as_ref()];
    let traced = trace_with(&["--verify", "each"], &program, scratch());
    assert_eq!(traced.output.status.code(), Some(69), "{}", traced.stderr());
    assert_eq!(traced.count("undecided_maps"), 1);
    assert_eq!(traced.stdout(), "shorter and read 14 2\n");
}

#[test]
fn areas_that_could_not_grow_have_an_owner() {
    let Some(program) = compiled("grown_in_vain") else {
        return;
    };
    let kinds = [
        "no access, grown by a page",
        "no access, at the limit",
        "no access, far below",
        "to be written, at the limit",
        "to be read, at the limit",
    ];
    let expected = |way, answer| {
        let line = |kind| format!("{kind}, way {way}: {answer}\n");
        kinds.map(line).concat()
    };
    let traced = agrees(&[&program]);
    let all = [
        expected(0, "0, 1"),
        expected(1, "11, 2"),
        expected(2, "11, 2"),
    ];
    assert_eq!(traced.stdout(), all.concat());
    assert_eq!(traced.summary["started_anew"], serde_json::json!({}));
    // The kernel's own accesses are not reported. One page below the first area is space to grow,
    // which shows.
    let program = [program.as_os_str(), "kernel".as_ref()];
    let traced = trace_with(&["--verify", "each"], &program, scratch());
    assert_eq!(traced.output.status.code(), Some(69), "{}", traced.stderr());
    assert_eq!(traced.count("undecided_maps"), 4);
    assert_eq!(traced.stdout(), expected(3, "1, 2"));
}

#[test]
fn what_gives_areas_an_owner_without_a_page_that_shows_is_seen() {
    if let Some(program) = compiled("owned_unseen") {
        let traced = agrees(&[program]);
        assert_eq!(traced.summary["started_anew"], serde_json::json!({}));
    }
}

/// The program checks each result itself.
#[test]
fn what_a_userfaultfd_has_poisoned_is_followed() {
    if let Some(program) = compiled("poisoned") {
        let traced = agrees(&[program]);
        assert_eq!(traced.summary["started_anew"], serde_json::json!({}));
    }
}

#[test]
fn a_userfaultfd_asked_at_huge_pages_begins_at_one() {
    if let Some(program) = compiled("watched_huge") {
        agrees(&[program]);
    }
}

#[test]
fn a_child_may_use_the_userfaultfd_of_its_parent() {
    if let Some(program) = compiled("watched_for_parent") {
        agrees(&[program]);
    }
}

#[test]
fn pages_may_be_asked_for_in_vain() {
    if let Some(program) = compiled("populated_in_vain") {
        agrees(&[program]);
    }
}

#[test]
fn pages_are_gone_when_a_driver_refuses() {
    if let Some(program) = compiled("refused_over_pages") {
        agrees(&[program]);
    }
}

#[test]
fn policies_name_nodes_far_beyond_the_machines() {
    if let Some(program) = compiled("far_nodes") {
        agrees(&[program]);
    }
}

#[test]
fn areas_have_grown_before_a_limit_forbids_it() {
    if let Some(program) = compiled("grown_before") {
        for verify in ["each", "exit"] {
            let traced = trace_with(&["--verify", verify], &[&program], scratch());
            traced.assert_agrees();
            assert_eq!(traced.stdout(), "1 0 1\n1 0 1\ndone\n");
            assert_eq!(traced.summary["started_anew"], serde_json::json!({}));
        }
    }
}

#[test]
fn which_of_two_areas_grew_first_decides_their_owners() {
    if let Some(program) = compiled("grown_together") {
        let traced = agrees(&[program]);
        assert_eq!(traced.summary["started_anew"], serde_json::json!({}));
    }
}

/// The output of the program that gives advice through a ring, for each kind of ring.
const ADVISED: &str = "areas 10\nfailed 22\nareas 12\nchild 11\nchild 12\nareas 10\n";

#[test]
fn advice_through_a_ring_is_seen() {
    let Some(program) = compiled("ring_advice") else {
        return;
    };
    // Plain; without the array of indices; with long entries, also in memory of the program's own; completed by the program itself.
    for flags in ["0", "0x10000", "0x400", "0x4400", "0x3000"] {
        for waits in ["wait", "go on"] {
            let arguments = [program.as_os_str(), waits.as_ref(), flags.as_ref()];
            let traced = trace_with(&["--verify", "each"], &arguments, scratch());
            if traced.output.status.code() == Some(77) {
                eprintln!("skipped: {}", traced.stdout());
                continue;
            }
            traced.assert_agrees();
            assert_eq!(traced.stdout(), ADVISED, "{waits} {flags}");
            // What completes only when the program asks for it may be late.
            if (waits, flags) != ("go on", "0x3000") {
                assert_eq!(traced.output.status.code(), Some(0), "{waits} {flags}");
            }
        }
    }
}

#[test]
fn a_ring_at_address_0_is_read() {
    let Some(program) = compiled("ring_advice") else {
        return;
    };
    let program = program.display().to_string();
    let words = [program.as_str(), "wait", "0", "at 0"];
    let traced = trace_with(&["--verify", "each"], &words, scratch());
    if traced.output.status.code() == Some(77) {
        eprintln!("skipped: {}", traced.stdout());
        return;
    }
    traced.assert_agrees();
    assert_eq!(traced.stdout(), ADVISED);
    assert_eq!(traced.output.status.code(), Some(0));
}

/// A thread has numbers for its rings, which are no descriptors and stay when these are closed.
#[test]
fn rings_are_known_by_the_numbers_that_they_are_registered_under() {
    let Some(program) = compiled("ring_advice") else {
        return;
    };
    let program = program.display().to_string();
    for (waits, flags) in [("wait", "0"), ("go on", "0"), ("wait", "0x3000")] {
        let words = [program.as_str(), waits, flags, "registered"];
        let traced = trace_with(&["--verify", "each"], &words, scratch());
        if traced.output.status.code() == Some(77) {
            eprintln!("skipped: {}", traced.stdout());
            continue;
        }
        traced.assert_agrees();
        assert_eq!(traced.stdout(), ADVISED, "{waits} {flags}");
        assert_eq!(traced.output.status.code(), Some(0), "{waits} {flags}");
    }
}

#[test]
fn advice_through_a_ring_that_the_kernel_polls_is_undecided() {
    let Some(program) = compiled("ring_advice") else {
        return;
    };
    let arguments = [program.as_os_str(), "go on".as_ref(), "2".as_ref()];
    let traced = trace_with(&["--verify", "each"], &arguments, scratch());
    if traced.output.status.code() == Some(77) {
        eprintln!("skipped: {}", traced.stdout());
        return;
    }
    assert_eq!(traced.output.status.code(), Some(69), "{}", traced.stderr());
    assert!(traced.count("undecided_maps") > 0);
    assert_eq!(traced.count("wrong_maps"), 0);
    assert_eq!(traced.stdout(), ADVISED);
}

#[test]
fn what_is_written_while_it_is_taken_away_is_known() {
    let Some(program) = compiled("taken_away") else {
        return;
    };
    agrees(&[program.to_str().unwrap(), "600"]);
}

#[test]
fn what_a_userfaultfd_watches_and_rings_are_compared() {
    let Some(program) = compiled("watched") else {
        return;
    };
    let record = fresh("watched.trace");
    let options = ["--verify", "each", "--record", record.to_str().unwrap()];
    let traced = trace_with(&options, &[program], scratch());
    traced.assert_agrees();
    assert_eq!(traced.summary["not_modelled"], serde_json::json!({}));
    assert_eq!(traced.summary["calls"]["prctl(PR_SET_MM)"], 1);
    let told = traced.stdout();
    if !told.contains("no userfaultfd here") {
        assert!(told.starts_with("16 0 22\n0 22\n0\n0\n0\n"), "{told}");
        assert_eq!(traced.summary["calls"]["ioctl(UFFDIO_REGISTER)"], 7);
        assert_eq!(traced.summary["calls"]["close(userfaultfd)"], 2);
    }
    let replayed = samara().arg("replay").arg(record).output().unwrap();
    let told = String::from_utf8(replayed.stderr).unwrap();
    assert_eq!(replayed.status.code(), Some(0), "{told}");
}

#[test]
fn a_userfaultfd_of_the_parent_does_not_watch_a_gap() {
    let Some(program) = compiled("watched_gap") else {
        return;
    };
    agrees(&[program.to_str().unwrap()]);
}

#[test]
fn where_a_userfaultfd_does_not_answer_the_kernel_no_page_is_to_be_had() {
    let Some(program) = compiled("unanswered") else {
        return;
    };
    let record = fresh("unanswered.trace");
    for verify in ["each", "exit"] {
        let options = ["--verify", verify, "--record", record.to_str().unwrap()];
        let traced = trace_with(&options, &[&program], scratch());
        traced.assert_agrees();
        let replayed = samara().arg("replay").arg(&record).output().unwrap();
        let told = String::from_utf8(replayed.stderr).unwrap();
        assert_eq!(replayed.status.code(), Some(0), "{told}");
    }
}

#[test]
fn a_userfaultfd_without_an_interface_watches_nothing() {
    if let Some(program) = compiled("no_handshake") {
        let traced = agrees(&[program]);
        let told = traced.stdout();
        assert!(told == "2 watched\n" || told == "0 watched\n", "{told}");
    }
}

#[test]
fn what_a_child_fills_in_for_its_parent_in_vain_leaves_an_owner() {
    let Some(program) = compiled("filled_by_child") else {
        return;
    };
    let record = fresh("filled_by_child.trace");
    let options = ["--verify", "each", "--record", record.to_str().unwrap()];
    trace_with(&options, &[program], scratch()).assert_agrees();
    let replayed = samara().arg("replay").arg(record).output().unwrap();
    let told = String::from_utf8(replayed.stderr).unwrap();
    assert_eq!(replayed.status.code(), Some(0), "{told}");
}

#[test]
fn names_of_memory_are_refused_as_the_kernel_refuses_them() {
    if let Some(program) = compiled("named") {
        agrees(&[program]);
    }
}

#[test]
fn advice_for_several_ranges_is_compared() {
    let Some(program) = compiled("several_ranges") else {
        return;
    };
    let traced = agrees(&[program.to_str().unwrap()]);
    let advised = traced.summary["calls"]["process_madvise"].as_u64();
    // Of those for another process none changes a map, and of the others one cannot be read, and one has too many ranges.
    assert_eq!(advised, Some(2), "{}", traced.summary["calls"]);
}

#[test]
fn survivors_that_ignore_termination_are_ended_by_a_second_request() {
    let script = "sh -c 'trap \"\" TERM INT; echo ready; while :; do sleep 1; done' & exit 0";
    let mut child = samara_in_front()
        .args(["trace", "-q", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut ready)
        .unwrap();
    // The program may not have ended at the first: it is then the one that is asked.
    while child.try_wait().unwrap().is_none() {
        // SAFETY: a signal to a child of our own that has not been waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
