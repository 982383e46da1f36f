//! Signals for the tracer itself.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use samara_linux::Tid;

/// The signals that ask a program to end.
const ENDING: [libc::c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

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
    let (from_terminal, sender) = unsafe {
        (
            (*information).si_code == libc::SI_KERNEL,
            (*information).si_pid(),
        )
    };
    if !from_terminal && is_traced(sender) {
        return;
    }
    match PROGRAM.load(Ordering::Relaxed) {
        NOBODY if !ENDING.contains(&signal) => {
            // SAFETY: both are async-signal-safe; the signal comes again when the handler has returned, and does what it would do to any program.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
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

/// Returns `true` if it is a process that is traced here. It has sent a signal to its process
/// group, which includes this process, and all others of the group have got theirs.
fn is_traced(process: Tid) -> bool {
    // A handler may be called within the allocator: nothing here takes memory.
    let mut path = *b"/proc/0000000000/status\0";
    let mut rest = process as u32;
    for digit in path[6..16].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    // No number there begins with zeros.
    let zeros = path[6..15].iter().take_while(|&&digit| digit == b'0');
    let zeros = zeros.count();
    path.copy_within(6 + zeros.., 6);
    let mut text = [0u8; 1024];
    // SAFETY: all three are async-signal-safe; `path` ends with a zero byte, and `text` has room for what is read.
    let read = unsafe {
        let file = libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return false;
        }
        let read = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        read
    };
    let text = &text[..usize::try_from(read).unwrap_or(0)];
    const FIELD: &[u8] = b"\nTracerPid:\t";
    let Some(at) = text.windows(FIELD.len()).position(|it| it == FIELD) else {
        return false;
    };
    let digits = text[at + FIELD.len()..].iter();
    let digits = digits.take_while(|byte| byte.is_ascii_digit());
    let tracer = digits.fold(0u32, |number, digit| {
        number
            .wrapping_mul(10)
            .wrapping_add(u32::from(digit - b'0'))
    });
    tracer == std::process::id()
}

/// Handles signals for the tracer. The program shares the process group, so the terminal's signals
/// reach it directly. Other signals are passed on to `program`. Once that has ended, the first
/// signal asks the remaining processes to end, and the second kills them.
///
/// What a traced process sends to its whole process group is for the others: it is neither passed on, nor does it end the tracer.
pub(crate) fn take_signals(program: Tid) {
    PROGRAM.store(program, Ordering::Relaxed);
    // `signal` would have waits begin anew after the handler, and so interrupt none.
    install(libc::SIGALRM, on_alarm as *const () as usize, 0);
    for signal in ENDING {
        install(signal, on_signal as *const () as usize, libc::SA_SIGINFO);
    }
    let of_programs = [
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGSTKFLT,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGIO,
        libc::SIGPWR,
    ];
    for signal in of_programs
        .into_iter()
        .chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
    {
        if ends(signal) {
            // A wait that one interrupts goes on.
            let flags = libc::SA_SIGINFO | libc::SA_RESTART;
            install(signal, on_signal as *const () as usize, flags);
        }
    }
    // Each stop would raise it, only to be thrown away: the waits tell of all stops.
    install(libc::SIGCHLD, libc::SIG_DFL, libc::SA_NOCLDSTOP);
}

/// Returns `true` if the signal would end this process.
fn ends(signal: libc::c_int) -> bool {
    // SAFETY: all zeros is a valid `sigaction`, which the call fills.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action);
        action
    };
    action.sa_sigaction == libc::SIG_DFL
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

/// Returns `true` if a signal arrived since the last call, after the program had ended.
pub(crate) fn arrived() -> bool {
    PENDING.load(Ordering::Relaxed) != 0 && PENDING.swap(0, Ordering::Relaxed) != 0
}
