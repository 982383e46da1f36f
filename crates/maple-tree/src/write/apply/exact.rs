//! The range of the write is that of a slot: one store, visible to readers at once.

use crate::base::{Key, Shape};
use crate::node::{RawTree, Word};
use crate::read::Place;
use crate::write::Sink;
use crate::write::holes::{largest_in_leaf, tell_ancestors};

pub(super) fn apply<K: Key, S: Shape>(
    tree: &RawTree<K, S>,
    place: Place<K, S>,
    slot: usize,
    word: Word,
    sink: &mut impl Sink<K>,
) {
    let old = place.slot(slot);
    place.leaf.publish(slot, word);
    if tree.tracks_gaps() && old.word.is_null() != word.is_null() {
        tell_ancestors(
            place.leaf,
            old.first,
            largest_in_leaf(place.leaf, place.min, place.max),
        );
    }
    if !old.word.is_null() {
        sink.entry(old.first, old.last, old.word);
    }
}
