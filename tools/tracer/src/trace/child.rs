//! The process that becomes the traced program, from its creation to its `execve`.
//!
//! It shares the tracer's memory, as a child of `vfork` does, except that the tracer runs on.
//! Copies of page tables, and of each page that either process then writes, would take a tenth of
//! the time in which a short program is traced. Sharing has a price, which this file pays in one
//! place:
//!
//! - What the child reads stays for good ([`start`] leaks it): the tracer may give up while the child is still on its way.
//! - The child has a stack of its own, and writes nothing else. It calls the kernel directly, since the C library notes errors in the `errno`
//!   of the tracer's thread, whose thread-local memory the child shares.
//! - No handler of the tracer can run in the child: those for signals from outside are installed after the child was made, and for the tracer
//!   alone.

use std::arch::asm;
use std::ffi::CString;
use std::io;
use std::os::fd::RawFd;

use samara_linux::Tid;

use super::filter::Filter;
use crate::streams;

/// Steps of the child that can fail; it writes the step and an error number.
pub(crate) const INSTALL: u8 = 1;
pub(crate) const EXECUTE: u8 = 2;

/// Bytes of the child's stack.
const STACK: usize = 16 << 10;

unsafe extern "C" {
    /// The environment as this program was given it, which it does not change.
    static environ: *const *const libc::c_char;
}

/// The child's arguments. Everything that allocates is done before the child is made.
pub(crate) struct Child {
    pub(crate) path: CString,
    /// The first is the program's name.
    pub(crate) arguments: Vec<CString>,
    pub(crate) filter: Filter,
    pub(crate) no_new_privileges: bool,
    /// The action for each signal of [`streams::OF_WRITING`].
    pub(crate) signals: [libc::sighandler_t; 2],
    /// The limit on descriptors before it was raised.
    pub(crate) descriptors: Option<libc::rlimit>,
    /// For each standard stream, `true` if it was closed.
    pub(crate) closed: [bool; 3],
    /// The child waits here for a byte: without it, the tracer is gone or could not attach.
    pub(crate) go: RawFd,
    /// The tracer's end of it, open in the child too.
    pub(crate) go_tracer: RawFd,
    pub(crate) failure: RawFd,
}

impl Child {
    /// Everything up to the new program. Comes back only with the step that failed, and its error number.
    fn execute(&self, arguments: &[*const libc::c_char]) -> (u8, i32) {
        let [go, go_tracer] = [self.go, self.go_tracer].map(|descriptor| descriptor as usize);
        let mut byte = 0u8;
        // SAFETY: the descriptor of the tracer is not used in this process; `byte` has room for what is read.
        let told = unsafe {
            // The end of the pipe must be seen if the tracer dies.
            let _ = call(libc::SYS_close, [go_tracer, 0, 0, 0, 0]);
            call(libc::SYS_read, [go, &raw mut byte as usize, 1, 0, 0])
        };
        if told != Ok(1) {
            exit();
        }
        for (signal, handler) in streams::OF_WRITING.into_iter().zip(self.signals) {
            // The kernel's own form: handler, flags, what returns from it, mask.
            let action = [handler, 0, 0, 0];
            let action = (&raw const action) as usize;
            // SAFETY: reads `action`; the eight bytes are the length of the kernel's mask.
            let _ = unsafe { call(libc::SYS_rt_sigaction, [signal as usize, action, 0, 8, 0]) };
        }
        if let Some(limit) = &self.descriptors {
            let resource = libc::RLIMIT_NOFILE as usize;
            let limit = std::ptr::from_ref(limit) as usize;
            // SAFETY: reads the limit, for this process.
            let _ = unsafe { call(libc::SYS_prlimit64, [0, resource, limit, 0, 0]) };
        }
        for (stream, _) in self
            .closed
            .iter()
            .enumerate()
            .filter(|(_, closed)| **closed)
        {
            // SAFETY: the runtime opened this stream, which was closed. No code in the child uses
            // it.
            let _ = unsafe { call(libc::SYS_close, [stream, 0, 0, 0, 0]) };
        }
        if let Err(error) = self.install() {
            return (INSTALL, error);
        }
        let (path, arguments) = (self.path.as_ptr(), arguments.as_ptr());
        // SAFETY: the path and both arrays are zero-terminated and stay for good.
        let executed = unsafe {
            call(
                libc::SYS_execve,
                [path as usize, arguments as usize, environ as usize, 0, 0],
            )
        };
        (EXECUTE, executed.err().unwrap_or(0))
    }

    /// Puts the filter on this process and what it will start.
    ///
    /// Unless `no_new_privileges` is set this needs `CAP_SYS_ADMIN`, and set-user-ID programs keep working.
    fn install(&self) -> Result<(), i32> {
        if self.no_new_privileges {
            let set = libc::PR_SET_NO_NEW_PRIVS as usize;
            // SAFETY: PR_SET_NO_NEW_PRIVS takes integers only.
            unsafe { call(libc::SYS_prctl, [set, 1, 0, 0, 0]) }?;
        }
        let program = self.filter.program();
        let program = (&raw const program) as usize;
        let (set, flags) = (
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
        );
        // SAFETY: `program` describes the filter, which outlives the call; the kernel copies and does not write it.
        unsafe {
            call(
                libc::SYS_seccomp,
                [set as usize, flags as usize, program, 0, 0],
            )
        }?;
        Ok(())
    }
}

/// Makes the child, which waits for its byte. It is a child of the calling thread as after `fork`, with descriptors, signal actions and limits
/// of its own.
pub(crate) fn start(child: Child) -> io::Result<Tid> {
    let last = std::iter::once(std::ptr::null());
    let arguments = child.arguments.iter().map(|argument| argument.as_ptr());
    let prepared: &'static Prepared = Box::leak(Box::new(Prepared {
        arguments: arguments.chain(last).collect(),
        child,
    }));
    let stack = Box::leak(vec![0u128; STACK / size_of::<u128>()].into_boxed_slice());
    let top = stack.as_mut_ptr_range().end;
    // SAFETY: the stack is the child's alone from here on, and `prepared` is never written again. The child keeps to what the head of this
    // file says. It ends by `execve` or `exit`, and so never returns into this function.
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

/// A child, and its arguments as the kernel takes them.
struct Prepared {
    child: Child,
    arguments: Vec<*const libc::c_char>,
}

extern "C" fn run(prepared: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `start` passes a value that stays valid and that no thread writes.
    let Prepared { child, arguments } = unsafe { &*prepared.cast_const().cast::<Prepared>() };
    let (step, error) = child.execute(arguments);
    let [a, b, c, d] = error.to_le_bytes();
    let message = [step, a, b, c, d];
    let (at, length) = ((&raw const message) as usize, message.len());
    // SAFETY: reads `message`.
    let _ = unsafe { call(libc::SYS_write, [child.failure as usize, at, length, 0, 0]) };
    exit()
}

fn exit() -> ! {
    loop {
        // SAFETY: ends this process, and runs no handlers of the tracer.
        let _ = unsafe { call(libc::SYS_exit_group, [127, 0, 0, 0, 0]) };
    }
}

/// A system call, which leaves `errno` alone: its value, or an error number.
///
/// # Safety
/// As for the call.
unsafe fn call(number: libc::c_long, [a, b, c, d, e]: [usize; 5]) -> Result<usize, i32> {
    let result: isize;
    // SAFETY: by x86-64's convention the kernel changes `rax`, `rcx` and `r11`, and memory only as the call says, which the caller answers for.
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
