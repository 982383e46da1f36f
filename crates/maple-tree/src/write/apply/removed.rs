//! The entries that a change in place removes.

use core::mem::MaybeUninit;

use crate::base::{Key, Offset, Shape, each};
use crate::node::{NULL, Node, Word};
use crate::read::{BoundedLeaf, Found};
use crate::write::Sink;

/// The entries, or the nodes, that a change of one node in place removes. They go to the sink once
/// the tree is complete again, because dropping a value may panic.
pub(crate) struct Removed<K: Offset> {
    entries: K::Slots<MaybeUninit<Found<K>>>,
    count: usize,
    /// The word of an entry that stays, or NULL, and its first index: other entries may hold the
    /// same word.
    kept: (Word, K),
}

impl<K: Key> Removed<K> {
    // Neither this nor `except` is always inlined: a debug build would keep room for their
    // temporaries in each frame of a write, kilobytes in all.
    #[inline]
    pub(in crate::write) fn none() -> Self {
        Self::except(None)
    }

    /// Returns an empty list. [`record`](Self::record) will skip the entry `kept`.
    #[inline]
    pub(crate) fn except(kept: Option<Found<K>>) -> Self {
        Self {
            entries: K::no_slots(),
            count: 0,
            kept: kept.map_or((NULL, K::MIN), |kept| (kept.word, kept.first)),
        }
    }

    /// Records an entry, unless it stays.
    #[inline(always)]
    pub(in crate::write) fn record(&mut self, found: Found<K>) {
        if (found.word, found.first) != self.kept {
            self.entries.as_mut()[self.count].write(found);
            self.count += 1;
        }
    }

    /// Returns the number of entries that fit.
    #[inline(always)]
    pub(in crate::write) fn room(&self) -> usize {
        self.entries.as_ref().len()
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Records the entries of a leaf, from a slot on, that a range covers.
    #[inline(always)]
    pub(in crate::write) fn covered<S: Shape>(
        &mut self,
        place: BoundedLeaf<K, S>,
        from: usize,
        (first, last): (K, K),
    ) {
        for i in from..place.leaf.used() {
            let found = place.slot(i);
            if found.first > last {
                return;
            }
            if !found.word.is_null() && first <= found.first && found.last <= last {
                self.record(found);
            }
        }
    }

    /// Calls `take` with each. If it panics, it still gets the others while the panic unwinds.
    #[inline(always)]
    pub(super) fn each(&self, mut take: impl FnMut(Found<K>)) {
        let entries = &self.entries.as_ref()[..self.count];
        each(0..entries.len(), |i| {
            // SAFETY: `record` has written the first `count`.
            take(*unsafe { entries[i].assume_init_ref() });
        });
    }

    /// Hands the entries to the sink. If it panics, it still gets the others while the panic
    /// unwinds.
    pub(crate) fn give(&self, sink: &mut impl Sink<K>) {
        self.each(|found| sink.entry(found.first, found.last, found.word));
    }

    /// Marks replaced nodes as dead, hands them to the sink, and then does what
    /// [`give`](Self::give) does.
    #[inline(always)]
    pub(in crate::write) fn give_with<S: Shape, const N: usize>(
        &self,
        nodes: [Option<Node<K, S>>; N],
        sink: &mut impl Sink<K>,
    ) {
        for node in nodes.into_iter().flatten() {
            node.mark_dead();
            sink.node(node.block());
        }
        self.give(sink);
    }
}
