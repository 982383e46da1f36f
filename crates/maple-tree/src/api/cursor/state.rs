//! The position of a cursor and its moves: a small state machine over any tree. Writes nothing.
//!
//! Within its leaf a cursor goes from slot to slot: if its slot still ends where the cursor's range
//! ends, the next slot is its neighbour.

use crate::base::{Key, Offset, Shape, either};
use crate::node::{NULL, RawTree, Word};
use crate::read::{BoundedLeaf, Found, LeafPath, path};
use crate::write::SlotAt;

/// The meaning of a cursor's range, with Linux's names.
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
    /// The place may have changed. The next move looks it up again: `find` after the range, `next`
    /// and `prev` from the current contents at the index.
    Pause,
    /// The last move reached its upper limit without finding anything. A move with a larger limit goes on.
    Overflow,
    /// The last move reached its lower limit without finding anything. A move with a smaller limit goes on.
    Underflow,
}

/// A range, what it stands for, and the leaf that it is in, if one has been looked up.
#[derive(Clone, Copy)]
pub(in crate::api) struct State<K, S> {
    pub(in crate::api) index: K,
    pub(in crate::api) last: K,
    pub(super) status: Status,
    path: Option<LeafPath<K, S>>,
    /// The slot of the leaf that the last look found, or a write has left there. Another write may have made it another.
    slot: usize,
}

impl<K: Key, S: Shape> State<K, S> {
    /// At the start, with a range of the caller's; one that holds nothing is taken as the first index.
    pub(in crate::api) fn new(range: Option<(K, K)>) -> Self {
        let (index, last) = range.unwrap_or((K::MIN, K::MIN));
        Self {
            index,
            last,
            status: Status::Start,
            path: None,
            slot: 0,
        }
    }

    /// Forgets where it was, and takes a range of the caller's.
    pub(super) fn set(&mut self, index: K, last: K) {
        *self = Self::new(Some((index, last)));
    }

    /// Forgets the leaf: it may be changed or gone.
    pub(super) fn pause(&mut self) {
        self.status = Status::Pause;
        self.path = None;
    }

    /// Stands on a range that is just being written. `at` is the leaf that it is in then, and its slot there, if it is known that the leaf stays.
    pub(super) fn wrote(&mut self, (index, last): (K, K), at: Option<(LeafPath<K, S>, usize)>) {
        let (path, slot) = at.unzip();
        *self = Self {
            index,
            last,
            status: Status::Active,
            path,
            slot: slot.unwrap_or(0),
        };
    }

    /// Returns the slot that the cursor stands on, if it is an entry with just the cursor's range:
    /// what a store there takes the place of. Only for the writer, through whom alone the tree has
    /// changed since the leaf was looked up.
    #[inline(always)]
    pub(super) fn own_entry(&self) -> Option<SlotAt<K, S>> {
        let at = SlotAt::of(self.path?, self.slot);
        at.is_entry(self.index, self.last).then_some(at)
    }

    /// Returns the slot at `index`, and the way to it; `None` in a tree without nodes. As for
    /// [`own_entry`](Self::own_entry).
    #[inline]
    pub(super) fn path(&self, tree: &RawTree<K, S>) -> Option<SlotAt<K, S>> {
        match self.path {
            Some(path) if path.place.covers(self.index) => Some(path.slot_at(self.index)),
            _ => tree.slot_at(self.index),
        }
    }

    /// Moves to the slot at `key`, by way of the leaf that the last look was in if that still stands, else from the root.
    fn go(&mut self, tree: &RawTree<K, S>, key: K) -> Word {
        let path = match self.path {
            Some(path) if path.place.covers(key) && !path.place.leaf.is_dead() => path,
            _ => match tree.root().at(key) {
                Ok(root) => path::find(root, key),
                Err(found) => {
                    self.path = None;
                    let status = if found.word.is_null() {
                        Status::None
                    } else {
                        Status::Root
                    };
                    return self.stand_on(found, status);
                }
            },
        };
        self.path = Some(path);
        self.slot = path.place.leaf.search(key);
        self.stand_on(path.place.slot(self.slot), Status::Active)
    }

    /// Moves to the slot at `key`, which follows the cursor's slot, `UP` or down. Mostly it is the
    /// first one of the next leaf below the same node. A cursor that gets there will most likely go
    /// on to the slots after it.
    #[inline(always)]
    fn go_on<const UP: bool>(&mut self, tree: &RawTree<K, S>, key: K) -> Word {
        let Some(path) = self.path.and_then(|path| path.next_leaf::<UP>(key)) else {
            return self.go(tree, key);
        };
        let BoundedLeaf { leaf, min, max } = path.place;
        let leaf = leaf.as_leaf();
        self.path = Some(path);
        let (first, last);
        if UP {
            self.slot = 0;
            (first, last) = (key, leaf.last(0, max));
        } else {
            self.slot = leaf.end();
            (first, last) = (leaf.first(self.slot, min), key);
        }
        let word = leaf.slot(self.slot);
        self.stand_on(Found { first, last, word }, Status::Active)
    }

    #[inline(always)]
    fn stand_on(&mut self, found: Found<K>, status: Status) -> Word {
        self.index = found.first;
        self.last = found.last;
        self.status = status;
        found.word
    }

    /// Returns the key beyond the range, `UP` or down, unless the range reaches `limit`.
    #[inline(always)]
    fn beyond<const UP: bool>(&self, limit: K) -> Option<K> {
        if UP {
            (self.last < limit).then(|| self.last.wrapping_add(K::ONE))
        } else {
            (limit < self.index).then(|| self.index.wrapping_sub(K::ONE))
        }
    }

    /// Ends the move: nothing was found before the limit.
    #[inline(always)]
    fn ended<const UP: bool>(&mut self) -> Word {
        self.status = either::<UP, _>(Status::Overflow, Status::Underflow);
        NULL
    }

    /// Within its leaf, from the slot that the cursor stands on, and that ends before `limit`, on as in [`onwards`](Self::onwards). `None` if that
    /// cannot be told from the leaf: the cursor stands on the last slot that could be.
    #[inline(always)]
    fn onwards_here<const UP: bool>(&mut self, limit: K, holes: bool) -> Option<Word> {
        let place = self.path.as_ref()?.place;
        let edge = if UP { self.last } else { self.index };
        let (slot, next) = place.adjacent::<UP>(self.slot, edge, limit, holes)?;
        // After the reads: what was read from a leaf that lives now was in the tree then.
        if place.leaf.is_dead() {
            return None;
        }
        self.index = next.first;
        self.last = next.last;
        self.slot = slot;
        if next.word.is_null() && !holes {
            // Another hole does not follow in this leaf, nor does an entry that begins early enough, or the leaf has to be looked at anew.
            return self
                .beyond::<UP>(limit)
                .is_none()
                .then(|| self.ended::<UP>());
        }
        Some(next.word)
    }

    /// Moves on beyond the range, up to `limit`; `holes` stops at holes too.
    #[inline(always)]
    fn onwards<const UP: bool>(&mut self, tree: &RawTree<K, S>, limit: K, holes: bool) -> Word {
        while self.beyond::<UP>(limit).is_some() {
            self.status = Status::Active;
            if let Some(word) = self.onwards_here::<UP>(limit, holes) {
                return word;
            }
            // It may have gone on to a hole.
            let Some(key) = self.beyond::<UP>(limit) else {
                break;
            };
            let word = self.go_on::<UP>(tree, key);
            if !word.is_null() || holes {
                return word;
            }
        }
        self.ended::<UP>()
    }

    /// Moves to the entry or hole at `index`.
    pub(super) fn walk(&mut self, tree: &RawTree<K, S>) -> Word {
        if self.status == Status::Active
            && let Some(LeafPath { place, .. }) = self.path
        {
            // Most likely it stands there already: its range is that of its slot unless something has been written.
            let found = place.slot(self.slot);
            if found.first == self.index && found.last == self.last && !place.leaf.is_dead() {
                return found.word;
            }
        }
        self.go(tree, self.index)
    }

    /// Moves to the first entry at or after `index` (or the last at or before it, unless `UP`), and
    /// if the cursor is at one already, to the next. If it `STEPS`, it moves to the next entry
    /// after the contents at `index` (or before it). The entry starts no later than `limit` (or
    /// ends no earlier). With `holes`, holes count as well.
    #[inline(always)]
    pub(in crate::api) fn seek<const UP: bool, const STEPS: bool>(
        &mut self,
        tree: &RawTree<K, S>,
        limit: K,
        holes: bool,
    ) -> Word {
        if self.status == Status::Active
            && self.beyond::<UP>(limit).is_some()
            && let Some(word) = self.onwards_here::<UP>(limit, holes)
        {
            return word;
        }
        if STEPS {
            self.step::<UP>(tree, limit, holes)
        } else {
            self.find::<UP>(tree, limit, holes)
        }
    }

    /// [Steps](Self::seek) from any status.
    #[inline(never)]
    fn step<const UP: bool>(&mut self, tree: &RawTree<K, S>, limit: K, holes: bool) -> Word {
        if !UP && self.index <= limit {
            return self.ended::<UP>();
        }
        match self.status {
            Status::Active | Status::Overflow | Status::Underflow => {}
            Status::Start | Status::Pause | Status::None | Status::Root => {
                self.go(tree, self.index);
                match self.status {
                    Status::Root => return self.after_single(tree, limit, holes),
                    Status::None => return self.single::<UP>(tree, limit),
                    _ => {}
                }
            }
        }
        self.onwards::<UP>(tree, limit, holes)
    }

    /// Moves from the hole of a tree without nodes to the entry below it, if that is on the way, and there is one.
    fn single<const UP: bool>(&mut self, tree: &RawTree<K, S>, limit: K) -> Word {
        if UP || self.index == K::MIN || limit > K::MIN {
            return NULL;
        }
        self.go(tree, K::MIN)
    }

    /// Moves up from the only entry of a tree without nodes: to the hole behind it, or to the next
    /// entry, if a writer has stored one since.
    fn after_single(&mut self, tree: &RawTree<K, S>, limit: K, holes: bool) -> Word {
        let word = self.go(tree, K::ONE);
        if self.status != Status::Active {
            return NULL;
        }
        if self.index > limit {
            self.go(tree, K::MIN);
            return self.ended::<true>();
        }
        if !word.is_null() || holes {
            return word;
        }
        self.onwards::<true>(tree, limit, holes)
    }

    /// [Finds](Self::seek) from any status.
    #[inline(never)]
    fn find<const UP: bool>(&mut self, tree: &RawTree<K, S>, limit: K, holes: bool) -> Word {
        let starts = match self.status {
            Status::Start => true,
            // Where a move the other way has ended.
            Status::Underflow => UP,
            Status::Overflow => !UP,
            Status::Root if UP => return self.after_single(tree, limit, holes),
            Status::Root | Status::None if !UP && self.index <= limit => {
                self.status = Status::None;
                return NULL;
            }
            Status::None if UP && self.last >= limit => return NULL,
            Status::Active | Status::Pause | Status::Root | Status::None => false,
        };
        let word = if !starts {
            let Some(key) = self.beyond::<UP>(limit) else {
                return self.ended::<UP>();
            };
            self.go_on::<UP>(tree, key)
        } else if UP && self.index > limit || !UP && self.index < limit {
            return self.ended::<UP>();
        } else {
            self.go(tree, self.index)
        };
        if !word.is_null() || holes {
            return word;
        }
        if self.status == Status::None {
            return self.single::<UP>(tree, limit);
        }
        self.onwards::<UP>(tree, limit, holes)
    }
}
