//! Live processes and recordings are shown: the figures are the kernel's, and what cannot be shown is told in a line.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod common;

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};

use common::{agrees, compiled, copy_program, fresh, has, samara, scratch, settle, trace_with};
use serde_json::Value;

const NOBODY: u32 = 65534;

fn show(words: &[&str]) -> Output {
    samara().arg("show").args(words).output().unwrap()
}

fn text(output: &Output) -> String {
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.stderr.is_empty());
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(words: &[&str]) -> Value {
    let mut all = words.to_vec();
    all.push("--json");
    serde_json::from_str(&text(&show(&all))).unwrap()
}

/// Refused with exit code 2 and one line that holds `what`.
fn refused(output: &Output, what: &str) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(output.stdout.is_empty());
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(
        told.starts_with("samara: ") && told.contains(what),
        "{told}"
    );
}

/// A program that waits; ended with the test.
struct Waiting(Child);

impl Waiting {
    fn start(command: &mut Command) -> Self {
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Waiting(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// What it says when it is ready.
    fn line(&mut self) -> Vec<u64> {
        let mut line = String::new();
        let out = self.0.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        line.split_whitespace()
            .map(|word| u64::from_str_radix(word, 16).unwrap())
            .collect()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `cat` that has begun to wait.
fn cat() -> Waiting {
    let waiting = Waiting::start(&mut Command::new("cat"));
    settle(waiting.0.id());
    waiting
}

fn areas_program(more: u32) -> Option<(Waiting, Vec<u64>)> {
    let program = compiled("areas")?;
    let mut waiting = Waiting::start(Command::new(program).arg(more.to_string()));
    let addresses = waiting.line();
    settle(waiting.0.id());
    Some((waiting, addresses))
}

fn area_at(shown: &Value, address: u64) -> Value {
    let number = |value: &Value| {
        u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
    };
    let areas = shown["areas"].as_array().unwrap();
    let found = areas
        .iter()
        .find(|area| (number(&area["start"])..number(&area["end"])).contains(&address));
    found.unwrap().clone()
}

#[test]
fn sums_are_the_kernels() {
    let cat = cat();
    let shown = json(&[&cat.pid()]);
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", cat.pid())).unwrap();
    let kernel = |label: &str| -> u64 {
        let line = rollup.lines().find(|line| line.starts_with(label)).unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
            << 10
    };
    let memory = &shown["all"]["memory"];
    for (label, name) in [
        ("Rss:", "resident"),
        ("Private_Dirty:", "private_dirty"),
        ("Anonymous:", "anonymous"),
        ("Swap:", "swapped"),
    ] {
        assert_eq!(memory[name].as_u64().unwrap(), kernel(label), "{name}");
    }
    // Which of the clean pages are shared changes as other programs come and go.
    let clean = ["shared_clean", "private_clean"].map(|name| memory[name].as_u64().unwrap());
    let theirs = kernel("Shared_Clean:") + kernel("Private_Clean:");
    assert_eq!(clean[0] + clean[1], theirs, "clean");
    let maps = fs::read_to_string(format!("/proc/{}/maps", cat.pid())).unwrap();
    let lines = maps.lines().filter(|line| !line.contains("[vsyscall]"));
    assert_eq!(shown["areas"].as_array().unwrap().len(), lines.count());
    let kinds = shown["kinds"].as_object().unwrap();
    for kind in ["program", "libraries", "heap", "stacks", "special"] {
        assert!(kinds.contains_key(kind), "no {kind}");
    }
    let parts: u64 = kinds
        .values()
        .map(|kind| kind["bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(parts, shown["all"]["bytes"].as_u64().unwrap());
    assert!(shown["fork_estimate"]["now_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn areas_are_told_for_what_they_are() {
    let Some((program, addresses)) = areas_program(0) else {
        return;
    };
    let [room, jit, shared, row, heap] = addresses[..] else {
        panic!("five addresses");
    };
    let shown = json(&[&program.pid()]);
    for (address, kind) in [
        (room, "reserved"),
        (jit, "jit"),
        (shared, "shared"),
        (row, "anonymous"),
        (heap, "heap"),
    ] {
        assert_eq!(area_at(&shown, address)["kind"], kind, "{address:x}");
    }
    assert_eq!(
        area_at(&shown, row + 3 * 4096)["apart"],
        "other permissions"
    );
    assert_eq!(
        area_at(&shown, row + 6 * 4096)["apart"],
        "other permissions"
    );
    assert_eq!(shown["threads"], 2);
    // The main one, and the thread's with its guard.
    let stacks = shown["kinds"]["stacks"]["areas"].as_u64().unwrap();
    assert!((2..=3).contains(&stacks), "{stacks}");
    let jit_memory = &area_at(&shown, jit)["memory"];
    assert_eq!(jit_memory["private_dirty"], 2 * 4096);
}

#[test]
fn every_section_is_printed() {
    let cat = cat();
    let pid = cat.pid();
    let summary = text(&show(&[&pid]));
    for part in [
        "── samara ── cat (",
        "libraries",
        "limit ",
        "gaps ",
        "borders ",
        "fork ",
    ] {
        assert!(summary.contains(part), "{summary}");
    }
    assert!(!summary.contains('\u{1b}'), "no colours in a pipe");
    let areas = json(&[&pid])["areas"].as_array().unwrap().len();
    // The title, the heading and a line for each area; smaps has a sum, too.
    assert_eq!(text(&show(&[&pid, "--maps"])).lines().count(), areas + 2);
    assert_eq!(text(&show(&[&pid, "--smaps"])).lines().count(), areas + 3);
    let gaps = text(&show(&[&pid, "--gaps"]));
    assert!(
        gaps.contains("[stack]") && gaps.contains("[heap]"),
        "{gaps}"
    );
    let tree = text(&show(&[&pid, "--tree"]));
    assert!(tree.contains(" leaf, ") && tree.contains("libc"), "{tree}");
    assert!(tree.contains("[heap]") && tree.contains("hole"), "{tree}");
    let fork = text(&show(&[&pid, "--fork"]));
    assert!(fork.contains("Estimates"), "{fork}");
    let both = text(&show(&[&pid, "--gaps", "--fork"]));
    assert!(
        both.contains("free") && both.contains("Estimates"),
        "{both}"
    );
}

#[test]
fn two_processes_differ_by_what_they_have() {
    let (one, two) = (cat(), cat());
    let same = text(&show(&[&one.pid(), &two.pid()]));
    assert!(same.contains(" → cat ("), "{same}");
    let itself = text(&show(&[&one.pid(), &one.pid()]));
    assert!(itself.contains("no area differs"), "{itself}");
    let itself = json(&[&one.pid(), &one.pid()]);
    assert_eq!(itself["differences"].as_array().unwrap().len(), 0);
    assert_eq!(itself["related"], true);
    let Some((program, _)) = areas_program(0) else {
        return;
    };
    let other = text(&show(&[&one.pid(), &program.pid()]));
    assert!(other.contains("areas") && other.contains("+"), "{other}");
}

#[test]
fn thousands_of_areas() {
    let Some((program, _)) = areas_program(20_000) else {
        return;
    };
    let shown = json(&[&program.pid()]);
    assert!(shown["areas"].as_array().unwrap().len() > 20_000);
    assert!(shown["borders"]["other permissions"].as_u64().unwrap() > 19_000);
    assert!(shown["tree"]["levels"].as_u64().unwrap() >= 3);
    let summary = text(&show(&[&program.pid()]));
    assert!(
        summary.lines().all(|line| line.chars().count() < 400),
        "{summary}"
    );
}

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

/// A process's name is any bytes, and it is in several files of `/proc`.
#[test]
fn a_process_whose_name_is_no_text_is_shown() {
    let path = scratch().join(OsStr::from_bytes(b"\xff\x1b[2J\xfe"));
    copy_program("/bin/cat", &path);
    let program = Waiting::start(&mut Command::new(&path));
    settle(program.0.id());
    for option in ["--maps", "--smaps", "--fork"] {
        let told = text(&show(&[&program.pid(), option]));
        assert!(
            told.contains('\u{fffd}') && !told.contains('\u{1b}'),
            "{told}"
        );
    }
    assert_eq!(json(&[&program.pid()])["threads"], 1);
    let core = fresh("core");
    let dumped = samara()
        .args(["core", &program.pid(), "-o"])
        .arg(&core)
        .output()
        .unwrap();
    assert_eq!(dumped.status.code(), Some(0), "{dumped:?}");
    agrees(&[path.as_path(), "/dev/null".as_ref()]);
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

#[test]
fn what_cannot_be_shown_is_told() {
    refused(&show(&["999999999"]), "there is no process 999999999");
    refused(&show(&["0"]), "no number of a process");
    refused(&show(&["nonsense"]), "give PID, FILE or FILE@CALL");
    refused(&show(&["/nowhere@1"]), "cannot be read");
    // Other tests' processes are no kernel threads, wherever this runs.
    if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        refused(&show(&["2"]), "thread of the kernel");
    }
    let mut zombie = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
    let mut nothing = String::new();
    zombie
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut nothing)
        .unwrap();
    let pid = zombie.id().to_string();
    while !fs::read_to_string(format!("/proc/{pid}/stat"))
        .unwrap()
        .contains(") Z ")
    {
        std::thread::yield_now();
    }
    refused(&show(&[&pid]), "has ended");
    zombie.wait().unwrap();
}

/// The command, where anybody may run it.
fn public_samara() -> std::path::PathBuf {
    let folder = scratch().join("public");
    let _ = fs::create_dir(&folder);
    for folder in [scratch(), &folder] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let copy = folder.join(format!("samara-{:?}", std::thread::current().id()));
    copy_program(env!("CARGO_BIN_EXE_samara"), &copy);
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    copy
}

#[test]
fn nobody_sees_its_own_processes() {
    // SAFETY: asks only.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can become nobody");
        return;
    }
    let program = public_samara();
    let as_nobody = |pid: &str| {
        Command::new(&program)
            .args(["show", pid])
            .uid(NOBODY)
            .gid(NOBODY)
            .current_dir("/")
            .output()
            .unwrap()
    };
    let roots = cat();
    refused(&as_nobody(&roots.pid()), "may not be looked at");
    let own = Waiting::start(Command::new("cat").uid(NOBODY).gid(NOBODY).current_dir("/"));
    settle(own.0.id());
    let shown = text(&as_nobody(&own.pid()));
    assert!(
        shown.contains("libraries") && shown.contains("stacks"),
        "{shown}"
    );
}

/// The master and the slave of a terminal with so many columns.
fn terminal(columns: u16) -> (OwnedFd, OwnedFd) {
    let (mut master, mut slave) = (0, 0);
    let size = libc::winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: places for two descriptors, which are new, and a size.
    unsafe {
        let null = std::ptr::null_mut();
        let done = libc::openpty(
            &raw mut master,
            &raw mut slave,
            null,
            null.cast(),
            (&raw const size).cast_mut(),
        );
        assert_eq!(done, 0);
        (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
    }
}

/// What a terminal of so many columns gets, line by line, without colours; whether it had any.
fn on_terminal(words: &[&str], columns: u16, colours: bool) -> (Vec<String>, bool) {
    let (master, slave) = terminal(columns);
    let mut command = samara();
    command.arg("show").args(words).env("TERM", "xterm");
    if colours {
        command.env_remove("NO_COLOR");
    } else {
        command.env("NO_COLOR", "1");
    }
    let mut child = command.stdout(Stdio::from(slave)).spawn().unwrap();
    // Our own copy of the slave's end is in the command.
    drop(command);
    let mut bytes = Vec::new();
    let mut master = fs::File::from(master);
    // Reading fails when the last one who may write has gone.
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = master.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..read]);
    }
    assert!(child.wait().unwrap().success());
    let text = String::from_utf8(bytes).unwrap();
    let mut plain = String::new();
    let mut skip = false;
    for c in text.chars() {
        match c {
            '\u{1b}' => skip = true,
            'm' if skip => skip = false,
            _ if !skip => plain.push(c),
            _ => {}
        }
    }
    let lines = plain
        .lines()
        .map(|line| line.trim_end_matches('\r').to_owned());
    (lines.collect(), text.contains('\u{1b}'))
}

fn without_digits(text: &str) -> String {
    text.replace(|c: char| c.is_ascii_digit() || matches!(c, '.' | ','), "")
}

fn all_fit(lines: &[String], columns: u16) {
    for line in lines {
        let width = line.chars().count();
        assert!(width <= usize::from(columns), "{columns}: {line}");
    }
}

#[test]
fn a_narrow_terminal_gets_narrow_tables() {
    let cat = cat();
    for (columns, colours) in [(40, false), (60, true), (200, true)] {
        let (lines, coloured) = on_terminal(&[&cat.pid(), "--maps"], columns, colours);
        assert_eq!(coloured, colours, "{lines:#?}");
        assert!(
            lines.iter().any(|line| line.contains("[heap]")),
            "{lines:#?}"
        );
        all_fit(&lines, columns);
    }
}

/// What is told of the whole is folded to the width, and nothing of it is cut off.
#[test]
fn lines_below_the_table_fit_the_terminal() {
    let cat = cat();
    let words = |lines: &[String]| -> Vec<String> {
        let lines = lines.iter().skip_while(|line| !line.starts_with("limit "));
        let words = lines.flat_map(|line| line.split_whitespace());
        // Pages may come and go between two looks.
        words.map(without_digits).collect()
    };
    let (whole, _) = on_terminal(&[&cat.pid()], 400, false);
    let forks = on_terminal(&[&cat.pid(), "--fork"], 400, false).0;
    for columns in [99, 80, 60, 40] {
        let (lines, _) = on_terminal(&[&cat.pid()], columns, false);
        all_fit(&lines[lines.len() - 8..], columns);
        let labels = ["limit ", "gaps ", "borders ", "fork "];
        for label in labels {
            assert!(
                lines.iter().any(|line| line.starts_with(label)),
                "{lines:#?}"
            );
        }
        if columns >= 60 {
            all_fit(&lines, columns);
        }
        assert_eq!(words(&lines), words(&whole), "{columns}");
        let (lines, _) = on_terminal(&[&cat.pid(), "--fork"], columns, false);
        all_fit(&lines, columns);
        let [lines, forks] = [&lines, &forks].map(|lines| without_digits(&lines.concat()));
        assert_eq!(lines.replace(' ', ""), forks.replace(' ', ""));
    }
}

/// All that `/proc/PID/maps` and `smaps` say of an area is there, and one long path makes no other
/// line long.
#[test]
fn lists_of_areas_are_whole_and_short() {
    // Ten folders of 250 letters: no path of one call is so long, so each is entered.
    let name = "d".repeat(250);
    let folder = fresh("deep");
    fs::create_dir(&folder).unwrap();
    let script = format!(
        "import os, mmap, sys\n\
         for _ in range(10):\n os.mkdir('{name}'); os.chdir('{name}')\n\
         f = os.open('file', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 8192)\n\
         m = mmap.mmap(f, 4096, offset=4096)\n\
         m[0] = 1\n\
         print(flush=True); sys.stdin.read()"
    );
    if !has("python3") {
        return;
    }
    let mut program = Waiting::start(
        Command::new("python3")
            .args(["-c", &script])
            .current_dir(&folder),
    );
    program.line();
    let pid = program.pid();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let maps: Vec<&str> = maps.lines().filter(|l| !l.contains("[vsyscall]")).collect();
    let longest = maps.iter().map(|line| line.len()).max().unwrap();
    assert!(longest > 2500);
    for option in ["--maps", "--smaps", "--gaps"] {
        let shown = text(&show(&[&pid, option]));
        let long = shown.lines().filter(|line| line.len() > 250);
        // A gap may lie at each of its ends.
        assert!(
            long.count() <= if option == "--gaps" { 2 } else { 1 },
            "{option}"
        );
    }
    let shown = text(&show(&[&pid, "--maps"]));
    let mut lines = shown.lines().skip(1);
    let heading = lines.next().unwrap();
    for name in [
        "from",
        "to (not in it)",
        "offset",
        "device",
        "inode",
        "resident",
        "PSS",
        "name",
    ] {
        assert!(heading.contains(name), "{name}: {heading}");
    }
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let mut shares = smaps.lines().filter_map(|l| l.strip_prefix("Pss:"));
    let at = |name: &str| heading.find(name).unwrap() + name.len();
    let cell = |line: &str, name: &str| {
        // Columns of numbers end where their headings end. Characters, not bytes: nothing may be a
        // dot.
        let upto: String = line.chars().take(at(name)).collect();
        let (_, cell) = upto.rsplit_once("  ").unwrap();
        cell.trim().to_owned()
    };
    for (line, kernel) in lines.by_ref().zip(&maps) {
        let words: Vec<&str> = kernel.split_whitespace().collect();
        let (from, to) = words[0].split_once('-').unwrap();
        assert!(
            line.trim_start().starts_with(&format!("{from:0>12}")),
            "{line}"
        );
        assert_eq!(cell(line, "to (not in it)"), format!("{to:0>12}"));
        assert_eq!(
            u64::from_str_radix(&cell(line, "offset"), 16),
            u64::from_str_radix(words[2], 16)
        );
        let object = if words[3] == "00:00" {
            ["·", "·"]
        } else {
            [words[3], words[4]]
        };
        assert_eq!([cell(line, "device"), cell(line, "inode")], object);
        let share = shares.next().unwrap().trim().trim_end_matches(" kB");
        let share: f64 = share.parse().unwrap();
        let shown = match cell(line, "PSS") {
            nothing if nothing == "·" => 0.0,
            some => {
                let (number, unit) = some.split_once(' ').unwrap();
                let unit = if unit == "MiB" { 1024.0 } else { 1.0 };
                number.parse::<f64>().unwrap() * unit
            }
        };
        // Who else maps a file changes meanwhile; what is shown is rounded to a tenth of its unit.
        let same = shown == 0.0 && share == 0.0 || (shown / share - 1.0).abs() < 0.1;
        assert!(same || line.contains('/'), "{line}");
    }
    assert_eq!(lines.next(), None);
}

/// Of a recording nothing is known of pages.
#[test]
fn what_is_not_known_is_a_dot() {
    let file = fresh("trace");
    trace_with(&["--record", file.to_str().unwrap()], &["true"], scratch()).assert_agrees();
    let shown = text(&show(&[&format!("{}@0", file.display()), "--maps"]));
    let heading = shown.lines().nth(1).unwrap();
    let end = heading.find("PSS").unwrap() + 3;
    for line in shown.lines().skip(2) {
        assert_eq!(line.chars().nth(end - 1), Some('·'), "{shown}");
    }
}

/// Neither what turns a line round, nor what is not seen, nor a line feed reaches a terminal from a
/// name: each is escaped, in the same way everywhere.
#[test]
fn names_show_all_of_their_characters() {
    let path = scratch().join("a\u{202e}b\nc\u{200b}");
    copy_program("/bin/cat", &path);
    let program = Waiting::start(&mut Command::new(&path));
    settle(program.0.id());
    let pid = program.pid();
    let escaped = r"a\u{202e}b\nc\u{200b}";
    let says = |told: &str| {
        assert!(told.contains(escaped), "{told}");
        assert!(!told.contains(['\u{202e}', '\u{200b}']), "{told}");
    };
    says(&text(&show(&[&pid])));
    // In maps, the kernel has escaped the line feed already.
    let maps = text(&show(&[&pid, "--maps"]));
    assert!(maps.contains(r"a\u{202e}b\012c\u{200b}"), "{maps}");
    says(&maps);
    let listed = text(&samara().args(["top", "--once"]).output().unwrap());
    let line = listed
        .lines()
        .find(|line| line.split_whitespace().next() == Some(&pid));
    says(line.unwrap());
    let list = samara().args(["top", "--json"]).output().unwrap();
    let list: Value = serde_json::from_str(&text(&list)).unwrap();
    let mut processes = list["processes"].as_array().unwrap().iter();
    let found = processes.find(|it| it["pid"] == program.0.id()).unwrap();
    assert_eq!(found["name"], "a\u{202e}b\nc\u{200b}");
    // What it is refused with, and what a trace and a replay tell of.
    let record = fresh("record");
    let options = ["--calls", "--record", record.to_str().unwrap()];
    let traced = trace_with(&options, &[path.as_path(), "/dev/null".as_ref()], scratch());
    traced.assert_agrees();
    says(&traced.stderr());
    let replayed = samara().arg("replay").arg(&record).output().unwrap();
    says(&String::from_utf8(replayed.stderr).unwrap());
    let mut ended = program;
    ended.0.kill().unwrap();
    while !fs::read_to_string(format!("/proc/{pid}/stat"))
        .unwrap()
        .contains(") Z ")
    {
        std::thread::yield_now();
    }
    for command in ["show", "core"] {
        let output = samara()
            .args([command, &pid])
            .args(["-o", "/dev/null"][..2 * usize::from(command == "core")].iter())
            .output()
            .unwrap();
        says(&String::from_utf8(output.stderr).unwrap());
    }
}

#[test]
fn a_reader_may_have_seen_enough() {
    if !has("sh") {
        return;
    }
    let cat = cat();
    let line = format!(
        "{} show --maps {} | true",
        env!("CARGO_BIN_EXE_samara"),
        cat.pid()
    );
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
}

#[test]
fn what_cannot_be_printed_is_told() {
    let cat = cat();
    let pid = cat.pid();
    for words in [
        &["show", &pid][..],
        &["show", &pid, "--json"],
        &["top", "--once"],
        &["show", "--help"],
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = samara().args(words).stdout(full).output().unwrap();
        refused(&output, "standard output cannot be written: No space left");
    }
}

#[test]
fn a_picture_or_a_list_but_not_both() {
    let cat = cat();
    let picture = fresh("picture").display().to_string();
    for list in ["--maps", "--smaps", "--gaps", "--tree", "--fork", "--json"] {
        let output = show(&[&cat.pid(), "--html", &picture, list]);
        refused(&output, "a picture is drawn, and nothing printed");
    }
    assert!(!fs::exists(&picture).unwrap());
}
