//! Processes whose first thread has ended, while others go on, are looked at and traced like
//! others.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use common::{compiled, copy_program, fresh, has, samara, samara_in_front, scratch};
use serde_json::Value;

const NOBODY: u32 = 65534;

/// `leaderless.c`, whose first thread has ended.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// The address of a page of 0x5a.
    known: u64,
}

impl Program {
    fn start() -> Option<Self> {
        Some(Self::of(&mut Command::new(compiled("leaderless")?)))
    }

    fn of(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut program = Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            known: 0,
        };
        let line = program.answer();
        let known = line.trim_end().strip_prefix("ready ").unwrap();
        program.known = u64::from_str_radix(known, 16).unwrap();
        program
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    fn does(&mut self, what: &str) {
        writeln!(self.input.as_mut().unwrap(), "{what}").unwrap();
        assert_eq!(self.answer(), "done\n");
    }

    /// Its threads but the first, ascending.
    fn others(&self) -> Vec<u32> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let tids = tasks.map(|task| task.unwrap().file_name().into_string().unwrap());
        let mut tids: Vec<u32> = tids.map(|tid| tid.parse().unwrap()).collect();
        tids.retain(|tid| *tid != self.child.id());
        tids.sort_unstable();
        tids
    }

    /// Lets one thread end, and waits until it is gone.
    fn ends_one(&mut self) {
        let before = self.others();
        self.does("end one");
        while self.others().len() == before.len() {
            std::thread::yield_now();
        }
    }

    /// Returns the number of areas in the kernel's map, read through a living thread.
    fn areas(&self) -> usize {
        let tid = *self.others().last().unwrap();
        let maps = fs::read_to_string(format!("/proc/{tid}/maps")).unwrap();
        let areas = maps.lines().filter(|line| !line.contains("[vsyscall]"));
        areas.count()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn is_shown(program: &Program, samara: &dyn Fn() -> Command) {
    let pid = program.pid();
    let number = |tid: &u32| tid.to_string();
    let names: Vec<String> = program.others().iter().map(number).collect();
    // A thread's number stands for its process.
    for name in names.iter().chain([&pid]) {
        let shown = succeeds(samara().args(["show", "--json", name]));
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["areas"].as_array().unwrap().len(), program.areas());
        let subject = shown["subject"].as_str().unwrap();
        assert!(
            subject.ends_with(&format!("leaderless ({pid})")),
            "{subject}"
        );
        assert_eq!(shown["threads"], names.len() + 1);
        let kinds = shown["kinds"].as_object().unwrap();
        for kind in ["program", "libraries", "heap"] {
            assert!(kinds.contains_key(kind), "no {kind} in {shown}");
        }
        assert!(shown["all"]["memory"]["resident"].as_u64() > Some(0));
    }
    let text = succeeds(samara().args(["show", "--smaps", &pid]));
    assert!(text.contains("[heap]"), "{text}");
    let listed = succeeds(samara().args(["top", "--json"]));
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let processes = listed["processes"].as_array().unwrap();
    let mut found = processes
        .iter()
        .filter(|it| it["pid"] == program.child.id());
    let found = found.next().expect("it is listed");
    assert_eq!(found["mapped"]["areas"], program.areas());
    assert_eq!(found["threads"], names.len() + 1);
    assert!(found["resident"].as_u64() > Some(0));
}

#[test]
fn it_is_shown_and_listed() {
    let Some(mut program) = Program::start() else {
        return;
    };
    program.does("more 20");
    is_shown(&program, &samara);
    program.ends_one();
    is_shown(&program, &samara);
}

#[test]
fn nobody_is_shown_what_is_nobodys() {
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: needs root");
        return;
    }
    let Some(compiled) = compiled("leaderless") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let (own, other) = (
        folder.path().join("samara"),
        folder.path().join("leaderless"),
    );
    copy_program(env!("CARGO_BIN_EXE_samara"), &own);
    copy_program(compiled, &other);
    for path in [folder.path(), &own, &other] {
        open(path);
    }
    let as_nobody = |path: &Path| {
        let mut command = Command::new(path);
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
        command
    };
    let program = Program::of(&mut as_nobody(&other));
    is_shown(&program, &|| as_nobody(&own));
    // Another user's is refused as such, and listed without figures.
    let roots = Program::of(&mut Command::new(&other));
    let pid = roots.pid();
    for words in [vec!["show", &pid], vec!["core", &pid, "-o", "/dev/null"]] {
        let output = as_nobody(&own).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let told = told(&output);
        assert!(told.contains("may not be looked at"), "{told}");
    }
    let output = as_nobody(&own).args(["trace", "-p", &roots.pid()]).output();
    let told = told(&output.unwrap());
    assert!(told.contains("belongs to another user"), "{told}");
    let listed = succeeds(as_nobody(&own).args(["top", "--json"]));
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let processes = listed["processes"].as_array().unwrap();
    let found = processes.iter().find(|it| it["pid"] == roots.child.id());
    assert_eq!(found.expect("it is listed")["mapped"], Value::Null);
}

#[test]
fn its_core_is_written() {
    let Some(program) = Program::start() else {
        return;
    };
    let file = fresh("core");
    let output = samara()
        .args(["core", &program.pid(), "-o"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", told(&output));
    if has("gdb") {
        let output = Command::new("gdb")
            .args(["-nx", "-batch", "-ex", "info threads", "-ex"])
            .arg(format!("x/4xb {:#x}", program.known))
            .args(["-ex", "thread apply all bt", "-ex", "info auxv"])
            .arg(fs::read_link(format!("/proc/{}/exe", program.others()[0])).unwrap())
            .arg(&file)
            .env_remove("DEBUGINFOD_URLS")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("0x5a\t0x5a\t0x5a\t0x5a"), "{text}");
        assert!(text.contains("AT_ENTRY"), "{text}");
        assert!(text.contains("LWP"), "{text}");
        for tid in program.others() {
            assert!(text.contains(&format!("LWP {tid}")), "{tid}: {text}");
        }
    }
    // They run on.
    let mut program = program;
    program.does("more 3");
}

/// A process that has ended is told of as before.
#[test]
fn one_that_has_ended_has_ended() {
    let Some(mut program) = Program::start() else {
        return;
    };
    let pid = program.pid();
    program.child.kill().unwrap();
    while !program.others().is_empty() {
        std::thread::yield_now();
    }
    for (words, says) in [
        (vec!["show", &pid], "has ended: it has no memory any more"),
        (
            vec!["core", &pid, "-o", "/dev/null"],
            "has ended: it has no memory any more",
        ),
        (vec!["trace", "-p", &pid], "has ended, and its parent"),
    ] {
        let output = samara().args(&words).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(told(&output).contains(says), "{}", told(&output));
    }
}

/// A tracer that has attached.
struct Tracer {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
    json: std::path::PathBuf,
}

impl Tracer {
    fn of(program: &Program, named: &str) -> Self {
        let json = fresh("summary.json");
        let mut child = samara_in_front()
            .args(["trace", "--verify", "each", "-p", named, "--json"])
            .arg(&json)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        let says = format!("samara: attached to process {} with ", program.pid());
        assert!(line.starts_with(&says), "{line}");
        Self {
            child,
            errors,
            json,
        }
    }

    fn interrupt(&self) {
        // SAFETY: a process of ours that has not been waited for.
        let sent = unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        assert_eq!(sent, 0);
    }

    /// Its end; what it has compared.
    fn agrees(mut self) -> Value {
        let mut text = String::new();
        self.errors.read_to_string(&mut text).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{text}");
        let summary: Value = serde_json::from_str(&fs::read_to_string(self.json).unwrap()).unwrap();
        assert_eq!(summary["agreed"], true, "{text}");
        assert_eq!(summary["ended_unseen"], 0, "{text}");
        assert!(summary["maps_compared"].as_u64() > Some(100), "{text}");
        summary
    }
}

/// By its own number and by a thread's. The thread by which its map is read may end during the
/// reading.
#[test]
fn it_is_attached_to_and_let_go() {
    let Some(mut program) = Program::start() else {
        return;
    };
    for named in [program.pid(), program.others()[1].to_string()] {
        let tracer = Tracer::of(&program, &named);
        program.does("more 50");
        program.does("fork");
        if program.others().len() > 2 {
            program.ends_one();
        }
        program.does("more 50");
        tracer.interrupt();
        let summary = tracer.agrees();
        assert!(
            summary["results_compared"].as_u64() > Some(400),
            "{summary}"
        );
        assert_eq!(summary["exit_code"], Value::Null);
        program.does("more 3");
    }
}

#[test]
fn its_end_ends_the_trace() {
    let Some(mut program) = Program::start() else {
        return;
    };
    let tracer = Tracer::of(&program, &program.pid());
    program.ends_one();
    program.does("more 50");
    drop(program.input.take());
    assert_eq!(tracer.agrees()["exit_code"], 7);
    assert_eq!(program.child.wait().unwrap().code(), Some(7));
}

#[test]
fn it_becomes_another_program_while_it_is_followed() {
    let Some(mut program) = Program::start() else {
        return;
    };
    let tracer = Tracer::of(&program, &program.pid());
    program.does("more 50");
    writeln!(program.input.as_mut().unwrap(), "exec /bin/true").unwrap();
    let summary = tracer.agrees();
    assert_eq!(summary["execs"], 1, "{summary}");
    assert_eq!(summary["exit_code"], 0, "{summary}");
    assert!(program.child.wait().unwrap().success());
}

/// From its start on: the first thread ends while it is traced.
#[test]
fn it_is_followed_from_its_start() {
    let Some(path) = compiled("leaderless") else {
        return;
    };
    let work = "more 50\nfork\nend one\nmore 50\nfork\n";
    for (last, code, execs) in [("", 7, 1), ("exec /bin/true\n", 0, 2)] {
        let json = fresh("summary.json");
        let mut child = samara()
            .args(["trace", "--verify", "each", "--check", "--json"])
            .arg(&json)
            .arg("--")
            .arg(&path)
            .current_dir(scratch())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(format!("{work}{last}").as_bytes()).unwrap();
        drop(input);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", told(&output));
        let summary: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
        assert_eq!(summary["agreed"], true, "{}", told(&output));
        assert_eq!(summary["ended_unseen"], 0, "{}", told(&output));
        assert_eq!(summary["forks"], 2, "{summary}");
        assert_eq!(summary["execs"], execs, "{summary}");
        assert!(
            summary["results_compared"].as_u64() > Some(400),
            "{summary}"
        );
    }
}
