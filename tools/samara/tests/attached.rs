//! `samara trace -p PID`: processes that ran before are followed, and go on unharmed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use common::{compiled, copy_program, fresh, has, samara, samara_in_front};
use serde_json::Value;

/// A process that works until it is told to end.
struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Worker {
    fn start() -> Option<Self> {
        let mut child = Command::new(compiled("attached_to")?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut worker = Self {
            child,
            input,
            output,
        };
        assert_eq!(worker.answer(), "ready\n");
        Some(worker)
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    /// Waits until it has done so much more.
    fn more(&mut self, rounds: u32) {
        writeln!(self.input.as_mut().unwrap(), "more {rounds}").unwrap();
        assert_eq!(self.answer(), "done\n");
    }

    /// Tells it to end, which it does without having noticed anything.
    fn quit(&mut self) {
        drop(self.input.take());
        assert_eq!(self.answer(), "errors 0\n");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A tracer that has attached.
struct Attached {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
    json: std::path::PathBuf,
}

impl Attached {
    fn to(pid: &str, options: &[&str]) -> Self {
        let json = fresh("summary.json");
        let mut child = samara_in_front()
            .arg("trace")
            .args(options)
            .arg("--json")
            .arg(&json)
            .args(["-p", pid])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        assert!(
            line.starts_with(&format!("samara: attached to process {pid} with ")),
            "{line}"
        );
        Self {
            child,
            errors,
            json,
        }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a process of ours that has not been waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Its end; what it has compared.
    fn agrees(mut self) -> Value {
        let mut text = String::new();
        self.errors.read_to_string(&mut text).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{text}");
        let summary: Value = serde_json::from_str(&fs::read_to_string(self.json).unwrap()).unwrap();
        assert_eq!(summary["agreed"], true, "{text}");
        summary
    }
}

fn tracer_of(pid: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("TracerPid:"));
    line.unwrap().trim().to_owned()
}

#[test]
fn a_running_process_is_followed_and_let_go_unharmed() {
    let Some(mut worker) = Worker::start() else {
        return;
    };
    worker.more(50);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let attached = Attached::to(&worker.pid(), &["--verify", "each"]);
        worker.more(300);
        attached.signal(signal);
        let summary = attached.agrees();
        assert!(
            summary["results_compared"].as_u64() > Some(600),
            "{summary}"
        );
        assert!(summary["execs"].as_u64() > Some(0), "{summary}");
        assert_eq!(summary["exit_code"], Value::Null);
        assert_eq!(tracer_of(&worker.pid()), "0");
        worker.more(50);
    }
    worker.quit();
}

/// No filter is on it, so that it runs on when the tracer is killed; what was recorded is there.
#[test]
fn a_process_lives_on_when_its_tracer_is_killed() {
    let Some(mut worker) = Worker::start() else {
        return;
    };
    let record = fresh("record");
    let mut attached = Attached::to(&worker.pid(), &["--record", record.to_str().unwrap()]);
    worker.more(300);
    attached.signal(libc::SIGKILL);
    attached.child.wait().unwrap();
    worker.more(300);
    worker.quit();
    let replayed = samara().arg("replay").arg(&record).output().unwrap();
    let told = String::from_utf8_lossy(&replayed.stderr);
    assert_eq!(replayed.status.code(), Some(69), "{told}");
    assert!(told.contains("was interrupted"), "{told}");
}

#[test]
fn a_process_that_ends_while_it_is_followed_ends_the_trace() {
    let Some(mut worker) = Worker::start() else {
        return;
    };
    let record = fresh("record");
    let attached = Attached::to(&worker.pid(), &["--record", record.to_str().unwrap()]);
    worker.more(100);
    worker.quit();
    let summary = attached.agrees();
    assert_eq!(summary["exit_code"], 0);
    let replayed = samara().arg("replay").arg(&record).output().unwrap();
    let told = String::from_utf8_lossy(&replayed.stderr);
    assert_eq!(replayed.status.code(), Some(0), "{told}");
}

/// Root that lacks the capability, as in a container, is told so, and not to be root.
#[test]
fn root_without_the_capability_is_not_told_to_be_root() {
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 || !has("setpriv") {
        eprintln!("skipped: needs root and setpriv");
        return;
    }
    let mut other = Command::new("setpriv")
        .args(["--reuid", "65534", "--clear-groups", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It answers when it is the other user's.
    let (mut input, mut answer) = (other.stdin.take().unwrap(), [0; 1]);
    input.write_all(b"x").unwrap();
    let mut output = other.stdout.take().unwrap();
    output.read_exact(&mut answer).unwrap();
    let refused = Command::new("setpriv")
        .args(["--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"])
        .arg(env!("CARGO_BIN_EXE_samara"))
        .args(["trace", "-p", &other.id().to_string()])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(
        told.contains("this is root without CAP_SYS_PTRACE"),
        "{told}"
    );
    assert!(!told.contains("as root"), "{told}");
}

/// A program waits, is attached to, and joins what it had cut, or mapped; what is learnt then leaves nothing undecided.
fn heals(program: &str, argument: Option<&str>) {
    let Some(program) = compiled(program) else {
        return;
    };
    let mut child = Command::new(program)
        .args(argument)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = || {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        line
    };
    let pid = line().trim().to_owned();
    common::settle(pid.parse().unwrap());
    let record = fresh("record");
    let options = ["--verify", "each", "--record", record.to_str().unwrap()];
    let attached = Attached::to(&pid, &options);
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "heal").unwrap();
    assert_eq!(line(), "done\n");
    drop(input);
    let summary = attached.agrees();
    assert_eq!(summary["started_anew"], serde_json::json!({}), "{summary}");
    assert!(child.wait().unwrap().success());
    let replayed = samara().arg("replay").arg(&record).output().unwrap();
    let told = String::from_utf8_lossy(&replayed.stderr);
    assert_eq!(replayed.status.code(), Some(0), "{told}");
}

#[test]
fn parts_of_what_was_one_area_join_again() {
    heals("healed", None);
}

#[test]
fn what_was_a_parents_joins_nothing_new() {
    heals("healed", Some("child"));
}

#[test]
fn a_parents_parts_join_as_before() {
    heals("healed", Some("parent"));
}

#[test]
fn more_of_a_file_joins_what_is_mapped_of_it() {
    heals("same_file", None);
}

#[test]
fn a_tracer_that_is_killed_leaves_the_process_alone() {
    let Some(mut worker) = Worker::start() else {
        return;
    };
    let mut attached = Attached::to(&worker.pid(), &[]);
    worker.more(20);
    attached.signal(libc::SIGKILL);
    attached.child.wait().unwrap();
    worker.more(50);
    worker.quit();
}

#[test]
fn a_process_that_is_stopped_stays_so() {
    let Some(mut worker) = Worker::start() else {
        return;
    };
    let state = |worker: &Worker| {
        let status = fs::read_to_string(format!("/proc/{}/status", worker.pid())).unwrap();
        let line = status.lines().find(|l| l.starts_with("State:")).unwrap();
        line.chars().nth(7).unwrap()
    };
    let send = |worker: &Worker, signal| {
        // SAFETY: a process of ours that has not been waited for.
        assert_eq!(unsafe { libc::kill(worker.child.id() as i32, signal) }, 0);
    };
    send(&worker, libc::SIGSTOP);
    while state(&worker) != 'T' {
        std::thread::yield_now();
    }
    let attached = Attached::to(&worker.pid(), &[]);
    attached.signal(libc::SIGINT);
    // Nothing has run: the map is compared once, as it was found.
    attached.agrees();
    // It runs for a moment, in the kernel, to stop again; had it gone on, it would come to sleep in a read.
    while state(&worker) == 'R' {
        std::thread::yield_now();
    }
    assert_eq!(state(&worker), 'T');
    send(&worker, libc::SIGCONT);
    worker.more(20);
    worker.quit();
}

/// The one line with which it is refused, by exit code 2.
fn refused(mut command: Command, pid: &str) -> String {
    let output = command.args(["trace", "-p", pid]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("samara: "), "{text}");
    text
}

#[test]
fn a_parent_in_vfork_is_waited_for_and_that_is_told() {
    let Some(program) = compiled("waits_for_vfork") else {
        return;
    };
    let mut waiting = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    let mut output = BufReader::new(waiting.stdout.take().unwrap());
    output.read_line(&mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    let mut tracer = samara()
        .args(["trace", "--verify", "each", "-p", &waiting.id().to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(tracer.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    assert!(line.contains("cannot be stopped yet"), "{line}");
    waiting.stdin.take().unwrap().write_all(b"x").unwrap();
    told.read_to_string(&mut line).unwrap();
    assert!(line.contains("attached to process"), "{line}");
    assert_eq!(tracer.wait().unwrap().code(), Some(0), "{line}");
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
}

#[test]
fn what_cannot_be_attached_to_is_told_in_one_line() {
    let text = refused(samara(), "2147483647");
    assert!(text.contains("there is no process 2147483647"), "{text}");
    for wrong in ["0", "-1", "x"] {
        let output = samara().args(["trace", "-p", wrong]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
    }
    let both = ["trace", "-p", "1", "--", "true"];
    assert_eq!(samara().args(both).output().unwrap().status.code(), Some(2));
    if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        let text = refused(samara(), "2");
        assert!(text.contains("a thread of the kernel"), "{text}");
    }

    let Some(mut worker) = Worker::start() else {
        return;
    };
    let threads = fs::read_dir(format!("/proc/{}/task", worker.pid())).unwrap();
    let mut threads = threads.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let thread = threads.find(|tid| *tid != worker.pid()).unwrap();
    let attached = Attached::to(&worker.pid(), &[]);
    for named in [&worker.pid(), &thread] {
        let text = refused(samara(), named);
        assert!(text.contains("is traced already, by process"), "{text}");
    }
    attached.signal(libc::SIGINT);
    attached.agrees();

    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } == 0 {
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &Path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        open(folder.path());
        let copy = folder.path().join("samara");
        copy_program(env!("CARGO_BIN_EXE_samara"), &copy);
        open(&copy);
        let mut other = Command::new(&copy);
        other.uid(65534).gid(65534).current_dir("/");
        let text = refused(other, &worker.pid());
        assert!(text.contains("belongs to another user"), "{text}");
    }
    worker.quit();

    let mut dead = Command::new("true").stdout(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", dead.id());
    while !fs::read_to_string(&status).unwrap().contains("State:\tZ") {
        std::thread::yield_now();
    }
    let text = refused(samara(), &dead.id().to_string());
    assert!(text.contains("has ended"), "{text}");
    dead.wait().unwrap();
}
