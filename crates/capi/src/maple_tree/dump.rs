//! Trees and states as text, for debugging.

use core::ffi::{c_char, c_uint, c_void};
use core::fmt::{self, Write};
use core::mem;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use maple_tree::Format;

use crate::maple_tree::abi::{MaState, MapleTree, Status};
use crate::maple_tree::normal::exports;

/// Receives a part of the text: this many bytes, without a NUL.
type Sink = unsafe extern "C" fn(*mut c_void, *const c_char, usize);

static CTX: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static SINK: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// `mt_dump_hex`. All other values mean `mt_dump_dec`.
const HEX: c_uint = 1;

/// Passes text on line by line, if lines are no longer than its buffer.
struct Lines {
    bytes: [u8; 256],
    used: usize,
}

impl Lines {
    const fn new() -> Self {
        Self {
            bytes: [0; 256],
            used: 0,
        }
    }

    fn flush(&mut self) {
        let text = &self.bytes[..mem::take(&mut self.used)];
        if text.is_empty() {
            return;
        }
        let Some(sink) = NonNull::new(SINK.load(Ordering::Acquire)) else {
            return print(text);
        };
        // SAFETY: only `maple_set_dump` sets it, to a function of this type, and its caller
        // promised that the function may be called.
        unsafe {
            let sink = mem::transmute::<NonNull<()>, Sink>(sink);
            sink(
                CTX.load(Ordering::Acquire),
                text.as_ptr().cast(),
                text.len(),
            );
        }
    }
}

impl Write for Lines {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if let Some(place) = self.bytes.get_mut(self.used) {
                *place = byte;
                self.used += 1;
            }
            if byte == b'\n' || self.used == self.bytes.len() {
                self.flush();
            }
        }
        Ok(())
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Prints to the C library's standard output, in order with the program's own output.
#[cfg(unix)]
fn print(text: &[u8]) {
    // SAFETY: the format takes a length and that many bytes. There are at most 256.
    unsafe {
        libc::printf(
            c"%.*s".as_ptr(),
            text.len() as core::ffi::c_int,
            text.as_ptr().cast::<c_char>(),
        );
    }
}

#[cfg(not(unix))]
fn print(text: &[u8]) {
    print!("{}", String::from_utf8_lossy(text));
}

fn name(status: Status) -> &'static str {
    match status {
        Status::ACTIVE => "active",
        Status::START => "start",
        Status::ROOT => "root",
        Status::NONE => "none",
        Status::PAUSE => "pause",
        Status::OVERFLOW => "overflow",
        Status::UNDERFLOW => "underflow",
        Status::ERROR => "error",
        _ => "unknown",
    }
}

exports! {
    /// `mt_dump`: writes all nodes and entries of a tree, with indices in decimal or hexadecimal.
    /// The caller excludes writers.
    fn mt_dump(mt: *const MapleTree, format: c_uint) {
        let format = if format == HEX { Format::Hexadecimal } else { Format::Decimal };
        // Writing to a sink does not fail.
        let _ = write!(Lines::new(), "{}", (*mt).words.dump(format));
    }

    /// `mas_dump`: writes the range and the position of a state.
    fn mas_dump(mas: *const MaState) {
        let mas = &*mas;
        let _ = writeln!(
            Lines::new(),
            "state: tree {:p}, {:#x}-{:#x}, {}, node {:p} of {:#x}-{:#x}, slot {} of {}, {}",
            mas.tree,
            mas.index,
            mas.last,
            name(mas.status),
            mas.node,
            mas.min,
            mas.max,
            mas.offset,
            mas.end,
            if mas.alloc.is_null() { "nothing set aside" } else { "nodes set aside" },
        );
    }

    /// `maple_set_dump`: passes the text of `mt_dump` and `mas_dump` to `sink`, a line or a part of
    /// one at a time. NULL restores the standard output.
    fn maple_set_dump(sink: Option<Sink>, ctx: *mut c_void) {
        CTX.store(ctx, Ordering::Release);
        SINK.store(sink.map_or(ptr::null_mut(), |sink| sink as *mut ()), Ordering::Release);
    }

    /// `mt_lock_is_held`: returns true if any thread holds the tree's lock. Always true for an
    /// external lock, whose state is not known.
    fn mt_lock_is_held(mt: *const MapleTree) -> bool {
        (*mt).lock_is_external() || (*mt).ma_lock.is_held()
    }
}
