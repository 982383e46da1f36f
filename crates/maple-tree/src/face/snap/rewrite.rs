//! One write: plan → prepare → apply.
//!
//! The slots that a write touches are replaced by at most three items: what is left of the first slot, the new entry or hole, and what is
//! left of the last slot. If one leaf is touched and has room, its path is [copied](super::copy) as far as it is shared, and the leaf
//! [changed in place](super::leaf). Otherwise the leaves that take part are [replaced by new ones](super::rebuild).

use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::alloc::{NodeAlloc, Reserve};
use crate::base::{Duplicate, Key, Ref, Shape};
use crate::face::snap::level::too_few;
use crate::face::snap::new::{Failure, New};
use crate::face::snap::path::{Path, Step};
use crate::face::snap::release::release;
use crate::node::{Kind, NULL, Node, RawTree, Root, Word};
use crate::write::apply::Fill;
use crate::write::{Item, Items};

/// The leaf slots to be: `head` and `tail` are what stays of the first and the last slot, by their last indices.
pub(super) struct Edit<K> {
    pub(super) head: Option<K>,
    pub(super) last: K,
    pub(super) tail: Option<K>,
}

impl<K: Key> Edit<K> {
    /// How many slots.
    pub(super) fn count(&self) -> usize {
        1 + usize::from(self.head.is_some()) + usize::from(self.tail.is_some())
    }

    /// The slots, with what they are to hold.
    pub(super) fn items(&self, head: Word, middle: Word, tail: Word) -> Items<K> {
        let gap = K::MIN;
        let mut items = Items::new();
        if let Some(last) = self.head {
            let word = head;
            items.push(Item { word, last, gap });
        }
        items.push(Item {
            word: middle,
            last: self.last,
            gap,
        });
        if let Some(last) = self.tail {
            let word = tail;
            items.push(Item { word, last, gap });
        }
        items
    }
}

/// A tree of values that is exclusively borrowed, and where its nodes come from.
pub(super) struct Rewrite<'a, K, S, A> {
    pub(super) raw: &'a RawTree<K, S>,
    pub(super) alloc: &'a A,
}

impl<K: Key, S: Shape, A: NodeAlloc> Rewrite<'_, K, S, A> {
    /// Puts `new` at `first..=last` of a tree without nodes.
    pub(super) fn first_leaf<V, N: New<V>>(
        &self,
        first: K,
        last: K,
        new: N,
    ) -> Result<(), (Failure, N)> {
        if N::ERASES {
            return Ok(());
        }
        let mut reserve = Reserve::new();
        if reserve.fill(1, self.alloc).is_err() {
            return Err((Failure::Alloc, new));
        }
        let edit = Edit {
            head: first.predecessor(),
            last,
            tail: (last < K::MAX).then_some(K::MAX),
        };
        let items = edit.items(NULL, new.into_word(), NULL);
        let sizes = [edit.count(), 0, 0];
        let mut fill = Fill::<K, S, _>::counted(Kind::Leaf, sizes, K::MIN, &mut reserve);
        for &item in items.as_slice() {
            fill.push(item);
        }
        if let [leaf] = *fill.finish().as_slice() {
            self.raw.publish_root(leaf.word, 1);
        }
        Ok(())
    }

    /// Puts `new` at `first..=last`; `left` leads to `first`. On failure nothing has changed, and `new` comes back. An entry
    /// of which a part above the range is to stay while a part below stays too is given to `split`. With `take`, the range is that of an
    /// entry, whose value is handed out.
    ///
    /// # Safety
    ///
    /// The tree is exclusively borrowed; its words are values of `V`.
    pub(super) unsafe fn put<V: Duplicate, N: New<V>>(
        &self,
        left: &mut Path<K, S>,
        mut range: (K, K),
        new: N,
        take: bool,
        split: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    ) -> Result<Option<V>, (Failure, N)> {
        let Root::Node(root) = self.raw.root() else {
            return Ok(None);
        };
        let taken = take.then(|| *left.at(0));
        let mut to = To::of(root, left, range.1);
        if N::ERASES {
            let (l, r) = (left.at(0), &to.step);
            if is_hole(l) && is_hole(r) && l.node == r.node && l.slot == r.slot {
                return Ok(None);
            }
            to.widen(root, left, &mut range);
        }
        let (first, last) = range;
        let r = to.step;
        let l = *left.at(0);
        let edit = Edit {
            head: (l.first() < first).then(|| first.wrapping_sub(K::ONE)),
            last,
            tail: (last < r.last()).then(|| r.last()),
        };
        let one = l.node == r.node;
        let mut twin = None;
        if one
            && l.slot == r.slot
            && edit.head.is_some()
            && edit.tail.is_some()
            && let Some(raw) = NonNull::new(l.node.slot(l.slot))
        {
            let above = last.wrapping_add(K::ONE)..=r.last();
            // SAFETY: words in the tree are values, and the tree is not changed while the closure has the view.
            match split(above, unsafe { V::borrow(raw) }) {
                Some(made) => twin = Some(made),
                None => return Err((Failure::Splits, new)),
            }
        }
        let whole = l.min == K::MIN && r.max == K::MAX;
        let total = l.slot + edit.count() + r.node.end() - r.slot;
        if whole && total == 1 && N::ERASES {
            // SAFETY: the caller's promise.
            let cleared = unsafe { self.clear(root, taken.as_ref()) };
            return cleared.map_err(|failure| (failure, new));
        }
        if one && total <= l.node.capacity() && !too_few(total, &l, one, whole) {
            let taken = taken.map(|step| step.slot);
            let stays = |i| {
                i < l.slot
                    || r.slot < i
                    || (i == l.slot && edit.head.is_some())
                    || (i == r.slot && edit.tail.is_some() && twin.is_none())
                    || Some(i) == taken
            };
            // SAFETY: the caller's promise.
            let Ok(replaced) = (unsafe { self.copy_path::<V>(left, stays) }) else {
                // Here, and not on return: if it panics, what is to be given back is dropped.
                drop(twin);
                return Err((Failure::Alloc, new));
            };
            // SAFETY: the caller's promise; the leaf is owned now.
            let out = unsafe { self.in_leaf(left, r.slot, &edit, new.into_word(), twin, taken) };
            drop(replaced);
            return Ok(out);
        }
        let right = to.path.get_or_insert_with(|| left.clone());
        *right.at_mut(0) = r;
        // SAFETY: the caller's promise.
        unsafe { self.rebuild(left, right, &edit, new, twin, taken) }
    }

    /// Empties the tree. `taken` is the slot of an entry whose value is handed out.
    ///
    /// # Safety
    ///
    /// As [`put`](Self::put).
    unsafe fn clear<V: Duplicate>(
        &self,
        root: Node<K, S>,
        taken: Option<&Step<K, S>>,
    ) -> Result<Option<V>, Failure> {
        let mut value = None;
        if let Some(step) = taken
            && let Some(raw) = NonNull::new(step.node.slot(step.slot))
        {
            // SAFETY: words in the tree are values; a value in an owned leaf leaves it, one in a shared leaf is only viewed.
            unsafe {
                value = Some(if step.owned {
                    step.node.write().set_slot(step.slot, NULL);
                    V::from_raw(raw)
                } else {
                    V::duplicate(V::borrow(raw)).ok_or(Failure::Alloc)?
                });
            }
        }
        self.raw.publish_root(NULL, 0);
        // SAFETY: the tree's count of its root, which it does not lead to any more.
        unsafe { release::<K, V, S, A>(root, self.alloc) };
        Ok(value)
    }
}

/// Where a write ends: the slot of its last index, in the leaf where it begins unless there is a path that leads to another.
struct To<K, S> {
    step: Step<K, S>,
    path: Option<Path<K, S>>,
}

impl<K: Key, S: Shape> To<K, S> {
    /// The slot of `last`, which is not before the slot that `left` leads to.
    #[inline]
    fn of(root: Node<K, S>, left: &Path<K, S>, last: K) -> Self {
        let mut step = *left.at(0);
        if last > step.max {
            let path = Path::down(root, left.height(), last);
            return Self {
                step: *path.at(0),
                path: Some(path),
            };
        }
        step.slot = step.node.search(last);
        Self { step, path: None }
    }

    /// Takes in the holes that the range touches and those on both sides of it, across the edges of leaves too: two holes never neighbour
    /// each other.
    fn widen(&mut self, root: Node<K, S>, left: &mut Path<K, S>, range: &mut (K, K)) {
        let (first, last) = *range;
        let mut l = *left.at(0);
        if l.first() == first && first != K::MIN {
            if l.slot > 0 {
                l.slot -= usize::from(l.node.slot(l.slot - 1).is_null());
                left.at_mut(0).slot = l.slot;
            } else {
                let before = Path::down(root, left.height(), first.wrapping_sub(K::ONE));
                if is_hole(before.at(0)) {
                    let path = core::mem::replace(left, before);
                    self.path.get_or_insert(path);
                }
            }
        }
        let r = &mut self.step;
        if r.last() == last && last != K::MAX {
            if r.slot < r.node.end() {
                r.slot += usize::from(r.node.slot(r.slot + 1).is_null());
            } else {
                let after = Path::down(root, left.height(), last.wrapping_add(K::ONE));
                if is_hole(after.at(0)) {
                    *r = *after.at(0);
                    self.path = Some(after);
                }
            }
        }
        let l = left.at(0);
        if is_hole(l) {
            range.0 = l.first();
        }
        if is_hole(r) {
            range.1 = r.last();
        }
    }
}

#[inline]
fn is_hole<K: Key, S: Shape>(step: &Step<K, S>) -> bool {
    step.node.slot(step.slot).is_null()
}
