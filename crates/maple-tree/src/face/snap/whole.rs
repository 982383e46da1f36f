//! What changes a map as a whole, or takes parts out of it; from and to the map for one owner.

use core::ops::{RangeBounds, RangeInclusive};

use crate::alloc::AllocError;
use crate::base::{Duplicate, EraseError, InsertError, Key, Shape, Value, inclusive};
use crate::face::host::Host;
use crate::face::iter::IterMut;
use crate::face::many::one_by_one;
use crate::face::map::MapleTree;
use crate::face::snap::own::{At, NO_COPIES, Owning};
use crate::face::snap::{CowMapleTree, SharedAlloc};
use crate::node::{Node, Root};

impl<K: Key, V: Duplicate, A: SharedAlloc, S: Shape> CowMapleTree<K, V, A, S> {
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

    /// The entries in order, to be changed; snapshots keep what they have. All that is shared is copied first, O(n): to change few,
    /// [`get_mut`](CowMapleTree::get_mut) copies less.
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

    /// A map for one owner out of this one: nodes that are its own are taken over, those that it shares are copied. O(n).
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
    pub(super) fn own_all(
        &self,
        above: Option<At<K, S>>,
        node: Node<K, S>,
    ) -> Result<(), AllocError> {
        let node = self.own(above, node)?;
        if !node.is_leaf() {
            for i in 0..node.used() {
                self.own_all(Some((node, i)), node.child(i))?;
            }
        }
        Ok(())
    }

    /// As [`Owning::own`], for good.
    #[inline(never)]
    fn own(&self, above: Option<At<K, S>>, node: Node<K, S>) -> Result<Node<K, S>, AllocError> {
        let mut copies = NO_COPIES;
        // SAFETY: the map is the caller's alone; its words are values, its nodes are given back to its allocator.
        let mut tree = unsafe { Owning::<K, V, S, A>::new(&self.raw, &self.alloc, &mut copies) };
        let node = tree.own(above, node)?;
        tree.made = true;
        Ok(node)
    }
}

impl<K: Key, V: Value, A: SharedAlloc, S: Shape> CowMapleTree<K, V, A, S> {
    /// Takes over the nodes of a map. O(1), nothing is copied.
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
            if map.carry_out(plan, None, |_, _, _| {}).is_err() {
                return Err(map);
            }
        }
        let (raw, alloc) = map.into_parts();
        Ok(Self::from_parts(raw, alloc))
    }
}
