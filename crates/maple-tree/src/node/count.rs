//! How many lead to a node, for trees that share nodes. A node that has never been shared names its parent, as in any other tree, and is led to
//! once. When it is shared first it becomes *counted*: the upper bits of its first word count those that lead to it, and a flag says so. `end`
//! is in the low bits as ever, so that reading a shared node is reading any node.
//!
//! Whoever leads to a node (a slot of an inner node, or the root of a tree) owns one count of it. A node that is not counted, or whose count is 1, is
//! led to once; if that is from a node that is exclusively owned itself, up to the root, it is exclusively owned, and may be changed: it is then
//! told its parent again.
//!
//! # Ordering
//!
//! As in [`Arc`](std_alloc::sync::Arc). **Raising** is `Relaxed`: who raises owns a count, or holds a node that does,
//! so that the node cannot go meanwhile, and passing the new count to another thread orders what is in the node before that thread's
//! accesses. **Lowering** is `Release`: all that the thread did with the node, and with the nodes below while it was there through this
//! one, is before it. Whoever finds that the count is **1** (or has made it 0) does so with `Acquire`:
//!
//! * If the other side's lowering comes first, our load reads it or a later lowering, which continues its release sequence: the
//!   other side's reads of the node are before our writes to it, and the counts that it raised of the children (because it copied the
//!   node) are before our looking at those, so that none of them passes for ours alone.
//! * If our load comes first it reads 2 or more, and we copy: the other side may be reading, which is what it may do with us.
//!
//! Nobody can raise a count that is 1 but its one owner. So 1 stays 1 until the owner himself changes it, and needs no second look.
//!
//! A node that is not counted is led to from the node that it names alone. Whoever raises it has that one, perhaps beside others, who may raise it
//! at the same time, each for a copy of the parent: the first of them makes it counted, by an exchange that fails for the others, who then
//! find a count. The owner looks at the parent first: if that is his alone, all that others have done to the child comes before.
//!
//! # Overflow
//!
//! A count that has reached half of what the bits can hold ([`PINNED`]: 2⁵⁵, or 2²³ on 32-bit machines) stays about there: the node is
//! never changed in place and never freed. Snapshots that are forgotten can lead to that, and then cost memory, not soundness. The
//! thread that raises a count into that zone sets it to its middle while it still owns a count; so many threads as it would take to lead out of
//! the middle do not exist.

use core::ptr;

#[cfg(not(samara_loom))]
use crate::base::atomic::AtomicUsize;
use crate::base::atomic::{AtomicPtr, Ordering};
use crate::base::{Key, Shape};
use crate::node::{COUNTED, END_MASK, Kind, NODE_BYTES, Node};

/// One, where the count is in the first word.
const ONE: usize = NODE_BYTES;

/// A first word with this bit counts no more.
const PINNED: usize = 1 << (usize::BITS - 1);

/// Where the counts that have got so far are put: at three quarters.
const MIDDLE: usize = PINNED | (PINNED >> 1);

/// Whether a first word is that of a node that is led to once.
#[inline(always)]
fn is_sole(word: usize) -> bool {
    word & COUNTED == 0 || word & !END_MASK == ONE | COUNTED
}

/// Adds to a word, modulo 2 to the width, and gives what was there: what leads to a node is counted here, and nothing is pointed to. (`AtomicPtr` has
/// this operation itself from Rust 1.91 on.)
#[inline(always)]
#[cfg(not(samara_loom))]
fn add(word: &AtomicPtr<()>, n: usize, order: Ordering) -> usize {
    // SAFETY:
    // - both types have the size of a pointer and that alignment, and every value of the one is one of the other;
    // - the word is changed atomically and as a whole by both, and lives as long as the reference that was given;
    // - it holds a number without provenance, which loses nothing by being written as one.
    let number: &AtomicUsize = unsafe { &*ptr::from_ref(word).cast() };
    number.fetch_add(n, order)
}

#[cfg(samara_loom)]
fn add(word: &AtomicPtr<()>, n: usize, order: Ordering) -> usize {
    let mut old = word.load(Ordering::Relaxed);
    loop {
        let new = old.map_addr(|a| a.wrapping_add(n));
        match word.compare_exchange(old, new, order, Ordering::Relaxed) {
            Ok(_) => return old.addr(),
            Err(now) => old = now,
        }
    }
}

impl<K: Key, S: Shape> Node<K, S> {
    /// Whether the node has been shared since it was last told its parent.
    #[inline(always)]
    pub(crate) fn is_counted(self) -> bool {
        self.cells.first_word().load(Ordering::Relaxed).addr() & COUNTED != 0
    }

    /// Whether whoever asks, and leads here, is the only one. If so, all that others did with the node is before what comes.
    #[inline(always)]
    pub(crate) fn is_sole(self) -> bool {
        is_sole(self.cells.first_word().load(Ordering::Acquire).addr())
    }

    /// Whether the nodes above know that this one, and they themselves, are led to once: then it is its tree's own, and all of them name
    /// their parents. `inner` is the kind of inner nodes.
    pub(crate) fn is_linked(self, inner: Kind) -> bool {
        let mut node = self;
        loop {
            // One look tells both: below a node that others lead to, too, they may begin to count this one at any time.
            // What is not counted was written by this tree alone, and of what is counted no more is read: there is nothing to be acquired.
            let word = node.cells.first_word().load(Ordering::Relaxed);
            if word.addr() & COUNTED != 0 {
                return false;
            }
            match node.named_by(word, inner) {
                Some(parent) => node = parent,
                None => return true,
            }
        }
    }

    /// How many lead here, if that has not become too many to count.
    pub(crate) fn count(self) -> Option<usize> {
        let word = self.cells.first_word().load(Ordering::Relaxed).addr();
        if word & COUNTED == 0 {
            return Some(1);
        }
        (word & PINNED == 0).then_some(word / ONE)
    }

    /// One more leads here. The caller leads here, or owns what does.
    #[inline]
    pub(crate) fn raise(self) {
        let cell = self.cells.first_word();
        let mut word = cell.load(Ordering::Relaxed);
        while word.addr() & COUNTED == 0 {
            let two = (2 * ONE) | COUNTED | (word.addr() & END_MASK);
            let two = ptr::without_provenance_mut(two);
            match cell.compare_exchange(word, two, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
        let old = add(cell, ONE, Ordering::Relaxed);
        if old.wrapping_add(ONE) & PINNED != 0 {
            // The caller's own count keeps the node here; the end of a node that is led to twice does not change.
            cell.store(
                ptr::without_provenance_mut(MIDDLE | COUNTED | (old & END_MASK)),
                Ordering::Relaxed,
            );
        }
    }

    /// One fewer leads here. True if nobody does any more: then all that others did with the node is before what comes, and it is the
    /// caller's to take apart.
    #[inline]
    #[must_use = "a node that nobody leads to has to be freed"]
    pub(crate) fn lower(self) -> bool {
        let cell = self.cells.first_word();
        // One look is enough for both.
        let word = cell.load(Ordering::Acquire).addr();
        if is_sole(word) {
            // Nobody is there who could raise it, or see that it has not been lowered.
            return true;
        }
        if word & PINNED != 0 {
            return false;
        }
        if !is_sole(add(cell, ONE.wrapping_neg(), Ordering::Release)) {
            return false;
        }
        // Another thread lowered it after we looked. A load rather than a fence, which thread sanitizers do not understand.
        let _ = cell.load(Ordering::Acquire);
        true
    }
}
