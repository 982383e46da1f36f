//! Traversal of a tree that no thread writes during the traversal, from both ends.
//!
//! A leaf is looked at once, as a whole: which of its slots hold entries becomes a word of bits, without a branch that
//! depends on where the holes are. What is left to do for an entry is to take its bit off and to read its slot.
//!
//! No leaf is entered twice: an end that enters one takes all its bits, and the bounds of the part
//! that no end has entered move behind it. When nothing is left between the ends, the end that
//! still has bits of its leaf gives them to the other on request.
//!
//! There are three ways on, each a tenth as frequent as the one before: the next bit; the next leaf of the same parent, if no bound is in it; all
//! else ([`refill`]).

use core::mem::{swap, take};

use crate::base::{Key, Offset, Shape, Slot, either};
use crate::node::{Kind, Node, RawTree, prefetch};
use crate::read::iterate::by_window;
use crate::read::walk::descend_by;
use crate::read::{Found, LeafPath, Place};

/// The distance, in leaves, of memory prefetches.
const AHEAD: usize = 2;

/// One end of a scan: a leaf, and which of its entries are still to come.
#[derive(Clone, Copy)]
struct End<K, S> {
    /// Bit `i` stands for the entry in slot `i`. Zero as long as there is no leaf.
    left: u32,
    path: Option<LeafPath<K, S>>,
    /// The bound of the leaf's parent on the side to which the end moves.
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
    /// There is nothing left but what the ends' bits say.
    done: bool,
}

impl<K: Key, S: Shape> End<K, S> {
    /// The slot of the lowest entry that is still to come, or of the highest unless `UP`; there is one. With the leaf that it is in.
    #[inline(always)]
    fn take_slot<const UP: bool>(&mut self) -> (Place<K, S>, usize) {
        let i = if UP {
            self.left.trailing_zeros()
        } else {
            self.left.ilog2()
        };
        self.left ^= 1 << i;
        debug_assert!(self.path.is_some());
        // SAFETY: bits are only ever set together with the leaf.
        let place = unsafe { self.path.unwrap_unchecked() }.place;
        let leaf = place.leaf.as_leaf();
        (Place { leaf, ..place }, i as usize)
    }

    /// The entry there.
    #[inline(always)]
    fn take<const UP: bool>(&mut self) -> Found<K> {
        let (place, i) = self.take_slot::<UP>();
        place.slot(i)
    }

    /// To a leaf, all of whose entries are still to come.
    ///
    /// # Safety
    ///
    /// No thread writes the leaf.
    #[inline(always)]
    unsafe fn enter(&mut self, path: LeafPath<K, S>) {
        // SAFETY: the caller's promise.
        self.left = unsafe { path.place.leaf.as_leaf().entries() };
        self.path = Some(path);
    }
}

impl<K: Key, S: Shape> Scan<K, S> {
    /// A scan through `bounds`, or through nothing.
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

    /// The end that goes `UP`, or the one that goes down.
    #[inline(always)]
    fn end<const UP: bool>(&mut self) -> &mut End<K, S> {
        if UP { &mut self.front } else { &mut self.back }
    }

    /// The lowest entry left, or the highest unless `UP`.
    ///
    /// # Safety
    ///
    /// All calls are for the same tree, and no thread writes it between the first and the last.
    #[inline(always)]
    pub(crate) unsafe fn next<const UP: bool>(&mut self, tree: &RawTree<K, S>) -> Option<Found<K>> {
        match self.come::<UP>(tree) {
            Ok(()) => Some(self.end::<UP>().take::<UP>()),
            Err(single) => single,
        }
    }

    /// As [`next`](Self::next), with the place of the entry's word. What was given before is not looked at again.
    ///
    /// # Safety
    ///
    /// As for [`next`](Self::next), and the caller has the tree for himself.
    #[inline(always)]
    pub(crate) unsafe fn next_mut<const UP: bool>(
        &mut self,
        tree: &RawTree<K, S>,
    ) -> Option<(Found<K>, Slot)> {
        match self.come::<UP>(tree) {
            Ok(()) => {
                let (place, i) = self.end::<UP>().take_slot::<UP>();
                Some((place.slot(i), place.leaf.slot_memory(i)))
            }
            Err(single) => single.map(|found| (found, tree.root_memory())),
        }
    }

    /// Sees to it that an end has entries to come; if none are left, gives the entry of a tree without nodes, unless it has been given.
    #[inline(always)]
    fn come<const UP: bool>(&mut self, tree: &RawTree<K, S>) -> Result<(), Option<Found<K>>> {
        if self.end::<UP>().left == 0 {
            self.sibling::<UP>();
            if self.end::<UP>().left == 0 {
                // By value, there and back: nothing refers to the scan itself, so that in a loop it lives in registers.
                let (scan, single) = refill::<UP, K, S>(tree, *self);
                *self = scan;
                if self.end::<UP>().left == 0 {
                    return Err(single);
                }
            }
        }
        Ok(())
    }

    /// Goes to the next leaf below the same parent, if no bound is in it.
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
        // SAFETY: the neighbours of a leaf are leaves, and no thread writes the tree (promise of
        // `next` and the like).
        unsafe {
            let leaf = Node::of_kind(parent.slot(at), Kind::Leaf);
            end.enter(LeafPath {
                place: Place { leaf, min, max },
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

    /// Shows `show` the entries that are left, in order: those of the leaf at either end, and what is between them at once.
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
            // SAFETY: no thread writes the tree (the caller's promise).
            folded = unsafe { by_window::between(tree, (self.lo, self.hi), folded, &mut show) };
        }
        while self.back.left != 0 {
            folded = show(folded, self.back.take::<true>());
        }
        folded
    }

    /// Returns the number of entries that are left.
    ///
    /// # Safety
    ///
    /// As for [`next`](Self::next).
    pub(crate) unsafe fn count(mut self, tree: &RawTree<K, S>) -> usize {
        let mut count = 0;
        loop {
            if let Err(single) = self.come::<true>(tree) {
                return count + usize::from(single.is_some());
            }
            count += take(&mut self.front.left).count_ones() as usize;
        }
    }

    /// The fewest entries that can be left, and the most.
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

/// Finds the next leaf from one end in which there are entries. If there is none, gives the entry of a tree without nodes, unless it has been
/// given.
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
        // SAFETY: no thread writes the tree (promise of `next` and the like).
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
        // What is left is in the leaf of the other end.
        swap(&mut scan.front, &mut scan.back);
    }
    (scan, None)
}
