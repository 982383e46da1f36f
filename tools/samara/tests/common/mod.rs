//! Runs the real binary on real programs.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "test support, of which each file uses its own part"
)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

/// A folder of its own for each test process, removed at its end.
pub(crate) fn scratch() -> &'static Path {
    static FOLDER: OnceLock<(u32, TempDir)> = OnceLock::new();
    // What is static is not dropped. A child that a test has forked ends without the folder's.
    extern "C" fn remove() {
        if let Some((owner, folder)) = FOLDER.get()
            && *owner == std::process::id()
        {
            let _ = std::fs::remove_dir_all(folder.path());
        }
    }
    let (_, folder) = FOLDER.get_or_init(|| {
        // SAFETY: the function may be called at any time.
        assert_eq!(unsafe { libc::atexit(remove) }, 0);
        (std::process::id(), tempfile::tempdir().unwrap())
    });
    folder.path()
}

/// A path in the scratch folder that no other test uses.
pub(crate) fn fresh(name: &str) -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    scratch().join(format!("{number}-{name}"))
}

/// Copies a program that will be executed, in another process. While a thread of this process has
/// the copy open for writing, a child that another thread has just forked has it open, too. Until
/// that child executes something, the kernel refuses to execute the copy (`ETXTBSY`).
pub(crate) fn copy_program(from: impl AsRef<OsStr>, to: &Path) {
    let copied = Command::new("cp").arg(from.as_ref()).arg(to).status();
    assert!(copied.unwrap().success(), "{}", to.display());
}

/// Waits until all threads of a program sleep, in a read of its input or in `pause`: its memory
/// then stays the same.
pub(crate) fn settle(pid: u32) {
    until_all(pid, |call| {
        call.starts_with("0 0x0 ") || call.starts_with("34 ")
    });
}

/// Waits until all threads of a program are in one of these calls.
pub(crate) fn settle_in(pid: u32, calls: &[i64]) {
    until_all(pid, |call| {
        let number = call.split(' ').next().and_then(|word| word.parse().ok());
        number.is_some_and(|number| calls.contains(&number))
    });
}

/// Waits until what the kernel tells of the call of a thread (proc_pid_syscall(5)) is so of all threads of a process.
fn until_all(pid: u32, is_so: impl Fn(&str) -> bool) {
    let told = |task: std::io::Result<std::fs::DirEntry>| {
        // A thread may end at the same time.
        std::fs::read_to_string(task.unwrap().path().join("syscall"))
    };
    let tasks = || std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    while !tasks().all(|task| told(task).is_ok_and(|call| is_so(&call))) {
        std::thread::yield_now();
    }
}

/// The command line under test.
pub(crate) fn samara() -> Command {
    Command::new(env!("CARGO_BIN_EXE_samara"))
}

/// The same as a terminal starts it: what a shell starts in the background ignores interrupts, and so would the programs that are traced.
pub(crate) fn samara_in_front() -> Command {
    let mut command = samara();
    // SAFETY: between fork and exec nothing is called but `signal`, which may be.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    command
}

/// Returns `true` if there is such a program. Otherwise prints that the test is skipped.
pub(crate) fn has(program: &str) -> bool {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    });
    if !found {
        eprintln!("skipped: this machine has no `{program}`");
    }
    found
}

/// Returns the folder of the test programs, which has one folder for each theme.
pub(crate) fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// Returns the source of a test program, whatever its theme.
pub(crate) fn source(name: &str) -> PathBuf {
    let themes = fs::read_dir(programs()).unwrap().flatten();
    let mut places = themes.map(|theme| theme.path().join(name));
    let found = places.find(|place| place.is_file());
    found.unwrap_or_else(|| panic!("tests/programs has no {name}"))
}

/// Compiles a C program of `tests/programs`. Returns `None`, and says so, without a compiler.
pub(crate) fn compiled(name: &str) -> Option<PathBuf> {
    compiled_with(name, &[])
}

/// The same with options for the compiler.
pub(crate) fn compiled_with(name: &str, options: &[&str]) -> Option<PathBuf> {
    if !has("cc") {
        return None;
    }
    let out = fresh(name);
    let done = Command::new("cc")
        .args(["-O1", "-w", "-pthread", "-I"])
        .arg(programs().join("include"))
        .args(options)
        .arg("-o")
        .arg(&out)
        .arg(source(&format!("{name}.c")))
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    Some(out)
}

/// Builds a Go program of `tests/programs`; `None` (told) without Go.
pub(crate) fn built_by_go(name: &str) -> Option<PathBuf> {
    if !has("go") {
        return None;
    }
    let out = fresh(name);
    let done = Command::new("go")
        .args(["build", "-o"])
        .arg(&out)
        .arg(source(&format!("{name}.go")))
        .env("GOCACHE", fresh("go-cache"))
        .env("GOFLAGS", "-mod=mod")
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    Some(out)
}

/// The result of a traced run.
pub(crate) struct Traced {
    pub(crate) output: Output,
    pub(crate) summary: Value,
}

impl Traced {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        self.summary[name]
            .as_u64()
            .unwrap_or_else(|| panic!("no number {name} in {}", self.summary))
    }

    /// Every result, address and map was the kernel's.
    pub(crate) fn assert_agrees(&self) {
        assert_eq!(self.summary["agreed"], true, "{}", self.stderr());
        for name in [
            "wrong_results",
            "wrong_predictions",
            "wrong_maps",
            "broken_invariants",
        ] {
            assert_eq!(self.count(name), 0, "{name}: {}", self.stderr());
        }
        assert!(self.count("maps_compared") > 0, "no map was compared");
    }
}

/// Traces a program with some options, in the given folder.
pub(crate) fn trace_with<S: AsRef<OsStr>>(
    options: &[&str],
    program: &[S],
    folder: &Path,
) -> Traced {
    let json = fresh("summary.json");
    let output = samara()
        .arg("trace")
        .args(options)
        .arg("--json")
        .arg(&json)
        .arg("--")
        .args(program)
        .current_dir(folder)
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .unwrap();
    let summary = std::fs::read_to_string(&json)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or(Value::Null);
    Traced { output, summary }
}

/// Traces a program, maps compared after every call, and requires that all agrees and that it ends with `code`.
pub(crate) fn agrees_ending<S: AsRef<OsStr>>(program: &[S], code: i32) -> Traced {
    let traced = trace_with(&["--verify", "each"], program, scratch());
    traced.assert_agrees();
    assert_eq!(
        traced.output.status.code(),
        Some(code),
        "{}",
        traced.stderr()
    );
    traced
}

/// The same for a program that succeeds.
pub(crate) fn agrees<S: AsRef<OsStr>>(program: &[S]) -> Traced {
    agrees_ending(program, 0)
}
