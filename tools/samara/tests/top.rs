//! The list of processes: its figures are the kernel's, and it needs a terminal unless it is asked for once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod common;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use common::{copy_program, fresh, samara, scratch, settle};
use serde_json::Value;

struct Waiting(Child);

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn cat() -> Waiting {
    let child = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    settle(child.id());
    Waiting(child)
}

fn listed(command: &mut Command) -> Vec<Value> {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.is_empty(), "{told}");
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(list["max_map_count"].as_u64().unwrap() > 0);
    list["processes"].as_array().unwrap().clone()
}

fn of(list: &[Value], pid: u32) -> Value {
    let found = list.iter().find(|process| process["pid"] == pid);
    found
        .unwrap_or_else(|| panic!("{pid} is not listed"))
        .clone()
}

#[test]
fn figures_are_those_of_show() {
    let cat = cat();
    let pid = cat.0.id();
    let process = of(&listed(samara().args(["top", "--json"])), pid);
    let show = samara().args(["show", "--json", &pid.to_string()]).output();
    let show: Value = serde_json::from_slice(&show.unwrap().stdout).unwrap();
    assert_eq!(process["name"], "cat");
    let areas = show["areas"].as_array().unwrap();
    assert_eq!(process["mapped"]["areas"], areas.len());
    let gaps = show["gaps"].as_array().unwrap();
    assert_eq!(process["mapped"]["gaps"], gaps.len());
    // As the kernel prints it for people: with the page of old system calls.
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let lines = maps.lines().filter(|line| !line.contains("[vsyscall]"));
    assert_eq!(areas.len(), lines.count());
    // Estimates are of one order, though one of them has looked at every page.
    let (ours, shows) = (
        &process["mapped"]["fork"]["now_us"],
        &show["fork_estimate"]["now_us"],
    );
    let ratio = ours.as_f64().unwrap() / shows.as_f64().unwrap();
    assert!((0.5..2.0).contains(&ratio), "{ours} {shows}");
}

#[test]
fn the_list_is_sorted_and_printed_once() {
    let _cat = cat();
    let output = samara().args(["top", "--once", "--sort", "pid"]).output();
    let output = output.unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    let heading = lines.next().unwrap();
    for name in ["PID", "USER", "AREAS", "LEFT", "FRAGMENTS", "FORK", "NAME"] {
        assert!(heading.contains(name), "{text}");
    }
    let pid = |line: &str| line.split_whitespace().next().unwrap().parse::<i32>();
    let pids: Vec<i32> = lines.map(|line| pid(line).unwrap()).collect();
    assert!(pids.len() > 1 && pids.is_sorted(), "{text}");
}

/// As `ps` names them.
#[test]
fn each_process_has_its_user() {
    let cat = cat();
    let pid = cat.0.id().to_string();
    let ps = Command::new("ps")
        .args(["-o", "user:64=", "-p", &pid])
        .output();
    let Ok(ps) = ps else {
        eprintln!("skipped: this machine has no `ps`");
        return;
    };
    let user = String::from_utf8(ps.stdout).unwrap();
    let process = of(&listed(samara().args(["top", "--json"])), cat.0.id());
    assert_eq!(process["user"], user.trim());
    let output = samara().args(["top", "--once", "--sort", "user"]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let line = text.lines().map(|line| line.split_whitespace().collect());
    let mut lines = line.filter(|words: &Vec<&str>| words[0] == pid);
    assert_eq!(lines.next().unwrap()[1], user.trim());
}

#[test]
fn who_may_not_be_looked_at_is_listed_without_figures() {
    // SAFETY: asks only.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: needs root");
        return;
    }
    let cat = cat();
    let copy = fresh("samara");
    copy_program(env!("CARGO_BIN_EXE_samara"), &copy);
    for path in [scratch(), &copy] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(&copy);
    command.args(["top", "--json"]).uid(65534).gid(65534);
    let process = of(&listed(&mut command), cat.0.id());
    assert_eq!(
        (&process["name"], &process["mapped"]),
        (&"cat".into(), &Value::Null)
    );
    assert!(process["resident"].as_u64().unwrap() > 0);
}

#[test]
fn without_a_terminal_it_tells_what_to_do() {
    let output = samara().arg("top").stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        told.contains("needs a terminal: give --once or --json"),
        "{told}"
    );
    let output = samara().args(["top", "--delay", "0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// Both ends of a new terminal.
fn terminal(columns: u16, rows: u16) -> (File, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    let size = libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let (name, settings) = (std::ptr::null_mut(), std::ptr::null());
    // SAFETY: both numbers and the size are valid places; a name and settings are not wanted.
    let opened = unsafe { libc::openpty(&mut ours, &mut theirs, name, settings, &size) };
    assert_eq!(opened, 0);
    // SAFETY: the descriptors are new.
    unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) }
}

/// The contents of a terminal: handles the cursor's position and text, and ignores all else.
struct Screen {
    rows: Vec<Vec<char>>,
    at: (usize, usize),
    /// A command that has not ended yet.
    command: Option<String>,
    /// It was left for the one before.
    left: bool,
}

impl Screen {
    fn print(&mut self, c: char) {
        let Some(command) = &mut self.command else {
            if c == '\u{1b}' {
                self.command = Some(String::new());
            } else if let Some(cell) = self
                .rows
                .get_mut(self.at.0)
                .and_then(|row| row.get_mut(self.at.1))
            {
                *cell = c;
                self.at.1 += 1;
            }
            return;
        };
        command.push(c);
        if !c.is_ascii_alphabetic() {
            return;
        }
        if c == 'H' {
            let mut numbers = command
                .trim_matches(['[', 'H'])
                .split(';')
                .map(|n| n.parse().unwrap_or(1));
            let (row, column): (usize, usize) =
                (numbers.next().unwrap_or(1), numbers.next().unwrap_or(1));
            self.at = (row - 1, column - 1);
        }
        self.left |= command == "[?1049l";
        self.command = None;
    }

    fn shows(&self, what: &str) -> bool {
        self.rows
            .iter()
            .any(|row| row.iter().collect::<String>().contains(what))
    }
}

/// On a terminal it draws, takes keys, and leaves the terminal as it was.
#[test]
fn keys_work_on_a_terminal() {
    let (mut ours, theirs) = terminal(100, 30);
    let cat = cat();
    let mut child = samara()
        .args(["top", "--sort", "pid", "--delay", "0.2"])
        .env("TERM", "xterm-256color")
        .stdin(theirs.try_clone().unwrap())
        .stdout(theirs.try_clone().unwrap())
        .stderr(theirs)
        .spawn()
        .unwrap();
    let mut reader = std::io::BufReader::new(ours.try_clone().unwrap());
    let mut screen = Screen {
        rows: vec![vec![' '; 100]; 30],
        at: (0, 0),
        command: None,
        left: false,
    };
    let mut until = |what: &dyn Fn(&Screen) -> bool| {
        while !what(&screen) {
            // One character, of up to four bytes.
            let mut bytes = Vec::new();
            while std::str::from_utf8(&bytes).map_or(true, str::is_empty) {
                let mut byte = [0];
                // Fails once the program has ended.
                reader.read_exact(&mut byte).unwrap();
                bytes.push(byte[0]);
            }
            screen.print(std::str::from_utf8(&bytes).unwrap().chars().next().unwrap());
        }
    };
    until(&|screen| screen.shows("F10Quit") && screen.shows("PID△"));
    ours.write_all(b"?").unwrap();
    until(&|screen| screen.shows("Help: any key closes it"));
    ours.write_all(b"x").unwrap();
    until(&|screen| !screen.shows("any key closes it"));
    ours.write_all(b"/").unwrap();
    until(&|screen| screen.shows("Search: "));
    let pid = cat.0.id().to_string();
    ours.write_all(pid.as_bytes()).unwrap();
    until(&|screen| screen.shows(&format!("Search: {pid}")));
    ours.write_all(b"\r").unwrap();
    until(&|screen| screen.shows("F10Quit"));
    // What `samara show` tells of the one that was found.
    ours.write_all(b"\r").unwrap();
    until(&|screen| screen.shows(&format!("cat ({pid})")) && screen.shows("(vm.max_map_count)"));
    ours.write_all(b"x").unwrap();
    until(&|screen| screen.shows("F10Quit"));
    ours.write_all(b"q").unwrap();
    until(&|screen| screen.left);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// No memory is taken for the cells of a size that is a mistake.
#[test]
fn a_size_that_no_terminal_has_is_refused() {
    let (_ours, theirs) = terminal(u16::MAX, u16::MAX);
    let output = samara()
        .arg("top")
        .stdin(theirs.try_clone().unwrap())
        .stdout(theirs)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("65535 columns and 65535 rows"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

/// An empty `/proc` is no machine without processes.
#[test]
fn a_missing_proc_is_told() {
    let hidden = |words: &[&str]| {
        Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c"])
            .args(["mount -t tmpfs none /proc || exit 77; exec \"$@\"", "sh"])
            .arg(env!("CARGO_BIN_EXE_samara"))
            .args(words)
            .output()
    };
    for words in [
        &["top", "--once"][..],
        &["top", "--json"],
        &["show", "1"],
        &["core", "1", "-o", "/dev/null"],
        &["trace", "true"],
    ] {
        let Ok(output) = hidden(words) else { return };
        let told = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(77) || told.starts_with("unshare: ") {
            eprintln!("skipped: nothing can be mounted here");
            return;
        }
        assert_eq!(output.status.code(), Some(2), "{words:?}: {told}");
        assert!(output.stdout.is_empty());
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.contains("/proc is missing"), "{told}");
    }
}
