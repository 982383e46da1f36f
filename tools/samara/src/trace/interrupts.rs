//! Signals for the tracer itself.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use super::ptrace::Tid;

/// Signals that arrived for the tracer after the program had ended, bit by bit.
static PENDING: AtomicU32 = AtomicU32::new(0);
/// The program, as long as it runs; then 0.
static PROGRAM: AtomicI32 = AtomicI32::new(0);

/// No program that signals are passed on to: each is taken as after the program's end.
pub(crate) const NOBODY: Tid = 0;

/// Passes a signal on at once: between a look at a flag and the next wait, one could get lost.
extern "C" fn on_alarm(_: libc::c_int) {}

extern "C" fn on_signal(
    signal: libc::c_int,
    information: *mut libc::siginfo_t,
    _: *mut libc::c_void,
) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid description of the signal.
    let from_terminal = unsafe { (*information).si_code } == libc::SI_KERNEL;
    match PROGRAM.load(Ordering::Relaxed) {
        NOBODY => {
            PENDING.fetch_or(1 << signal, Ordering::Relaxed);
            // If the wait has not begun yet, it is interrupted once more.
            // SAFETY: `alarm` is async-signal-safe, and nothing else here uses it.
            unsafe { libc::alarm(1) };
        }
        // The program is in the same process group and has it already.
        _ if from_terminal => {}
        program => {
            // SAFETY: `kill` is async-signal-safe; the program is our own child, not yet reaped.
            unsafe { libc::kill(program, signal) };
        }
    }
}

/// What the terminal sends goes to the program, which shares the process group; what else is sent to the tracer is passed on to
/// `program`. Once that has ended, either asks the processes that outlive it to end, and the second ends them.
pub(crate) fn take_signals(program: Tid) {
    PROGRAM.store(program, Ordering::Relaxed);
    // `signal` would have waits begin anew after the handler, and so interrupt none.
    install(libc::SIGALRM, on_alarm as *const () as usize, 0);
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
        install(signal, on_signal as *const () as usize, libc::SA_SIGINFO);
    }
    // Each stop would raise it, only to be thrown away: the waits tell of all stops.
    install(libc::SIGCHLD, libc::SIG_DFL, libc::SA_NOCLDSTOP);
}

fn install(signal: libc::c_int, handler: libc::sighandler_t, flags: libc::c_int) {
    // SAFETY: all zeros is a valid `sigaction`: an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: the handlers are as `flags` say, and use atomics, `alarm` and `kill` only.
    unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
}

/// The program has ended: what arrives from now on is for those that outlive it.
pub(crate) fn program_ended() {
    PROGRAM.store(0, Ordering::Relaxed);
}

/// Did a signal arrive since the last look, after the program had ended?
pub(crate) fn arrived() -> bool {
    PENDING.load(Ordering::Relaxed) != 0 && PENDING.swap(0, Ordering::Relaxed) != 0
}
