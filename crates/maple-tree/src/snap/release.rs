//! Giving up what leads to a node.

use core::ptr::NonNull;

use crate::alloc::NodeAlloc;
use crate::key::Key;
use crate::node::{LAYOUT, Node, Word, is_node};
use crate::shape::Shape;
use crate::value::Value;

/// Gives up one count of a node, and, if it was the last, the values in it and the counts of the nodes below. Slots that are NULL,
/// because their contents have moved elsewhere, are passed over.
///
/// # Safety
///
/// The count is the caller's, who does not use it again. The node is of a tree with this `K`, `S` and `V`, whose nodes are given back
/// to `alloc`.
pub(super) unsafe fn release<K: Key, V: Value, S: Shape, A: NodeAlloc>(
    node: Node<K, S>,
    alloc: &A,
) {
    if !node.lower() {
        return;
    }
    for i in 0..node.used() {
        let word = node.slot(i);
        if !word.is_null() {
            // SAFETY: nobody leads to the node any more, so that what its slots own is ours to give up.
            unsafe { release_word::<K, V, S, A>(word, node.is_leaf(), alloc) };
        }
    }
    // SAFETY: nobody uses the node any more; it came from this allocator or from one that is interchangeable with it.
    unsafe { alloc.deallocate(node.block(), LAYOUT) };
}

/// Gives up what a slot owned: a value, if it was a leaf's, else one count of a node.
///
/// # Safety
///
/// As [`release`]; the word is not NULL, and no longer in a slot that somebody looks at.
pub(super) unsafe fn release_word<K: Key, V: Value, S: Shape, A: NodeAlloc>(
    word: Word,
    of_leaf: bool,
    alloc: &A,
) {
    if of_leaf {
        if let Some(raw) = NonNull::new(word) {
            // SAFETY: words in leaves are values; this one is no longer in the tree (the caller's promise).
            drop(unsafe { V::from_raw(raw) });
        }
    } else {
        debug_assert!(is_node(word));
        // SAFETY: slots of inner nodes hold nodes, of which they own a count (now the caller's).
        unsafe { release::<K, V, S, A>(Node::from_word(word), alloc) };
    }
}
