//! Replacing slots of one leaf in place: no node is allocated, none freed.

use core::mem::MaybeUninit;

use crate::base::{Key, Shape, each};
use crate::node::{NULL, NodeMut, RawTree, Word};
use crate::read::Found;
use crate::write::holes::{largest_in_leaf, tell_ancestors};
use crate::write::{Item, Items, Sink, Span};

/// No node has more slots.
const MOST: usize = 32;

/// The entries that a change of one leaf in place removes. They are handed over when the tree is whole again: dropping a value
/// may panic.
pub(crate) struct Removed<K> {
    entries: [MaybeUninit<Found<K>>; MOST],
    count: usize,
    /// The word of one that stays.
    kept: Word,
}

impl<K: Key> Removed<K> {
    /// How many there is room for.
    pub(in crate::write) const MOST: usize = MOST;

    #[inline(always)]
    pub(in crate::write) fn none() -> Self {
        Self::but(NULL)
    }

    /// None so far; an entry with the word `kept` is not to be among those that [`removes`](Self::removes) notes.
    #[inline(always)]
    pub(crate) fn but(kept: Word) -> Self {
        Self {
            entries: [const { MaybeUninit::uninit() }; MOST],
            count: 0,
            kept,
        }
    }

    /// Notes an entry, unless it stays.
    #[inline(always)]
    pub(in crate::write) fn removes(&mut self, found: Found<K>) {
        if found.word != self.kept {
            self.add(found.first, found.last, found.word);
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Notes an entry.
    #[inline]
    pub(in crate::write) fn add(&mut self, first: K, last: K, word: Word) {
        self.entries[self.count].write(Found { first, last, word });
        self.count += 1;
    }

    /// Notes the entries of the span of a leaf that are within `gone`.
    pub(super) fn note<S: Shape>(&mut self, span: &Span<K, S>, gone: (K, K)) {
        let leaf = span.left;
        let mut first = leaf.first(span.from, span.min);
        for i in span.from..=span.to {
            let last = leaf.last(i, span.max);
            let word = leaf.slot(i);
            if !word.is_null() && gone.0 <= first && last <= gone.1 {
                self.add(first, last, word);
            }
            first = last.wrapping_add(K::ONE);
        }
    }

    /// Hands them over; if the sink panics, the others while the panic unwinds.
    pub(crate) fn give(&self, sink: &mut impl Sink<K>) {
        let entries = &self.entries[..self.count];
        each(0..entries.len(), |i| {
            // SAFETY: the first `count` were written by `add`.
            let found = unsafe { entries[i].assume_init_ref() };
            sink.entry(found.first, found.last, found.word);
        });
    }
}

/// # Safety
///
/// The caller is the only writer, and nobody reads meanwhile.
pub(super) unsafe fn apply<K: Key, S: Shape>(
    tree: &RawTree<K, S>,
    span: Span<K, S>,
    items: &Items<K>,
    gone: (K, K),
    sink: &mut impl Sink<K>,
) {
    let leaf = span.left;
    let mut removed = Removed::none();
    removed.note(&span, gone);
    // SAFETY: the caller's promise.
    splice(
        unsafe { leaf.write() },
        span.from,
        span.to,
        items.as_slice(),
    );
    if tree.tracks_gaps() {
        tell_ancestors(leaf, span.min, largest_in_leaf(leaf, span.min, span.max));
    }
    removed.give(sink);
}

/// Replaces the slots `from..=to` of a node by the items, with their gaps if it keeps those.
pub(super) fn splice<K: Key, S: Shape>(
    node: NodeMut<K, S>,
    from: usize,
    to: usize,
    items: &[Item<K>],
) {
    if from + items.len() != to + 1 {
        node.shift(to + 1, from + items.len());
    }
    let end = node.node().end();
    for (i, item) in items.iter().enumerate() {
        let i = from + i;
        node.set_slot(i, item.word);
        if i < end {
            node.set_pivot(i, item.last);
        } else if i + 1 < node.node().capacity() {
            node.set_pivot(i, K::MAX);
        }
        if node.node().kind() == crate::node::Kind::Gap {
            node.node().set_gap(i, item.gap);
        }
    }
}
