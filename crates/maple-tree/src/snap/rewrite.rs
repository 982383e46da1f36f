//! One write: plan → prepare → apply.
//!
//! The slots that a write touches are replaced by at most three items: what is left of the first slot, the new entry or hole, and what is
//! left of the last slot. If one leaf is touched, is owned, and has room, it is changed in place. Otherwise the leaves that take part
//! are replaced by new ones, which are the items of the same step one level up, until a node that is owned has room for them, or
//! a new root is there. Where a node that takes part is owned, what stays of it *moves* (its old slot becomes NULL); where it is
//! shared, it is *copied*: values are made once more, counts of children raised.
//!
//! Replaced nodes are not taken apart one by one: they hang on to what they always hung on, which is in the end one node changed in place, or
//! the old root. What is taken out there is [released](super::release), and with it all below that nobody else leads to; slots
//! whose contents have moved are empty by then.

use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::alloc::NodeAlloc;
use crate::gap_upkeep::{largest_below, largest_in_leaf};
use crate::key::Key;
use crate::node::{Kind, NULL, Node, Word};
use crate::prefetch;
use crate::reserve::{AllocError, Reserve};
use crate::shape::Shape;
use crate::snap::fill::{Fill, Removed, splice};
use crate::snap::level::{Kept, Level, count_nodes, tell_ancestors, too_few};
use crate::snap::path::{Path, Step};
use crate::snap::prepare::Ready;
use crate::snap::release::{release, release_word};
use crate::store::{Item, Items};
use crate::tree::{RawTree, Root};
use crate::value::Duplicate;

/// What a write puts at its range.
pub(super) enum New<V> {
    /// Nothing.
    Hole,
    Value(V),
    /// The entry that is there, which the range is that of: only that it becomes ours alone.
    Same,
}

/// Why a write changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Alloc,
    /// The closure did not make a value for the upper part of an entry.
    Splits,
}

impl From<AllocError> for Failure {
    fn from(AllocError: AllocError) -> Self {
        Self::Alloc
    }
}

/// The leaf slots to be: `head` and `tail` are what stays of the first and the last slot, by their last indices.
struct Edit<K> {
    head: Option<K>,
    last: K,
    tail: Option<K>,
}

impl<K> Edit<K> {
    fn items(&self) -> usize {
        1 + usize::from(self.head.is_some()) + usize::from(self.tail.is_some())
    }
}

/// A tree of values that is exclusively borrowed, and where its nodes come from.
pub(super) struct Rewrite<'a, K, S, A> {
    pub(super) raw: &'a RawTree<K, S>,
    pub(super) alloc: &'a A,
}

impl<K: Key, S: Shape, A: NodeAlloc> Rewrite<'_, K, S, A> {
    /// Puts `new` at `first..=last` of a tree without nodes.
    pub(super) fn first_leaf<V: Duplicate>(
        &self,
        first: K,
        last: K,
        value: &mut New<V>,
    ) -> Result<(), Failure> {
        if !matches!(value, New::Value(_)) {
            return Ok(());
        }
        let mut reserve = Reserve::new();
        reserve.fill(1, self.alloc)?;
        let mut items = Items::new();
        let mut put = |word, last| {
            let gap = K::MIN;
            items.push(Item { word, last, gap });
        };
        if first > K::MIN {
            put(NULL, first.wrapping_sub(K::ONE));
        }
        put(into_word(value), last);
        if last < K::MAX {
            put(NULL, K::MAX);
        }
        let sizes = [items.as_slice().len(), 0, 0];
        let mut fill = Fill::<K, S>::new(Kind::Leaf, sizes, K::MIN, &mut reserve);
        for &item in items.as_slice() {
            fill.push(item);
        }
        if let [leaf] = *fill.finish().as_slice() {
            self.raw.publish_root(leaf.word, 1);
        }
        Ok(())
    }

    /// Puts `new` at `first..=last`; `left` leads to `first`. On failure nothing has changed, and `new` is what it was. An entry
    /// of which a part above the range is to stay while a part below stays too is given to `split`. With `take`, the range is that of an
    /// entry, whose value is handed out.
    ///
    /// # Safety
    ///
    /// The tree is exclusively borrowed; its words are values of `V`.
    pub(super) unsafe fn put<V: Duplicate>(
        &self,
        left: &mut Path<K, S>,
        (mut first, mut last): (K, K),
        new: &mut New<V>,
        take: bool,
        split: impl FnOnce(RangeInclusive<K>, V::Ref<'_>) -> Option<V>,
    ) -> Result<Option<V>, Failure> {
        let Root::Node(root) = self.raw.root() else {
            return Ok(None);
        };
        let height = left.height();
        let taken = take.then(|| *left.at(0));
        let mut right = None;
        let mut r = *left.at(0);
        if last > r.max {
            let path = Path::down(root, height, last);
            r = *path.at(0);
            right = Some(path);
        } else {
            r.slot = r.node.search(last);
        }
        if matches!(new, New::Hole) {
            let mut l = *left.at(0);
            if is_hole(&l) && is_hole(&r) && l.node == r.node && l.slot == r.slot {
                return Ok(None);
            }
            // Take in the holes on both sides, across the edges of leaves too.
            if l.first() == first && first != K::MIN {
                if l.slot > 0 {
                    l.slot -= usize::from(l.node.slot(l.slot - 1).is_null());
                    left.at_mut(0).slot = l.slot;
                } else {
                    let before = Path::down(root, height, first.wrapping_sub(K::ONE));
                    if is_hole(before.at(0)) {
                        if right.is_none() {
                            let mut path = left.clone();
                            *path.at_mut(0) = r;
                            right = Some(path);
                        }
                        *left = before;
                    }
                }
            }
            if r.last() == last && last != K::MAX {
                if r.slot < r.node.end() {
                    r.slot += usize::from(r.node.slot(r.slot + 1).is_null());
                } else {
                    let after = Path::down(root, height, last.wrapping_add(K::ONE));
                    if is_hole(after.at(0)) {
                        r = *after.at(0);
                        right = Some(after);
                    }
                }
            }
            let l = left.at(0);
            if is_hole(l) {
                first = l.first();
            }
            if is_hole(&r) {
                last = r.last();
            }
        }
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
            let made = split(above, unsafe { V::borrow(raw) });
            twin = Some(made.ok_or(Failure::Splits)?);
        }
        let whole = l.min == K::MIN && r.max == K::MAX;
        let total = l.slot + edit.items() + r.node.end() - r.slot;
        if whole && total == 1 && matches!(new, New::Hole) {
            // SAFETY: the caller's promise.
            return unsafe { self.clear(root, taken.as_ref()) };
        }
        if one && l.owned && total <= l.node.capacity() && !too_few(total, &l, one, whole) {
            // SAFETY: the caller's promise; the leaf is owned.
            return Ok(unsafe { self.in_leaf(left, r.slot, &edit, new, twin, taken) });
        }
        let mut right = right.unwrap_or_else(|| left.clone());
        *right.at_mut(0) = r;
        // SAFETY: the caller's promise.
        unsafe { self.rebuild(left, &mut right, &edit, new, twin, taken) }
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

    /// Changes one owned leaf in place: no node is allocated, nothing can fail.
    ///
    /// # Safety
    ///
    /// As [`put`](Self::put), and the leaf that `left` leads to is owned and has room.
    unsafe fn in_leaf<V: Duplicate>(
        &self,
        left: &Path<K, S>,
        to: usize,
        edit: &Edit<K>,
        new: &mut New<V>,
        twin: Option<V>,
        taken: Option<Step<K, S>>,
    ) -> Option<V> {
        let step = *left.at(0);
        let (leaf, from) = (step.node, step.slot);
        let (head, tail) = (leaf.slot(from), leaf.slot(to));
        let same = matches!(new, New::Same);
        let out = taken.map_or(NULL, |step| step.node.slot(step.slot));
        if let Some(step) = taken {
            // SAFETY: it is this leaf, which is owned: nobody else sees it. Its value moves.
            unsafe { leaf.write() }.set_slot(step.slot, NULL);
        }
        let mut removed = Removed::new();
        for i in from..=to {
            let kept =
                (i == from && (edit.head.is_some() || same)) || (i == to && edit.tail.is_some());
            if !kept {
                removed.push(leaf.slot(i));
            }
        }
        let middle = if same { head } else { into_word(new) };
        let items = items(edit, head, middle, twin.map_or(tail, V::into_word));
        // SAFETY: the leaf is owned: nobody else sees it.
        splice(unsafe { leaf.write() }, from, to, items.as_slice());
        if self.raw.tracks_gaps() {
            tell_ancestors(left, 0, largest_in_leaf(leaf, step.min, step.max));
        }
        for &word in removed.words() {
            // SAFETY: a value that is no longer in the tree.
            unsafe { release_word::<K, V, S, A>(word, true, self.alloc) };
        }
        // SAFETY: it is no longer in the tree, and was not given up above.
        NonNull::new(out).map(|raw| unsafe { V::from_raw(raw) })
    }

    /// Replaces nodes, level by level.
    ///
    /// # Safety
    ///
    /// As [`put`](Self::put).
    unsafe fn rebuild<V: Duplicate>(
        &self,
        left: &mut Path<K, S>,
        right: &mut Path<K, S>,
        edit: &Edit<K>,
        new: &mut New<V>,
        twin: Option<V>,
        taken: Option<Step<K, S>>,
    ) -> Result<Option<V>, Failure> {
        let mut level = Level::of(0, left, right, edit.items());
        let (l, r) = (level.left, level.right);
        let (head, tail) = (l.node.slot(l.slot), r.node.slot(r.slot));
        let same = matches!(new, New::Same);
        let nodes = count_nodes(&level, left, right);
        let mut ready = Ready::<V, A>::with_nodes(nodes, self.alloc)?;
        let own_tail = edit.tail.is_some() && twin.is_none();
        // SAFETY: words in the tree are values, and it is exclusively borrowed.
        unsafe {
            // In the order in which they are used below.
            if let Some(step) = taken
                && !step.owned
            {
                ready.duplicate(step.node.slot(step.slot))?;
            }
            if !l.owned && (same || edit.head.is_some()) {
                ready.duplicate(head)?;
            }
            if !r.owned && own_tail {
                ready.duplicate(tail)?;
            }
            ready.duplicate_kept(&level)?;
        }

        // Nothing fails from here on.
        let mut moved = |step: &Step<K, S>, word: Word| {
            if step.owned {
                // SAFETY: the leaf is owned: nobody else sees it. Its value moves.
                unsafe { step.node.write() }.set_slot(step.slot, NULL);
                word
            } else {
                ready.next(word)
            }
        };
        let out = taken.map_or(NULL, |step| moved(&step, step.node.slot(step.slot)));
        let first = if same || edit.head.is_some() {
            moved(&l, head)
        } else {
            NULL
        };
        let above = if own_tail { moved(&r, tail) } else { NULL };
        let middle = if same { first } else { into_word(new) };
        let mut items = items(edit, first, middle, twin.map_or(above, V::into_word));
        let mut removed = Removed::new();
        let mut at = 0;
        loop {
            if level.parts == 0 {
                change_in_place(left, at, level.right.slot, &items, &mut removed);
                break;
            }
            items = build(&level, &items, &mut ready);
            at += 1;
            if level.whole {
                if let Root::Node(old) = self.raw.root() {
                    removed.push(old.word());
                }
                let root = new_root::<K, S>(&items, self.raw.inner_kind(), &mut ready.reserve);
                let height = at + usize::from(items.as_slice().len() > 1);
                self.raw.publish_root(root, height as u32);
                break;
            }
            level = Level::of(at, left, right, items.as_slice().len());
        }
        ready.assert_used_up();
        drop(ready);
        for &word in removed.words() {
            // SAFETY: counts that the tree owned and that it does not lead to any more; what moved is not in these nodes now.
            unsafe { release_word::<K, V, S, A>(word, false, self.alloc) };
        }
        // SAFETY: it is no longer in the tree, or was made for this.
        Ok(NonNull::new(out).map(|raw| unsafe { V::from_raw(raw) }))
    }
}

/// A value's word.
trait IntoWord {
    fn into_word(self) -> Word;
}

impl<V: Duplicate> IntoWord for V {
    #[inline]
    fn into_word(self) -> Word {
        self.into_raw().as_ptr()
    }
}

/// Takes the word out of what is to be stored.
fn into_word<V: Duplicate>(new: &mut New<V>) -> Word {
    match core::mem::replace(new, New::Hole) {
        New::Value(value) => value.into_word(),
        New::Hole | New::Same => NULL,
    }
}

#[inline]
fn is_hole<K: Key, S: Shape>(step: &Step<K, S>) -> bool {
    step.node.slot(step.slot).is_null()
}

/// The new slots of the leaves.
fn items<K: Key>(edit: &Edit<K>, head: Word, middle: Word, tail: Word) -> Items<K> {
    let mut items = Items::new();
    let gap = K::MIN;
    if let Some(last) = edit.head {
        let word = head;
        items.push(Item { word, last, gap });
    }
    items.push(Item {
        word: middle,
        last: edit.last,
        gap,
    });
    if let Some(last) = edit.tail {
        let word = tail;
        items.push(Item { word, last, gap });
    }
    items
}

/// Replaces slots of an owned inner node, and notes what was there.
fn change_in_place<K: Key, S: Shape>(
    path: &Path<K, S>,
    level: usize,
    to: usize,
    items: &Items<K>,
    removed: &mut Removed,
) {
    let step = path.at(level);
    let node = step.node;
    for i in step.slot..=to {
        removed.push(node.slot(i));
    }
    // SAFETY: the node is owned: nobody else sees it.
    splice(unsafe { node.write() }, step.slot, to, items.as_slice());
    if node.kind() == Kind::Gap {
        tell_ancestors(path, level, largest_below(node));
    }
}

/// Builds the new nodes of a level.
fn build<K: Key, S: Shape, V: Duplicate, A: NodeAlloc>(
    level: &Level<K, S>,
    items: &Items<K>,
    ready: &mut Ready<'_, V, A>,
) -> Items<K> {
    let (min, max) = level.bounds();
    let kind = level.kind();
    let mut reserve = core::mem::replace(&mut ready.reserve, Reserve::new());
    let mut fill = Fill::<K, S>::new(kind, level.sizes(), min, &mut reserve);
    let mut keep = |fill: &mut Fill<'_, K, S>, (step, slots): Kept<K, S>| {
        let node = step.node;
        if !step.owned && !kind.is_leaf() {
            // Raising waits for the memory each time, reading does not: let all come at once.
            for i in slots.clone() {
                prefetch::first_line(node.slot(i));
            }
        }
        for i in slots {
            let mut word = node.slot(i);
            if step.owned {
                // SAFETY: the node is owned: nobody else sees it. What the slot holds moves.
                unsafe { node.write() }.set_slot(i, NULL);
            } else if kind.is_leaf() {
                word = ready.next(word);
            } else {
                node.child(i).raise();
            }
            fill.push(Item {
                word,
                last: node.last(i, step.max),
                gap: if kind == Kind::Gap {
                    node.gap(i)
                } else {
                    K::MIN
                },
            });
        }
    };
    level.kept_before().for_each(|kept| keep(&mut fill, kept));
    for &item in items.as_slice() {
        fill.push(item);
    }
    level.kept_after().for_each(|kept| keep(&mut fill, kept));
    let done = fill.finish();
    debug_assert!(done.as_slice().last().is_some_and(|item| item.last == max));
    ready.reserve = reserve;
    done
}

/// The one node that there is, or a new one above several.
fn new_root<K: Key, S: Shape>(items: &Items<K>, inner: Kind, reserve: &mut Reserve) -> Word {
    if let [only] = *items.as_slice() {
        return only.word;
    }
    let sizes = [items.as_slice().len(), 0, 0];
    let mut fill = Fill::<K, S>::new(inner, sizes, K::MIN, reserve);
    for &item in items.as_slice() {
        fill.push(item);
    }
    fill.finish()
        .as_slice()
        .first()
        .map_or(NULL, |item| item.word)
}
