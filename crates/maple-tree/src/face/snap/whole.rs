//! What changes a map as a whole, or takes parts out of it.

use core::ops::{RangeBounds, RangeInclusive};

use crate::alloc::AllocError;
use crate::base::{Duplicate, EraseError, InsertError, Key, Shape, inclusive};
use crate::face::iter::IterMut;
use crate::face::many::one_by_one;
use crate::face::snap::{CowMapleTree, SharedAlloc};
use crate::node::Root;

impl<K: Key, V: Duplicate, A: SharedAlloc, S: Shape> CowMapleTree<K, V, A, S> {
    /// Takes what is within `range` out of the map, and gives it as a map that shares nodes with this one's snapshots. An entry that reaches beyond an end
    /// is [duplicated](Duplicate): each side has its part. O(log n), and the time to give up what each side has not.
    ///
    /// ```
    /// # use maple_tree::CowMapleTree;
    /// let mut map: CowMapleTree<u64, u32> = CowMapleTree::new();
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
        "use maple_tree::CowMapleTree;

let mut map: CowMapleTree<u64, u32> = CowMapleTree::new();"
    );

    /// The entries in order, to be changed; snapshots keep what they have. All that is shared is copied first, O(n): to change few,
    /// [`get_mut`](CowMapleTree::get_mut) copies less.
    ///
    /// ```
    /// # use maple_tree::CowMapleTree;
    /// let mut map: CowMapleTree<u64, u32> = CowMapleTree::new();
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
}
