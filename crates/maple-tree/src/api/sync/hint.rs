//! Looks that the next write, and the next look, go on from: the way down to the leaf is gone once for all of them.

use core::marker::PhantomData;
use core::ops::RangeInclusive;
use core::ptr::NonNull;

use lock_api::RawMutex;
use samara_rcu::Reclaim;

use crate::api::sync::Writer;
use crate::api::{Host, SyncAlloc, SyncValue, view};
use crate::base::{Key, Native, Offset, Ref, Shape, Value, opaque};
use crate::node::{NULL, Node, RawTree, Word};
use crate::read::{BoundedLeaf, Found, descend};
use crate::write::{Hint, SlotAt};

/// Entries and holes from a key on, upwards. Made by [`Writer::look`].
pub struct Look<'a, K: Key, V: Value, S: Shape = Native> {
    tree: &'a RawTree<K, S>,
    /// The position where it began.
    hint: Hint<K, S>,
    found: Found<K>,
    /// The leaf in which it is, and its last index.
    leaf: Node<K, S>,
    max: K,
    end: usize,
    /// The slot that comes next, and where it begins.
    slot: usize,
    first: K,
    marker: PhantomData<&'a V>,
}

/// An entry, or a hole, and its range.
pub type Piece<'a, K, V> = (RangeInclusive<K>, Option<Ref<'a, V>>);

impl<'a, K: Key, V: Value + 'a, S: Shape> Look<'a, K, V, S> {
    /// Returns the position where the look began, for the write that follows.
    #[inline(always)]
    pub fn hint(&self) -> Hint<K, S> {
        self.hint
    }

    /// Returns [`hint`](Self::hint) under its former name.
    #[deprecated = "renamed to `hint`"]
    #[inline(always)]
    pub fn seat(&self) -> Hint<K, S> {
        self.hint
    }

    /// Returns the contents at the key.
    #[inline(always)]
    pub fn here(&self) -> Piece<'a, K, V> {
        Self::piece(self.found)
    }

    /// Returns the entry or hole that ends right below [that](Self::here), or `None` at the lowest
    /// key. Mostly O(1), otherwise O(log n).
    #[inline(always)]
    pub fn before(&self) -> Option<Piece<'a, K, V>> {
        let found = match self.hint.slot().checked_sub(1) {
            Some(before) => self.hint.place().slot(before),
            None => lookup(self.tree, self.found.first.predecessor()?),
        };
        Some(Self::piece(found))
    }

    #[inline(always)]
    fn piece(found: Found<K>) -> Piece<'a, K, V> {
        // SAFETY: words in the tree are values, and the writer, who alone removes them, is borrowed.
        (found.first..=found.last, unsafe { view::<V>(found.word) })
    }
}

// Without `self`, so that what is in it need not be in memory.
#[inline(never)]
fn lookup<K: Key, S: Shape>(tree: &RawTree<K, S>, key: K) -> Found<K> {
    tree.lookup(key)
}

#[inline(never)]
fn place_at<K: Key, S: Shape>(tree: &RawTree<K, S>, key: K) -> Option<BoundedLeaf<K, S>> {
    let root = tree.root().at(key).ok()?;
    Some(descend(root, key))
}

impl<'a, K: Key, V: Value + 'a, S: Shape> Iterator for Look<'a, K, V, S> {
    type Item = Piece<'a, K, V>;

    /// Returns the next piece. The first one is at the key.
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.slot > self.end {
            if self.max == K::MAX {
                return None;
            }
            let place = place_at(self.tree, self.first)?;
            self.leaf = place.leaf;
            self.max = place.max;
            self.end = place.leaf.end();
            self.slot = 0;
        }
        let leaf = self.leaf.as_leaf();
        let found = Found {
            first: self.first,
            last: leaf.last(self.slot, self.max),
            word: leaf.slot(self.slot),
        };
        self.slot += 1;
        self.first = found.last.wrapping_add(K::ONE);
        Some(Self::piece(found))
    }
}

opaque!([K: Key, V: Value, S: Shape] Look<'_, K, V, S>, "Look");

/// For clients that look before they write, and write often. What these calls do, others do without a hint; what these cannot do they leave to them.
impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape>
    Writer<'_, K, V, R, A, L, S>
{
    /// Looks up the entries and holes from `key` upwards, and the one before. `near` may be the
    /// hint of an earlier look-up: if its leaf covers the key, no descent is needed. Returns `None`
    /// in a map that is empty, or holds just one entry at index 0. O(log n).
    ///
    /// ```
    /// # use maple_tree::{SyncMapleTree, Waiting};
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// // SAFETY: no hint.
    /// let mut look = unsafe { writer.look(None, 20) }.ok_or("empty")?;
    /// assert_eq!(look.before(), Some((10..=19, Some(1))));
    /// assert_eq!(look.next(), Some((20..=29, Some(2))));
    /// assert_eq!(look.next(), Some((30..=39, None)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    ///
    /// The hint `near` came from a look at this map, not another one, and holds, or all writes since then went on from a hint in its leaf.
    #[inline(always)]
    pub unsafe fn look<'a>(
        &'a self,
        near: Option<&Hint<K, S>>,
        key: K,
    ) -> Option<Look<'a, K, V, S>> {
        let tree = &self.tree.raw;
        let (hint, found) = match near {
            Some(near) if near.place().covers(key) => {
                let place = near.place();
                let slot = place.leaf.search(key);
                (near.at_slot(slot), place.slot(slot))
            }
            _ => {
                let at = tree.slot_at(key)?;
                (Hint::of(&at), at.found)
            }
        };
        let BoundedLeaf { leaf, max, .. } = hint.place();
        Some(Look {
            tree,
            hint,
            found,
            leaf,
            max,
            end: leaf.end(),
            slot: hint.slot(),
            first: found.first,
            marker: PhantomData,
        })
    }

    /// Returns the entry at the key of `hint`.
    ///
    /// # Safety
    ///
    /// The hint came from a look at this map, not another one, and holds.
    #[inline(always)]
    pub unsafe fn get_here(&self, hint: &Hint<K, S>) -> Option<Ref<'_, V>> {
        // SAFETY: it is in the tree (the caller's promise), whose words are values, which only this writer, who is borrowed, removes.
        unsafe { view::<V>(hint.found().word) }
    }

    /// As [`store_range_splitting`](Self::store_range_splitting) of `first..=last`, but only if
    /// there are no concurrent readers and just the leaf of `hint` changes, which is that of
    /// `first`. Otherwise nothing changes, and the values come back.
    ///
    /// If the range lies strictly within an entry, the part above gets the value `twin`. There is one then, and only then.
    ///
    /// ```
    /// # use maple_tree::{SyncMapleTree, Waiting};
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2)])?;
    /// // SAFETY: no hint; and then the map has not been changed since.
    /// let hint = unsafe { writer.look(None, 15) }.ok_or("empty")?.hint();
    /// if let Err((value, _)) = unsafe { writer.store_here(&hint, (15, 39), 3, None) } {
    ///     // A map that readers may share.
    ///     writer.store_range(15..40, value)?;
    /// }
    /// assert_eq!(map.read().ranges().collect::<Vec<_>>(), [10..=14, 15..=39]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As said; also if there is a twin too many or too few.
    ///
    /// # Safety
    ///
    /// The hint came from a look at this map, not another one, at `first`, and holds. `first` is not above `last`.
    #[inline(always)]
    pub unsafe fn store_here(
        &mut self,
        hint: &Hint<K, S>,
        (first, last): (K, K),
        value: V,
        twin: Option<V>,
    ) -> Result<(), (V, Option<V>)> {
        let word = value.into_raw();
        // SAFETY: the caller's promise; if nothing has changed, the value made just now is not stored.
        unsafe {
            self.put_here(hint, (first, last), word.as_ptr(), twin)
                .map_err(|twin| (V::from_raw(word), twin))
        }
    }

    /// As [`erase_range_splitting`](Self::erase_range_splitting) of `first..=last`, but only if
    /// there are no concurrent readers and just the leaf of `hint` changes, which is that of
    /// `first`. Otherwise nothing changes. For `twin` see [`store_here`](Self::store_here).
    ///
    /// # Errors
    ///
    /// As said; also if there is a twin too many or too few. It comes back.
    ///
    /// # Safety
    ///
    /// As for [`store_here`](Self::store_here).
    #[inline(always)]
    pub unsafe fn erase_here(
        &mut self,
        hint: &Hint<K, S>,
        (first, last): (K, K),
        twin: Option<V>,
    ) -> Result<(), Option<V>> {
        // SAFETY: the caller's promise.
        unsafe { self.put_here(hint, (first, last), NULL, twin) }
    }

    /// As [`grow`](Self::grow) to `first..=last`, but only if there are no concurrent readers and
    /// just the leaf of `hint` changes. Returns `true` if it did. Otherwise nothing has changed.
    /// `hint` is that of an index of the range, in the slot where the range begins or in the next
    /// one.
    ///
    /// # Safety
    ///
    /// The hint came from a look at this map, not another one, at an index of the range, and holds.
    #[inline(always)]
    pub unsafe fn grow_here(&mut self, hint: &Hint<K, S>, key: K, (first, last): (K, K)) -> bool {
        let place = hint.place();
        let mut found = hint.found();
        if key < found.first && hint.slot() > 0 {
            found = place.slot(hint.slot() - 1);
        }
        if key < found.first || found.last < key {
            if !place.covers(key) {
                return false;
            }
            found = place.at(key);
        }
        if found.word.is_null() || found.first < first || last < found.last {
            return false;
        }
        let (range, words) = ((first, last), (found.word, NULL));
        Host::store_here(self, hint, range, words, Some(found), false, |_, _, _| {})
    }

    /// Makes a range, which starts in a slot, hold a word (NULL erases), in the leaf of the slot alone. Of an entry that is on both sides the upper part gets
    /// the value `twin`. If that cannot be done, nothing has changed, and the twin comes back.
    ///
    /// # Safety
    ///
    /// The tree has not changed since `hint` was found. The word is a value's, or NULL.
    #[inline(always)]
    unsafe fn put_here(
        &mut self,
        hint: &Hint<K, S>,
        (first, last): (K, K),
        word: Word,
        twin: Option<V>,
    ) -> Result<(), Option<V>> {
        let at = SlotAt::of(hint.path(), hint.slot());
        let above = twin.map(V::into_raw);
        // As elsewhere: these need less than to say what is left of the slots.
        let done = above.is_none()
            && match NonNull::new(word) {
                Some(word) => at.is_hole_around(last) && self.fill_hole(at, (first, last), word),
                None => at.is_entry(first, last) && self.vacate(at, true, |_, _, _| {}),
            };
        let words = (word, above.map_or(NULL, NonNull::as_ptr));
        let range = (first, last);
        if done || Host::store_here(self, hint, range, words, None, false, |_, _, _| {}) {
            return Ok(());
        }
        // SAFETY: made just now, and not stored.
        Err(above.map(|raw| unsafe { V::from_raw(raw) }))
    }
}
