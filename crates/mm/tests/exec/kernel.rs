//! Starts programs in real children, stopped before their first instruction, and reads what the kernel made of them.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::FileExt;

use samara_linux::maps::format_line;
use samara_linux::proc;
use samara_linux::smaps::Smaps;
use samara_mm::VmFlags;

/// An executed file, and the process that executes it.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) path: String,
    pub(crate) arguments: Vec<Vec<u8>>,
    pub(crate) environment: Vec<Vec<u8>>,
    pub(crate) personality: u64,
    /// Soft limits: number and value.
    pub(crate) limits: Vec<(u32, u64)>,
}

/// One area of the new program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The line of maps, with single spaces.
    pub(crate) line: String,
    pub(crate) flags: VmFlags,
    /// It has private pages.
    pub(crate) written: bool,
}

/// A program at its first instruction.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) areas: Vec<Area>,
    pub(crate) start_stack: u64,
    pub(crate) data_size: u64,
    pub(crate) start_brk: u64,
    pub(crate) auxiliary: Vec<(u64, u64)>,
    pub(crate) instruction: u64,
    pub(crate) stack_pointer: u64,
    pub(crate) personality: u64,
    /// From the stack pointer to the end of its area.
    pub(crate) stack: Vec<u8>,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    /// The call failed with this error.
    Refused(i32),
    /// This signal came instead of a program.
    Killed(i32),
    Started(Box<State>),
}

/// Executes the subject.
pub(crate) fn execute(subject: &Subject) -> Outcome {
    let strings = |list: &[Vec<u8>]| -> Vec<CString> {
        list.iter()
            .map(|text| CString::new(text.as_slice()).unwrap())
            .collect()
    };
    let path = CString::new(subject.path.as_str()).unwrap();
    let (arguments, environment) = (strings(&subject.arguments), strings(&subject.environment));
    let pointers = |list: &[CString]| -> Vec<*const libc::c_char> {
        let all = list.iter().map(|text| text.as_ptr());
        all.chain([std::ptr::null()]).collect()
    };
    let (argv, envp) = (pointers(&arguments), pointers(&environment));
    // SAFETY: this process has one thread, and the child makes plain system calls only.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        // SAFETY: plain system calls on what was prepared before the fork; strings and arrays are terminated by zeros.
        unsafe {
            for &(number, value) in &subject.limits {
                let mut limit = libc::rlimit {
                    rlim_cur: 0,
                    rlim_max: 0,
                };
                libc::getrlimit(number, &raw mut limit);
                limit.rlim_cur = value;
                libc::setrlimit(number, &raw const limit);
            }
            libc::personality(subject.personality);
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr());
            libc::_exit(*libc::__errno_location());
        }
    }
    let mut status = 0;
    // SAFETY: waits for our own child.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    if libc::WIFEXITED(status) {
        return Outcome::Refused(libc::WEXITSTATUS(status));
    }
    if libc::WIFSIGNALED(status) {
        return Outcome::Killed(libc::WTERMSIG(status));
    }
    let outcome = match libc::WSTOPSIG(status) {
        libc::SIGTRAP => Outcome::Started(Box::new(read(child))),
        signal => Outcome::Killed(signal),
    };
    // SAFETY: ends our own child, and waits for it.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &raw mut status, 0);
    }
    outcome
}

fn read(child: i32) -> State {
    let mut state = State::default();
    let smaps = Smaps::of(child).unwrap();
    for (area, (flags, figures)) in smaps.map.areas().iter().zip(&smaps.told) {
        let name = String::from_utf8_lossy(smaps.map.name(area));
        let (range, id) = ((area.start, area.end), (area.major, area.minor, area.inode));
        let mut line = String::new();
        format_line(&mut line, range, area.perms, area.offset, id, &name).unwrap();
        state.areas.push(Area {
            start: area.start,
            end: area.end,
            line,
            flags: VmFlags::from_smaps(smaps.letters(*flags)),
            written: figures.anonymous != 0,
        });
    }

    let program = proc::layout(child).unwrap();
    state.start_stack = program.start_stack;
    state.data_size = program.data_size;
    state.start_brk = program.start_brk;
    state.personality = proc::personality(child).unwrap();

    // SAFETY: numbers of registers, all of them valid as zero.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    // SAFETY: the child is stopped, and `registers` has room for its registers.
    unsafe { libc::ptrace(libc::PTRACE_GETREGS, child, 0, &raw mut registers) };
    state.instruction = registers.rip;
    state.stack_pointer = registers.rsp;

    const CODE_64: u64 = 0x33;
    let bytes = fs::read(format!("/proc/{child}/auxv")).unwrap();
    let words: Vec<u64> = if registers.cs == CODE_64 {
        let word = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().unwrap());
        bytes.chunks_exact(8).map(word).collect()
    } else {
        let word = |chunk: &[u8]| u32::from_le_bytes(chunk.try_into().unwrap()).into();
        bytes.chunks_exact(4).map(word).collect()
    };
    state.auxiliary = words
        .chunks_exact(2)
        .map(|pair| (pair[0], pair[1]))
        .collect();
    let memory = fs::File::open(format!("/proc/{child}/mem")).unwrap();
    let start = state.stack_pointer;
    let area = state
        .areas
        .iter()
        .find(|area| (area.start..area.end).contains(&start));
    if let Some(area) = area {
        state.stack = vec![0; (area.end - start) as usize];
        // Of a file behind whose end the stack lies there is nothing to read.
        if memory.read_exact_at(&mut state.stack, start).is_err() {
            state.stack.clear();
        }
    }
    state
}

impl State {
    pub(crate) fn auxiliary(&self, kind: u64) -> u64 {
        let found = self.auxiliary.iter().find(|(key, _)| *key == kind);
        found.map_or(0, |(_, value)| *value)
    }
}
