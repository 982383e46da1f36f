//! Writes into a tree without nodes.

use crate::alloc::Reserve;
use crate::base::{Key, Shape};
use crate::node::{Kind, RawTree, Root, Word};
use crate::write::apply::fill::Fill;
use crate::write::{Items, Sink};

/// Puts a word, or NULL, into the root. `first` is where the write starts: at 0 it replaces what is
/// there.
pub(super) fn put_word<K: Key, S: Shape>(
    tree: &RawTree<K, S>,
    word: Word,
    first: K,
    sink: &mut impl Sink<K>,
) {
    let old = tree.root();
    tree.publish_root(word, 0);
    drop_single(old, first, sink);
}

/// Puts a leaf that holds the items into the root.
pub(super) fn put_leaf<K: Key, S: Shape>(
    tree: &RawTree<K, S>,
    items: &Items<K>,
    first: K,
    reserve: &mut Reserve,
    sink: &mut impl Sink<K>,
) {
    let old = tree.root();
    tree.publish_root(Fill::<K, S>::root(Kind::Leaf, items, reserve), 1);
    drop_single(old, first, sink);
}

fn drop_single<K: Key, S: Shape>(old: Root<K, S>, first: K, sink: &mut impl Sink<K>) {
    if let Root::Single(entry) = old
        && first == K::MIN
    {
        sink.entry(K::MIN, K::MIN, entry);
    }
}
