//! The standard streams that were closed when this program started, and the signals about writing
//! that it ignored.
//!
//! The Rust runtime opens `/dev/null` for closed streams before `main`, and ignores SIGPIPE. The
//! traced program must find the original state, so this module looks before the runtime changes it.
//! From here on SIGXFSZ is ignored: a file that exceeds `ulimit -f` is reported as an error.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

static CLOSED: AtomicU8 = AtomicU8::new(0);
/// Signals that end a process whose writes cannot be taken.
pub(crate) const OF_WRITING: [libc::c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];
static IGNORED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

extern "C" fn look() {
    for stream in 0..3 {
        // SAFETY: the call only asks for the flags of a descriptor. It is harmless if that is not
        // open.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << stream, Ordering::Relaxed);
        }
    }
    for (signal, ignored) in OF_WRITING.into_iter().zip(&IGNORED) {
        // SAFETY: all zeros is a valid `sigaction`. Without a new action the call only fills it in.
        let before = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut action) == 0
                && action.sa_sigaction == libc::SIG_IGN
        };
        ignored.store(before, Ordering::Relaxed);
    }
    // SAFETY: the call ignores a signal, before another thread exists.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

// SAFETY: the C runtime calls each pointer in this section once, before `main`. `look` needs
// nothing of Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Returns `true` for each of standard input, output and error that was closed.
pub fn closed_at_start() -> [bool; 3] {
    let bits = CLOSED.load(Ordering::Relaxed);
    [bits & 1 != 0, bits & 2 != 0, bits & 4 != 0]
}

/// Returns the disposition of each signal of [`OF_WRITING`] when this program started: `SIG_DFL` or
/// `SIG_IGN`.
pub(crate) fn signals_at_start() -> [libc::sighandler_t; 2] {
    IGNORED
        .each_ref()
        .map(|ignored| match ignored.load(Ordering::Relaxed) {
            true => libc::SIG_IGN,
            false => libc::SIG_DFL,
        })
}
