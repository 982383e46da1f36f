//! The child process that becomes the traced program, from its creation to its `execve`.
//!
//! The child shares the tracer's memory, as after `vfork`, except that the tracer continues
//! concurrently. Copies of page tables, and of the pages that either side then writes, would take a
//! tenth of the time in which a short program is traced. Sharing has a price, which this file pays
//! in one place:
//!
//! - The memory that the child reads stays forever ([`start`] leaks it), because the tracer may
//!   give up while the child still runs here.
//! - The child has a stack of its own, and writes no other memory. It calls the kernel directly:
//!   the C library stores errors in `errno`, which the child shares with the tracer's thread.
//! - No handler of the tracer can run in the child. The handlers for outside signals are installed
//!   after the child was made, and for the tracer alone.

use std::arch::asm;
use std::ffi::CString;
use std::io;
use std::os::fd::RawFd;

use samara_linux::Tid;

use super::filter::Filter;
use crate::streams;

/// Steps of the child that can fail. The child writes the step and an error number.
pub(crate) const INSTALL: u8 = 1;
pub(crate) const EXECUTE: u8 = 2;

/// Bytes of the child's stack.
const STACK: usize = 16 << 10;

unsafe extern "C" {
    /// The environment that this program was given. This program does not change it.
    static environ: *const *const libc::c_char;
}

/// The child's input. Everything that allocates memory happens before the child is made.
pub(crate) struct Child {
    pub(crate) path: CString,
    /// The first is the program's name.
    pub(crate) arguments: Vec<CString>,
    pub(crate) filter: Filter,
    pub(crate) no_new_privileges: bool,
    /// The disposition of each signal of [`streams::OF_WRITING`].
    pub(crate) signals: [libc::sighandler_t; 2],
    /// The limit on descriptors before it was raised.
    pub(crate) descriptors: Option<libc::rlimit>,
    /// For each standard stream: `true` if it was closed.
    pub(crate) closed: [bool; 3],
    /// The child waits here for a byte. If none comes, the tracer is gone or could not attach.
    pub(crate) go: RawFd,
    /// The tracer's end of it, which is open in the child, too.
    pub(crate) go_tracer: RawFd,
    pub(crate) failure: RawFd,
}

impl Child {
    /// Runs everything up to the new program. Returns only if a step fails: the step, and its error
    /// number.
    fn execute(&self, arguments: &[*const libc::c_char]) -> (u8, i32) {
        let [go, go_tracer] = [self.go, self.go_tracer].map(|descriptor| descriptor as usize);
        let mut byte = 0u8;
        // SAFETY: this process does not use the tracer's descriptor. `byte` has room for one byte.
        let told = unsafe {
            // The child must see the end of the pipe if the tracer dies.
            let _ = call(libc::SYS_close, [go_tracer, 0, 0, 0, 0]);
            call(libc::SYS_read, [go, &raw mut byte as usize, 1, 0, 0])
        };
        if told != Ok(1) {
            exit();
        }
        for (signal, handler) in streams::OF_WRITING.into_iter().zip(self.signals) {
            // The kernel's own structure: handler, flags, restorer, mask.
            let action = [handler, 0, 0, 0];
            let action = (&raw const action) as usize;
            // SAFETY: the call reads `action`. Eight is the length of the kernel's mask in bytes.
            let _ = unsafe { call(libc::SYS_rt_sigaction, [signal as usize, action, 0, 8, 0]) };
        }
        if let Some(limit) = &self.descriptors {
            let resource = libc::RLIMIT_NOFILE as usize;
            let limit = std::ptr::from_ref(limit) as usize;
            // SAFETY: the call reads the limit, and sets that of this process.
            let _ = unsafe { call(libc::SYS_prlimit64, [0, resource, limit, 0, 0]) };
        }
        for (stream, _) in self
            .closed
            .iter()
            .enumerate()
            .filter(|(_, closed)| **closed)
        {
            // SAFETY: the runtime opened this stream because it was closed. The child does not use
            // it.
            let _ = unsafe { call(libc::SYS_close, [stream, 0, 0, 0, 0]) };
        }
        if let Err(error) = self.install() {
            return (INSTALL, error);
        }
        let (path, arguments) = (self.path.as_ptr(), arguments.as_ptr());
        // SAFETY: the path and both arrays are zero-terminated, and stay forever.
        let executed = unsafe {
            call(
                libc::SYS_execve,
                [path as usize, arguments as usize, environ as usize, 0, 0],
            )
        };
        (EXECUTE, executed.err().unwrap_or(0))
    }

    /// Installs the filter for this process and the programs that it will start.
    ///
    /// Unless `no_new_privileges` is set, this needs `CAP_SYS_ADMIN`, and set-user-ID programs keep
    /// working.
    fn install(&self) -> Result<(), i32> {
        if self.no_new_privileges {
            let set = libc::PR_SET_NO_NEW_PRIVS as usize;
            // SAFETY: PR_SET_NO_NEW_PRIVS takes only integers.
            unsafe { call(libc::SYS_prctl, [set, 1, 0, 0, 0]) }?;
        }
        let program = self.filter.program();
        let program = (&raw const program) as usize;
        let (set, flags) = (
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
        );
        // SAFETY: `program` describes the filter, which outlives the call. The kernel copies it and
        // does not write to it.
        unsafe {
            call(
                libc::SYS_seccomp,
                [set as usize, flags as usize, program, 0, 0],
            )
        }?;
        Ok(())
    }
}

/// Makes the child, which waits for its byte. As after `fork`, it is a child of the calling thread,
/// with its own descriptors, signal actions and limits.
pub(crate) fn start(child: Child) -> io::Result<Tid> {
    let last = std::iter::once(std::ptr::null());
    let arguments = child.arguments.iter().map(|argument| argument.as_ptr());
    let prepared: &'static Prepared = Box::leak(Box::new(Prepared {
        arguments: arguments.chain(last).collect(),
        child,
    }));
    let stack = Box::leak(vec![0u128; STACK / size_of::<u128>()].into_boxed_slice());
    let top = stack.as_mut_ptr_range().end;
    // SAFETY: from here on the stack belongs to the child alone, and `prepared` is never written
    // again. The child keeps to the rules at the head of this file. It ends by `execve` or `exit`,
    // so it never returns into this function.
    let tid = unsafe {
        libc::clone(
            run,
            top.cast(),
            libc::CLONE_VM | libc::SIGCHLD,
            std::ptr::from_ref(prepared).cast_mut().cast(),
        )
    };
    match tid {
        -1 => Err(io::Error::last_os_error()),
        tid => Ok(tid),
    }
}

/// A child, and its arguments in the kernel's form.
struct Prepared {
    child: Child,
    arguments: Vec<*const libc::c_char>,
}

extern "C" fn run(prepared: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `start` passes memory that stays forever and is never written.
    let Prepared { child, arguments } = unsafe { &*prepared.cast_const().cast::<Prepared>() };
    let (step, error) = child.execute(arguments);
    let [a, b, c, d] = error.to_le_bytes();
    let message = [step, a, b, c, d];
    let (at, length) = ((&raw const message) as usize, message.len());
    // SAFETY: the call reads `message`.
    let _ = unsafe { call(libc::SYS_write, [child.failure as usize, at, length, 0, 0]) };
    exit()
}

fn exit() -> ! {
    loop {
        // SAFETY: the call ends this process, and runs no handlers of the tracer.
        let _ = unsafe { call(libc::SYS_exit_group, [127, 0, 0, 0, 0]) };
    }
}

/// Makes a system call without touching `errno`. Returns its value, or an error number.
///
/// # Safety
/// The duties of the system call itself.
unsafe fn call(number: libc::c_long, [a, b, c, d, e]: [usize; 5]) -> Result<usize, i32> {
    let result: isize;
    // SAFETY: by x86-64's convention the kernel changes `rax`, `rcx` and `r11`. It changes memory
    // only as the call specifies, which is the caller's duty.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    match result {
        -4095..0 => Err(-result as i32),
        value => Ok(value as usize),
    }
}
