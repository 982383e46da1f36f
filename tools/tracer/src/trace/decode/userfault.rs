//! Requests to a userfaultfd: `ioctl_userfaultfd(2)`.

use samara_linux::Tid;
use samara_linux::memory;
use samara_mm::Call;

use super::Decoded;
use crate::trace::entry::Entry;
use crate::trace::filter;
use crate::trace::watchers::{self, Watchers};

/// A range that a userfaultfd fills.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filling {
    pub(crate) start: u64,
    /// The length in bytes.
    pub(crate) length: u64,
    /// For pages that are poisoned: the address at which the kernel stores the number of poisoned
    /// bytes.
    pub(crate) poison: Option<u64>,
}

impl Filling {
    /// Returns the number of bytes from its start that may have been filled, after the call has
    /// returned. `None` if none were.
    pub(crate) fn done(&self, tid: Tid, returned: i64) -> Option<u64> {
        const PAGE: u64 = 0x1000;
        let aligned = self.start.is_multiple_of(PAGE) && self.length.is_multiple_of(PAGE);
        if !aligned || self.length == 0 {
            return None;
        }
        self.start.checked_add(self.length)?;
        let told = match (self.poison, -returned as i32) {
            // The pages that exist now show which ones were filled.
            (None, _) | (_, 0) => Some(self.length),
            // The kernel could not store the number.
            (_, libc::EFAULT) => Some(self.length),
            (Some(at), libc::EAGAIN) => memory::read_word(tid, at).ok(),
            _ => None,
        };
        told.filter(|&told| (PAGE..=self.length).contains(&told))
    }
}

pub(super) fn ioctl(tid: Tid, entry: &Entry, watchers: &mut Watchers) -> Decoded {
    let [descriptor, request, pointer, ..] = entry.args;
    if request as u32 == filter::UFFDIO_MOVE {
        let to = memory::read_word(tid, pointer);
        let from = memory::read_word(tid, pointer.wrapping_add(8));
        return match (to, from) {
            (Ok(to), Ok(from)) => Decoded::Moved { to, from },
            _ => Decoded::Ignore,
        };
    }
    if filter::UFFDIO_FILLING.contains(&(request as u32)) {
        let copies = request as u32 == filter::UFFDIO_FILLING[0];
        let start = memory::read_word(tid, pointer);
        // A copy names its source before the length.
        let length = memory::read_word(tid, pointer.wrapping_add(if copies { 16 } else { 8 }));
        return match (start, length) {
            (Ok(start), Ok(length)) => Decoded::Filled(Filling {
                start,
                length,
                poison: (request as u32 == filter::UFFDIO_POISON).then(|| pointer.wrapping_add(24)),
            }),
            _ => Decoded::Ignore,
        };
    }
    let Some((context, features)) = watchers.of(tid, descriptor as i32) else {
        return Decoded::Ignore;
    };
    if features & watchers::AGREED == 0 {
        return Decoded::Ignore;
    }
    if features & watchers::FOLLOWING != 0 {
        return Decoded::Unmodelled { changes_map: true };
    }
    let asynchronous = features & watchers::WP_ASYNC != 0;
    let word = |index: u64| memory::read_word(tid, pointer.wrapping_add(8 * index));
    // The kernel cannot read it either.
    let (Ok(addr), Ok(len)) = (word(0), word(1)) else {
        return Decoded::Ignore;
    };
    Decoded::Perform(match request as u32 {
        filter::UFFDIO_REGISTER => match word(2) {
            Ok(mode) => Call::UffdRegister {
                context,
                asynchronous,
                addr,
                len,
                mode,
            },
            Err(_) => return Decoded::Ignore,
        },
        _ => Call::UffdUnregister {
            context,
            asynchronous,
            addr,
            len,
        },
    })
}
