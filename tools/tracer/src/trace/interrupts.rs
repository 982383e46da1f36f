//! Handles signals for the tracer itself.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use samara_linux::Tid;

/// Signals that ask a program to end.
const ENDING: [libc::c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

/// Signals that arrived for the tracer after the program had ended, one bit each.
static PENDING: AtomicU32 = AtomicU32::new(0);
/// The program while it runs, then 0.
static PROGRAM: AtomicI32 = AtomicI32::new(0);

/// Stands for no program. Each signal is then handled as after the program's end.
pub(crate) const NOBODY: Tid = 0;

/// Does nothing. The alarm interrupts a wait, in case a signal arrived between the check of the
/// flag and the wait.
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
            // SAFETY: both are async-signal-safe. The signal comes again when the handler has
            // returned, with its default effect.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
        NOBODY => {
            PENDING.fetch_or(1 << signal, Ordering::Relaxed);
            // If the wait has not begun yet, the alarm interrupts it again.
            // SAFETY: `alarm` is async-signal-safe, and nothing else here uses it.
            unsafe { libc::alarm(1) };
        }
        // The program is in the same process group and has received the signal.
        _ if from_terminal => {}
        program => {
            // SAFETY: `kill` is async-signal-safe. The program is our own child, not yet reaped.
            unsafe { libc::kill(program, signal) };
        }
    }
}

/// Returns `true` if a process is traced here. Such a process has sent the signal to its process
/// group, to which this one belongs. All others of the group have received it.
fn is_traced(process: Tid) -> bool {
    // The handler may run within the allocator, so nothing here allocates.
    let mut path = *b"/proc/0000000000/status\0";
    let mut rest = process as u32;
    for digit in path[6..16].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    // No number in the path begins with zeros.
    let zeros = path[6..15].iter().take_while(|&&digit| digit == b'0');
    let zeros = zeros.count();
    path.copy_within(6 + zeros.., 6);
    let mut text = [0u8; 1024];
    // SAFETY: all three are async-signal-safe. `path` ends with a zero byte, and `text` has room
    // for the bytes read.
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

/// Installs the handlers. The terminal's signals reach the program, which shares the process group.
/// Other signals to the tracer are passed on to `program`. After the program's end, the first
/// signal asks the surviving processes to end, and the second kills them.
///
/// A signal that a traced process sends to its whole process group is meant for the others. It is
/// not passed on, and does not end the tracer.
pub(crate) fn take_signals(program: Tid) {
    PROGRAM.store(program, Ordering::Relaxed);
    // With `signal`, waits would resume after the handler, so no signal would interrupt them.
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
            // A wait resumes after one of these.
            let flags = libc::SA_SIGINFO | libc::SA_RESTART;
            install(signal, on_signal as *const () as usize, flags);
        }
    }
    // Each stop would raise it for nothing, because the waits report all stops.
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
    // SAFETY: all zeros is a valid `sigaction` with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: the handlers match `flags`, and use only atomics, `alarm` and `kill`.
    unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
}

/// Notes that the program has ended. Later signals are for the processes that outlive it.
pub(crate) fn program_ended() {
    PROGRAM.store(0, Ordering::Relaxed);
}

/// Returns `true` if a signal arrived after the program's end, and since the last check.
pub(crate) fn arrived() -> bool {
    PENDING.load(Ordering::Relaxed) != 0 && PENDING.swap(0, Ordering::Relaxed) != 0
}
