//! Changes of the map as a whole.

use core::mem::needs_drop;
use core::ops::RangeInclusive;

use crate::alloc::NodeAlloc;
use crate::key::Key;
use crate::map::MapleTree;
use crate::map::host::Immediate;
use crate::node::NULL;
use crate::reserve::AllocError;
use crate::shape::Shape;
use crate::store::apply::bury;
use crate::tree::{RawTree, Root};
use crate::value::Value;

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> MapleTree<K, V, A, S> {
    /// Drops the entries for which `keep` says no. O(n), and O(log n) for each that is dropped.
    ///
    /// # Errors
    ///
    /// If there is no memory; the entries before have been looked at, the others have not.
    pub fn retain(
        &mut self,
        mut keep: impl FnMut(RangeInclusive<K>, V::Ref<'_>) -> bool,
    ) -> Result<(), AllocError> {
        let mut next = Some(K::MIN);
        while let Some(from) = next {
            let Some((range, value)) = self.find(from..) else {
                break;
            };
            next = range.end().successor();
            let first = *range.start();
            if !keep(range, value) {
                self.remove(first)?;
            }
        }
        Ok(())
    }

    /// Drops all entries and nodes. Never fails. The map keeps its mode.
    pub fn clear(&mut self) {
        // SAFETY: `self` is exclusively borrowed: there are no other writers and no readers.
        unsafe { demolish::<K, V, A, S>(&self.raw, &self.alloc) }
    }
}

/// Empties a tree: drops the values, and gives the nodes back.
///
/// # Safety
///
/// The words in the tree are values of `V`, its nodes came from `alloc`, and nobody else uses it.
pub(crate) unsafe fn demolish<K: Key, V: Value, A: NodeAlloc, S: Shape>(
    raw: &RawTree<K, S>,
    alloc: &A,
) {
    let root = raw.root();
    raw.publish_root(NULL, 0);
    let mut entry = MapleTree::<K, V, A, S>::owned(|_, value| drop(value));
    match root {
        Root::Empty => {}
        Root::Single(word) => entry(K::MIN, K::MIN, word),
        Root::Node(node) => {
            // SAFETY: nothing leads to the nodes any more.
            if !needs_drop::<V>() && unsafe { alloc.deallocate_all() } {
                return;
            }
            let mut sink = Immediate { alloc, entry };
            bury(node, K::MIN, K::MAX, (K::MIN, K::MAX), &mut sink);
        }
    }
}
