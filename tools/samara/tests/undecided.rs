//! The unknowns of docs/limits.md are never disagreements: each one that can be produced here is
//! undecided, with its reason, in the trace and in its recording.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;
#[path = "../../../crates/mm/tests/common/machine.rs"]
mod machine;

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use common::{Traced, compiled, fresh, samara, scratch, trace_with};

const FUSE: &str = "the server of a FUSE file may want it uncached";
const ARENA: &str = "the driver of a BPF arena chooses its place and lets nobody cut it";
const SEALED: &str = "the file in memory was sealed after it had been mapped";
const MAX_MAP_COUNT: &str = "vm.max_map_count has been changed";
const KERNEL_MEMORY: &str = "the kernel may have had no memory left for itself";
const ARGUMENT: &str =
    "another thread or process could write what the call points to while the kernel read it";

/// Traces a program and replays what was recorded: neither disagrees, and nothing is undecided but for this reason. `None` if the program says that it may not do
/// here what it is to do.
fn traced<S: AsRef<OsStr>>(verify: &str, program: &[S], reason: &str) -> Option<Traced> {
    let record = fresh("undecided.rec");
    let options = ["--verify", verify, "--record", record.to_str().unwrap()];
    let traced = trace_with(&options, program, scratch());
    if matches!(traced.stdout().as_str(), "may not\n" | "none\n") {
        eprintln!("skipped: this machine does not allow it: {reason}");
        return None;
    }
    for wrong in [
        "wrong_results",
        "wrong_predictions",
        "wrong_maps",
        "broken_invariants",
    ] {
        assert_eq!(traced.count(wrong), 0, "{}", traced.stderr());
    }
    let undecided = traced.summary["undecided"].as_object().unwrap();
    assert!(
        undecided.keys().all(|known| known == reason),
        "{}",
        traced.stderr()
    );
    let code = if undecided.is_empty() { 0 } else { 69 };
    let ended = traced.output.status.code();
    assert_eq!(ended, Some(code), "{}", traced.stderr());
    let replayed = samara().arg("replay").arg(record).output().unwrap();
    let told = String::from_utf8_lossy(&replayed.stderr).into_owned()
        + &String::from_utf8_lossy(&replayed.stdout);
    assert_eq!(replayed.status.code(), Some(code), "{told}");
    assert_eq!(told.contains(reason), code == 69, "{told}");
    Some(traced)
}

/// The same, and something is undecided.
fn undecided<S: AsRef<OsStr>>(verify: &str, program: &[S], reason: &str) -> Option<Traced> {
    let traced = traced(verify, program, reason)?;
    assert_eq!(traced.summary["verdict"], "undecided");
    Some(traced)
}

/// A race in any one call is chance. That none of them disagrees is not.
#[test]
fn arguments_that_another_thread_writes_are_not_judged() {
    if let Some(program) = compiled("written_arguments") {
        traced("each", &[&program], ARGUMENT);
        traced("exit", &[&program], ARGUMENT);
    }
}

#[test]
fn an_arena_of_bpf_is_where_its_driver_wants_it() {
    // By chance its place may be the engine's: nothing is undecided then.
    if let Some(program) = compiled("arena") {
        traced("each", &[program], ARENA);
    }
}

#[test]
fn what_was_sealed_after_it_had_been_mapped_is_undecided() {
    let Some(program) = compiled("sealed_before_anew") else {
        return;
    };
    for (verify, maps) in [("each", 1), ("exit", 0)] {
        let traced = undecided(verify, &[&program], SEALED).unwrap();
        assert_eq!(traced.stdout(), "0 13\n");
        assert_eq!(traced.count("undecided_maps"), maps);
        assert_eq!(traced.count("undecided_results"), 1 - maps);
    }
}

/// Comparisons of parts of the map show it as soon.
#[test]
fn what_differs_in_a_part_of_a_map_is_noticed_at_once() {
    let Some(program) = compiled("sealed_before_anew") else {
        return;
    };
    let program = [program.as_os_str(), "many".as_ref()];
    let traced = undecided("each", &program, SEALED).unwrap();
    assert_eq!(traced.count("undecided_maps"), 1);
    assert!(traced.count("maps_compared_in_part") > 200);
}

#[test]
fn areas_of_an_uncached_file_of_fuse_are_undecided() {
    let Some(program) = compiled("told_of_ends") else {
        return;
    };
    let file = fresh("uncached_file");
    fs::write(&file, "").unwrap();
    undecided("each", &[program, file, "uncached".into()], FUSE);
}

#[test]
fn a_limit_of_areas_that_was_raised_meanwhile_is_read_anew() {
    let Some(program) = compiled("more_areas") else {
        return;
    };
    // Who reads the limit while another has raised it puts that one back.
    let _lock = machine::lock("max-map-count").unwrap();
    if let Some(traced) = undecided("exit", &[program], MAX_MAP_COUNT) {
        assert_eq!(traced.count("undecided_results"), 1, "{}", traced.stderr());
    }
}

/// A memory cgroup of this test's own, in which the kernel kills no process, and which is removed
/// at the end; and the arguments of the program that joins it.
struct Group {
    folder: PathBuf,
    arguments: [&'static str; 3],
}

impl Group {
    fn make() -> Option<Self> {
        let name = format!("samara-test-{}", std::process::id());
        for (root, arguments) in [
            (
                "/sys/fs/cgroup/memory",
                ["memory.limit_in_bytes", "3000000", ""],
            ),
            ("/sys/fs/cgroup", ["memory.max", "3000000", "spared"]),
        ] {
            let folder = PathBuf::from(root).join(&name);
            if !fs::exists(format!("{root}/cgroup.procs")).unwrap() {
                continue;
            }
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = Self { folder, arguments };
            let limited = fs::exists(group.folder.join(arguments[0])).unwrap();
            let first = arguments[2].is_empty();
            if limited
                && (!first || fs::write(group.folder.join("memory.oom_control"), "1").is_ok())
            {
                return Some(group);
            }
        }
        eprintln!("skipped: no memory cgroup can be made here");
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

#[test]
fn calls_for_which_the_kernel_has_no_memory_are_undecided() {
    let (Some(program), Some(group)) = (compiled("no_memory"), Group::make()) else {
        return;
    };
    let mut words = vec![program.into_os_string(), group.folder.clone().into()];
    let arguments = group.arguments.iter().filter(|word| !word.is_empty());
    words.extend(arguments.map(Into::into));
    if let Some(traced) = undecided("exit", &words, KERNEL_MEMORY) {
        assert_eq!(traced.stdout(), "3\n");
        assert_eq!(traced.count("undecided_results"), 3);
    }
}
