//! Giving up what leads to a node.

use core::marker::PhantomData;
use core::mem::needs_drop;
use core::ptr::NonNull;

use crate::alloc::NodeAlloc;
use crate::base::{Key, Shape, Value};
use crate::node::{LAYOUT, Node, Word, is_node};

/// Gives up one count of a node, and, if it was the last, the values in it and the counts of the nodes below. If dropping a value panics, the others are dropped all the same.
///
/// # Safety
///
/// The count is the caller's, who does not use it again. The node is of a tree with this `K`, `S` and `V`, whose nodes are given back
/// to `alloc`.
// In line: of the many that a node leads to few are led to from there alone.
#[inline(always)]
pub(super) unsafe fn release<K: Key, V: Value, S: Shape, A: NodeAlloc>(
    node: Node<K, S>,
    alloc: &A,
) {
    if node.lower() {
        // SAFETY: the caller's promise; nobody leads there any more.
        unsafe { take_apart::<K, V, S, A>(node, alloc) };
    }
}

/// Gives up what a node leads to, and the node.
///
/// # Safety
///
/// As [`release`], and nobody leads to the node.
#[inline(never)]
unsafe fn take_apart<K: Key, V: Value, S: Shape, A: NodeAlloc>(node: Node<K, S>, alloc: &A) {
    let mut parts = Parts::<K, V, S, A> {
        node,
        at: 0,
        alloc,
        marker: PhantomData,
    };
    parts.give_up();
}

/// A node that nobody leads to any more, whose slots below `at` have been given up.
struct Parts<'a, K: Key, V: Value, S: Shape, A: NodeAlloc> {
    node: Node<K, S>,
    at: usize,
    alloc: &'a A,
    marker: PhantomData<V>,
}

impl<K: Key, V: Value, S: Shape, A: NodeAlloc> Parts<'_, K, V, S, A> {
    fn give_up(&mut self) {
        if self.node.is_leaf() && !needs_drop::<V>() {
            return;
        }
        while self.at < self.node.used() {
            let word = self.node.slot(self.at);
            self.at += 1;
            // SAFETY: nobody leads to the node any more, so that what its slots own is ours to give up, once.
            unsafe { release_word::<K, V, S, A>(word, self.node.is_leaf(), self.alloc) };
        }
    }
}

impl<K: Key, V: Value, S: Shape, A: NodeAlloc> Drop for Parts<'_, K, V, S, A> {
    fn drop(&mut self) {
        // Those after one that panicked.
        self.give_up();
        // SAFETY: nobody uses the node any more; it came from this allocator or from one that is interchangeable with it.
        unsafe { self.alloc.deallocate(self.node.block(), LAYOUT) };
    }
}

/// Gives up what a slot owned, if that was anything: a value, if it was a leaf's, else one count of a node.
///
/// # Safety
///
/// As [`release`]; the word is no longer in a slot that somebody looks at.
unsafe fn release_word<K: Key, V: Value, S: Shape, A: NodeAlloc>(
    word: Word,
    of_leaf: bool,
    alloc: &A,
) {
    let Some(raw) = NonNull::new(word) else {
        return;
    };
    if of_leaf {
        // SAFETY: words in leaves are values; this one is no longer in the tree (the caller's promise).
        drop(unsafe { V::from_raw(raw) });
    } else {
        debug_assert!(is_node(word));
        // SAFETY: slots of inner nodes hold nodes, of which they own a count (now the caller's).
        unsafe { release::<K, V, S, A>(Node::from_word(word), alloc) };
    }
}
