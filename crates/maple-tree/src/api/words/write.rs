//! Writing: in one slot, or planned, reserved for and carried out.

use crate::alloc::{AllocError, NodeAlloc};
use crate::api::words::{At, CAPACITY, InLeaf, NodeReserve, WordTree};
use crate::api::{Planned, Way};
use crate::base::Native;
use crate::node::{Root, Word};
use crate::read::LeafPath;
use crate::write::apply::dismantle;
use crate::write::duplicate::{CloneError, Verbatim};
use crate::write::{Action, Rebalance, Sink, SlotAt, retire_subtree};
use core::convert::Infallible;
use core::ptr::NonNull;

/// A planned write. It holds for as long as the tree is not changed.
pub type Write = Planned<usize, Native>;

impl Write {
    /// Returns `true` if a node that the write replaces is known to have [idle
    /// words](super::idle_words), or if it replaces none.
    #[inline]
    pub fn leaves_idle_words(&self) -> bool {
        match &self.way {
            Way::Quick(quick) => {
                let LeafPath { place, parent, .. } = quick.path;
                quick.is_exact()
                    || place.leaf.idle().is_some()
                    || quick.rebalance != Rebalance::None
                        && parent.is_some_and(|above| above.idle().is_some())
            }
            Way::General(plan) => match &plan.action {
                Action::Nothing | Action::RootWord(_) | Action::RootLeaf | Action::Leaf(_) => true,
                Action::Clear(root) => root.idle().is_some(),
                Action::Rebuild(span) => span.left.idle().is_some() || span.right.idle().is_some(),
            },
        }
    }
}

/// Takes the nodes that a write replaced.
struct Nodes<F>(F);

impl<F: FnMut(NonNull<u8>)> Sink<usize> for Nodes<F> {
    const ENTRIES: bool = false;

    #[inline]
    fn entry(&mut self, _: usize, _: usize, _: Word) {}

    #[inline]
    fn node(&mut self, block: NonNull<u8>) {
        (self.0)(block);
    }
}

impl WordTree {
    /// Returns the slot that covers `key`, for a write; `None` in a tree without nodes.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    #[inline]
    pub unsafe fn at(&self, key: usize) -> Option<At> {
        self.0.slot_at(key).map(At)
    }

    /// As [`at`](WordTree::at), in a leaf that was looked up before.
    ///
    /// # Safety
    ///
    /// The caller is the only writer; since `slot` came from a lookup in this tree no leaf has been moved; its leaf covers `key`.
    #[inline]
    pub unsafe fn at_in(&self, slot: InLeaf, key: usize) -> At {
        debug_assert!((slot.min..=slot.max).contains(&key));
        // SAFETY: the leaf is in the tree (the caller's promise).
        let place = unsafe { slot.place() };
        At(self.0.slot_in(place, key))
    }

    /// Exchanges the entry in a slot that was looked up before for another, if the slot is an entry at just `first..=last`; gives the one that was
    /// there. `entry` is not NULL. `None` also if the slot is [`NO_SLOT`](super::NO_SLOT), whatever its leaf.
    ///
    /// # Safety
    ///
    /// As for [`at_in`](WordTree::at_in).
    #[inline(always)]
    pub unsafe fn exchange(
        &self,
        slot: InLeaf,
        (first, last): (usize, usize),
        entry: *mut (),
    ) -> Option<*mut ()> {
        debug_assert!(!entry.is_null());
        let (i, max) = (usize::from(slot.offset), slot.max);
        // SAFETY: the leaf is in the tree (the caller's promise), if there is one.
        let leaf = || unsafe { slot.place() }.leaf;
        // Most slots end at a pivot. The pivot of the leaf's last one is the largest key, wherever the leaf ends.
        if i + 1 < CAPACITY {
            let pivot = leaf().pivot(i);
            let ends = pivot == last && last <= max || pivot > max && last == max;
            if !ends {
                return None;
            }
        } else if i >= CAPACITY || last != max {
            return None;
        }
        let leaf = leaf();
        debug_assert!(!leaf.is_dead());
        let begins = match i {
            0 => first == slot.min,
            _ => leaf.pivot(i - 1) == first.wrapping_sub(1),
        };
        if !begins {
            return None;
        }
        let found = leaf.slot(i);
        if found.is_null() {
            return None;
        }
        leaf.publish(i, entry);
        Some(found)
    }

    /// Makes a range, which begins in `at`, hold `entry` (NULL erases), if that takes no node and moves no leaf; tells which slot it becomes.
    ///
    /// # Safety
    ///
    /// The caller is the only writer, the tree has not changed since `at` was found, and outside RCU mode there are no readers.
    #[inline]
    pub unsafe fn put(&self, at: At, range: (usize, usize), entry: *mut ()) -> Option<InLeaf> {
        let (first, last) = range;
        let SlotAt { path, slot, found } = at.0;
        let leaf = path.place.leaf;
        // SAFETY: the caller's promise.
        let unread = || unsafe { self.0.unread() };
        let slot = if at.0.is_entry(first, last) {
            if entry.is_null() {
                let joins = slot > 0 && leaf.slot(slot - 1).is_null();
                // A hole that goes on in another leaf would move the bound between the two.
                if !self.0.vacate(at.0, true, unread()?) {
                    return None;
                }
                slot - usize::from(joins)
            } else {
                leaf.publish(slot, entry);
                slot
            }
        } else {
            let fits = at.0.is_hole_around(last) && !entry.is_null();
            if !fits || !self.0.fill_hole(at.0, range, entry, unread()?) {
                return None;
            }
            slot + usize::from(found.first < first)
        };
        Some(InLeaf::new(path.place, slot))
    }

    /// Plans to make `first..=last` hold `entry`; NULL erases. `first` is not above `last`, and in the slot `at`, if the tree has nodes.
    ///
    /// # Safety
    ///
    /// The caller is the only writer, and the tree has not changed since `at` was found.
    pub unsafe fn plan(&self, at: Option<At>, first: usize, last: usize, entry: *mut ()) -> Write {
        Planned::new(&self.0, at.map(|At(at)| at), (first, last), entry)
    }

    /// Returns the most nodes that `entries` stores in ascending order, behind all existing
    /// entries, take.
    pub fn bulk_nodes(&self, entries: usize) -> usize {
        self.0.bulk_nodes(entries)
    }

    /// Carries a write out, and hands the nodes that it replaced to `retire`: readers may still be in them. Tells which slot the range has become,
    /// or is in, if that is known without another look.
    ///
    /// # Safety
    ///
    /// The caller is the only writer, the tree has not changed since the plan was made, `reserve` holds
    /// as many nodes as it needs, and outside RCU mode there are no readers.
    pub unsafe fn write(
        &self,
        write: Write,
        reserve: &mut NodeReserve,
        retire: impl FnMut(NonNull<u8>),
    ) -> Option<InLeaf> {
        let stands = write.stands();
        // SAFETY: the caller's promise.
        unsafe { write.carry_out(&self.0, reserve, &mut Nodes(retire)) };
        stands.map(|(path, slot)| InLeaf::new(path.place, slot))
    }

    /// Fills `new` with the entries of this tree.
    ///
    /// # Errors
    ///
    /// There was no memory; `new` is empty again.
    ///
    /// # Safety
    ///
    /// No thread writes this tree. `new` is empty, tracks gaps if this one does, and has no other
    /// users.
    pub unsafe fn duplicate<A: NodeAlloc>(&self, new: &Self, alloc: &A) -> Result<(), AllocError> {
        // SAFETY: the caller's promise; the words may stand in this tree, as they do.
        let done = unsafe { self.0.dup_into(&new.0, &mut &*alloc, &mut Verbatim) };
        done.map_err(|_: CloneError<Infallible>| AllocError)
    }

    /// Empties the tree and hands its nodes to `retire`, each after those below it. In RCU mode they are marked as dead; otherwise leaves are
    /// not even looked at, and a node may be freed at once.
    ///
    /// # Safety
    ///
    /// The caller is the only writer, and outside RCU mode there are no readers.
    pub unsafe fn clear(&self, mut retire: impl FnMut(NonNull<u8>)) {
        let root = self.0.root();
        self.0.publish_root(core::ptr::null_mut(), 0);
        let Root::Node(node) = root else { return };
        if self.0.in_rcu() {
            retire_subtree(node, 0, usize::MAX, (0, usize::MAX), &mut Nodes(retire));
        } else {
            // SAFETY: nothing refers to the nodes any more, and no thread reads or writes them (the
            // caller's promise).
            unsafe { dismantle(node, &mut retire) };
        }
    }
}
