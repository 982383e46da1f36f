//! Actions of threads that no line contains, and the record from which on answers may depend on
//! them.
//!
//! A text may hold one thread of several (`-ff`), calls on memory alone (`-e trace=memory`), or
//! numbers in place of flags (`-e raw=all`). Then it does not say which threads share memory.

use std::collections::HashMap;

use crate::record::format::Record;

/// The index of the first record that may depend on unseen actions.
#[derive(Debug, Default)]
pub(super) struct Untold {
    /// For all address spaces.
    all: Option<usize>,
    /// For one address space.
    one: HashMap<u32, usize>,
}

impl Untold {
    /// Notes that any address space may have threads that are not known to be its own.
    pub(super) fn everywhere(&mut self, from: usize) {
        self.all = Some(self.all.map_or(from, |known| known.min(from)));
    }

    /// Notes that a thread without any line shares this address space.
    pub(super) fn within(&mut self, space: u32, from: usize) {
        let known = self.one.entry(space).or_insert(from);
        *known = from.min(*known);
    }

    /// Marks the records, as if another thread's call had been under way during each call.
    pub(super) fn mark(mut self, records: &mut [Record]) {
        for (index, record) in records.iter_mut().enumerate() {
            let unknown = |space: &u32| self.one.get(space).is_some_and(|from| *from <= index);
            match record {
                Record::Fork { parent, child } if unknown(parent) => {
                    self.one.insert(*child, index);
                }
                Record::Call { space, after, .. }
                    if self.all.is_some_and(|from| from <= index) || unknown(space) =>
                {
                    after.get_or_insert_default();
                }
                _ => {}
            }
        }
    }
}

/// Marks all calls on one address space, as if another thread's call had been under way during
/// each.
pub(super) fn mark_each(of: u32, records: &mut [Record]) {
    for record in records {
        if let Record::Call { space, after, .. } = record
            && *space == of
        {
            after.get_or_insert_default();
        }
    }
}
