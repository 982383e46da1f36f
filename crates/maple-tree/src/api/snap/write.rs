//! Changing a map; from and to the map for one owner.

use core::ops::{RangeBounds, RangeInclusive};
use core::ptr::NonNull;

use crate::alloc::AllocError;
use crate::api::snap::own::{At, NO_COPIES, Owning};
use crate::api::{
    CowMapleTree, Host, IterMut, MapleTree, SharedAlloc, Touch, allocs, changes, equals,
    one_by_one, store,
};
use crate::base::{
    Duplicate, EraseError, InsertError, Key, Mut, Shape, StoreError, Value, inclusive,
};
use crate::node::{Node, Root, Word};

impl<K: Key, V: Duplicate, A: SharedAlloc, S: Shape> CowMapleTree<K, V, A, S> {
    /// Lets `make` make a write to `range`, what it touches being the map's own.
    #[inline]
    fn change<T>(
        &mut self,
        range: Option<(K, K)>,
        touch: Touch,
        make: impl FnOnce(Result<&mut Owning<'_, K, V, S, A>, AllocError>) -> T,
    ) -> T {
        let mut copies = NO_COPIES;
        // SAFETY: the map is exclusively borrowed; its words are values, its nodes are given back to its allocator.
        let mut tree = unsafe { Owning::new(&self.raw, &self.alloc, &mut copies) };
        // Nothing is copied in vain.
        let touched = range
            .filter(|&range| touch != Touch::Fills || store::is_free(&self.raw, range))
            .map_or(Ok(()), |range| tree.range(range, touch == Touch::Erases));
        let done = make(touched.map(|()| &mut tree));
        // Here, and not on return: if this panics, the value that would be given back is dropped.
        drop(tree);
        done
    }

    /// Drops the value of an entry that a write has removed.
    fn discard(first: K, last: K, word: Word) {
        Owning::<K, V, S, A>::discard(first, last, word);
    }

    /// Returns the slot of the entry at `key`, if there is one, in a leaf that is now the map's
    /// own.
    #[inline]
    fn own_slot(&mut self, key: K) -> Result<At<K, S>, AllocError> {
        // Nothing is copied in vain.
        if self.raw.load(key).is_null() {
            return Ok(None);
        }
        let mut copies = NO_COPIES;
        // SAFETY: as in `change`.
        let mut tree = unsafe { Owning::<K, V, S, A>::new(&self.raw, &self.alloc, &mut copies) };
        let place = tree.path(key, 0)?;
        tree.made = true;
        Ok(place.map(|place| (place.leaf, place.leaf.search(key))))
    }

    changes!(
        "given up",
        "",
        "# use maple_tree::CowMapleTree;
let mut map: CowMapleTree<u32, u32> = CowMapleTree::with_gaps();"
    );

    equals!(
        "given up",
        "",
        "# use maple_tree::CowMapleTree;
let mut map: CowMapleTree<u32, u32> = CowMapleTree::with_gaps();"
    );

    allocs!(
        gap_from_above,
        "# use maple_tree::CowMapleTree;
let mut map: CowMapleTree<u32, u32> = CowMapleTree::with_gaps();"
    );

    /// Stores `value` at `range`. Entries within the range are given up, entries that overlap it keep what is outside; one that is on both
    /// sides is [duplicated](Duplicate). O(log n), and the time to give up what was there.
    ///
    /// ```
    /// let mut map = maple_tree::CowMapleTree::<u64, u32>::new();
    /// map.store_range(10..20, 1)?;
    /// map.store_range(12..14, 2)?;
    /// assert_eq!(map.iter().collect::<Vec<_>>(), [(10..=11, 1), (12..=13, 2), (14..=19, 1)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if there is no memory, or if the range is empty.
    pub fn store_range(
        &mut self,
        range: impl RangeBounds<K>,
        value: V,
    ) -> Result<(), StoreError<V>> {
        self.store_range_splitting(range, value, |_, value| V::duplicate(value))
            .map_err(|error| match error {
                StoreError::Splits(value) => StoreError::Alloc(value),
                other => other,
            })
    }

    /// Makes `range` a hole. Entries within it are given up, entries that overlap it keep what is outside; one that is on both sides is
    /// [duplicated](Duplicate). O(log n), and the time to give up what was there.
    ///
    /// ```
    /// let mut map = maple_tree::CowMapleTree::<u64, u32>::new();
    /// map.store_range(10..20, 1)?;
    /// map.erase_range(12..14)?;
    /// assert_eq!(map.iter().collect::<Vec<_>>(), [(10..=11, 1), (14..=19, 1)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory, or if the range is empty. Nothing has changed then.
    pub fn erase_range(&mut self, range: impl RangeBounds<K>) -> Result<(), EraseError> {
        self.erase_range_splitting(range, |_, value| V::duplicate(value))
            .map_err(|error| match error {
                EraseError::Splits => EraseError::Alloc,
                other => other,
            })
    }

    /// Removes the whole entry at `key`, and gives its range and its value (another one of it, if a snapshot holds it too). O(log n).
    ///
    /// ```
    /// let mut map = maple_tree::CowMapleTree::<u64, u32>::new();
    /// map.insert_range(10..20, 1)?;
    /// let before = map.snapshot();
    /// assert_eq!(map.remove(15)?, Some((10..=19, 1)));
    /// assert_eq!(map.remove(15)?, None);
    /// assert_eq!(before.get(15), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory; the entry is still there then.
    pub fn remove(&mut self, key: K) -> Result<Option<(RangeInclusive<K>, V)>, AllocError> {
        let found = self.raw.lookup(key);
        if found.word.is_null() {
            return Ok(None);
        }
        let range = Some((found.first, found.last));
        self.change(range, Touch::Erases, |tree| {
            let removed = store::remove(tree?, key)?;
            // SAFETY: the entry has been removed from the tree, which owned its value.
            Ok(removed.map(|(range, raw)| (range, unsafe { V::from_raw(raw) })))
        })
    }

    /// Exchanges the value of the entry at `key`, whose range stays, and gives the old one (another one of it, if a snapshot holds it too). O(log n).
    ///
    /// ```
    /// let mut map = maple_tree::CowMapleTree::<u64, u32>::new();
    /// map.insert_range(10..20, 1)?;
    /// let before = map.snapshot();
    /// assert_eq!(map.replace(15, 2), Ok(1));
    /// assert_eq!(map.replace(25, 3), Err(3));
    /// assert_eq!((before.get(15), map.get(15)), (Some(1), Some(2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if there is no entry, or no memory to copy what is shared.
    pub fn replace(&mut self, key: K, value: V) -> Result<V, V> {
        let Ok(Some((leaf, slot))) = self.own_slot(key) else {
            return Err(value);
        };
        let Some(old) = NonNull::new(leaf.slot(slot)) else {
            return Err(value);
        };
        leaf.publish(slot, value.into_raw().as_ptr());
        // SAFETY: the value is no longer in the map.
        Ok(unsafe { V::from_raw(old) })
    }

    /// Returns the value at `key`, for changing; snapshots keep what they have. O(log n).
    ///
    /// ```
    /// let mut map = maple_tree::CowMapleTree::<u64, Box<u32>>::new();
    /// map.insert_range(10..20, Box::new(1))?;
    /// let before = map.snapshot();
    /// if let Some(value) = map.get_mut(15)? {
    ///     *value += 1;
    /// }
    /// assert_eq!((before.get(15), map.get(15)), (Some(&1), Some(&2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory to copy what is shared.
    pub fn get_mut(&mut self, key: K) -> Result<Option<Mut<'_, V>>, AllocError> {
        let found = self.own_slot(key)?;
        // SAFETY: words in the tree are values; the leaf is owned now, and the map exclusively borrowed for the view.
        Ok(found.map(|(leaf, slot)| unsafe { V::borrow_mut(leaf.slot_memory(slot)) }))
    }
    /// Takes what is within `range` out of the map, and gives it as a map that shares nodes with this one's snapshots. An entry that reaches beyond an end
    /// is [duplicated](Duplicate): each side has its part. O(log n), and the time to give up what each side has not.
    ///
    /// ```
    /// let mut map = maple_tree::CowMapleTree::<u64, u32>::new();
    /// map.try_extend([(0..10, 1), (10..20, 2), (20..30, 3)])?;
    /// let cut = map.cut(5..25)?;
    /// assert_eq!(cut.iter().collect::<Vec<_>>(), [(5..=9, 1), (10..=19, 2), (20..=24, 3)]);
    /// assert_eq!(map.iter().collect::<Vec<_>>(), [(0..=4, 1), (25..=29, 3)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory, or if the range is empty. Nothing has changed then.
    pub fn cut(&mut self, range: impl RangeBounds<K>) -> Result<Self, EraseError> {
        let (first, last) = inclusive(&range).ok_or(EraseError::EmptyRange)?;
        let mut cut = self.snapshot();
        if let Some(before) = first.predecessor() {
            cut.erase_range(..=before)?;
        }
        if let Some(after) = last.successor() {
            cut.erase_range(after..)?;
        }
        self.erase_range(first..=last)?;
        Ok(cut)
    }

    one_by_one!(
        "Drops",
        "",
        "Nothing is copied for those that stay, unless one goes that is in the same leaf.",
        "# use maple_tree::CowMapleTree;
let mut map: CowMapleTree<u64, u32> = CowMapleTree::new();"
    );

    /// Returns the entries in order, for changing; snapshots keep what they have. All that is
    /// shared is copied first, O(n): to change few, [`get_mut`](CowMapleTree::get_mut) copies less.
    ///
    /// ```
    /// let mut map = maple_tree::CowMapleTree::<u64, u32>::new();
    /// map.try_extend([(0..10, 1), (10..20, 2)])?;
    /// let before = map.snapshot();
    /// for (_, value) in map.iter_mut()? {
    ///     *value *= 10;
    /// }
    /// assert_eq!(map.values().collect::<Vec<_>>(), [10, 20]);
    /// assert_eq!(before.values().collect::<Vec<_>>(), [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory to copy what is shared.
    pub fn iter_mut(&mut self) -> Result<IterMut<'_, K, V, S>, AllocError> {
        if let Root::Node(root) = self.raw.root() {
            self.own_all(None, root)?;
        }
        Ok(IterMut::new(&mut self.raw, Some((K::MIN, K::MAX))))
    }

    /// Returns the entries that intersect `bounds`, in order, for changing; snapshots keep what
    /// they have. What is shared of the nodes that hold them is copied first, O(log n) and O(m) for
    /// m entries.
    ///
    /// ```
    /// let mut map = maple_tree::CowMapleTree::<u64, u32>::new();
    /// map.try_extend([(0..10, 1), (10..20, 2), (20..30, 3)])?;
    /// let before = map.snapshot();
    /// for (_, value) in map.range_mut(15..)? {
    ///     *value *= 10;
    /// }
    /// assert_eq!(map.values().collect::<Vec<_>>(), [1, 20, 30]);
    /// assert_eq!(before.values().collect::<Vec<_>>(), [1, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory to copy what is shared.
    pub fn range_mut(
        &mut self,
        bounds: impl RangeBounds<K>,
    ) -> Result<IterMut<'_, K, V, S>, AllocError> {
        let bounds = inclusive(&bounds);
        // Nothing is copied in vain.
        if let Some(bounds) = bounds
            && self.raw.find::<true>(bounds).is_some()
            && let Root::Node(root) = self.raw.root()
        {
            self.own_within(None, root, bounds)?;
        }
        Ok(IterMut::new(&mut self.raw, bounds))
    }

    /// Returns a map for one owner out of this one: nodes that are its own are taken over, those
    /// that it shares are copied. O(n).
    ///
    /// ```
    /// let mut map = maple_tree::CowMapleTree::<u64, u32>::new();
    /// map.insert_range(0..10, 1)?;
    /// let kept = map.snapshot();
    /// let mut own = map.into_exclusive().map_err(|_| "no memory")?;
    /// own.erase_range(0..10)?;
    /// assert_eq!((own.len(), kept.len()), (0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The map comes back, holding what it held, if there is no memory.
    pub fn into_exclusive(self) -> Result<MapleTree<K, V, A, S>, Self> {
        if let Root::Node(root) = self.raw.root()
            && self.own_all(None, root).is_err()
        {
            return Err(self);
        }
        let (raw, alloc) = self.into_parts();
        Ok(MapleTree::from_parts(raw, alloc))
    }

    /// Makes a node, which is the root or a child of an owned one, and all below it owned.
    pub(super) fn own_all(&self, above: At<K, S>, node: Node<K, S>) -> Result<(), AllocError> {
        let node = self.own(above, node)?;
        if !node.is_leaf() {
            for i in 0..node.used() {
                self.own_all(Some((node, i)), node.child(i))?;
            }
        }
        Ok(())
    }

    /// As [`own_all`](Self::own_all), of the nodes that cover some of `lo..=hi`, which the first does.
    fn own_within(
        &self,
        above: At<K, S>,
        node: Node<K, S>,
        (lo, hi): (K, K),
    ) -> Result<(), AllocError> {
        let node = self.own(above, node)?;
        if !node.is_leaf() {
            let (from, to) = (node.search(lo), node.search(hi));
            for i in from..=to.min(node.end()) {
                // What is below a slot between is all within.
                let lo = if i == from { lo } else { K::MIN };
                let hi = if i == to { hi } else { K::MAX };
                self.own_within(Some((node, i)), node.child(i), (lo, hi))?;
            }
        }
        Ok(())
    }

    /// As [`Owning::own`], for good.
    #[inline(never)]
    fn own(&self, above: At<K, S>, node: Node<K, S>) -> Result<Node<K, S>, AllocError> {
        let mut copies = NO_COPIES;
        // SAFETY: the map is the caller's alone; its words are values, its nodes are given back to its allocator.
        let mut tree = unsafe { Owning::<K, V, S, A>::new(&self.raw, &self.alloc, &mut copies) };
        let node = tree.own(above, node)?;
        tree.made = true;
        Ok(node)
    }
}

impl<K: Key, V: Value, A: SharedAlloc, S: Shape> CowMapleTree<K, V, A, S> {
    /// Takes over the nodes of a map. O(1), nothing is copied. The map has an allocator that snapshots can share: [`Global`](crate::alloc::Global), as here, and not the
    /// [`Pool`](crate::alloc::Pool) of a map that [`MapleTree::new`] makes.
    ///
    /// ```
    /// use maple_tree::{CowMapleTree, MapleTree};
    /// # use maple_tree::alloc::Global;
    /// let mut map: MapleTree<u64, u32, Global> = MapleTree::new_in(Global);
    /// map.insert_range(0..10, 1)?;
    /// let shared = CowMapleTree::from_exclusive(map).map_err(|_| "no memory")?;
    /// assert_eq!(shared.snapshot().get(5), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The map comes back if there is no memory for a node, which is needed only if the map's only entry is just at index 0.
    pub fn from_exclusive(mut map: MapleTree<K, V, A, S>) -> Result<Self, MapleTree<K, V, A, S>> {
        if let Root::Single(word) = map.raw().root() {
            let mut plan = map.raw().plan_store(K::MIN, K::MIN, word);
            plan.leave_root_to_nodes();
            // It is the entry that is there already.
            if map.carry_out(&mut plan, None, |_, _, _| {}).is_err() {
                return Err(map);
            }
        }
        let (raw, alloc) = map.into_parts();
        Ok(Self::from_parts(raw, alloc))
    }
}
