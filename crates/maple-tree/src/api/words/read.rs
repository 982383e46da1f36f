//! Looking: slots, gaps, and all of the tree.

use core::hint::select_unpredictable;

use crate::api::words::{CAPACITY, InLeaf, NO_SLOT, Slot, WordTree};
use crate::base::Native;
use crate::inspect::dump::{Dump, Format};
use crate::node::IDLE_SLOTS;
use crate::read::{BoundedLeaf, Found, GapRequest, LeafPath, descend, path, prefetch_leaves};

impl WordTree {
    /// Returns the entry at `key`, or NULL.
    ///
    /// # Safety
    ///
    /// The caller is the writer, or protects the nodes from being freed.
    #[inline]
    pub unsafe fn load(&self, key: usize) -> *mut () {
        self.0.load(key)
    }

    /// Returns the slot that covers `key`.
    ///
    /// # Safety
    ///
    /// As for [`load`](WordTree::load).
    #[inline]
    pub unsafe fn seek(&self, key: usize) -> Slot {
        match self.0.root().at(key) {
            Ok(root) => Slot::at_key(descend(root, key), key),
            Err(found) => Slot::in_root(found),
        }
    }

    /// As [`seek`](WordTree::seek), on the way `UP`, or down, through all leaves: the memory of the next ones is asked for. Gives also the leaf's place in
    /// the node above, for [`next_leaf`](WordTree::next_leaf).
    ///
    /// # Safety
    ///
    /// As for [`load`](WordTree::load).
    #[inline]
    pub unsafe fn seek_along<const UP: bool>(&self, key: usize) -> (Slot, u8) {
        match self.0.root().at(key) {
            Ok(root) => {
                let LeafPath { place, parent, at } = path::find(root, key);
                if let Some(parent) = parent {
                    prefetch_leaves::<UP, _, _>(parent, at);
                }
                (Slot::at_key(place, key), at as u8)
            }
            Err(found) => (Slot::in_root(found), 0),
        }
    }

    /// Returns the first slot of the next leaf, `UP`, or the last one of the leaf before, by way of
    /// the nodes above both: `at` is the place of the leaf that was looked up in the node above it.
    /// `None` if it is at another place, if there is no such leaf, and in RCU mode, where only the
    /// writer may go up.
    ///
    /// # Safety
    ///
    /// The caller is the writer, or no thread writes. Since `slot` came from a look-up in this
    /// tree, no leaf has been moved or replaced.
    #[inline(always)]
    pub unsafe fn next_leaf<const UP: bool>(&self, slot: InLeaf, at: u8) -> Option<(Slot, u8)> {
        if self.0.in_rcu() {
            return None;
        }
        let inner = self.0.inner_kind();
        // SAFETY: the caller's promise.
        let BoundedLeaf { leaf, min, max } = unsafe { slot.place() };
        let parent = leaf.parent(inner)?;
        let at = usize::from(at);
        if at > parent.end() || parent.slot(at) != leaf.word() {
            return None;
        }
        // An index of the leaf that was looked up, and one of the leaf that is asked for.
        let (from, key) = if UP {
            (max, max.checked_add(1)?)
        } else {
            (min, min.checked_sub(1)?)
        };
        let (parent, at) = match (UP, at == if UP { parent.end() } else { 0 }) {
            (true, false) => (parent, at + 1),
            (false, false) => (parent, at - 1),
            (_, true) => {
                let next = parent.neighbour::<UP>(from, inner)?;
                (next, if UP { 0 } else { next.end() })
            }
        };
        prefetch_leaves::<UP, _, _>(parent, at);
        let edge = parent.edge::<UP>(at, key, inner);
        let (min, max) = if UP { (key, edge) } else { (edge, key) };
        let leaf = parent.child(at).as_leaf();
        let place = BoundedLeaf { leaf, min, max };
        let slot = if UP { 0 } else { leaf.end() };
        Some((Slot::new(place, slot, place.slot(slot)), at as u8))
    }

    /// Returns the slot that covers `key` in a leaf that was looked up before, or `None` if that
    /// leaf has been replaced.
    ///
    /// # Safety
    ///
    /// As for [`load`](WordTree::load), without a break since `slot` came from a lookup in this tree; its leaf covers `key`.
    #[inline]
    pub unsafe fn seek_in(&self, slot: InLeaf, key: usize) -> Option<Slot> {
        debug_assert!((slot.min..=slot.max).contains(&key));
        // SAFETY: the caller's promise.
        let place = unsafe { slot.place() };
        let found = Slot::at_key(place, key);
        // After the reads: what was read from a leaf that lives now was in the tree then.
        (!place.leaf.is_dead()).then_some(found)
    }

    /// Returns the slot after the one that was looked up as slot `offset` of a leaf (before it,
    /// unless `UP`). Unless `holes` are wanted, a hole that ends before `limit` and in this leaf is
    /// skipped, and the entry behind it returned. Returns `None` if the slot no longer ends (or
    /// begins) at `edge`, if it is the leaf's last (or first) one, or if the leaf has been
    /// replaced.
    ///
    /// # Safety
    ///
    /// As for [`seek_in`](WordTree::seek_in); `edge` is before `limit`.
    #[inline(always)]
    pub unsafe fn beside<const UP: bool>(
        &self,
        slot: InLeaf,
        edge: usize,
        limit: usize,
        holes: bool,
    ) -> Option<Slot> {
        // SAFETY: the caller's promise.
        let place = unsafe { slot.place() };
        let (i, found) = place.adjacent::<UP>(usize::from(slot.offset), edge, limit, holes)?;
        // After the reads, as in `seek_in`.
        (!place.leaf.is_dead()).then_some(Slot::new(place, i, found))
    }

    /// As [`beside`](WordTree::beside), upwards, from a slot behind which the leaf has room for three more: then what follows ends at a pivot, and nothing is
    /// left to be told apart. `None` also from other slots, from one that does not end below `limit`, and where a hole follows that does not end below
    /// `limit` or in this leaf, and `holes` are not asked for.
    ///
    /// # Safety
    ///
    /// As for [`seek_in`](WordTree::seek_in), if `offset` is not [`NO_SLOT`].
    #[inline(always)]
    pub unsafe fn after_amid(
        &self,
        slot: InLeaf,
        edge: usize,
        limit: usize,
        holes: bool,
    ) -> Option<Slot> {
        let mut i = usize::from(slot.offset);
        if i + 3 >= CAPACITY {
            return None;
        }
        // Before it is known that a slot is in use it must not be looked at, if it may be one of a replaced leaf's idle words. The next one is not.
        const { assert!(IDLE_SLOTS <= 2) };
        // SAFETY: the caller's promise.
        let place @ BoundedLeaf { leaf, max, .. } = unsafe { slot.place() };
        // As in `Place::beside`.
        if leaf.pivot(i) != edge {
            return None;
        }
        // No branch: whether a hole comes next is anybody's guess.
        let hole = !holes & leaf.slot(i + 1).is_null();
        i = select_unpredictable(hole, i + 2, i + 1);
        // The pivots of the last slot in use and of those after it are the largest key: after a smaller one another slot is in use.
        let before = leaf.pivot(i - 1);
        if before >= limit {
            return None;
        }
        // Behind a hole there is an entry, unless a writer has erased it since.
        let word = leaf.slot(i);
        if word.is_null() && !holes {
            return None;
        }
        let (first, last) = (before + 1, leaf.pivot(i).min(max));
        // After the reads, as in `seek_in`.
        (!leaf.is_dead()).then_some(Slot::new(place, i, Found { first, last, word }))
    }

    /// Returns the first of the lowest `size` free indices within `bounds`; of the highest unless
    /// `UP`.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    pub unsafe fn gap<const UP: bool>(&self, bounds: (usize, usize), size: usize) -> Option<usize> {
        self.0.gap::<UP>(&GapRequest::new(bounds, size)?)
    }

    /// Returns all nodes and entries as text.
    ///
    /// # Safety
    ///
    /// No thread writes the tree while the text is made.
    pub unsafe fn dump(&self, format: Format) -> impl core::fmt::Display + '_ {
        let tree = &self.0;
        Dump { tree, format }
    }

    /// Returns `true` if every rule of the structure holds.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    pub unsafe fn is_sound(&self) -> bool {
        self.0.check().is_ok()
    }
}

impl InLeaf {
    /// Returns `true` if the leaf has been replaced.
    ///
    /// # Safety
    ///
    /// As for [`end`](InLeaf::end).
    #[inline]
    pub unsafe fn is_replaced(self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.place() }.leaf.is_dead()
    }

    /// Returns the last used slot of the leaf.
    ///
    /// # Safety
    ///
    /// There is a leaf. As for [`load`](WordTree::load), without a break since it came from a lookup.
    #[inline]
    pub unsafe fn end(self) -> u8 {
        // SAFETY: the caller's promise.
        unsafe { self.place() }.leaf.end() as u8
    }
}

impl Slot {
    #[inline(always)]
    fn new(place: BoundedLeaf<usize, Native>, slot: usize, found: Found<usize>) -> Self {
        Self {
            place: InLeaf::new(place, slot),
            ..Self::in_root(found)
        }
    }

    #[inline]
    fn at_key(place: BoundedLeaf<usize, Native>, key: usize) -> Self {
        let slot = place.leaf.search(key);
        Self::new(place, slot, place.slot(slot))
    }

    /// In a tree without nodes.
    #[inline(always)]
    fn in_root(Found { first, last, word }: Found<usize>) -> Self {
        Self {
            first,
            last,
            entry: word,
            place: InLeaf {
                leaf: core::ptr::null_mut(),
                min: 0,
                max: usize::MAX,
                offset: NO_SLOT,
            },
        }
    }
}
