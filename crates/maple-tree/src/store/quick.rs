//! Writes that stay within one leaf: planned with one descent, and carried out without looking at anything else.
//!
//! Most writes are such: what is left of the slots that they touch, and the new entry, fit the leaf, and leave enough in it. Whatever
//! else may have to be done (a split, a neighbour that joins, a range over several leaves, a root) is left to
//! the [`plan`](super::plan) of the general case.

use crate::key::Key;
use crate::node::{Geometry, Kind, Node, Word};
use crate::shape::Shape;
use crate::store::room::Room;
use crate::store::spot::{self, Spot};
use crate::tree::{RawTree, Root};
use crate::walk::{Found, Place};

/// A write into one leaf, which has been looked at.
///
/// The slots `from..=to` become: what is left of slot `from`, if `head`; the new slot; what is left of slot `to`, if `tail`.
pub(crate) struct Quick<K, S> {
    pub(crate) place: Place<K, S>,
    /// The node above the leaf, and the leaf's slot in it.
    pub(crate) parent: Option<Node<K, S>>,
    pub(crate) at: usize,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) head: bool,
    pub(crate) tail: bool,
    /// What the new slot covers: the range asked for, and the holes beside it if it is a hole.
    pub(crate) first: K,
    pub(crate) last: K,
    /// What the new slot holds.
    pub(crate) word: Word,
    /// How many slots there are afterwards.
    pub(crate) total: usize,
    pub(crate) room: Room,
}

// Passed by value, so that none of it need be in memory.
impl<K: Copy, S> Clone for Quick<K, S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Copy, S> Copy for Quick<K, S> {}

/// Whether a write is a quick one.
pub(crate) enum Try<T> {
    /// It is.
    Quick(T),
    /// What is asked for is not there, or something is in the way: nothing is to be done.
    Refused,
    /// It is not: plan it as the general case.
    General,
}

impl<K: Key, S: Shape> Quick<K, S> {
    /// Whether the range is that of a slot, so that just the word is exchanged.
    #[inline(always)]
    pub(crate) fn is_exact(self) -> bool {
        self.from == self.to && !self.head && !self.tail
    }

    /// How many nodes it takes.
    #[inline(always)]
    pub(crate) fn nodes(self, in_rcu: bool) -> usize {
        usize::from(in_rcu && !self.is_exact() || matches!(self.room, Room::Split(_)))
    }

    /// The write of `word` to `first..=last`, which are in the slots `from` and `to`; `None` if it is not a quick one.
    #[inline(always)]
    fn new(
        spot: Spot<K, S>,
        (from, to): (usize, usize),
        (first, last): (K, K),
        word: Word,
        tree: &RawTree<K, S>,
    ) -> Option<Self> {
        let Spot { place, parent, at } = spot;
        let Place { leaf, min, max } = place;
        let mut quick = Self {
            place,
            parent,
            at,
            from,
            to,
            head: false,
            tail: false,
            first,
            last,
            word,
            total: 0,
            room: Room::Here,
        };
        if word.is_null() {
            quick.widen()?;
        }
        let Self { from, to, .. } = quick;
        quick.head = leaf.first(from, min) < quick.first;
        quick.tail = quick.last < leaf.last(to, max);
        let used = leaf.used();
        let total = used + 1 + usize::from(quick.head) + usize::from(quick.tail) - (to + 1 - from);
        let splits = quick.head && quick.tail && from == to && !leaf.slot(from).is_null();
        let least = Geometry::<K, S>::least(Kind::Leaf);
        let enough = total >= least || total >= used || (min == K::MIN && max == K::MAX);
        let empties = total == 1 && word.is_null();
        if splits || empties {
            return None;
        }
        quick.total = total;
        if total > Geometry::<K, S>::SLOTS {
            if tree.in_rcu() {
                return None;
            }
            quick.room = spot.elsewhere(total, to == leaf.end())?;
        } else if !enough {
            if tree.in_rcu() {
                return None;
            }
            quick.room = spot.company(total)?;
        }
        Some(quick)
    }

    /// Takes in the holes that the hole to be meets; `None` if one of them is, or may be, in another leaf.
    #[inline(always)]
    fn widen(&mut self) -> Option<()> {
        let Place { leaf, min, max } = self.place;
        let head = leaf.first(self.from, min);
        if leaf.slot(self.from).is_null() {
            self.first = head;
        } else if head == self.first {
            if self.from > 0 {
                if leaf.slot(self.from - 1).is_null() {
                    self.from -= 1;
                    self.first = leaf.first(self.from, min);
                }
            } else if min != K::MIN {
                let before = self.parent?.child(self.at.checked_sub(1)?);
                if before.slot(before.end()).is_null() {
                    return None;
                }
            }
        }
        let tail = leaf.last(self.to, max);
        if leaf.slot(self.to).is_null() {
            self.last = tail;
        } else if tail == self.last {
            if self.to < leaf.end() {
                if leaf.slot(self.to + 1).is_null() {
                    self.to += 1;
                    self.last = leaf.last(self.to, max);
                }
            } else if max != K::MAX {
                let parent = self.parent?;
                if self.at == parent.end() || parent.child(self.at + 1).slot(0).is_null() {
                    return None;
                }
            }
        }
        Some(())
    }
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Plans to make `first..=last` hold `word` if that is a hole. `first` is not above `last`.
    #[inline(always)]
    pub(crate) fn try_insert(&self, first: K, last: K, word: Word) -> Try<Quick<K, S>> {
        let Root::Node(root) = self.root() else {
            return Try::General;
        };
        let spot = spot::find(root, first);
        let Spot { place, parent, at } = spot;
        let Place { leaf, min, max } = place;
        let i = leaf.search(first);
        if !leaf.slot(i).is_null() || last > leaf.last(i, max) {
            return Try::Refused;
        }
        if i == leaf.end() && i + 2 < Geometry::<K, S>::SLOTS && !self.in_rcu() {
            return Try::Quick(Quick {
                place,
                parent,
                at,
                from: i,
                to: i,
                head: leaf.first(i, min) < first,
                tail: last < max,
                first,
                last,
                word,
                total: 0,
                room: Room::End,
            });
        }
        Try::of(Quick::new(spot, (i, i), (first, last), word, self))
    }

    /// Plans to make `first..=last` hold `word` (NULL erases). `first` is not above `last`.
    #[inline(always)]
    pub(crate) fn try_store(&self, first: K, last: K, word: Word) -> Try<Quick<K, S>> {
        let Root::Node(root) = self.root() else {
            return Try::General;
        };
        let spot = spot::find(root, first);
        let place = spot.place;
        if last > place.max {
            return Try::General;
        }
        let from = place.leaf.search(first);
        let to = if last <= place.leaf.last(from, place.max) {
            from
        } else {
            place.leaf.search(last)
        };
        Try::of(Quick::new(spot, (from, to), (first, last), word, self))
    }

    /// Plans to exchange the whole entry at `key` for `word` (NULL erases it); gives the entry too.
    #[inline(always)]
    pub(crate) fn try_exchange(&self, key: K, word: Word) -> Try<(Found<K>, Quick<K, S>)> {
        let Root::Node(root) = self.root() else {
            return Try::General;
        };
        let spot = spot::find(root, key);
        let place = spot.place;
        let i = place.leaf.search(key);
        let found = place.slot(i);
        if found.word.is_null() {
            return Try::Refused;
        }
        let range = (found.first, found.last);
        match Quick::new(spot, (i, i), range, word, self) {
            Some(quick) => Try::Quick((found, quick)),
            None => Try::General,
        }
    }
}

impl<T> Try<T> {
    #[inline(always)]
    fn of(quick: Option<T>) -> Self {
        quick.map_or(Try::General, Try::Quick)
    }
}
