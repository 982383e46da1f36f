//! Giving up what leads to a node.

use core::marker::PhantomData;
use core::mem::needs_drop;
use core::ptr::NonNull;

use crate::alloc::NodeAlloc;
use crate::base::{Key, Shape, Value};
use crate::node::{LAYOUT, NULL, Node, Word, is_node};

/// Gives up one count of a node, and, if it was the last, the values in it and the counts of the nodes below. Slots that are NULL,
/// because their contents have moved elsewhere, are passed over. If dropping a value panics, the others are dropped all the same.
///
/// # Safety
///
/// The count is the caller's, who does not use it again. The node is of a tree with this `K`, `S` and `V`, whose nodes are given back
/// to `alloc`.
pub(super) unsafe fn release<K: Key, V: Value, S: Shape, A: NodeAlloc>(
    node: Node<K, S>,
    alloc: &A,
) {
    if node.lower() {
        let mut parts = Parts::<K, V, S, A> {
            node,
            at: 0,
            alloc,
            marker: PhantomData,
        };
        parts.give_up();
    }
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

/// No node has more slots.
pub(super) const MOST: usize = 32;

/// The words that a change of one node in place takes out of it. They are given up when the tree is whole again: dropping a
/// value may panic.
pub(super) struct Removed {
    words: [Word; MOST],
    count: usize,
}

impl Removed {
    pub(super) fn new() -> Self {
        Self {
            words: [NULL; MOST],
            count: 0,
        }
    }

    /// Adds what a slot held, if that was anything.
    #[inline]
    pub(super) fn push(&mut self, word: Word) {
        if !word.is_null() {
            self.words[self.count] = word;
            self.count += 1;
        }
    }

    /// Gives them up. If dropping a value panics, the others are dropped all the same.
    ///
    /// # Safety
    ///
    /// They have been in slots of leaves (or, if not `of_leaf`, of inner nodes) of a tree with this `K`, `S` and `V`, and are not there
    /// any more. The tree's nodes are given back to `alloc`.
    #[inline]
    pub(super) unsafe fn release<K: Key, V: Value, S: Shape, A: NodeAlloc>(
        self,
        of_leaf: bool,
        alloc: &A,
    ) {
        let mut rest = Rest::<K, V, S, A> {
            removed: self,
            of_leaf,
            alloc,
            marker: PhantomData,
        };
        rest.give_up();
    }
}

/// Removed words that are being given up, from the last one on.
struct Rest<'a, K: Key, V: Value, S: Shape, A: NodeAlloc> {
    removed: Removed,
    of_leaf: bool,
    alloc: &'a A,
    marker: PhantomData<(K, V, S)>,
}

impl<K: Key, V: Value, S: Shape, A: NodeAlloc> Rest<'_, K, V, S, A> {
    #[inline]
    fn give_up(&mut self) {
        while let Some(left) = self.removed.count.checked_sub(1) {
            self.removed.count = left;
            let word = self.removed.words[left];
            // SAFETY: what `Removed::release` was promised; each word is given up once.
            unsafe { release_word::<K, V, S, A>(word, self.of_leaf, self.alloc) };
        }
    }
}

impl<K: Key, V: Value, S: Shape, A: NodeAlloc> Drop for Rest<'_, K, V, S, A> {
    #[inline]
    fn drop(&mut self) {
        self.give_up();
    }
}
