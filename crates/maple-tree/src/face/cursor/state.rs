//! Where a cursor is, and how it moves: a small state machine over any tree. Writes nothing.
//!
//! Within its leaf a cursor goes from slot to slot: where the one that it stands on ends as the cursor does, the next one is beside it.

use crate::base::{Key, Shape};
use crate::node::{NULL, Node, RawTree, Root, Word};
use crate::read::{Found, Place, descend, descend_ahead};
use crate::write::{SlotAt, Spot};

/// What a cursor's range stands for; the names are Linux's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Status {
    /// Not looked yet: the range is the caller's.
    #[default]
    Start,
    /// At an entry or a hole in a leaf: the range is its.
    Active,
    /// At the single entry of a tree without nodes, which is at index 0.
    Root,
    /// At the hole that an empty tree is, or that is above a single entry at index 0.
    None,
    /// Where it was may have changed: the next move looks anew, `find` after the range, `next` and `prev` from what is at the index by then.
    Pause,
    /// The last move reached its upper limit without finding anything. A move with a larger limit goes on.
    Overflow,
    /// The last move reached its lower limit without finding anything. A move with a smaller limit goes on.
    Underflow,
}

/// A range, what it stands for, and the leaf that it is in, if one has been looked up.
pub(super) struct State<K, S> {
    pub(super) index: K,
    pub(super) last: K,
    pub(super) status: Status,
    place: Option<Place<K, S>>,
    /// The slot of the leaf that the last look found, or a write has left there. Another write may have made it another.
    slot: usize,
}

impl<K: Key, S: Shape> State<K, S> {
    pub(super) fn new(index: K, last: K) -> Self {
        Self {
            index,
            last,
            status: Status::Start,
            place: None,
            slot: 0,
        }
    }

    /// Forgets where it was, and takes a range of the caller's.
    pub(super) fn set(&mut self, index: K, last: K) {
        *self = Self::new(index, last);
    }

    /// Forgets the leaf: it may be changed or gone.
    pub(super) fn pause(&mut self) {
        self.status = Status::Pause;
        self.place = None;
    }

    /// Stands on a range that is just being written; the leaf that it is in then is not known.
    pub(super) fn wrote(&mut self, index: K, last: K) {
        *self = Self {
            index,
            last,
            status: Status::Active,
            place: None,
            slot: 0,
        };
    }

    /// As [`wrote`](Self::wrote), where the leaf stays, and the range is in its slot `slot` then.
    pub(super) fn wrote_in(&mut self, (index, last): (K, K), place: Place<K, S>, slot: usize) {
        *self = Self {
            index,
            last,
            status: Status::Active,
            place: Some(place),
            slot,
        };
    }

    /// The slot that the cursor stands on, if it is an entry with just the cursor's range: what a store there takes the place of. Of the nodes
    /// above the leaf nothing is told. Only for the writer, through whom alone the tree has changed since the leaf was looked up.
    #[inline(always)]
    pub(super) fn own_entry(&self) -> Option<SlotAt<K, S>> {
        let place = self.place?;
        let (spot, slot) = (
            Spot {
                place,
                parent: None,
                at: 0,
            },
            self.slot,
        );
        let found = place.slot(slot);
        let at = SlotAt { spot, slot, found };
        at.is_entry(self.index, self.last).then_some(at)
    }

    /// The slot at `index`, and the way to it; `None` in a tree without nodes. As for [`own_entry`](Self::own_entry).
    #[inline]
    pub(super) fn spot(&self, tree: &RawTree<K, S>) -> Option<SlotAt<K, S>> {
        match self.place {
            Some(place) if place.min <= self.index && self.index <= place.max => {
                Some(tree.slot_in(place, self.slot, self.index))
            }
            _ => tree.slot_at(self.index),
        }
    }

    /// The slot at `key`, by way of the leaf that the last look was in if that still stands, else `by` another that is found from the root.
    #[inline(always)]
    fn look(
        &mut self,
        tree: &RawTree<K, S>,
        key: K,
        by: impl FnOnce(Node<K, S>) -> (Place<K, S>, usize),
    ) -> (Found<K>, Status) {
        if let Some(place) = self.place
            && place.min <= key
            && key <= place.max
            && !place.leaf.is_dead()
        {
            self.slot = place.leaf.search(key);
            return (place.slot(self.slot), Status::Active);
        }
        self.place = None;
        match tree.root() {
            Root::Empty => (
                Found {
                    first: K::MIN,
                    last: K::MAX,
                    word: NULL,
                },
                Status::None,
            ),
            Root::Single(word) if key == K::MIN => (
                Found {
                    first: K::MIN,
                    last: K::MIN,
                    word,
                },
                Status::Root,
            ),
            Root::Single(_) => (
                Found {
                    first: K::ONE,
                    last: K::MAX,
                    word: NULL,
                },
                Status::None,
            ),
            Root::Node(root) => {
                let (place, slot) = by(root);
                self.place = Some(place);
                self.slot = slot;
                (place.slot(slot), Status::Active)
            }
        }
    }

    /// To the slot at `key`.
    fn go(&mut self, tree: &RawTree<K, S>, key: K) -> Word {
        let found = self.look(tree, key, |root| {
            let place = descend(root, key);
            (place, place.leaf.search(key))
        });
        self.stand_on(found)
    }

    /// To the slot at `key`, which follows the one that the cursor stands on, `UP` or down. Whoever goes on to the next leaf will most
    /// likely go on to those after it.
    fn go_on<const UP: bool>(&mut self, tree: &RawTree<K, S>, key: K) -> Word {
        let found = self.look(tree, key, |root| descend_ahead::<UP, K, S>(root, key));
        self.stand_on(found)
    }

    #[inline(always)]
    fn stand_on(&mut self, (found, status): (Found<K>, Status)) -> Word {
        self.index = found.first;
        self.last = found.last;
        self.status = status;
        found.word
    }

    /// Within its leaf, from the slot that the cursor stands on, and that ends below `max`, on as in [`onwards`](Self::onwards). `None` if that
    /// cannot be told from the leaf: the cursor stands on the last slot that could be.
    #[inline(always)]
    fn onwards_here(&mut self, max: K, holes: bool) -> Option<Word> {
        let place = self.place?;
        let mut next = place.after(self.slot, self.last)?;
        let mut passed = 1;
        let mut found = Some(next.word);
        let mut over = false;
        if next.word.is_null() && !holes {
            over = next.last >= max;
            if !over {
                // No hole follows a hole in its leaf.
                let behind = place.after(self.slot + 1, next.last);
                match behind.filter(|behind| !behind.word.is_null()) {
                    Some(behind) => {
                        (next, passed) = (behind, 2);
                        found = Some(behind.word);
                    }
                    None => found = None,
                }
            }
        }
        // After the reads: what was read from a leaf that lives now was in the tree then.
        if place.leaf.is_dead() {
            return None;
        }
        self.index = next.first;
        self.last = next.last;
        self.slot += passed;
        if over {
            self.status = Status::Overflow;
        }
        found
    }

    /// As [`onwards_here`](Self::onwards_here), from a slot that starts above `min`, back as in [`backwards`](Self::backwards).
    #[inline(always)]
    fn backwards_here(&mut self, min: K, holes: bool) -> Option<Word> {
        let place = self.place?;
        let mut before = place.before(self.slot, self.index)?;
        let mut passed = 1;
        let mut found = Some(before.word);
        let mut under = false;
        if before.word.is_null() && !holes {
            under = before.first <= min;
            if !under {
                // No hole comes before a hole in its leaf.
                let next = place.before(self.slot - 1, before.first);
                match next.filter(|next| !next.word.is_null()) {
                    Some(next) => {
                        (before, passed) = (next, 2);
                        found = Some(next.word);
                    }
                    None => found = None,
                }
            }
        }
        // As above.
        if place.leaf.is_dead() {
            return None;
        }
        self.index = before.first;
        self.last = before.last;
        self.slot -= passed;
        if under {
            self.status = Status::Underflow;
        }
        found
    }

    fn over(&mut self) -> Word {
        self.status = Status::Overflow;
        NULL
    }

    fn under(&mut self) -> Word {
        self.status = Status::Underflow;
        NULL
    }

    /// To the entry or hole at `index`.
    pub(super) fn walk(&mut self, tree: &RawTree<K, S>) -> Word {
        if self.status == Status::Active
            && let Some(place) = self.place
        {
            // Most likely it stands there already: its range is that of its slot unless something has been written.
            let found = place.slot(self.slot);
            if found.first == self.index && found.last == self.last && !place.leaf.is_dead() {
                return found.word;
            }
        }
        self.go(tree, self.index)
    }

    /// On to what comes after the range, up to `max`; `holes` stops at holes too.
    fn onwards(&mut self, tree: &RawTree<K, S>, max: K, holes: bool) -> Word {
        loop {
            match self.last.successor() {
                Some(next) if self.last < max => {
                    let word = self.go_on::<true>(tree, next);
                    if !word.is_null() || holes {
                        return word;
                    }
                }
                _ => return self.over(),
            }
        }
    }

    /// Back to what comes before the range, down to `min`; `holes` stops at holes too.
    fn backwards(&mut self, tree: &RawTree<K, S>, min: K, holes: bool) -> Word {
        loop {
            match self.index.predecessor() {
                Some(before) if min < self.index => {
                    let word = self.go_on::<false>(tree, before);
                    if !word.is_null() || holes {
                        return word;
                    }
                }
                _ => return self.under(),
            }
        }
    }

    /// To the next entry after the one at `index`, which starts no later than `max`.
    #[inline]
    pub(super) fn next(&mut self, tree: &RawTree<K, S>, max: K, holes: bool) -> Word {
        if self.status == Status::Active
            && self.last < max
            && let Some(word) = self.onwards_here(max, holes)
        {
            return word;
        }
        self.next_anew(tree, max, holes)
    }

    /// [`next`](Self::next) from any status.
    #[inline(never)]
    fn next_anew(&mut self, tree: &RawTree<K, S>, max: K, holes: bool) -> Word {
        match self.status {
            Status::Active | Status::Overflow | Status::Underflow => {}
            Status::Start | Status::Pause | Status::None | Status::Root => {
                self.go(tree, self.index);
                match self.status {
                    Status::Root => {
                        // Nothing comes after the only entry.
                        self.go(tree, K::ONE);
                        return NULL;
                    }
                    Status::None => return NULL,
                    _ => {}
                }
            }
        }
        self.onwards(tree, max, holes)
    }

    /// To the entry before the one at `index`, which ends no earlier than `min`.
    #[inline]
    pub(super) fn prev(&mut self, tree: &RawTree<K, S>, min: K, holes: bool) -> Word {
        if self.status == Status::Active
            && min < self.index
            && let Some(word) = self.backwards_here(min, holes)
        {
            return word;
        }
        self.prev_anew(tree, min, holes)
    }

    /// [`prev`](Self::prev) from any status.
    #[inline(never)]
    fn prev_anew(&mut self, tree: &RawTree<K, S>, min: K, holes: bool) -> Word {
        if self.index <= min {
            return self.under();
        }
        match self.status {
            Status::Active | Status::Overflow | Status::Underflow => {}
            Status::Start | Status::Pause | Status::None | Status::Root => {
                self.go(tree, self.index);
                if self.status == Status::None {
                    return self.single_below(tree, min);
                }
            }
        }
        self.backwards(tree, min, holes)
    }

    /// From the hole of a tree without nodes to the entry below it, if there is one.
    fn single_below(&mut self, tree: &RawTree<K, S>, min: K) -> Word {
        if self.index == K::MIN || min > K::MIN {
            return NULL;
        }
        self.go(tree, K::MIN)
    }

    /// To the first entry at or after `index`; if the cursor is at one already, to the next.
    #[inline]
    pub(super) fn find(&mut self, tree: &RawTree<K, S>, max: K, holes: bool) -> Word {
        if self.status == Status::Active
            && self.last < max
            && let Some(word) = self.onwards_here(max, holes)
        {
            return word;
        }
        self.find_anew(tree, max, holes)
    }

    /// [`find`](Self::find) from any status.
    #[inline(never)]
    fn find_anew(&mut self, tree: &RawTree<K, S>, max: K, holes: bool) -> Word {
        let goes_on = self.status == Status::Active;
        match self.status {
            Status::Start | Status::Underflow => {}
            Status::Root => {
                self.go(tree, K::ONE);
                return NULL;
            }
            Status::Active | Status::Overflow | Status::Pause | Status::None => {
                match self.last.successor() {
                    Some(next) if self.last < max => self.index = next,
                    _ if self.status == Status::None => return NULL,
                    _ => return self.over(),
                }
            }
        }
        if self.index > max {
            return self.over();
        }
        let word = if goes_on {
            self.go_on::<true>(tree, self.index)
        } else {
            self.go(tree, self.index)
        };
        if !word.is_null() || holes || self.status == Status::None {
            return word;
        }
        self.onwards(tree, max, holes)
    }

    /// To the last entry at or before `index`; if the cursor is at one already, to the one before.
    #[inline]
    pub(super) fn find_rev(&mut self, tree: &RawTree<K, S>, min: K, holes: bool) -> Word {
        if self.status == Status::Active
            && min < self.index
            && let Some(word) = self.backwards_here(min, holes)
        {
            return word;
        }
        self.find_rev_anew(tree, min, holes)
    }

    /// [`find_rev`](Self::find_rev) from any status.
    #[inline(never)]
    fn find_rev_anew(&mut self, tree: &RawTree<K, S>, min: K, holes: bool) -> Word {
        let goes_on = self.status == Status::Active;
        match self.status {
            Status::Start | Status::Overflow => {}
            Status::Root | Status::None if self.index <= min => {
                self.status = Status::None;
                return NULL;
            }
            Status::Active | Status::Underflow | Status::Pause | Status::Root | Status::None => {
                match self.index.predecessor() {
                    Some(before) if min < self.index => self.index = before,
                    _ => return self.under(),
                }
            }
        }
        if self.index < min {
            return self.under();
        }
        let word = if goes_on {
            self.go_on::<false>(tree, self.index)
        } else {
            self.go(tree, self.index)
        };
        if !word.is_null() || holes {
            return word;
        }
        if self.status == Status::None {
            return self.single_below(tree, min);
        }
        self.backwards(tree, min, holes)
    }
}
