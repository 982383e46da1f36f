//! Looking: slots, gaps, and all of the tree.

use crate::base::Native;
use crate::face::words::{Beside, Home, Slot, WordTree, place};
use crate::inspect::dump::{Dump, Format};
use crate::node::Node;
use crate::read::{Found, Place, Want, descend, descend_ahead};
use crate::write::spot::Spot;

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

    /// As [`seek`](WordTree::seek), on the way up through all leaves: the memory of the next ones is asked for.
    ///
    /// # Safety
    ///
    /// As for [`load`](WordTree::load).
    #[inline]
    pub unsafe fn seek_ahead(&self, key: usize) -> Slot {
        self.seek_with(key, |root| {
            let (place, at, offset) = descend_ahead::<true, _, _>(root, key);
            slot_of(place, at, offset)
        })
    }

    /// As [`seek_ahead`](WordTree::seek_ahead), on the way down.
    ///
    /// # Safety
    ///
    /// As for [`load`](WordTree::load).
    #[inline]
    pub unsafe fn seek_back(&self, key: usize) -> Slot {
        self.seek_with(key, |root| {
            let (place, at, offset) = descend_ahead::<false, _, _>(root, key);
            slot_of(place, at, offset)
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
            offset: 0,
            end: 0,
            at: 0,
        }
    }

    /// The first slot of the next leaf, `UP`, or the last one of the leaf before, by way of the node above both: `at` is the place there of the leaf
    /// that was looked up. `None` if it is at another place, if one of the two is the first or the last one below that node, and in RCU mode, where only
    /// the writer may go up.
    ///
    /// # Safety
    ///
    /// The caller is the writer, or nobody writes; since `leaf`, `min` and `max` came from a lookup in this tree no leaf has been moved.
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
        // SAFETY: the caller's promise.
        let place = unsafe { place(leaf, min, max) };
        let parent = place.leaf.parent(self.0.inner_kind())?;
        let at = usize::from(at);
        if at > parent.end() || parent.slot(at) != leaf {
            return None;
        }
        let spot = Spot {
            place,
            parent: Some(parent),
            at,
        };
        let key = if UP {
            max.wrapping_add(1)
        } else {
            min.wrapping_sub(1)
        };
        let Spot { place, at, .. } = spot.next_leaf::<UP>(key)?;
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

    /// The slot after the one that was looked up as slot `offset` of a leaf, if that still ends at `last`, is not the leaf's last one, and
    /// the leaf has not been replaced. Of the leaf only its last index, `max`, is needed.
    ///
    /// # Safety
    ///
    /// As for [`seek_in`](WordTree::seek_in).
    #[inline(always)]
    pub unsafe fn after(
        &self,
        leaf: *mut (),
        max: usize,
        offset: u8,
        last: usize,
    ) -> Option<Beside> {
        // SAFETY: the caller's promise.
        let place = unsafe { place(leaf, 0, max) };
        let found = place.beside::<true>(usize::from(offset), last)?;
        // After the reads, as in `seek_in`.
        (!place.leaf.is_dead()).then(|| found.into())
    }

    /// The slot before the one that was looked up as slot `offset` of a leaf, if that still begins at `first`. As [`after`](WordTree::after).
    ///
    /// # Safety
    ///
    /// As for [`seek_in`](WordTree::seek_in).
    #[inline(always)]
    pub unsafe fn before(
        &self,
        leaf: *mut (),
        min: usize,
        offset: u8,
        first: usize,
    ) -> Option<Beside> {
        // SAFETY: the caller's promise.
        let place = unsafe { place(leaf, min, usize::MAX) };
        let found = place.beside::<false>(usize::from(offset), first)?;
        // As above.
        (!place.leaf.is_dead()).then(|| found.into())
    }

    /// The first of the lowest `size` free indices within `min..=max`.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    pub unsafe fn gap_up(&self, min: usize, max: usize, size: usize) -> Option<usize> {
        self.0.gap_up(&want(min, max, size)?)
    }

    /// The first of the highest `size` free indices within `min..=max`.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    pub unsafe fn gap_down(&self, min: usize, max: usize, size: usize) -> Option<usize> {
        self.0.gap_down(&want(min, max, size)?)
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
        Dump {
            tree: &self.0,
            format,
        }
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

fn want(min: usize, max: usize, size: usize) -> Option<Want<usize>> {
    (min <= max && size > 0).then_some(Want {
        lo: min,
        hi: max,
        size,
        align: 1,
        offset: 0,
    })
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
