//! Iterating over a tree without a concurrent writer, from both ends.
//!
//! A leaf is examined once, as a whole: its entries become a word of bits, without a branch that
//! depends on where the holes are. An entry then only takes clearing its bit and reading its slot.
//!
//! No leaf is entered twice. An end that comes to a leaf takes all its bits, and the bounds of the
//! range that no end has entered move behind it. When nothing is left between the ends, an end that
//! asks gets the other's leaf.
//!
//! There are three steps, each a tenth as frequent as the one before: the next bit; the next leaf
//! of the same parent, if no bound is in it; everything else ([`refill`]).

use core::mem::{swap, take};

use crate::base::{Key, Offset, Shape, Slot, either};
use crate::node::{Kind, Node, RawTree, prefetch};
use crate::read::iterate::by_window;
use crate::read::walk::descend_by;
use crate::read::{BoundedLeaf, Found, LeafPath};

/// The number of leaves ahead that are prefetched.
const AHEAD: usize = 2;

/// One end of a scan: a leaf, and its remaining entries.
#[derive(Clone, Copy)]
struct End<K, S> {
    /// Bit `i` stands for the entry in slot `i`. Zero while there is no leaf.
    left: u32,
    path: Option<LeafPath<K, S>>,
    /// The bound of the leaf's parent in the direction of this end.
    edge: K,
}

/// The entries that intersect `lo..=hi`, in order, from both ends.
#[derive(Clone, Copy)]
pub(crate) struct Scan<K, S> {
    front: End<K, S>,
    back: End<K, S>,
    /// The range that no end has entered yet, unless `done`.
    lo: K,
    hi: K,
    /// `true` if only the ends' bits are left.
    done: bool,
}

impl<K: Key, S: Shape> End<K, S> {
    /// Removes the lowest remaining entry, or the highest unless `UP`, and returns its leaf and
    /// slot. There must be one.
    #[inline(always)]
    fn take_slot<const UP: bool>(&mut self) -> (BoundedLeaf<K, S>, usize) {
        let i = if UP {
            self.left.trailing_zeros()
        } else {
            self.left.ilog2()
        };
        self.left ^= 1 << i;
        debug_assert!(self.path.is_some());
        // SAFETY: bits are only set together with the leaf.
        let place = unsafe { self.path.unwrap_unchecked() }.place;
        let leaf = place.leaf.as_leaf();
        (BoundedLeaf { leaf, ..place }, i as usize)
    }

    /// Removes that entry and returns it.
    #[inline(always)]
    fn take<const UP: bool>(&mut self) -> Found<K> {
        let (place, i) = self.take_slot::<UP>();
        place.slot(i)
    }

    /// Moves to a leaf, all of whose entries then remain.
    ///
    /// # Safety
    ///
    /// Nothing writes the leaf.
    #[inline(always)]
    unsafe fn enter(&mut self, path: LeafPath<K, S>) {
        // SAFETY: the caller's promise.
        self.left = unsafe { path.place.leaf.as_leaf().entries() };
        self.path = Some(path);
    }
}

impl<K: Key, S: Shape> Scan<K, S> {
    /// Returns a scan of `bounds`, or of nothing.
    #[inline]
    pub(crate) fn new(bounds: Option<(K, K)>) -> Self {
        let (lo, hi) = bounds.unwrap_or((K::MIN, K::MIN));
        let (left, path, edge) = (0, None, K::MIN);
        let nowhere = End { left, path, edge };
        Self {
            front: nowhere,
            back: nowhere,
            lo,
            hi,
            done: bounds.is_none(),
        }
    }

    /// Returns the end that goes `UP`, or the one that goes down.
    #[inline(always)]
    fn end<const UP: bool>(&mut self) -> &mut End<K, S> {
        if UP { &mut self.front } else { &mut self.back }
    }

    /// Returns the lowest entry left, or the highest unless `UP`.
    ///
    /// # Safety
    ///
    /// All calls are for the same tree, and nothing writes it between the first and the last.
    #[inline(always)]
    pub(crate) unsafe fn next<const UP: bool>(&mut self, tree: &RawTree<K, S>) -> Option<Found<K>> {
        match self.refill_if_empty::<UP>(tree) {
            Ok(()) => Some(self.end::<UP>().take::<UP>()),
            Err(single) => single,
        }
    }

    /// Returns what [`next`](Self::next) does, with the address of the entry's word. Earlier
    /// results are not accessed again.
    ///
    /// # Safety
    ///
    /// As for [`next`](Self::next), and the caller has exclusive access to the tree.
    #[inline(always)]
    pub(crate) unsafe fn next_mut<const UP: bool>(
        &mut self,
        tree: &RawTree<K, S>,
    ) -> Option<(Found<K>, Slot)> {
        match self.refill_if_empty::<UP>(tree) {
            Ok(()) => {
                let (place, i) = self.end::<UP>().take_slot::<UP>();
                Some((place.slot(i), place.leaf.slot_memory(i)))
            }
            Err(single) => single.map(|found| (found, tree.root_memory())),
        }
    }

    /// Ensures that an end has remaining entries. If none are left, returns the entry of a tree
    /// without nodes, unless it was returned before.
    #[inline(always)]
    fn refill_if_empty<const UP: bool>(
        &mut self,
        tree: &RawTree<K, S>,
    ) -> Result<(), Option<Found<K>>> {
        if self.end::<UP>().left == 0 {
            self.sibling::<UP>();
            if self.end::<UP>().left == 0 {
                // By value, both ways: nothing refers to the scan itself, so that a loop keeps it
                // in registers.
                let (scan, single) = refill::<UP, K, S>(tree, *self);
                *self = scan;
                if self.end::<UP>().left == 0 {
                    return Err(single);
                }
            }
        }
        Ok(())
    }

    /// Goes to the next leaf of the same parent, if no bound is in it.
    #[inline(always)]
    fn sibling<const UP: bool>(&mut self) {
        let (lo, hi, done) = (self.lo, self.hi, self.done);
        let end = self.end::<UP>();
        let Some((parent, at)) = end.path.and_then(|path| Some((path.parent?, path.at))) else {
            return;
        };
        let used = parent.end();
        if done || at == if UP { used } else { 0 } {
            return;
        }
        let (at, ahead) = if UP {
            (at + 1, (at + 1 + AHEAD).min(used))
        } else {
            (at - 1, (at - 1).saturating_sub(AHEAD))
        };
        let edge = end.edge;
        let (last, first) = (parent.last(at, edge), parent.first(at, edge));
        let (min, max) = either::<UP, _>((lo, last), (first, hi));
        if either::<UP, _>(hi <= max, min <= lo) {
            return;
        }
        prefetch::node::<0>(parent.slot(ahead));
        // SAFETY: the siblings of a leaf are leaves, and nothing writes the tree (promise of `next`
        // and its like).
        unsafe {
            let leaf = Node::of_kind(parent.slot(at), Kind::Leaf);
            end.enter(LeafPath {
                place: BoundedLeaf { leaf, min, max },
                parent: Some(parent),
                at,
            });
        }
        if UP {
            self.lo = max.wrapping_add(K::ONE);
        } else {
            self.hi = min.wrapping_sub(K::ONE);
        }
    }

    /// Calls `show` with the remaining entries, in order: those of the leaf at either end, and
    /// those between by windows.
    ///
    /// # Safety
    ///
    /// As for [`next`](Self::next).
    #[inline]
    pub(crate) unsafe fn fold<B>(
        mut self,
        tree: &RawTree<K, S>,
        init: B,
        mut show: impl FnMut(B, Found<K>) -> B,
    ) -> B {
        let mut folded = init;
        while self.front.left != 0 {
            folded = show(folded, self.front.take::<true>());
        }
        if !self.done {
            // SAFETY: nothing writes the tree (the caller's promise).
            folded = unsafe { by_window::between(tree, (self.lo, self.hi), folded, &mut show) };
        }
        while self.back.left != 0 {
            folded = show(folded, self.back.take::<true>());
        }
        folded
    }

    /// Returns the number of remaining entries.
    ///
    /// # Safety
    ///
    /// As for [`next`](Self::next).
    pub(crate) unsafe fn count(mut self, tree: &RawTree<K, S>) -> usize {
        let mut count = 0;
        loop {
            if let Err(single) = self.refill_if_empty::<true>(tree) {
                return count + usize::from(single.is_some());
            }
            count += take(&mut self.front.left).count_ones() as usize;
        }
    }

    /// Returns the fewest entries that can remain, and the most.
    ///
    /// # Safety
    ///
    /// As for [`next`](Self::next).
    #[inline]
    pub(crate) unsafe fn size_hint(&self, tree: &RawTree<K, S>) -> (usize, Option<usize>) {
        let least = (self.front.left.count_ones() + self.back.left.count_ones()) as usize;
        let most = if self.done {
            least
        } else {
            tree.most_entries()
        };
        (least, Some(most))
    }
}

/// Moves an end to the next leaf that has entries. If there is none, returns the entry of a tree
/// without nodes, unless it was returned before.
#[inline(never)]
fn refill<const UP: bool, K: Key, S: Shape>(
    tree: &RawTree<K, S>,
    mut scan: Scan<K, S>,
) -> (Scan<K, S>, Option<Found<K>>) {
    while !scan.done && scan.end::<UP>().left == 0 {
        let (lo, hi) = (scan.lo, scan.hi);
        let root = match tree.root().at(lo) {
            Ok(root) => root,
            Err(found) => {
                scan.done = true;
                return (scan, (!found.word.is_null()).then_some(found));
            }
        };
        let (mut parent, mut at, mut edge) = (None, 0, K::MIN);
        let place = descend_by(root, if UP { lo } else { hi }, |node, i, (min, max)| {
            (parent, at, edge) = (Some(node), i, if UP { max } else { min });
        });
        let end = scan.end::<UP>();
        end.edge = edge;
        // SAFETY: nothing writes the tree (promise of `next` and its like).
        unsafe { end.enter(LeafPath { place, parent, at }) };
        if place.min < lo || hi < place.max {
            end.left &= place.within(lo, hi);
        }
        if UP {
            scan.done = hi <= place.max;
            scan.lo = place.max.wrapping_add(K::ONE);
        } else {
            scan.done = place.min <= lo;
            scan.hi = place.min.wrapping_sub(K::ONE);
        }
    }
    if scan.end::<UP>().left == 0 {
        // The rest is in the leaf of the other end.
        swap(&mut scan.front, &mut scan.back);
    }
    (scan, None)
}
