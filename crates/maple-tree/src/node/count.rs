//! Reference counts of nodes, for trees that share nodes. A node that has never been shared names
//! its parent, as in any other tree, and has one reference. The first time it is shared it becomes
//! *counted*: the upper bits of its first word count the references, and a flag marks this form.
//! `end` stays in the low bits, so a shared node is read as any other node is.
//!
//! Each reference (a slot of an inner node, or the root of a tree) owns one count of its node. A
//! node that is not counted, or whose count is 1, has one reference. If that reference comes from a
//! node that is itself exclusively owned, up to the root, the node is exclusively owned. It may
//! then be changed, and names its parent again.
//!
//! # Ordering
//!
//! As in [`Arc`](std_alloc::sync::Arc). **Raising** is `Relaxed`: the raising thread owns a count,
//! or holds a node that does, so the node cannot be freed during the call. Passing the new count to
//! another thread orders the node's contents before that thread's accesses. **Lowering** is
//! `Release`: all that the thread did with the node, and through it with the nodes below, comes
//! before. A thread that finds the count to be **1**, or has made it 0, does so with `Acquire`:
//!
//! * If the other thread's lowering comes first, our load reads it or a later lowering, which
//!   continues its release sequence. So the other thread's reads of the node come before our writes
//!   to it. The counts of the children that it raised (because it copied the node) come before our
//!   look at those, so that we take none of the children for exclusively owned.
//! * If our load comes first it reads 2 or more, and we copy: the other side may be reading, which is what it may do with us.
//!
//! Only the one owner can raise a count of 1. So 1 stays 1 until the owner itself changes it, and
//! needs no second look.
//!
//! A node that is not counted is referenced only by the node that it names as its parent. A thread
//! that raises it holds that parent, perhaps together with other threads, which may raise it at the
//! same time, each for a copy of the parent. The first of them makes the node counted, by an
//! exchange that fails for the others, which then find a count. The owner looks at the parent
//! first: if that is exclusively owned, all that other threads have done to the child comes before.
//!
//! # Overflow
//!
//! A count that reaches half of the largest number ([`PINNED`]: 2⁵⁵, or 2²³ on 32-bit machines)
//! stays in that zone: the node is never changed in place and never freed. Leaked snapshots can
//! lead to this. They then cost memory, not soundness. The thread that raises a count into that
//! zone sets it to the middle of the zone while it still owns a count. Leaving the zone from its
//! middle would take more threads than can exist.

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

/// The value of counts that have reached the zone: three quarters of the largest.
const MIDDLE: usize = PINNED | (PINNED >> 1);

/// Returns `true` if a first word is that of a node with one reference.
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
    /// Returns `true` if the node has been shared since its parent was last set.
    #[inline(always)]
    pub(crate) fn is_counted(self) -> bool {
        self.cells.first_word().load(Ordering::Relaxed).addr() & COUNTED != 0
    }

    /// Returns `true` if the caller's reference is the only one. If so, all that other threads did
    /// with the node comes before what follows.
    #[inline(always)]
    pub(crate) fn is_sole(self) -> bool {
        is_sole(self.cells.first_word().load(Ordering::Acquire).addr())
    }

    /// Returns `true` if this node and all nodes above it have one reference and name their
    /// parents: then the node belongs to its tree alone. `inner` is the kind of inner nodes.
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

    /// Returns the number of references, unless it has become too large to count.
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

    /// Gives up one reference. Returns `true` if it was the last one: then all that other threads
    /// did with the node comes before what follows, and the caller must take the node apart.
    #[inline]
    #[must_use = "a node that nobody leads to has to be freed"]
    pub(crate) fn lower(self) -> bool {
        let cell = self.cells.first_word();
        // One look is enough for both.
        let word = cell.load(Ordering::Acquire).addr();
        if is_sole(word) {
            // No other reference exists through which the count could be raised or read.
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
