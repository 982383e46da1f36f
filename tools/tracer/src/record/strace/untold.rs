//! Threads whose actions are in no line: the record from which on results may depend on them.
//!
//! A text may hold one thread of several (`-ff`), calls on memory alone (`-e trace=memory`), or numbers in place of flags (`-e raw=all`): who shares memory
//! with whom is not known then.

use std::collections::HashMap;

use crate::record::format::Record;

/// From which record on.
#[derive(Debug, Default)]
pub(super) struct Untold {
    /// In all address spaces.
    all: Option<usize>,
    /// In one.
    one: HashMap<u32, usize>,
}

impl Untold {
    /// Any address space may have threads that are not known to be its own.
    pub(super) fn everywhere(&mut self, from: usize) {
        self.all = Some(self.all.map_or(from, |known| known.min(from)));
    }

    /// A thread that nothing is told of shares this address space.
    pub(super) fn within(&mut self, space: u32, from: usize) {
        let known = self.one.entry(space).or_insert(from);
        *known = from.min(*known);
    }

    /// Marks the records, as if another thread's call was under way during each.
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

/// Marks all calls on one address space: another thread's call was under way during each.
pub(super) fn mark_each(of: u32, records: &mut [Record]) {
    for record in records {
        if let Record::Call { space, after, .. } = record
            && *space == of
        {
            after.get_or_insert_default();
        }
    }
}
