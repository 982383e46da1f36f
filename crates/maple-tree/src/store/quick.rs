//! Writes that stay within one leaf: planned with one descent, and carried out without looking at anything else.
//!
//! Most writes are such: what is left of the slots that they touch, and the new entry, fit the leaf, and leave enough in it. Whatever
//! else may have to be done (a split, a neighbour that joins, a range over several leaves, a root) is left to
//! the [`plan`](super::plan) of the general case.
//!
//! # A leaf that is full
//!
//! If nobody reads meanwhile, a leaf that has no room shares its slots with a neighbour that has some (as in a B*-tree), and is split
//! only if both neighbours are nearly full, too: the nodes above keep their shape most of the time, and leaves are fuller. Ascending
//! stores leave full leaves behind. A leaf that is left with too few slots shares with a neighbour, too, or becomes one with it.

use crate::key::Key;
use crate::node::{Geometry, Kind, Word};
use crate::shape::Shape;
use crate::tree::{RawTree, Root};
use crate::walk::{Found, Place, descend};

/// Where the slots of a leaf go that has no room for all, or too few left.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// There is room.
    Here,
    /// There is room after the last slot, which is a hole and becomes an entry: no slot moves. Nobody reads.
    End,
    /// The leaf shares them with the leaf before, which has the same parent; if one leaf has room for all, the two become one.
    Before,
    /// As `Before`, with the leaf after.
    After,
    /// The leaf keeps so many of them, the others go to a new leaf after it. The parent has room for that.
    Split(usize),
}

/// A write into one leaf, which has been looked at.
///
/// The slots `from..=to` become: what is left of slot `from`, if `head`; the new slot; what is left of slot `to`, if `tail`.
pub(crate) struct Quick<K, S> {
    pub(crate) place: Place<K, S>,
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

/// Two leaves that share their slots have room for one in so many of a leaf's slots then.
const SPARE: usize = 8;

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
    #[inline]
    pub(crate) fn is_exact(&self) -> bool {
        self.from == self.to && !self.head && !self.tail
    }

    /// How many nodes it takes.
    #[inline]
    pub(crate) fn nodes(&self, in_rcu: bool) -> usize {
        usize::from(in_rcu && !self.is_exact() || matches!(self.room, Room::Split(_)))
    }

    /// The write of `word` to `first..=last`, which are in the slots `from` and `to`; `None` if it is not a quick one.
    #[inline(always)]
    fn new(
        place: Place<K, S>,
        (from, to): (usize, usize),
        (first, last): (K, K),
        word: Word,
        tree: &RawTree<K, S>,
    ) -> Option<Self> {
        let inner = tree.inner_kind();
        let in_place = (!tree.in_rcu()).then_some(inner);
        let Place { leaf, min, max } = place;
        let mut quick = Self {
            place,
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
            quick.widen(inner)?;
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
            quick.room = quick.elsewhere(in_place?)?;
        } else if !enough {
            quick.room = quick.company(in_place?)?;
        }
        Some(quick)
    }

    /// Finds room for what the leaf has no room for; `None` if the nodes above must change their shape. `inner` is the kind of the
    /// parent.
    #[inline(never)]
    fn elsewhere(&self, inner: Kind) -> Option<Room> {
        let slots = Geometry::<K, S>::SLOTS;
        let Place { leaf, min, max } = self.place;
        let parent = leaf.parent(inner)?;
        let i = parent.search(min);
        let may_grow = parent.used() < parent.capacity();
        if max == K::MAX && self.to == leaf.end() {
            // Ascending stores fill the leaves.
            return may_grow.then_some(Room::Split(slots));
        }
        // With less room than that the next store would have to share again.
        let most = 2 * slots - slots / SPARE - self.total;
        if i > 0 && parent.child(i - 1).used() <= most {
            return Some(Room::Before);
        }
        if i < parent.end() && parent.child(i + 1).used() <= most {
            return Some(Room::After);
        }
        may_grow.then_some(Room::Split(self.total - self.total / 2))
    }

    /// Finds a neighbour for a leaf that has too few slots left; `None` if the nodes above must change their shape. `inner` is the
    /// kind of the parent.
    #[inline(never)]
    fn company(&self, inner: Kind) -> Option<Room> {
        let parent = self.place.leaf.parent(inner)?;
        let i = parent.search(self.place.min);
        let (room, neighbour) = if i < parent.end() {
            (Room::After, i + 1)
        } else {
            (Room::Before, i.checked_sub(1)?)
        };
        let joins = self.total + parent.child(neighbour).used() <= Geometry::<K, S>::SLOTS;
        // A root must not be left with one child, either.
        (!joins || parent.used() > Geometry::<K, S>::least(inner)).then_some(room)
    }

    /// Takes in the holes that the hole to be meets; `None` if one of them is, or may be, in another leaf.
    #[inline]
    fn widen(&mut self, inner: Kind) -> Option<()> {
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
                let parent = leaf.parent(inner)?;
                let before = parent.child(parent.search(min).checked_sub(1)?);
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
                let parent = leaf.parent(inner)?;
                let i = parent.search(max);
                if i == parent.end() || parent.child(i + 1).slot(0).is_null() {
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
        let place = descend(root, first);
        let Place { leaf, min, max } = place;
        let i = leaf.search(first);
        if !leaf.slot(i).is_null() || last > leaf.last(i, max) {
            return Try::Refused;
        }
        if i == leaf.end() && i + 2 < Geometry::<K, S>::SLOTS && !self.in_rcu() {
            return Try::Quick(Quick {
                place,
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
        Try::of(Quick::new(place, (i, i), (first, last), word, self))
    }

    /// Plans to make `first..=last` hold `word` (NULL erases). `first` is not above `last`.
    #[inline(always)]
    pub(crate) fn try_store(&self, first: K, last: K, word: Word) -> Try<Quick<K, S>> {
        let Root::Node(root) = self.root() else {
            return Try::General;
        };
        let place = descend(root, first);
        if last > place.max {
            return Try::General;
        }
        let from = place.leaf.search(first);
        let to = if last <= place.leaf.last(from, place.max) {
            from
        } else {
            place.leaf.search(last)
        };
        Try::of(Quick::new(place, (from, to), (first, last), word, self))
    }

    /// Plans to exchange the whole entry at `key` for `word` (NULL erases it); gives the entry too.
    #[inline(always)]
    pub(crate) fn try_exchange(&self, key: K, word: Word) -> Try<(Found<K>, Quick<K, S>)> {
        let Root::Node(root) = self.root() else {
            return Try::General;
        };
        let place = descend(root, key);
        let i = place.leaf.search(key);
        let found = place.slot(i);
        if found.word.is_null() {
            return Try::Refused;
        }
        let range = (found.first, found.last);
        match Quick::new(place, (i, i), range, word, self) {
            Some(quick) => Try::Quick((found, quick)),
            None => Try::General,
        }
    }
}

impl<T> Try<T> {
    fn of(quick: Option<T>) -> Self {
        quick.map_or(Try::General, Try::Quick)
    }
}
