//! Looking: slots, gaps, and all of the tree.

use core::hint::select_unpredictable;

use crate::base::Native;
use crate::face::words::{Beside, CAPACITY, Home, InLeaf, NO_SLOT, Slot, WordTree, place};
use crate::inspect::dump::{Dump, Format};
use crate::node::{IDLE_SLOTS, Node};
use crate::read::{Found, Place, Spot, Want, ask_ahead, descend, spot};

impl WordTree {
    /// The entry at `key`, or NULL.
    ///
    /// # Safety
    ///
    /// The caller is the writer, or protects the nodes from being freed.
    #[inline]
    pub unsafe fn load(&self, key: usize) -> *mut () {
        self.0.load(key)
    }

    /// The slot that covers `key`.
    ///
    /// # Safety
    ///
    /// As for [`load`](WordTree::load).
    #[inline]
    pub unsafe fn seek(&self, key: usize) -> Slot {
        self.seek_with(key, |root| slot(descend(root, key), key))
    }

    /// As [`seek`](WordTree::seek), on the way `UP`, or down, through all leaves: the memory of the next ones is asked for.
    ///
    /// # Safety
    ///
    /// As for [`load`](WordTree::load).
    #[inline]
    pub unsafe fn seek_along<const UP: bool>(&self, key: usize) -> Slot {
        self.seek_with(key, |root| {
            let Spot { place, parent, at } = spot::find(root, key);
            if let Some(parent) = parent {
                ask_ahead::<UP, _, _>(parent, at);
            }
            slot_of(place, at, place.leaf.search(key))
        })
    }

    #[inline(always)]
    fn seek_with(&self, key: usize, below: impl FnOnce(Node<usize, Native>) -> Slot) -> Slot {
        let Found { first, last, word } = match self.0.root().at(key) {
            Ok(root) => return below(root),
            Err(found) => found,
        };
        Slot {
            home: if first == 0 && last == usize::MAX {
                Home::Empty
            } else {
                Home::Root
            },
            first,
            last,
            entry: word,
            leaf: core::ptr::null_mut(),
            min: 0,
            max: usize::MAX,
            offset: NO_SLOT,
            end: 0,
            at: 0,
        }
    }

    /// The first slot of the next leaf, `UP`, or the last one of the leaf before, by way of the nodes above both: `at` is the place of the leaf that was
    /// looked up in the node above it. `None` if it is at another place, if there is no such leaf, and in RCU mode, where only the writer may go up.
    ///
    /// # Safety
    ///
    /// The caller is the writer, or nobody writes; since `leaf`, `min` and `max` came from a lookup in this tree no leaf has been moved or replaced.
    #[inline(always)]
    pub unsafe fn next_leaf<const UP: bool>(
        &self,
        leaf: *mut (),
        (min, max): (usize, usize),
        at: u8,
    ) -> Option<Slot> {
        if self.0.in_rcu() {
            return None;
        }
        let inner = self.0.inner_kind();
        // SAFETY: the caller's promise.
        let parent = unsafe { place(leaf, min, max) }.leaf.parent(inner)?;
        let at = usize::from(at);
        if at > parent.end() || parent.slot(at) != leaf {
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
        ask_ahead::<UP, _, _>(parent, at);
        let edge = parent.edge::<UP>(at, key, inner);
        let (min, max) = if UP { (key, edge) } else { (edge, key) };
        let leaf = parent.child(at).as_leaf();
        let place = Place { leaf, min, max };
        Some(slot_of(place, at, if UP { 0 } else { place.leaf.end() }))
    }

    /// The slot that covers `key` in a leaf that was looked up before, or `None` if that leaf has been replaced.
    ///
    /// # Safety
    ///
    /// As for [`load`](WordTree::load), without a break since `leaf`, `min` and `max` came from a lookup in
    /// this tree; `min..=max` contains `key`.
    #[inline]
    pub unsafe fn seek_in(
        &self,
        leaf: *mut (),
        min: usize,
        max: usize,
        key: usize,
    ) -> Option<Slot> {
        debug_assert!((min..=max).contains(&key));
        // SAFETY: the caller's promise.
        let place = unsafe { place(leaf, min, max) };
        let found = slot(place, key);
        // After the reads: what was read from a leaf that lives now was in the tree then.
        (!place.leaf.is_dead()).then_some(found)
    }

    /// Whether a leaf that was looked up has been replaced.
    ///
    /// # Safety
    ///
    /// As for [`load`](WordTree::load), without a break since `leaf` came from a lookup.
    #[inline]
    pub unsafe fn is_replaced(leaf: *mut ()) -> bool {
        // SAFETY: the caller's promise.
        unsafe { place(leaf, 0, usize::MAX) }.leaf.is_dead()
    }

    /// The slot after the one that was looked up as slot `offset` of a leaf (before it, unless `UP`), or, unless `holes` are asked for, the entry behind it if
    /// that is a hole that ends before `limit` and in this leaf. `None` if the slot that was looked up does not end (or begin) at `edge` any more, if it is
    /// the leaf's last (or first) one, and if the leaf has been replaced.
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
    ) -> Option<Beside> {
        // SAFETY: the caller's promise.
        let place = unsafe { place(slot.leaf, slot.min, slot.max) };
        let found = place.beside::<UP>(usize::from(slot.offset), edge, limit, holes);
        let (i, Found { first, last, word }) = found?;
        // After the reads, as in `seek_in`.
        (!place.leaf.is_dead()).then_some(Beside {
            first,
            last,
            entry: word,
            offset: i as u8,
        })
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
        (leaf, max): (*mut (), usize),
        (offset, last): (u8, usize),
        limit: usize,
        holes: bool,
    ) -> Option<Beside> {
        let mut i = usize::from(offset);
        if i + 3 >= CAPACITY {
            return None;
        }
        // Before it is known that a slot is in use it must not be looked at, if it may be one of a replaced leaf's idle words. The next one is not.
        const { assert!(IDLE_SLOTS <= 2) };
        // SAFETY: the caller's promise.
        let leaf = unsafe { place(leaf, 0, max) }.leaf;
        // As in `Place::beside`.
        if leaf.pivot(i) != last {
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
        // Behind a hole there is an entry. But a writer may have erased it meanwhile.
        let entry = leaf.slot(i);
        if entry.is_null() && !holes {
            return None;
        }
        // After the reads, as in `seek_in`.
        (!leaf.is_dead()).then_some(Beside {
            first: before + 1,
            last: leaf.pivot(i).min(max),
            entry,
            offset: i as u8,
        })
    }

    /// The first of the lowest `size` free indices within `min..=max`.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    pub unsafe fn gap_up(&self, min: usize, max: usize, size: usize) -> Option<usize> {
        self.0.gap::<true>(&Want::new((min, max), size)?)
    }

    /// The first of the highest `size` free indices within `min..=max`.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    pub unsafe fn gap_down(&self, min: usize, max: usize, size: usize) -> Option<usize> {
        self.0.gap::<false>(&Want::new((min, max), size)?)
    }

    /// All nodes and entries as text, indices in decimal or hexadecimal.
    ///
    /// # Safety
    ///
    /// Nobody writes the tree while the text is made.
    pub unsafe fn dump(&self, hexadecimal: bool) -> impl core::fmt::Display + '_ {
        let format = if hexadecimal {
            Format::Hexadecimal
        } else {
            Format::Decimal
        };
        let tree = &self.0;
        Dump { tree, format }
    }

    /// Whether every rule of the structure holds.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    pub unsafe fn is_sound(&self) -> bool {
        self.0.check().is_ok()
    }
}

#[inline]
fn slot(place: Place<usize, Native>, key: usize) -> Slot {
    slot_of(place, 0, place.leaf.search(key))
}

#[inline]
fn slot_of(place: Place<usize, Native>, at: usize, offset: usize) -> Slot {
    let found = place.slot(offset);
    // A node has at most 32 slots.
    Slot {
        home: Home::Leaf,
        first: found.first,
        last: found.last,
        entry: found.word,
        leaf: place.leaf.word(),
        min: place.min,
        max: place.max,
        offset: offset as u8,
        end: place.leaf.end() as u8,
        at: at as u8,
    }
}
