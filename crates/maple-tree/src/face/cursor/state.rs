//! Where a cursor is, and how it moves: a small state machine over any tree. Writes nothing.

use crate::base::key::Key;
use crate::base::shape::Shape;
use crate::node::tree::{RawTree, Root};
use crate::node::{NULL, Word};
use crate::read::walk::{Found, Place, descend};

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
}

impl<K: Key, S: Shape> State<K, S> {
    pub(super) fn new(index: K, last: K) -> Self {
        Self {
            index,
            last,
            status: Status::Start,
            place: None,
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

    /// Stands on a range that has just been written.
    pub(super) fn wrote(&mut self, index: K, last: K) {
        *self = Self {
            index,
            last,
            status: Status::Active,
            place: None,
        };
    }

    /// The slot at `key`, by way of the leaf that the last look was in if that still stands.
    fn look(&mut self, tree: &RawTree<K, S>, key: K) -> (Found<K>, Status) {
        if let Some(place) = self.place
            && place.min <= key
            && key <= place.max
            && !place.leaf.is_dead()
        {
            return (place.at(key), Status::Active);
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
                let place = descend(root, key);
                self.place = Some(place);
                (place.at(key), Status::Active)
            }
        }
    }

    /// To the slot at `key`.
    fn go(&mut self, tree: &RawTree<K, S>, key: K) -> Word {
        let (found, status) = self.look(tree, key);
        self.index = found.first;
        self.last = found.last;
        self.status = status;
        found.word
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
        self.go(tree, self.index)
    }

    /// On to what comes after the range, up to `max`; `holes` stops at holes too.
    fn onwards(&mut self, tree: &RawTree<K, S>, max: K, holes: bool) -> Word {
        loop {
            match self.last.successor() {
                Some(next) if self.last < max => {
                    let word = self.go(tree, next);
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
                    let word = self.go(tree, before);
                    if !word.is_null() || holes {
                        return word;
                    }
                }
                _ => return self.under(),
            }
        }
    }

    /// To the next entry after the one at `index`, which starts no later than `max`.
    pub(super) fn next(&mut self, tree: &RawTree<K, S>, max: K, holes: bool) -> Word {
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
    pub(super) fn prev(&mut self, tree: &RawTree<K, S>, min: K, holes: bool) -> Word {
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
    pub(super) fn find(&mut self, tree: &RawTree<K, S>, max: K, holes: bool) -> Word {
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
        let word = self.go(tree, self.index);
        if !word.is_null() || holes || self.status == Status::None {
            return word;
        }
        self.onwards(tree, max, holes)
    }

    /// To the last entry at or before `index`; if the cursor is at one already, to the one before.
    pub(super) fn find_rev(&mut self, tree: &RawTree<K, S>, min: K, holes: bool) -> Word {
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
        let word = self.go(tree, self.index);
        if !word.is_null() || holes {
            return word;
        }
        if self.status == Status::None {
            return self.single_below(tree, min);
        }
        self.backwards(tree, min, holes)
    }
}
