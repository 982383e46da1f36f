//! Core files of live processes: read by others' tools, and byte by byte.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use common::{compiled_with, copy_program, fresh, has, samara, settle, settle_in};

struct Waiting(Child);

impl Waiting {
    fn start(command: &mut Command) -> Self {
        // Without restartable sequences: there the kernel notes in the program's memory which processor it is on.
        let child = command
            .env("GLIBC_TUNABLES", "glibc.pthread.rseq=0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        Waiting(child.unwrap())
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let out = self.0.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn core(pid: u32, to: &Path) -> Output {
    let pid = pid.to_string();
    let mut command = samara();
    command.args(["core", &pid, "-o"]).arg(to);
    command.output().unwrap()
}

/// The program that waits in a known function, where it has its bytes, and its core.
fn known() -> Option<(Waiting, PathBuf, Vec<u64>, PathBuf)> {
    let program = compiled_with("known", &["-g", "-O1", "-fno-omit-frame-pointer"])?;
    let mut waiting = Waiting::start(&mut Command::new(&program));
    let addresses = waiting
        .line()
        .split_whitespace()
        .map(|word| u64::from_str_radix(word, 16).unwrap())
        .collect();
    settle(waiting.0.id());
    let file = fresh("core");
    let output = core(waiting.0.id(), &file);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
    Some((waiting, program, addresses, file))
}

/// A load segment: flags, offset, address, bytes in the file and in memory.
type Load = (u32, u64, u64, u64, u64);

fn loads(file: &Path) -> Vec<Load> {
    let file = fs::File::open(file).unwrap();
    let number = |at: u64, size: usize| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes[..size], at).unwrap();
        u64::from_le_bytes(bytes)
    };
    let (headers, count) = (number(32, 8), number(56, 2));
    (0..count)
        .map(|i| headers + i * 56)
        .filter(|at| number(*at, 4) == 1)
        .map(|at| {
            let flags = number(at + 4, 4) as u32;
            let [offset, addr, in_file, in_memory] = [8, 16, 32, 40].map(|n| number(at + n, 8));
            (flags, offset, addr, in_file, in_memory)
        })
        .collect()
}

/// The bytes at an address, if the file has them.
fn bytes_at(core: &Path, address: u64, length: usize) -> Option<Vec<u8>> {
    let load = loads(core)
        .into_iter()
        .find(|load| (load.2..load.2 + load.3).contains(&address))?;
    let mut bytes = vec![0; length];
    let file = fs::File::open(core).unwrap();
    file.read_exact_at(&mut bytes, load.1 + address - load.2)
        .unwrap();
    Some(bytes)
}

#[test]
fn it_has_the_memory_that_the_process_had() {
    let Some((mut waiting, _, addresses, file)) = known() else {
        return;
    };
    let [pattern, sparse, secret, shared] = addresses[..] else {
        panic!("four addresses");
    };
    let at = |address| bytes_at(&file, address, 4096);
    assert_eq!(at(pattern), Some(vec![0x5a; 4096]));
    assert_eq!(at(sparse), Some(vec![0x11; 4096]));
    assert_eq!(at(sparse + 4096), Some(vec![0; 4096]));
    assert_eq!(at(sparse + (1 << 29)), Some(vec![0x22; 4096]));
    assert_eq!(at(shared + 5 * 4096), Some(vec![0x44; 4096]));
    assert_eq!(at(secret), None, "left out by MADV_DONTDUMP");
    // 1.25 GiB, of which there is little.
    let metadata = fs::metadata(&file).unwrap();
    assert!(metadata.len() > 5 << 28 && metadata.blocks() * 512 < 4 << 20);
    assert_eq!(metadata.mode() & 0o777, 0o600);
    // All dumped bytes are those of /proc/PID/mem. The program goes on, waiting.
    let pid = waiting.0.id();
    let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut compared = 0;
    for (_, _, addr, in_file, _) in loads(&file) {
        for page in (addr..addr + in_file).step_by(4096).take(300) {
            let mut expected = vec![0; 4096];
            if memory.read_exact_at(&mut expected, page).is_ok() {
                assert_eq!(at(page).unwrap(), expected, "{page:x}");
                compared += 1;
            }
        }
    }
    assert!(compared > 100, "{compared}");
    // Every area is there.
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let areas = maps.lines().filter(|line| !line.contains("[vsyscall]"));
    assert_eq!(loads(&file).len(), areas.count());
    // The program runs on.
    waiting.0.stdin.take().unwrap().write_all(b"x").unwrap();
    assert!(waiting.0.wait().unwrap().success());
}

#[test]
fn gdb_shows_where_it_was() {
    if !has("gdb") {
        return;
    }
    let Some((_waiting, program, addresses, file)) = known() else {
        return;
    };
    let output = Command::new("gdb")
        .args(["-nx", "-batch", "-ex", "thread apply all bt", "-ex"])
        .arg(format!("x/4xb {:#x}", addresses[0]))
        .args(["-ex", "print/x sparse[536870912]", "-ex", "info auxv"])
        .arg(&program)
        .arg(&file)
        .env_remove("DEBUGINFOD_URLS")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let told = String::from_utf8_lossy(&output.stderr);
    let frames = [
        " in innermost (",
        " in middle (",
        " in outermost (",
        " in main (",
    ];
    for name in frames {
        assert!(text.contains(name), "{name} is missing:\n{text}\n{told}");
    }
    assert!(frames.is_sorted_by_key(|name| text.find(name)), "{text}");
    assert!(text.contains("other_thread"), "{text}");
    assert!(text.contains("0x5a\t0x5a\t0x5a\t0x5a"), "{text}");
    assert!(text.contains("= 0x22"), "{text}");
    assert!(text.contains("AT_ENTRY"), "{text}");
    assert!(text.contains("Core was generated by"), "{text}");
    // Of what is listed there it says that of the kernel's core files, too.
    let listed =
        "warning: Can't open file /dev/zero (deleted) during file-backed mapping note processing";
    let told = told.replace(listed, "");
    for complaint in ["warning", "Cannot", "Couldn't", "corrupt", "truncated"] {
        assert!(
            !told.contains(complaint) && !text.contains(complaint),
            "{text}\n{told}"
        );
    }
}

#[test]
fn readelf_has_no_complaint() {
    let tools: Vec<_> = ["readelf", "eu-readelf"]
        .into_iter()
        .filter(|tool| has(tool))
        .collect();
    if tools.is_empty() {
        return;
    }
    let Some((_waiting, _, _, file)) = known() else {
        return;
    };
    for tool in tools {
        let output = Command::new(tool)
            .args(["-a", "-n"])
            .arg(&file)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && told.is_empty(), "{tool}: {told}");
        assert!(!text.to_lowercase().contains("warning"), "{tool} warns");
        for part in ["CORE", "PRSTATUS", "PRPSINFO", "AUXV", "FILE", "XSTATE"] {
            assert!(text.contains(part), "{tool}: no {part}");
        }
    }
}

/// Through a pipe goes the same file.
#[test]
fn a_core_goes_to_standard_output() {
    let Some((waiting, _, addresses, file)) = known() else {
        return;
    };
    let output = core(waiting.0.id(), Path::new("-"));
    assert!(output.status.success() && output.stderr.is_empty());
    let piped = fresh("core");
    fs::write(&piped, output.stdout).unwrap();
    assert_eq!(loads(&piped), loads(&file));
    for address in [addresses[0], addresses[1], addresses[1] + (1 << 29)] {
        let at = |file| bytes_at(file, address, 4096);
        assert_eq!(at(&piped), at(&file));
    }
}

#[test]
fn others_processes_and_files_are_refused() {
    let file = fresh("core");
    let refused = |output: Output, what: &str| {
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.contains(what), "{told}");
    };
    refused(core(999_999_999, &file), "there is no process");
    assert!(!file.exists());
    let cat = Waiting::start(&mut Command::new("cat"));
    refused(
        core(cat.0.id(), Path::new("/nowhere/core")),
        "cannot be written",
    );
    // Who is stopped already stays so.
    // SAFETY: a process of ours.
    unsafe { libc::kill(cat.0.id() as i32, libc::SIGSTOP) };
    let state = || fs::read_to_string(format!("/proc/{}/stat", cat.0.id())).unwrap();
    while !state().contains(") T ") {
        std::thread::yield_now();
    }
    assert!(core(cat.0.id(), &file).status.success());
    while !state().contains(") T ") {
        std::thread::yield_now();
    }
    // SAFETY: asks only.
    if unsafe { libc::geteuid() } == 0 {
        let copy = fresh("samara");
        copy_program(env!("CARGO_BIN_EXE_samara"), &copy);
        let public = |path: &Path| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(path, mode).unwrap();
        };
        public(common::scratch());
        public(&copy);
        let mut command = Command::new(&copy);
        command.args(["core", &cat.0.id().to_string(), "-o", "/tmp/never-written"]);
        refused(
            command.uid(65534).gid(65534).output().unwrap(),
            "may not be looked at",
        );
    }
}

/// Returns gdb's output for a core, with some commands.
fn gdb(program: &Path, core: &Path, commands: &[&str]) -> String {
    // What a distribution's scripts for the program would say is of no matter.
    let mut command = Command::new("gdb");
    command.args(["-nx", "-batch", "-iex", "set auto-load no"]);
    for words in commands {
        command.args(["-ex", words]);
    }
    let output = command.arg(program).arg(core).env_remove("DEBUGINFOD_URLS");
    let output = output.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    format!("{text}{}", String::from_utf8_lossy(&output.stderr))
}

/// The calls in which programs and libraries wait.
const WAITS: [i64; 7] = [
    libc::SYS_read,
    libc::SYS_pause,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_futex,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
];

/// A program that waits, its core looked at by all three tools, and what gdb says.
fn looked_at(name: &str, command: &mut Command, ready: bool) -> (Waiting, String) {
    let mut waiting = Waiting::start(command);
    if ready {
        assert_eq!(waiting.line(), "ready\n", "{name}");
    }
    let pid = waiting.0.id();
    let file = fresh(name);
    // It may still be on its way from saying so to waiting.
    settle_in(pid, &WAITS);
    let output = core(pid, &file);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name}: {told}");
    for tool in ["readelf", "eu-readelf"] {
        if !has(tool) {
            continue;
        }
        let mut command = Command::new(tool);
        let output = command.args(["-h", "-l", "-n"]).arg(&file).output();
        let output = output.unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && complaint.is_empty(),
            "{name}, {tool}: {complaint}"
        );
    }
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    let commands = [
        "thread apply all bt 30",
        "info threads",
        "x/2i $pc",
        "x/4xg $sp",
    ];
    let said = gdb(&program, &file, &commands);
    for complaint in ["Cannot access", "Couldn't", "truncated", "past end of file"] {
        assert!(!said.contains(complaint), "{name}: {said}");
    }
    assert!(said.contains("#1 "), "{name}: {said}");
    fs::remove_file(file).unwrap();
    (waiting, said)
}

#[test]
fn programs_of_many_kinds_have_cores() {
    if !has("gdb") {
        return;
    }
    if has("sleep") {
        looked_at("sleep", Command::new("sleep").arg("1000"), false);
    }
    if has("python3") {
        let program = "import threading\ne = threading.Event()\nfor _ in range(6): threading.Thread(target=e.wait, daemon=True).start()\nprint('ready', flush=True)\ne.wait()";
        let (_waiting, said) = looked_at(
            "python",
            Command::new("python3").args(["-c", program]),
            true,
        );
        assert!(said.contains("Thread 7 "), "{said}");
    }
    if let Some(program) = compiled_with("in_handler", &["-g", "-fno-omit-frame-pointer"]) {
        let (_waiting, said) = looked_at("handler", &mut Command::new(program), true);
        for frame in [
            " handler (",
            "<signal handler called>",
            " raises (",
            " main (",
        ] {
            assert!(said.contains(frame), "{frame}: {said}");
        }
    }
    if has("node") {
        let program = "console.log('ready'); setInterval(() => {}, 1e6)";
        looked_at("node", Command::new("node").args(["-e", program]), true);
    }
}

/// Sanitizers reserve more than a file can have: parts at the ends that were never written are left
/// out then.
#[test]
fn programs_with_terabytes_of_shadow_have_cores() {
    if !has("gdb") {
        return;
    }
    for sanitizer in ["address", "thread"] {
        let option = format!("-fsanitize={sanitizer}");
        let options = [&option[..], "-g", "-fno-omit-frame-pointer"];
        // Not every machine has the libraries.
        let probe = fresh("probe");
        let mut command = Command::new("cc");
        command.args(["-x", "c", &option, "-o"]).arg(&probe);
        let probed = command.arg("-").stdin(Stdio::null()).output();
        let linked =
            |output: Output| !String::from_utf8_lossy(&output.stderr).contains("cannot find");
        if !probed.is_ok_and(linked) {
            eprintln!("skipped: no sanitizer `{sanitizer}`");
            continue;
        }
        let Some(program) = compiled_with("checked", &options) else {
            return;
        };
        let (waiting, said) = looked_at(sanitizer, &mut Command::new(program), true);
        // Where zeroes take as long as other bytes, terabytes are not written.
        let output = core(waiting.0.id(), Path::new("/dev/null"));
        let told = String::from_utf8_lossy(&output.stderr);
        let told_so = ["left out", "give --output a file"];
        assert!(told_so.iter().any(|what| told.contains(what)), "{told}");
        for frame in [" waits (", " main ("] {
            assert!(said.contains(frame), "{frame}: {said}");
        }
    }
}

/// A recording has all areas, and the memory that no process could write to.
#[test]
fn a_recording_has_a_core_of_what_is_known() {
    let record = fresh("record");
    let options = ["--verify", "each", "--record", record.to_str().unwrap()];
    let traced = common::trace_with(&options, &["ls", "/"], common::scratch());
    traced.assert_agrees();
    for subject in [
        record.display().to_string(),
        format!("{}@10", record.display()),
    ] {
        let file = fresh("core");
        let output = samara().args(["core", &subject, "-o"]).arg(&file).output();
        let output = output.unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
        assert!(
            told.lines().count() == 1
                && told.contains("what could be written is not in a recording"),
            "{told}"
        );
        let loads = loads(&file);
        assert!(loads.len() > 10);
        // Texts are in their files, and those are still what they were; data can be written, and is left out.
        let text = loads
            .iter()
            .filter(|load| load.0 == 5 && load.3 > 0)
            .count();
        assert!(text > 0, "{loads:x?}");
        assert!(
            loads.iter().any(|load| load.0 == 6 && load.3 == 0),
            "{loads:x?}"
        );
        let (_, offset, ..) = loads.iter().find(|load| load.0 == 4 && load.3 > 0).unwrap();
        let mut magic = [0; 4];
        let core = fs::File::open(&file).unwrap();
        core.read_exact_at(&mut magic, *offset).unwrap();
        assert_eq!(&magic, b"\x7fELF");
        for tool in ["readelf", "eu-readelf"] {
            if has(tool) {
                let output = Command::new(tool).args(["-a"]).arg(&file).output().unwrap();
                let complaint = String::from_utf8_lossy(&output.stderr);
                assert!(
                    output.status.success() && complaint.is_empty(),
                    "{complaint}"
                );
            }
        }
    }
    let beyond = format!("{}@99999", record.display());
    let output = samara().args(["core", &beyond, "-o", "/dev/null"]).output();
    assert_eq!(output.unwrap().status.code(), Some(2));
    let own = record.to_str().unwrap();
    let output = samara().args(["core", own, "-o", own]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("name one file"), "{told}");
}

/// Returns eu-readelf's output for each note: its kind with its size, and the lines below.
fn notes(core: &Path) -> Vec<(String, Vec<String>)> {
    let output = Command::new("eu-readelf").arg("-n").arg(core).output();
    let output = output.unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let mut notes: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Owners are at a column of their own.
        let is_head = line.starts_with("  ") && !line.starts_with("   ") && words[0] != "Owner";
        if is_head {
            notes.push((words.join(" "), Vec::new()));
        } else if let Some((_, lines)) = notes.last_mut() {
            lines.push(words.join(" "));
        }
    }
    notes
}

/// Note by note what gdb's `gcore` writes, and the kernel, of which gdb leaves out areas whose
/// inode is 0.
#[test]
fn notes_are_those_of_gcore() {
    if !has("gcore") || !has("eu-readelf") {
        return;
    }
    let Some(program) = compiled_with("shared_kinds", &[]) else {
        return;
    };
    let mut waiting = Waiting::start(&mut Command::new(program));
    assert_eq!(waiting.line(), "ready\n");
    let pid = waiting.0.id();
    settle(pid);
    let file = fresh("core");
    let output = core(pid, &file);
    assert!(output.status.success() && output.stderr.is_empty());
    let prefix = fresh("gcore");
    let made = Command::new("gcore")
        .arg("-o")
        .arg(&prefix)
        .arg(pid.to_string())
        .env_remove("DEBUGINFOD_URLS")
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let gcores = format!("{}.{pid}", prefix.display());
    let (mut ours, mut theirs) = (notes(&file), notes(Path::new(&gcores)));
    // What it says of its own kind of machine description.
    theirs.retain(|(head, _)| !head.starts_with("GDB "));
    let listed = |notes: &mut Vec<(String, Vec<String>)>| -> Vec<String> {
        let at = notes.iter().position(|(head, _)| head.ends_with(" FILE"));
        let (_, mut lines) = notes.remove(at.expect("files are listed"));
        assert_eq!(lines.remove(0), format!("{} files:", lines.len()));
        let place_and_name = |line: String| {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            format!("{} {}", words[0], words[3])
        };
        lines.into_iter().map(place_and_name).collect()
    };
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mapped = |line: &str| {
        let (range, _) = line.split_once(' ')?;
        let name = &line[line.find('/')?..];
        Some((format!("{range} {name}"), line.contains(":01 0 ")))
    };
    let mapped: Vec<(String, bool)> = maps.lines().filter_map(mapped).collect();
    let kernels: Vec<&String> = mapped.iter().map(|(line, _)| line).collect();
    let (ours_listed, theirs_listed) = (listed(&mut ours), listed(&mut theirs));
    assert_eq!(ours_listed.iter().collect::<Vec<_>>(), kernels);
    let numbered = mapped.iter().filter(|(_, unnumbered)| !unnumbered);
    let numbered: Vec<&String> = numbered.map(|(line, _)| line).collect();
    assert_eq!(theirs_listed.iter().collect::<Vec<_>>(), numbered);
    for name in [
        "/dev/zero (deleted)",
        "/memfd:in memory (deleted)",
        "/dev/zero",
    ] {
        assert!(
            ours_listed
                .iter()
                .any(|line| line.ends_with(&format!(" {name}"))),
            "{name}"
        );
    }
    let segments = ours_listed.iter().filter(|line| line.contains(" /SYSV"));
    assert_eq!(segments.count(), 2);
    // All others are the same, but that gdb does not fill in some fields, and has another order.
    let rest = |notes: Vec<(String, Vec<String>)>| {
        let known = |line: &String| {
            !line.starts_with("mxcsr:") && !line.contains("ppid: ") && !line.contains("fpvalid: ")
        };
        let mut notes: Vec<(String, Vec<String>)> = notes
            .into_iter()
            .map(|(head, lines)| (head, lines.into_iter().filter(known).collect()))
            .collect();
        notes.sort();
        notes
    };
    let (ours, theirs) = (rest(ours), rest(theirs));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());
    let told = ours.iter().filter(|(head, _)| head.ends_with(" SIGINFO"));
    assert_eq!(told.count(), 2);
}
