//! Finds the program and starts it under the filter. The program is held until the tracer has
//! attached.
//!
//! The child inherits everything: standard streams, terminal and process group, signal mask,
//! limits, environment.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use samara_linux::Tid;
use samara_linux::proc;
use samara_linux::ptrace::{self, Pace};

use super::child::{self, Child, INSTALL};
use super::filter::Filter;
use crate::streams;

/// The reason for which a program cannot be traced: one line that says what to do.
#[derive(Debug)]
pub struct Refusal(
    /// The line.
    pub String,
);

/// A program that has been started and attached to, and runs on into its `execve`.
pub(crate) struct Launched {
    pub(crate) tid: Tid,
    /// The step that failed in the child and an error number, if one failed.
    failure: File,
    pub(crate) no_new_privileges: bool,
}

/// Returns the file that `program` names: itself if it has a slash, otherwise the first executable
/// one in `PATH`.
///
/// # Errors
/// The reason for which it cannot be started.
pub fn find(program: &OsStr) -> Result<PathBuf, Refusal> {
    let shown = program.display();
    if program.is_empty() {
        return Err(Refusal("no program given; name one after `--`".into()));
    }
    if program.as_bytes().contains(&b'/') {
        let path = PathBuf::from(program);
        examine(&path)?;
        return Ok(path);
    }
    let search = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    let mut refused = None;
    for folder in std::env::split_paths(&search) {
        let path = folder.join(program);
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => match examine(&path) {
                Ok(()) => return Ok(path),
                Err(why) => refused = refused.or(Some(why)),
            },
            _ => {}
        }
    }
    Err(refused.unwrap_or_else(|| {
        Refusal(format!(
            "`{shown}` is not in PATH: check the spelling, or give the path of the program"
        ))
    }))
}

/// Refuses a file that could not run, in words.
fn examine(path: &Path) -> Result<(), Refusal> {
    let shown = path.display();
    let metadata = fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Refusal(format!(
            "`{shown}` does not exist: check the path of the program"
        )),
        _ => Refusal(format!("`{shown}` cannot be examined: {error}")),
    })?;
    if metadata.is_dir() {
        return Err(Refusal(format!(
            "`{shown}` is a directory: name a program in it"
        )));
    }
    let path_c = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Refusal(format!("`{shown}` has a zero byte in its name")))?;
    // SAFETY: `path_c` ends with a zero byte.
    let allowed = unsafe { libc::access(path_c.as_ptr(), libc::X_OK) } == 0;
    if !allowed || metadata.permissions().mode() & 0o111 == 0 {
        return Err(Refusal(format!(
            "`{shown}` is not executable: make it so with `chmod +x`, or name an interpreter before it"
        )));
    }
    let mut head = [0u8; 20];
    let known = File::open(path).and_then(|mut file| {
        let mut filled = 0;
        while filled < head.len() {
            match file.read(&mut head[filled..])? {
                0 => break,
                n => filled += n,
            }
        }
        Ok(filled)
    });
    // A program may be executable but not readable. Then the kernel decides.
    let Ok(filled) = known else { return Ok(()) };
    let head = &head[..filled];
    if head.starts_with(b"\x7fELF") {
        refuse_other_machines(head).map_err(|what| {
            Refusal(format!(
                "`{shown}` is {what}: only programs for x86-64 and i386 can be traced"
            ))
        })
    } else {
        Ok(())
    }
}

/// Checks the start of an ELF file. An `Err` names the kind of an unsupported program.
pub(crate) fn refuse_other_machines(head: &[u8]) -> Result<(), &'static str> {
    const X86_64: u16 = 62;
    const I386: u16 = 3;
    let machine = match head {
        [_, _, _, _, class, data, ..] if *data != 1 => {
            return Err(if *class == 1 {
                "a 32-bit program for a big-endian machine"
            } else {
                "a program for a big-endian machine"
            });
        }
        [.., low, high] if head.len() == 20 => u16::from_le_bytes([*low, *high]),
        _ => return Err("cut short"),
    };
    match (machine, head.get(4)) {
        (X86_64, Some(2)) | (I386, Some(1)) => Ok(()),
        (X86_64, _) => Err("an x32 program"),
        _ => Err("a program for another machine"),
    }
}

/// Reads the first bytes of the program that a process runs.
pub(crate) fn read_head(tid: Tid, head: &mut [u8; 20]) -> Option<()> {
    File::open(format!("/proc/{tid}/exe"))
        .ok()?
        .read_exact(head)
        .ok()
}

fn pipe() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened both for this process alone.
    let (read, write) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    Ok((File::from(read), File::from(write)))
}

/// Starts `path` with `arguments`, whose first is its name. It is traced and filtered from its
/// first instruction on.
pub(crate) fn launch(
    path: &Path,
    arguments: &[OsString],
    closed: [bool; 3],
) -> io::Result<Launched> {
    let zero = |_| io::Error::new(io::ErrorKind::InvalidInput, "an argument has a zero byte");
    let path = CString::new(path.as_os_str().as_bytes()).map_err(zero)?;
    let arguments = arguments
        .iter()
        .map(|argument| CString::new(argument.as_bytes()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(zero)?;
    let no_new_privileges = !privileged();
    let (go_read, mut go_write) = pipe()?;
    let (failure_read, failure_write) = pipe()?;
    let tid = child::start(Child {
        path,
        arguments,
        filter: Filter::new(),
        no_new_privileges,
        signals: streams::signals_at_start(),
        descriptors: more_descriptors(),
        closed,
        go: go_read.as_raw_fd(),
        go_tracer: go_write.as_raw_fd(),
        failure: failure_write.as_raw_fd(),
    })?;
    drop((go_read, failure_write));
    if let Err(error) = ptrace::seize(tid, Pace::Filtered) {
        // SAFETY: `tid` is our own child, which waits for the byte that never comes.
        unsafe { libc::kill(tid, libc::SIGKILL) };
        let _ = ptrace::wait(tid, false);
        return Err(io::Error::new(
            error.kind(),
            format!(
                "the kernel does not let this process trace its child ({error}): allow ptrace, or run as root"
            ),
        ));
    }
    go_write.write_all(&[1])?;
    set_nonblocking(&failure_read)?;
    Ok(Launched {
        tid,
        failure: failure_read,
        no_new_privileges,
    })
}

/// Raises the soft limit on descriptors to the hard one, because each address space takes two.
/// Returns the former limit if it has changed.
pub(crate) fn more_descriptors() -> Option<libc::rlimit> {
    let mut before = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `before` is a valid place for the answer.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut before) } != 0
        || before.rlim_cur == before.rlim_max
    {
        return None;
    }
    let raised = libc::rlimit {
        rlim_cur: before.rlim_max,
        ..before
    };
    // SAFETY: the call reads `raised`.
    (unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } == 0).then_some(before)
}

fn set_nonblocking(file: &File) -> io::Result<()> {
    // SAFETY: the call takes integers and a descriptor that `file` keeps open.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Returns `true` if this process may install a filter without disabling set-user-ID programs
/// (`CAP_SYS_ADMIN`).
fn privileged() -> bool {
    const SYS_ADMIN: u32 = 21;
    proc::capabilities(0).is_ok_and(|capabilities| capabilities >> SYS_ADMIN & 1 == 1)
}

impl Launched {
    /// Returns the reason why the child ended without `execve`.
    pub(crate) fn failure(&mut self, path: &Path) -> Refusal {
        let shown = path.display();
        let mut message = [0; 5];
        if self.failure.read_exact(&mut message).is_err() {
            return Refusal(format!("`{shown}` was ended before it started"));
        }
        let [step, a, b, c, d] = message;
        let error = i32::from_le_bytes([a, b, c, d]);
        let text = io::Error::from_raw_os_error(error);
        Refusal(match (step, error) {
            (INSTALL, _) => format!("the kernel refused the seccomp filter: {text}"),
            (_, libc::ENOEXEC) => format!(
                "`{shown}` is not a program (neither ELF nor a script with `#!`): name its interpreter before it"
            ),
            (_, libc::ENOENT) => {
                format!("`{shown}` asks for an interpreter that does not exist: install it")
            }
            (_, libc::E2BIG) => {
                format!("`{shown}`: {text}: shorten the arguments or the environment")
            }
            _ => format!("`{shown}` could not be started: {text}"),
        })
    }
}
