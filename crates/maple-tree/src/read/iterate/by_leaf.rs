//! Going through a tree that nobody writes meanwhile, from both ends.
//!
//! A leaf is looked at once, as a whole: which of its slots hold entries becomes a word of bits, without a branch that
//! depends on where the holes are. What is left to do for an entry is to take its bit off and to read its slot. The bounds of
//! the scan are looked at when an end comes to a leaf in which one lies.
//!
//! There are three ways on, each a tenth as frequent as the one before: the next bit; the next leaf of the same parent, if
//! neither a bound nor the other end is in it ([`sibling`]); all else ([`refill`]).

use core::marker::PhantomData;
use core::mem::take;

use crate::base::atomic::Slot;
use crate::base::{Key, Shape};
use crate::node::{Kind, NULL, Node, RawTree, Word, prefetch};
use crate::read::iterate::by_window;
use crate::read::{Found, Place};

/// How many leaves ahead memory is asked for.
const AHEAD: usize = 2;

/// One end of a scan: a leaf, and which of its entries are still to come.
#[derive(Clone, Copy)]
struct End<K, S> {
    /// Bit `i` stands for the entry in slot `i`. Zero as long as there is no leaf.
    left: u32,
    /// The slot of `parent` that the leaf is in.
    slot: usize,
    /// The slot of `parent` up (or down) to which leaves are free of bounds and of the other end.
    stop: usize,
    /// NULL: the end has not begun.
    leaf: Word,
    /// NULL: the leaf is the root.
    parent: Word,
    min: K,
    max: K,
    /// The parent's bound on the side to which the end moves.
    edge: K,
    shape: PhantomData<fn() -> S>,
}

/// The entries that intersect `lo..=hi`, in order, from both ends.
///
/// When the ends meet in a leaf, the bits of what is left there are the front's, and the back takes from them.
#[derive(Clone, Copy)]
pub(crate) struct Scan<K, S> {
    front: End<K, S>,
    back: End<K, S>,
    lo: K,
    hi: K,
    /// Both ends are in the same leaf.
    met: bool,
    /// There is nothing left but what the ends' bits say.
    done: bool,
}

impl<K: Key, S: Shape> End<K, S> {
    const NOWHERE: Self = Self {
        left: 0,
        slot: 0,
        stop: 0,
        leaf: NULL,
        parent: NULL,
        min: K::MIN,
        max: K::MAX,
        edge: K::MIN,
        shape: PhantomData,
    };

    /// The leaf, and what it covers. There is one.
    #[inline(always)]
    fn place(&self) -> Place<K, S> {
        Place {
            // SAFETY: leaves are in the tree, which nobody writes (promise of `next` and its like); bits are only ever set
            // together with the leaf.
            leaf: unsafe { Node::of_kind(self.leaf, Kind::Leaf) },
            min: self.min,
            max: self.max,
        }
    }

    /// The parent, which is not NULL.
    #[inline(always)]
    fn parent(&self) -> Node<K, S> {
        // SAFETY: as in `place`.
        unsafe { Node::from_word(self.parent) }
    }

    /// The slot of the lowest entry that is still to come, or of the highest unless `UP`; there is one.
    #[inline(always)]
    fn take_slot<const UP: bool>(&mut self) -> usize {
        if UP {
            let i = self.left.trailing_zeros();
            self.left &= self.left - 1;
            i as usize
        } else {
            let i = self.left.ilog2();
            self.left ^= 1 << i;
            i as usize
        }
    }

    /// The entry there.
    #[inline(always)]
    fn take<const UP: bool>(&mut self) -> Found<K> {
        let i = self.take_slot::<UP>();
        self.place().slot(i)
    }

    /// Goes to the leaf that covers `key`. Gives the bounds of its parent.
    fn enter(&mut self, root: Node<K, S>, key: K) -> (K, K) {
        let mut at = Place {
            leaf: root,
            min: K::MIN,
            max: K::MAX,
        };
        let mut above = (K::MIN, K::MAX);
        self.parent = NULL;
        while !at.leaf.is_leaf() {
            above = (at.min, at.max);
            self.parent = at.leaf.word();
            self.slot = at.leaf.search(key);
            at = at.child(self.slot);
        }
        self.leaf = at.leaf.word();
        self.min = at.min;
        self.max = at.max;
        above
    }

    /// Whether the next leaf below the parent, `UP` or down, is free of bounds and of the other end.
    #[inline(always)]
    fn has_sibling<const UP: bool>(&self) -> bool {
        if UP {
            self.slot < self.stop
        } else {
            self.slot > self.stop
        }
    }

    /// To the leaf in the next slot of the parent.
    #[inline(always)]
    fn step<const UP: bool>(&mut self) {
        self.slot = if UP { self.slot + 1 } else { self.slot - 1 };
        (self.leaf, self.left) = sibling::<K, S, UP>(self.parent, self.slot);
        if UP {
            self.min = self.max.wrapping_add(K::ONE);
            self.max = self.parent().last(self.slot, self.edge);
        } else {
            self.max = self.min.wrapping_sub(K::ONE);
            self.min = self.parent().first(self.slot, self.edge);
        }
    }
}

/// The leaf in slot `i` of `parent`, and which of its slots hold entries.
#[inline]
fn sibling<K: Key, S: Shape, const UP: bool>(parent: Word, i: usize) -> (Word, u32) {
    // SAFETY: the parent of a leaf that an end is in, and a leaf, of a tree that nobody writes (promise of `next` and its like).
    unsafe {
        let parent = Node::<K, S>::from_word(parent);
        let ahead = if UP {
            (i + AHEAD).min(parent.end())
        } else {
            i.saturating_sub(AHEAD)
        };
        prefetch::node::<0>(parent.slot(ahead));
        let word = parent.slot(i);
        (word, Node::<K, S>::of_kind(word, Kind::Leaf).entries())
    }
}

impl<K: Key, S: Shape> Scan<K, S> {
    /// A scan through `bounds`, or through nothing.
    #[inline]
    pub(crate) fn new(bounds: Option<(K, K)>) -> Self {
        let (lo, hi) = bounds.unwrap_or((K::MIN, K::MIN));
        Self {
            front: End::NOWHERE,
            back: End::NOWHERE,
            lo,
            hi,
            met: false,
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
    /// All calls are for the same tree, and nobody writes it between the first and the last.
    #[inline(always)]
    pub(crate) unsafe fn next<const UP: bool>(&mut self, tree: &RawTree<K, S>) -> Option<Found<K>> {
        match self.come::<UP>(tree) {
            Ok(()) => Some(self.end::<UP>().take::<UP>()),
            Err(last) => last,
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
                let end = self.end::<UP>();
                let i = end.take_slot::<UP>();
                let place = end.place();
                Some((place.slot(i), place.leaf.slot_memory(i)))
            }
            Err(last) => last.map(|found| (found, tree.entry_memory(found.first))),
        }
    }

    /// Sees to it that an end has entries to come; if there are none, gives the last entry left: that of a tree without nodes, or, to the back,
    /// one of the leaf in which the ends have met.
    #[inline(always)]
    fn come<const UP: bool>(&mut self, tree: &RawTree<K, S>) -> Result<(), Option<Found<K>>> {
        let end = self.end::<UP>();
        if end.left == 0 {
            if end.has_sibling::<UP>() {
                end.step::<UP>();
            }
            if end.left == 0 {
                // By value, there and back: nothing refers to the scan itself, so that in a loop it lives in registers.
                let (scan, last) = refill::<UP, K, S>(tree, *self);
                *self = scan;
                if self.end::<UP>().left == 0 {
                    return Err(last);
                }
            }
        }
        Ok(())
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
        if let Some(bounds) = self.between() {
            // SAFETY: nobody writes the tree (the caller's promise).
            folded = unsafe { by_window::between(tree, bounds, folded, &mut show) };
        }
        while self.back.left != 0 {
            folded = show(folded, self.back.take::<true>());
        }
        folded
    }

    /// What is left between the leaves that the ends are in.
    fn between(&self) -> Option<(K, K)> {
        if self.done || self.met {
            return None;
        }
        let mut bounds = (self.lo, self.hi);
        if !self.front.leaf.is_null() {
            bounds.0 = self.front.max.successor()?;
        }
        if !self.back.leaf.is_null() {
            bounds.1 = self.back.min.predecessor()?;
        }
        (bounds.0 <= bounds.1).then_some(bounds)
    }

    /// How many entries are left.
    ///
    /// # Safety
    ///
    /// As for [`next`](Self::next).
    pub(crate) unsafe fn count(mut self, tree: &RawTree<K, S>) -> usize {
        let mut count = 0;
        loop {
            count += self.front.left.count_ones() as usize;
            self.front.left = 0;
            if self.front.has_sibling::<true>() {
                self.front.step::<true>();
                continue;
            }
            let (scan, single) = refill::<true, K, S>(tree, self);
            self = scan;
            if self.front.left == 0 {
                return count + usize::from(single.is_some());
            }
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
        // Only where both ends are done with does nothing follow: the bits of a leaf may be all that there is.
        if self.done || self.met {
            return (least, Some(least));
        }
        (least, Some(tree.most_entries()))
    }

    /// The root node, or `None` at the end of a tree without nodes, with its entry if there is one that has not been given.
    fn root(&mut self, tree: &RawTree<K, S>) -> Result<Node<K, S>, Option<Found<K>>> {
        tree.root().at(self.lo).map_err(|found| {
            self.done = true;
            (!found.word.is_null()).then_some(found)
        })
    }
}

/// Finds the next leaf from one end in which entries are left. If there is none, gives the last entry left, as [`Scan::come`].
#[inline(never)]
fn refill<const UP: bool, K: Key, S: Shape>(
    tree: &RawTree<K, S>,
    mut scan: Scan<K, S>,
) -> (Scan<K, S>, Option<Found<K>>) {
    while scan.end::<UP>().left == 0 {
        if scan.met {
            // What is left in the leaf is the front's, and the back takes from that.
            if UP || scan.front.left == 0 {
                scan.done = true;
                break;
            }
            let found = scan.front.take::<false>();
            return (scan, Some(found));
        }
        if scan.done {
            break;
        }
        let root = match scan.root(tree) {
            Ok(root) => root,
            Err(single) => return (scan, single),
        };
        let (lo, hi) = (scan.lo, scan.hi);
        let (end, other) = if UP {
            (&mut scan.front, &mut scan.back)
        } else {
            (&mut scan.back, &mut scan.front)
        };
        let reaches = if UP { hi <= end.max } else { end.min <= lo };
        let key = if end.leaf.is_null() {
            if UP { lo } else { hi }
        } else if reaches {
            scan.done = true;
            break;
        } else if UP {
            end.max.wrapping_add(K::ONE)
        } else {
            end.min.wrapping_sub(K::ONE)
        };
        let above = end.enter(root, key);
        end.edge = if UP { above.1 } else { above.0 };
        end.stop = end.slot;
        if end.parent.is_null() || end.parent == other.parent {
            // Leaf by leaf, from both sides.
            other.stop = other.slot;
        } else {
            // The leaf in which the bound is, is not one of those before it.
            let parent = end.parent();
            end.stop = if UP && hi <= above.1 {
                parent.search(hi).saturating_sub(1)
            } else if UP {
                parent.end()
            } else if above.0 <= lo {
                (parent.search(lo) + 1).min(end.slot)
            } else {
                0
            };
        }
        if end.leaf == other.leaf {
            if UP {
                // What the back has left. It took the bounds off already.
                end.left = take(&mut other.left);
            }
            scan.met = true;
        } else {
            let place = end.place();
            // SAFETY: nobody writes the tree (promise of `next` and its like).
            end.left = unsafe { place.leaf.entries() };
            if place.min <= lo || hi <= place.max {
                end.left &= place.within(lo, hi);
            }
        }
    }
    (scan, None)
}
