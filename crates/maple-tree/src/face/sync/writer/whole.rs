//! Changes of the map as a whole, and what is made of all of it.

use core::ops::{RangeBounds, RangeInclusive};
use core::ptr::NonNull;

use lock_api::RawMutex;

use crate::alloc::{AllocError, Fork};
use crate::base::{EraseError, InsertError, Key, Ref, Shape, each};
use crate::face::host::Host;
use crate::face::map::MapleTree;
use crate::face::merge::{Set, merge, upper_copies};
use crate::face::sync::retire::Deferred;
use crate::face::sync::writer::Writer;
use crate::face::sync::{SyncAlloc, SyncValue};
use crate::node::{NULL, Root};
use crate::read::iterate::by_entry::Traverse;
use crate::reclaim::Reclaim;
use crate::write::Sink;
use crate::write::apply::bury;
use crate::write::duplicate::{CloneError, CopyWith};

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape>
    Writer<'_, K, V, R, A, L, S>
{
    /// Inserts entries until one cannot be inserted. O(log n) for each. Readers see one after the other come.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::new(Waiting::new());
    /// map.write().try_extend([(0..10, 1), (10..20, 2)])?;
    /// assert_eq!(map.read().len(), 2);
    /// # Ok::<(), maple_tree::InsertError<u32>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`insert_range`](Writer::insert_range), for the first that could not be inserted; those before it have been.
    pub fn try_extend<B: RangeBounds<K>>(
        &mut self,
        entries: impl IntoIterator<Item = (B, V)>,
    ) -> Result<(), InsertError<V>> {
        for (range, value) in entries {
            self.insert_range(range, value)?;
        }
        Ok(())
    }

    /// Retires the entries for which `keep` says no. O(n), and O(log n) for each that is retired. Readers see one after the other
    /// go.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::new(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(0..10, 1), (10..20, 2)])?;
    /// writer.retain(|_, value| value == 2)?;
    /// assert_eq!(map.read().first(), Some((10..=19, 2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory; the entries before have been looked at, the others, and the one that could not be removed, are still there.
    pub fn retain(
        &mut self,
        mut keep: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> bool,
    ) -> Result<(), AllocError> {
        let mut entries = Traverse::<K, S>::new(Some((K::MIN, K::MAX)));
        while let Some(found) = entries.next(self.raw()) {
            let Some(raw) = NonNull::new(found.word) else {
                continue;
            };
            // SAFETY: the word is in the tree, which only this writer changes.
            if !keep(found.first..=found.last, unsafe { V::borrow(raw) }) {
                self.remove(found.first)?;
                // Anew: there may be other nodes now.
                let rest = found.last.successor().map(|first| (first, K::MAX));
                entries = Traverse::new(rest);
            }
        }
        Ok(())
    }

    /// Moves all entries of `other` into this map. Where they meet entries of this one, those of `other` prevail: what they cover is retired, what
    /// overlaps one end of them keeps what is outside. O(n + m): the tree is built anew, with full leaves.
    ///
    /// Readers see all of it at once: every look-up finds the map as it was, or as it is with everything of `other` in it.
    ///
    /// ```
    /// use maple_tree::alloc::SharedPool;
    /// use maple_tree::{MapleTree, SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::new(Waiting::new());
    /// map.write().insert_range(0..10, 1)?;
    /// let mut loaded = MapleTree::try_from_sorted_in([(5..15, 2), (20..25, 3)], SharedPool::new())?;
    /// map.write().append(&mut loaded)?;
    /// assert_eq!(map.read().ranges().collect::<Vec<_>>(), [0..=4, 5..=14, 20..=24]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If an entry of this map would end up on both sides of one of `other` ([`EraseError::Splits`]; see
    /// [`append_splitting`](Writer::append_splitting)), or if there is no memory ([`EraseError::Alloc`]). Both maps are as they were then.
    pub fn append(&mut self, other: &mut MapleTree<K, V, A, S>) -> Result<(), EraseError> {
        self.append_splitting(other, |_, _| None)
    }

    /// As [`append`](Writer::append); of an entry that ends up on several sides of others, each part but the lowest gets the value that `split`
    /// makes from that entry and the range of the part.
    ///
    /// ```
    /// use maple_tree::alloc::SharedPool;
    /// use maple_tree::{MapleTree, SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.insert_range(0..100, 1)?;
    /// let mut other = MapleTree::try_from_sorted_in([(10..20, 2)], SharedPool::new())?;
    /// writer.append_splitting(&mut other, |_, value| Some(value))?;
    /// assert_eq!(map.read().values().collect::<Vec<_>>(), [1, 2, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory, or (as [`EraseError::Splits`]) if `split` gives `None`. Both maps are as they were then.
    pub fn append_splitting(
        &mut self,
        other: &mut MapleTree<K, V, A, S>,
        split: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    ) -> Result<(), EraseError> {
        if other.is_empty() {
            return Ok(());
        }
        let tree = &self.tree.raw;
        // SAFETY: this is the only writer, `other` is exclusively borrowed, and words in both are values.
        let merged =
            unsafe { merge::<K, V, S, A>(tree, other.raw(), &self.tree.own.alloc, split) }?;
        other.free_nodes();
        let old = tree.root();
        tree.publish_root(merged.root, merged.height);
        // SAFETY: this is the only writer.
        let mut sink = unsafe { Deferred::new(self.tree, None, |_, _, _| {}) };
        if let Root::Node(node) = old {
            // No entry is within these bounds: most of them live on in the new tree.
            bury(node, K::MIN, K::MAX, (K::MAX, K::MIN), &mut sink);
        }
        let covered = merged.covered;
        each(0..covered.len(), |i| {
            let found = covered[i];
            sink.entry(found.first, found.last, found.word);
        });
        Ok(())
    }

    /// Takes the entries from `key` on out of the map, and gives a map with what `copy` makes of each: readers may still view the values, so
    /// that these cannot be moved, and are retired. Of an entry that reaches from below `key` to it, the upper part is copied, the lower
    /// one stays. The new map has the same modes. O(n) in what is taken.
    ///
    /// Readers see all of them go at once.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, Arc<&str>, Waiting> = SyncMapleTree::new(Waiting::new());
    /// map.write().try_extend([(0..10, Arc::new("low")), (10..30, Arc::new("both"))])?;
    /// let high = map.write().split_off_with(20, |_, value| Some(Arc::clone(&value)))?;
    /// assert_eq!(map.read().last().map(|(range, _)| range), Some(10..=19));
    /// assert_eq!(high.first().map(|(range, _)| range), Some(20..=29));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory ([`EraseError::Alloc`]), or `copy` gives `None` ([`EraseError::Splits`]). The map is as it was then, and what
    /// had been copied has been dropped.
    pub fn split_off_with(
        &mut self,
        key: K,
        copy: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    ) -> Result<MapleTree<K, V, A, S>, EraseError>
    where
        A: Fork,
    {
        let high = self.empty_like();
        let tree = &self.tree.raw;
        let plan = tree.plan_store(key, K::MAX, NULL);
        let nodes =
            Set::aside(plan.nodes, &self.tree.own.alloc).map_err(|AllocError| EraseError::Alloc)?;
        // SAFETY: this is the only writer, and words in the tree are values.
        let (root, height) =
            unsafe { upper_copies::<K, V, S, A>(tree, key, high.allocator(), copy) }?;
        let mut nodes = nodes.take();
        high.raw().publish_root(root, height);
        self.carry_out_with(plan, &mut nodes, |_, _, _| {});
        Ok(high)
    }

    /// Removes all entries at once, and retires them.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.insert(7, 1)?;
    /// writer.clear();
    /// assert!(map.read().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear(&mut self) {
        // A hole over everything takes no node, so that it cannot fail.
        let plan = self.tree.raw.plan_store(K::MIN, K::MAX, NULL);
        debug_assert_eq!(plan.nodes, 0);
        let _ = self.carry_out(plan, |_, _, _| {});
    }

    /// A duplicate, in one pass over the nodes, as a map without concurrent readers. `copy` is shown each entry once, in order, and
    /// gives the value that the duplicate has there, or `None` to leave the entry out.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.insert(7, 1)?;
    /// let copy = writer.try_clone_with(|_, value| Ok::<_, ()>(Some(value + 1)));
    /// assert_eq!(copy.map_err(|_| "no memory")?.get(7), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory for a node, or with the closure's error. What had been made has been dropped.
    pub fn try_clone_with<E>(
        &self,
        copy: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> Result<Option<V>, E>,
    ) -> Result<MapleTree<K, V, A, S>, CloneError<E>>
    where
        A: Fork,
    {
        let new = self.empty_like();
        // SAFETY: this is the only writer, and it is borrowed; the maps have the same modes; the copier makes words out of
        // values.
        let done = unsafe {
            self.tree.raw.dup_into(
                new.raw(),
                &mut new.allocator(),
                &mut CopyWith::<_, V>::new(copy),
            )
        };
        #[cfg(feature = "tracing")]
        crate::base::events::duplicate(self.tree.raw.height(), done.is_ok());
        done.map(|()| new)
    }

    /// An empty map with the same modes, and a fork of the allocator.
    fn empty_like(&self) -> MapleTree<K, V, A, S>
    where
        A: Fork,
    {
        MapleTree::from_parts(self.tree.raw.empty_like(), self.tree.own.alloc.fork())
    }
}
