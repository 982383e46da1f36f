//! Calls at their entry, with the filter's mark.

use std::io;

use samara_linux::ptrace::{CallPoint, call_point};
use samara_linux::{Tid, memory};

use super::filter::{Filter, mark};
use super::i386;

/// A call at its entry. A call of the i386 table that the filter has stopped has the number and the
/// arguments of its equivalent in the x86-64 table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) nr: u64,
    pub(crate) args: [u64; 6],
    /// See [`super::filter::mark`].
    pub(crate) mark: u32,
    /// The address of the result, if the call does not return it.
    pub(crate) result_at: Option<u64>,
}

impl Entry {
    fn new(tid: Tid, nr: u64, args: [u64; 6], mark: u32) -> Self {
        let (nr, args, result_at) = match mark {
            mark::I386 => i386::native(tid, nr, args),
            _ => (nr, args, None),
        };
        Self {
            nr,
            args,
            mark,
            result_at,
        }
    }

    /// Returns `true` for a call of the i386 table.
    pub(crate) fn is_i386(&self) -> bool {
        self.mark == mark::I386
    }

    /// Reads one word behind a pointer of the call.
    pub(crate) fn read_word(&self, tid: Tid, address: u64) -> io::Result<u64> {
        match self.is_i386() {
            true => memory::read_half(tid, address),
            false => memory::read_word(tid, address),
        }
    }

    /// Returns the size of such a word in bytes.
    pub(crate) fn word(&self) -> u64 {
        match self.is_i386() {
            true => 4,
            false => 8,
        }
    }
}

/// Returns the call at whose entry [`resume_to_exit`](samara_linux::ptrace::resume_to_exit) has
/// stopped a thread, and `true` if the filter would stop it. Returns `None` at the return of a
/// call.
pub(crate) fn entered(tid: Tid, filter: &Filter) -> io::Result<Option<(Entry, bool)>> {
    let (arch, CallPoint::Entry { nr, args }) = call_point(tid)? else {
        return Ok(None);
    };
    let mark = filter.decide(arch, nr as u32, &args);
    let entry = Entry::new(tid, nr, args, mark.unwrap_or(mark::NONE));
    Ok(Some((entry, mark.is_some())))
}

/// Returns the call at which a filter stopped a thread. The mark is none if `filter` would not have
/// stopped it, or would have given another mark.
pub(crate) fn entry(tid: Tid, filter: &Filter) -> io::Result<Entry> {
    let (arch, CallPoint::Filtered { nr, args, data }) = call_point(tid)? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let wanted = filter.decide(arch, nr as u32, &args);
    let mark = mark::read(data).filter(|mark| wanted == Some(*mark));
    let mark = mark.unwrap_or(mark::NONE);
    Ok(Entry::new(tid, nr, args, mark))
}
