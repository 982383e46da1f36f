//! A trace is recorded and replayed; a damaged file is told by position.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use common::{compiled, fresh, samara, scratch, trace_with};
use samara_mm::{AddressSpace, Call, Config, FileArg, KernelVersion, Layout, Limits};
use samara_record::Recorder;
use serde_json::Value;

fn replay(file: &Path, options: &[&str]) -> (Output, Value) {
    let json = fresh("replay.json");
    let output = samara()
        .arg("replay")
        .arg(file)
        .args(options)
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    let summary = fs::read_to_string(&json)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or(Value::Null);
    (output, summary)
}

/// Records a shell with children, maps compared after each call.
fn recorded() -> (PathBuf, Value) {
    let file = fresh("trace");
    let options = ["--verify", "each", "--record", file.to_str().unwrap()];
    let program = ["sh", "-c", "ls / | sort >/dev/null; exit 6"];
    let traced = trace_with(&options, &program, scratch());
    traced.assert_agrees();
    assert_eq!(traced.output.status.code(), Some(6));
    (file, traced.summary)
}

#[test]
fn a_replay_agrees_as_the_trace_did() {
    let (file, traced) = recorded();
    let (output, replayed) = replay(&file, &["--check"]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for name in [
        "agreed",
        "calls",
        "calls_total",
        "calls_failing",
        "results_compared",
        "predictions",
        "maps_compared",
        "areas_compared",
        "forks",
        "execs",
        "processes",
        "threads",
        "not_followed",
        "verdict",
        "merges",
        "splits",
        "exit_code",
        "program",
        "kernel",
        "kernel_version",
    ] {
        assert_eq!(replayed[name], traced[name], "{name}");
    }
    for name in ["main", "largest"] {
        assert_eq!(of_the_map(&replayed, name), of_the_map(&traced, name));
    }
    assert_eq!(replayed["exit_code"], 6);
    let (_, quick) = replay(&file, &["--no-maps"]);
    assert_eq!(quick["maps_compared"], 0);
    assert_eq!(quick["results_compared"], traced["results_compared"]);
}

/// Point releases have rules of their own: which one is followed stands below the title, and in the record.
#[test]
fn the_full_version_of_the_kernel_is_told_first() {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let release = read("/proc/sys/kernel/osrelease");
    let texts = read("/proc/sys/kernel/version") + " " + &read("/proc/version_signature");
    let version = KernelVersion::from_uname(&release, &texts).unwrap();
    let expected = format!("Linux {version} ({})", release.trim());
    let (file, traced) = recorded();
    assert_eq!(traced["kernel_version"], version.to_string());
    let traced = samara().args(["trace", "--", "true"]).output().unwrap();
    let (replayed, summary) = replay(&file, &[]);
    assert_eq!(summary["kernel_version"], version.to_string());
    for output in [traced, replayed] {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let second = text.lines().nth(1).unwrap_or_default();
        assert_eq!(second.trim(), format!("kernel  {expected}"), "{text}");
    }
}

/// Returns the summary of one map, without the fill of its tree's nodes. A trace keeps its maps
/// open to other threads, and a replay does not. Without concurrent readers, leaves share their
/// slots with their neighbours in place.
fn of_the_map(summary: &Value, name: &str) -> Value {
    let mut map = summary[name].clone();
    let figures = map.as_object_mut().unwrap();
    assert!(figures.remove("tree_bytes").is_some());
    assert!(figures.remove("tree_height").is_some());
    map
}

#[test]
fn replays_are_all_the_same() {
    let (file, _) = recorded();
    let figures = || {
        let (_, mut summary) = replay(&file, &[]);
        let object = summary.as_object_mut().unwrap();
        object.remove("seconds");
        object.remove("replay");
        summary
    };
    assert_eq!(figures(), figures());
}

#[test]
fn the_head_describes_the_file() {
    let (file, _) = recorded();
    let bytes = fs::read(file).unwrap();
    let length = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let description: Value = serde_json::from_slice(&bytes[20..20 + length]).unwrap();
    assert_eq!(description["format"], "samara trace");
    assert_eq!(description["version"], 14);
    assert_eq!(description["program"][0], "sh");
    assert!(
        description["records"]["7"]
            .as_str()
            .unwrap()
            .starts_with("call")
    );
}

/// The position that a complaint names.
fn position(output: &Output) -> u64 {
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    let from = text.find(" at byte ").expect("a position") + 9;
    let digits: String = text[from..]
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap()
}

/// Up to which byte a recording that was interrupted is said to be whole.
fn whole_up_to(output: &Output) -> u64 {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(69), "{text}");
    let from = text.find("complete up to byte ").expect("a position") + 20;
    let digits = text[from..].chars().take_while(char::is_ascii_digit);
    digits.collect::<String>().parse().unwrap()
}

/// Without its description a file is nothing. Behind that, what is whole is performed.
#[test]
fn a_truncated_file_is_performed_up_to_there() {
    let (file, _) = recorded();
    let bytes = fs::read(file).unwrap();
    let described = 20 + u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let cut = fresh("cut");
    for length in [0, 1, 7, 8, 11, 15, 19, 20, 100, described - 1] {
        fs::write(&cut, &bytes[..length]).unwrap();
        let (output, _) = replay(&cut, &[]);
        assert!(position(&output) <= length as u64, "cut at {length}");
    }
    let length = bytes.len();
    let mut calls = 0;
    for length in [
        described,
        described + 3,
        length / 2,
        length - 100,
        length - 1,
    ] {
        fs::write(&cut, &bytes[..length]).unwrap();
        let (output, summary) = replay(&cut, &[]);
        let whole = whole_up_to(&output);
        assert!(described as u64 <= whole && whole <= length as u64);
        let lost = length as u64 - whole;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(text.contains("behind that lost"), lost > 0, "{text}");
        assert!(summary["interrupted"].is_string(), "{summary}");
        assert_eq!(summary["exit_code"], Value::Null);
        assert!(summary["calls_total"].as_u64().unwrap() >= calls);
        calls = summary["calls_total"].as_u64().unwrap();
        let shown = samara().arg("show").arg(&cut).output().unwrap();
        if calls > 0 {
            assert_eq!(whole_up_to(&shown), whole);
            let text = String::from_utf8_lossy(&shown.stdout).into_owned();
            assert!(
                text.contains(&format!("after call {calls}, the last")),
                "{text}"
            );
        }
    }
}

#[test]
fn a_damaged_byte_is_told_by_position() {
    let (file, _) = recorded();
    let bytes = fs::read(file).unwrap();
    let damaged = fresh("damaged");
    // Every part of the file: heads, description, chunks.
    for at in (0..bytes.len())
        .step_by(bytes.len() / 60 + 1)
        .chain([0, 8, 12, 16])
    {
        let mut copy = bytes.clone();
        copy[at] ^= 0x11;
        fs::write(&damaged, copy).unwrap();
        let (output, _) = replay(&damaged, &[]);
        // A chunk that seems longer than it is looks like one that was not written whole.
        let told = match output.status.code() {
            Some(69) => whole_up_to(&output),
            _ => position(&output),
        };
        assert!(told <= at as u64 + 8, "damaged at {at}");
    }
}

/// The tracer is killed while the program rests. What was recorded until then is in the file; the program ends, too, as its help says.
#[test]
fn a_killed_tracer_leaves_what_it_recorded() {
    let file = fresh("killed");
    let mut tracer = samara()
        .args(["trace", "--record"])
        .arg(&file)
        .args(["--", "sh", "-c", "ls / >&2; echo $$; read line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut pid = String::new();
    let mut out = std::io::BufReader::new(tracer.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut pid).unwrap();
    let program = Path::new("/proc").join(pid.trim());
    // The end of the child is among what is recorded last. No other call comes.
    let summary = loop {
        let (output, summary) = replay(&file, &[]);
        assert!(matches!(output.status.code(), Some(2 | 69)));
        if summary["execs"] == 2 {
            break summary;
        }
        std::thread::yield_now();
    };
    tracer.kill().unwrap();
    tracer.wait().unwrap();
    let (output, after) = replay(&file, &[]);
    whole_up_to(&output);
    assert_eq!(after["verdict"], "not all compared");
    for name in ["wrong_results", "wrong_predictions", "wrong_maps"] {
        assert_eq!(after[name], 0, "{name}");
    }
    assert!(after["calls_total"].as_u64() >= summary["calls_total"].as_u64());
    let core = samara()
        .args(["core", file.to_str().unwrap(), "-o"])
        .arg(fresh("core"))
        .output()
        .unwrap();
    whole_up_to(&core);
    // Killed, not left behind with calls that fail.
    let runs = || {
        let stat = fs::read_to_string(program.join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
        state.is_some_and(|state| !"ZX".contains(state))
    };
    while runs() {
        std::thread::yield_now();
    }
}

/// A failure to write the record does not hide the program's exit status.
#[test]
fn a_record_that_cannot_be_written_leaves_the_programs_status() {
    let file = fresh("limited");
    let traced = |file: &Path, longest: u64| {
        let mut command = samara();
        command.args(["trace", "-q", "--record"]).arg(file);
        command.args(["--", "sh", "-c", "echo started; exit 6"]);
        let limit = libc::rlimit {
            rlim_cur: longest,
            rlim_max: longest,
        };
        // SAFETY: between fork and exec nothing is called but `setrlimit`, which may be.
        unsafe {
            command.pre_exec(move || {
                libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
                Ok(())
            });
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output, text)
    };
    let (output, text) = traced(&file, libc::RLIM_INFINITY);
    assert_eq!(output.status.code(), Some(6), "{text}");
    let bytes = fs::read(&file).unwrap();
    let described = 20 + u64::from(u32::from_le_bytes(bytes[12..16].try_into().unwrap()));
    let (output, text) = traced(&file, described + 100);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("the record is incomplete"), "{text}");
    assert!(
        text.contains("the program ended with exit code 6"),
        "{text}"
    );
    // What is whole of it can be used.
    whole_up_to(&replay(&file, &[]).0);
    // What fails at once is told before anything is started.
    let (output, text) = traced(Path::new("/dev/full"), libc::RLIM_INFINITY);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("(nothing was started)") && text.lines().count() == 1);
    assert!(output.stdout.is_empty());
}

#[test]
fn a_file_without_end_is_refused() {
    let (file, _) = recorded();
    let mut endless = fs::File::open(&file)
        .unwrap()
        .chain(std::io::repeat(0))
        .take(1 << 32);
    let mut child = samara()
        .args(["replay", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The pipe breaks as soon as the program has read enough.
    let mut pipe = child.stdin.take().unwrap();
    assert!(std::io::copy(&mut endless, &mut pipe).is_err());
    let output = child.wait_with_output().unwrap();
    assert_eq!(position(&output), fs::metadata(&file).unwrap().len());
}

#[test]
fn the_summary_does_not_take_the_traces_place() {
    let (file, _) = recorded();
    let before = fs::read(&file).unwrap();
    let output = samara()
        .arg("replay")
        .arg(&file)
        .arg("--json")
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn threads_and_processes_are_counted_alike() {
    let Some(program) = compiled("untraced") else {
        return;
    };
    let file = fresh("counted");
    let options = ["--record", file.to_str().unwrap()];
    let traced = trace_with(&options, &[program], scratch());
    traced.assert_agrees();
    let (_, replayed) = replay(&file, &[]);
    for name in ["processes", "threads", "forks", "execs"] {
        assert_eq!(replayed[name], traced.summary[name], "{name}");
    }
}

#[test]
fn other_files_are_refused() {
    let missing = fresh("missing");
    for (path, why) in [
        (missing.as_path(), "cannot be read"),
        (Path::new("/"), "is a directory"),
    ] {
        let (output, _) = replay(path, &[]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2));
        assert!(text.lines().count() == 1 && text.contains(why), "{text}");
    }
    // It has no end, and is refused at its start.
    assert_eq!(position(&replay(Path::new("/dev/zero"), &[]).0), 0);
    let other = fresh("other");
    fs::write(&other, "something else entirely").unwrap();
    assert_eq!(position(&replay(&other, &[]).0), 0);
    let mut later = b"SAMARATR".to_vec();
    later.extend(99u32.to_le_bytes());
    fs::write(&other, later).unwrap();
    let (output, _) = replay(&other, &[]);
    assert_eq!(position(&output), 8);
    assert!(String::from_utf8_lossy(&output.stderr).contains("version 99"));
}

/// Maps, protects, cuts and grows areas of a process and its child by an engine of this test.
#[test]
fn an_engine_that_records_itself_replays() {
    let file = fresh("engine");
    let mut bytes = Vec::new();
    let mut parent =
        AddressSpace::new(Config::default(), Limits::default(), Layout::default()).unwrap();
    let kernel = parent.config().kernel;
    let mut recorder = Recorder::new(&[b"an", b"\"engine\""], kernel, |part: &[u8]| {
        bytes.extend_from_slice(part);
    });
    recorder.started(7, &parent);
    let mut calls = 0;
    let mut perform = |recorder: &mut Recorder<_>, id, space: &mut AddressSpace, call: Call| {
        recorder.before_call(id, space);
        let result = space.perform(&call);
        recorder.call(id, space, 1, &call, result);
        calls += 1;
        result
    };
    let map = |len| Call::Mmap {
        addr: 0,
        len,
        prot: 3,
        flags: 0x22,
        file: FileArg::None,
        offset: 0,
    };
    let at = perform(&mut recorder, 7, &mut parent, map(0x10000)).unwrap();
    let protect = Call::Mprotect {
        addr: at + 0x4000,
        len: 0x2000,
        prot: 1,
        pkey: -1,
    };
    perform(&mut recorder, 7, &mut parent, protect).unwrap();
    // The first private page of an area.
    parent.fault(at, true).unwrap();
    let mut child = parent.fork().unwrap();
    recorder.forked((7, &parent), (9, &child));
    let unmap = Call::Munmap {
        addr: at + 0x8000,
        len: 0x1000,
    };
    perform(&mut recorder, 9, &mut child, unmap).unwrap();
    perform(&mut recorder, 9, &mut child, map(0)).unwrap_err();
    recorder.gone(9, false);
    recorder.limits(7, &parent.limits());
    for _ in 0..100 {
        perform(&mut recorder, 7, &mut parent, map(0x3000)).unwrap();
        perform(&mut recorder, 7, &mut parent, Call::Brk { addr: 0 }).unwrap();
    }
    recorder.gone(7, true);
    recorder.end(3, 0);
    drop(recorder);
    fs::write(&file, bytes).unwrap();
    let (output, summary) = replay(&file, &["--check"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(summary["agreed"], Value::Bool(true), "{summary}");
    assert_eq!(summary["calls_total"], Value::from(calls), "{summary}");
    assert_eq!(summary["exit_code"], Value::from(3));
}
