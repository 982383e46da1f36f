//! Recordings at their calls.

use super::*;

#[test]
fn a_recording_at_its_calls() {
    let file = fresh("trace");
    let file = file.to_str().unwrap();
    let options = ["--verify", "each", "--record", file];
    let traced = trace_with(&options, &["true"], scratch());
    traced.assert_agrees();
    let at = |call: u64| format!("{file}@{call}");
    let start = json(&[&at(0)]);
    assert!(start["all"]["memory"].is_null() && start["fork_estimate"].is_null());
    let calls = traced.count("calls_total");
    let end = json(&[&at(calls)]);
    assert_ne!(start["areas"], end["areas"]);
    let difference = text(&show(&[&at(0), &at(calls)]));
    assert!(difference.contains("libc"), "{difference}");
    let one = json(&[&at(calls - 1), &at(calls)]);
    assert_eq!(one["related"], true);
    refused(&show(&[&at(calls + 1)]), &format!("has {calls} calls"));
    // Without a call it is shown at its end.
    assert_eq!(json(&[file])["areas"], end["areas"]);
    let told = text(&show(&[file]));
    assert!(
        told.contains(&format!("after call {calls}, the last")),
        "{told}"
    );
    // Cut short within its head, it is told where. Later cuts leave what is whole.
    let bytes = fs::read(file).unwrap();
    for length in [0, 7, 30] {
        let cut = fresh("cut");
        fs::write(&cut, &bytes[..length]).unwrap();
        refused(&show(&[&format!("{}@1", cut.display())]), "at byte ");
    }
}

#[test]
fn a_recording_may_have_any_name() {
    let record = scratch().join(OsStr::from_bytes(b"\xff@\xfe"));
    let traced = samara()
        .args(["trace", "-q", "--record"])
        .arg(&record)
        .args(["--", "true"])
        .output()
        .unwrap();
    assert_eq!(traced.status.code(), Some(0), "{traced:?}");
    let mut at_call = record.into_os_string();
    at_call.push("@2");
    let shown = samara().arg("show").arg(&at_call).output().unwrap();
    assert!(text(&shown).contains("after call 2"));
    let core = samara()
        .arg("core")
        .arg(&at_call)
        .arg("-o")
        .arg(fresh("core"))
        .output()
        .unwrap();
    assert_eq!(core.status.code(), Some(0), "{core:?}");
}
