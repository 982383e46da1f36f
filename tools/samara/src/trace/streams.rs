//! Which standard streams were closed when this program started, and whether it ignored SIGPIPE.
//!
//! The Rust runtime opens `/dev/null` in their place before `main`, and ignores SIGPIPE. The traced program must find all as it was, so this
//! looks before the runtime does.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

static CLOSED: AtomicU8 = AtomicU8::new(0);
static NO_SIGPIPE: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    for stream in 0..3 {
        // SAFETY: asks for the flags of a descriptor, and harms nothing if it is not open.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << stream, Ordering::Relaxed);
        }
    }
    // SAFETY: all zeros is a valid `sigaction`; without a new action the call only fills it in.
    let ignored = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    };
    NO_SIGPIPE.store(ignored, Ordering::Relaxed);
}

// SAFETY: the C runtime calls each pointer in this section once, before `main`; `look` needs nothing of Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// For standard input, output and error: was it closed?
pub(crate) fn closed_at_start() -> [bool; 3] {
    let bits = CLOSED.load(Ordering::Relaxed);
    [bits & 1 != 0, bits & 2 != 0, bits & 4 != 0]
}

/// What SIGPIPE did when this program started: `SIG_DFL` or `SIG_IGN`.
pub(crate) fn sigpipe_at_start() -> libc::sighandler_t {
    if NO_SIGPIPE.load(Ordering::Relaxed) {
        libc::SIG_IGN
    } else {
        libc::SIG_DFL
    }
}
