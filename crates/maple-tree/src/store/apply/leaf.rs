//! Replacing slots of one leaf in place: no node is allocated, none freed.

use core::mem::MaybeUninit;

use crate::gap_upkeep::{largest_in_leaf, tell_ancestors};
use crate::key::Key;
use crate::node::NodeMut;
use crate::shape::Shape;
use crate::store::{Items, Sink, Span};
use crate::tree::RawTree;
use crate::walk::Found;

/// No node has more slots.
const MOST: usize = 32;

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
    // What goes is handed over when the tree is whole again: dropping a value may panic.
    let mut removed = [const { MaybeUninit::<Found<K>>::uninit() }; MOST];
    let mut count = 0;
    let mut first = leaf.first(span.from, span.min);
    for i in span.from..=span.to {
        let last = leaf.last(i, span.max);
        let word = leaf.slot(i);
        if !word.is_null() && gone.0 <= first && last <= gone.1 {
            removed[count].write(Found { first, last, word });
            count += 1;
        }
        first = last.wrapping_add(K::ONE);
    }
    // SAFETY: the caller's promise.
    splice(unsafe { leaf.write() }, span.from, span.to, items);
    if tree.tracks_gaps() {
        tell_ancestors(leaf, span.min, largest_in_leaf(leaf, span.min, span.max));
    }
    for found in &removed[..count] {
        // SAFETY: the first `count` were written above.
        let found = unsafe { found.assume_init_ref() };
        sink.entry(found.first, found.last, found.word);
    }
}

/// Replaces the slots `from..=to` of a node by the items, with their gaps if it keeps those.
pub(super) fn splice<K: Key, S: Shape>(
    node: NodeMut<K, S>,
    from: usize,
    to: usize,
    items: &Items<K>,
) {
    let items = items.as_slice();
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
