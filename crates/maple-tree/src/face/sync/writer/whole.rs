//! Changes of the map as a whole, and what is made of all of it.

use core::ops::{RangeBounds, RangeInclusive};

use lock_api::RawMutex;

use crate::alloc::{AllocError, Fork};
use crate::base::{EraseError, InsertError, Key, Ref, Shape};
use crate::face::host::Host;
use crate::face::many::{appends, one_by_one};
use crate::face::map::MapleTree;
use crate::face::merge::{Made, merge, part};
use crate::face::sync::writer::Writer;
use crate::face::sync::{SyncAlloc, SyncValue};
use crate::node::NULL;
use crate::reclaim::Reclaim;
use crate::write::duplicate::{CloneError, CopyWith};

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape>
    Writer<'_, K, V, R, A, L, S>
{
    one_by_one!(
        "Retires",
        "Readers see one after the other come.",
        "Readers see one after the other go.",
        "# use maple_tree::{SyncMapleTree, Waiting};
let shared: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::new(Waiting::new());
let mut map = shared.write();"
    );

    appends!(
        "retired",
        "Readers see all of it at once: every look-up finds the map as it was, or as it is with everything of `other` in it.",
        "# use maple_tree::alloc::SharedPool;
# use maple_tree::{MapleTree, SyncMapleTree, Waiting};
let shared: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::new(Waiting::new());
let mut map = shared.write();
let mut other = MapleTree::new_in(SharedPool::new());"
    );

    /// Takes the entries from `key` on out of the map, and gives a map with what `copy` makes of each: readers may still view the values, so
    /// that these cannot be moved, and are retired. Of an entry that reaches from below `key` to it, the upper part is copied, the lower
    /// one stays. The new map has the same modes. O(n) in what is taken.
    ///
    /// Readers see all of them go at once.
    ///
    /// ```
    /// use std::sync::Arc;
    /// # use maple_tree::{SyncMapleTree, Waiting};
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
    /// If there is no memory ([`EraseError::Alloc`]), or `copy` gives `None` ([`EraseError::Splits`]). The map is as it was, and copies have been dropped.
    pub fn split_off_with(
        &mut self,
        key: K,
        mut copy: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    ) -> Result<MapleTree<K, V, A, S>, EraseError>
    where
        A: Fork,
    {
        let tree = &self.tree.raw;
        let high = MapleTree::from_parts(tree.empty_like(), self.nodes().fork());
        let plan = tree.plan_store(key, K::MAX, NULL);
        let mut made = Made::<V>::new();
        // SAFETY: words in the tree are values, and only this writer changes it.
        let part = unsafe {
            part(tree, (key, K::MAX), high.allocator(), |found, range| {
                made.remake(found.word, range, &mut copy)
            })
        }?;
        let mut nodes = self
            .reserved(plan.nodes)
            .map_err(|AllocError| EraseError::Alloc)?;
        made.keep();
        part.finish(high.raw());
        self.carry_out_with(plan, &mut nodes, None, |_, _, _| {});
        Ok(high)
    }

    /// Removes all entries at once, and retires them.
    ///
    /// ```
    /// # use maple_tree::{SyncMapleTree, Waiting};
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
        let _ = self.carry_out(plan, None, |_, _, _| {});
    }

    /// A duplicate, in one pass over the nodes, as a map without concurrent readers. `copy` is shown each entry once, in order, and
    /// gives the value that the duplicate has there, or `None` to leave the entry out.
    ///
    /// ```
    /// # use maple_tree::{SyncMapleTree, Waiting};
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
        let mut copier = CopyWith::<_, V>::new(copy);
        // SAFETY: this is the only writer, and it is borrowed; the copier makes words out of values.
        unsafe { MapleTree::duplicate_of(&self.tree.raw, self.nodes().fork(), &mut copier) }
    }
}
