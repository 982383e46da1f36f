//! Reference counts of nodes, for trees that share nodes.
//!
//! A node that has never been shared names its parent, as in any other tree, and has one reference.
//! When it is first shared it becomes *counted*: the upper bits of its first word hold the number
//! of references, and a flag says so. `end` stays in the low bits, so that a shared node is read
//! like any other.
//!
//! Each reference to a node (a slot of an inner node, or the root of a tree) owns one count of it.
//! A node that is not counted, or whose count is 1, has one reference. If that is from an
//! exclusively owned node, and so on up to the root, the node is exclusively owned, too, and may be
//! changed. Its parent is then set again.
//!
//! # Ordering
//!
//! As in [`Arc`](std_alloc::sync::Arc). **Raising** is `Relaxed`: a thread that raises owns a
//! count, or holds a node that does, so that the node cannot be freed during the call. Passing the
//! new count to another thread orders the node's contents before that thread's accesses.
//! **Lowering** is `Release`: whatever the thread did with the node comes before it, and so does
//! whatever it did with the nodes below that it reached through this one. A thread that finds the
//! count to be **1** (or has made it 0) does so with `Acquire`:
//!
//! * If the other side's lowering comes first, our load reads it or a later lowering, which
//!   continues its release sequence. The other side's reads of the node are then before our writes
//!   to it. The counts of the children that it raised (because it copied the node) are before our
//!   loads of them, so that none of the children passes for exclusive.
//! * If our load comes first, it reads 2 or more, and we copy. The other side may be reading the
//!   node, which is compatible with our reads.
//!
//! Only its one owner can raise a count that is 1. So 1 stays 1 until the owner changes it, and
//! needs no second check.
//!
//! A node that is not counted has one reference, from the node that it names. A thread that raises
//! it holds that node, possibly together with other threads. These may raise the node at the same
//! time, each for a copy of the parent. The first of them makes it counted, by an exchange that
//! fails for the others, which then find a count. The owner checks the parent first: if that is
//! exclusive, everything that others did to the child comes before.
//!
//! # Overflow
//!
//! A count that has reached half of what the bits can hold ([`PINNED`]: 2⁵⁵, or 2²³ on 32-bit
//! machines) stays about there: the node is never changed in place and never freed. Forgotten
//! snapshots can cause that, which then costs memory, not soundness. The thread that raises a count
//! into that zone sets it to the zone's middle while it still owns a count. There are never enough
//! threads to leave the zone from its middle.

use core::ptr;

#[cfg(not(samara_loom))]
use crate::base::atomic::AtomicUsize;
use crate::base::atomic::{AtomicPtr, Ordering};
use crate::base::{Key, Shape};
use crate::node::{COUNTED, END_MASK, Kind, NODE_BYTES, Node};

/// One reference, as a number in the first word.
const ONE: usize = NODE_BYTES;

/// The bit of a first word that no longer counts.
const PINNED: usize = 1 << (usize::BITS - 1);

/// The value of such counts: three quarters of the range.
const MIDDLE: usize = PINNED | (PINNED >> 1);

/// Returns `true` if a first word is that of a node with one reference.
#[inline(always)]
fn is_unique(word: usize) -> bool {
    word & COUNTED == 0 || word & !END_MASK == ONE | COUNTED
}

/// Adds to a word, modulo 2 to the width, and returns the old value. The word holds a count here,
/// not a pointer. (`AtomicPtr` has this operation itself from Rust 1.91 on.)
#[inline(always)]
#[cfg(not(samara_loom))]
fn add(word: &AtomicPtr<()>, n: usize, order: Ordering) -> usize {
    // SAFETY:
    // - both types have the size and alignment of a pointer, and every value of the one is valid
    //   for the other;
    // - both change the word atomically and as a whole, and it lives as long as the given
    //   reference;
    // - it holds a number without provenance, which loses nothing when written as a number.
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

    /// Returns `true` if the caller's reference is the only one. If so, whatever others did with
    /// the node happens before what follows.
    #[inline(always)]
    pub(crate) fn is_unique(self) -> bool {
        is_unique(self.cells.first_word().load(Ordering::Acquire).addr())
    }

    /// Returns `true` if this node and all its ancestors have one reference. The node is then
    /// exclusive to its tree, and all of them name their parents. `inner` is the kind of inner
    /// nodes.
    pub(crate) fn is_linked(self, inner: Kind) -> bool {
        let mut node = self;
        loop {
            // One load answers both: below a shared node, others may start to count this one at any
            // time. Only this tree wrote an uncounted node, and nothing more is read of a counted
            // one. So there is nothing to acquire.
            let word = node.cells.first_word().load(Ordering::Relaxed);
            if word.addr() & COUNTED != 0 {
                return false;
            }
            match node.parent_in(word, inner) {
                Some(parent) => node = parent,
                None => return true,
            }
        }
    }

    /// Returns the number of references, unless the count is pinned.
    pub(crate) fn count(self) -> Option<usize> {
        let word = self.cells.first_word().load(Ordering::Relaxed).addr();
        if word & COUNTED == 0 {
            return Some(1);
        }
        (word & PINNED == 0).then_some(word / ONE)
    }

    /// Adds a reference. The caller has one, or owns the node that does.
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
            // The caller's own count keeps the node alive, and the end of a node with two
            // references does not change.
            cell.store(
                ptr::without_provenance_mut(MIDDLE | COUNTED | (old & END_MASK)),
                Ordering::Relaxed,
            );
        }
    }

    /// Removes a reference. Returns `true` if it was the last: whatever others did with the node
    /// then happens before what follows, and the caller must free it.
    #[inline]
    #[must_use = "a node that nobody leads to has to be freed"]
    pub(crate) fn lower(self) -> bool {
        let cell = self.cells.first_word();
        // One load serves both checks.
        let word = cell.load(Ordering::Acquire).addr();
        if is_unique(word) {
            // No other thread could raise it, or see that it has not been lowered.
            return true;
        }
        if word & PINNED != 0 {
            return false;
        }
        if !is_unique(add(cell, ONE.wrapping_neg(), Ordering::Release)) {
            return false;
        }
        // Another thread lowered it after the load above. A load rather than a fence, because
        // thread sanitizers do not understand fences.
        let _ = cell.load(Ordering::Acquire);
        true
    }
}
