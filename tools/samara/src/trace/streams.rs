//! Which standard streams were closed when this program started.
//!
//! The Rust runtime opens `/dev/null` in their place before `main`. The traced program must find them as they were, so this looks
//! before the runtime does.

use std::sync::atomic::{AtomicU8, Ordering};

static CLOSED: AtomicU8 = AtomicU8::new(0);

extern "C" fn look() {
    for stream in 0..3 {
        // SAFETY: asks for the flags of a descriptor, and harms nothing if it is not open.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << stream, Ordering::Relaxed);
        }
    }
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
