//! Replacing slots of one leaf in place: no node is allocated, none freed.

use core::mem::MaybeUninit;

use crate::base::{Key, Shape, each};
use crate::node::{Kind, MOST_SLOTS, NULL, Node, NodeMut, RawTree, Unread, Word};
use crate::read::{Found, Place};
use crate::write::holes::{largest_in_leaf, tell_ancestors};
use crate::write::{Item, Items, Sink, Span};

/// The entries, or the nodes, that a change of one node in place removes. They are handed over when the tree is whole again: dropping a value
/// may panic.
pub(crate) struct Removed<K> {
    entries: [MaybeUninit<Found<K>>; MOST_SLOTS],
    count: usize,
    /// The word of one that stays.
    kept: Word,
}

impl<K: Key> Removed<K> {
    #[inline(always)]
    pub(in crate::write) fn none() -> Self {
        Self::but(NULL)
    }

    /// None so far; an entry with the word `kept` is not to be among those that [`removes`](Self::removes) notes.
    #[inline(always)]
    pub(crate) fn but(kept: Word) -> Self {
        Self {
            entries: [const { MaybeUninit::uninit() }; MOST_SLOTS],
            count: 0,
            kept,
        }
    }

    /// Notes an entry, unless it stays.
    #[inline(always)]
    pub(in crate::write) fn removes(&mut self, found: Found<K>) {
        if found.word != self.kept {
            self.entries[self.count].write(found);
            self.count += 1;
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Notes the entries of a leaf, from a slot on, that a range covers.
    #[inline(always)]
    pub(in crate::write) fn covered<S: Shape>(
        &mut self,
        place: Place<K, S>,
        from: usize,
        (first, last): (K, K),
    ) {
        for i in from..place.leaf.used() {
            let found = place.slot(i);
            if found.first > last {
                return;
            }
            if !found.word.is_null() && first <= found.first && found.last <= last {
                self.removes(found);
            }
        }
    }

    /// Calls `take` with each; if it panics, with the others while the panic unwinds.
    #[inline(always)]
    pub(super) fn each(&self, mut take: impl FnMut(Found<K>)) {
        let entries = &self.entries[..self.count];
        each(0..entries.len(), |i| {
            // SAFETY: the first `count` were written by `removes`.
            take(*unsafe { entries[i].assume_init_ref() });
        });
    }

    /// Hands them over; if the sink panics, the others while the panic unwinds.
    pub(crate) fn give(&self, sink: &mut impl Sink<K>) {
        self.each(|found| sink.entry(found.first, found.last, found.word));
    }

    /// As [`give`](Self::give), after nodes that have been replaced, which are marked as dead.
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

/// Replaces the slots of a span, which is of one leaf, by the items. Beside readers just the word of a slot can be exchanged.
pub(super) fn apply<K: Key, S: Shape>(
    tree: &RawTree<K, S>,
    span: Span<K, S>,
    items: &Items<K>,
    gone: (K, K),
    sink: &mut impl Sink<K>,
    unread: Option<Unread>,
) {
    let Span {
        from, to, min, max, ..
    } = span;
    let leaf = span.left;
    let mut removed = Removed::none();
    removed.covered(Place { leaf, min, max }, from, gone);
    match (items.as_slice(), unread) {
        // The range is that of a slot: one store, visible to readers at once.
        ([item], _) if from == to => leaf.publish(from, item.word),
        (items, Some(unread)) => splice(leaf.write(unread), from, to, items),
        (_, None) => debug_assert!(false, "a leaf that readers may be in is copied"),
    }
    if tree.tracks_gaps() {
        tell_ancestors(leaf, min, largest_in_leaf(leaf, min, max));
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
        if node.node().kind() == Kind::Gap {
            node.node().set_gap(i, item.gap);
        }
    }
}
