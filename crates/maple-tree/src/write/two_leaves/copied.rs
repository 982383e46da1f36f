//! Changes of two leaves under concurrent readers. They are made in copies of the leaves and of
//! their parent, which one store then publishes.
//!
//! Readers find either the old leaves or the new ones, never one of each: the paths to both pairs
//! lead through one slot, that of the parent in the node above it.

use crate::alloc::{Reserve, TakeNodes};
use crate::base::{Key, Shape};
use crate::node::{Node, RawTree, Unread};
use crate::read::{BoundedLeaf, LeafPath};
use crate::write::two_leaves::Receiver;
use crate::write::{Quick, Rebalance};

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Applies a quick write that changes two leaves. Returns the replaced nodes, unchanged,
    /// because readers may be in them. The caller is the only writer, and the tree has not changed
    /// since `quick` was made.
    #[inline(never)]
    pub(in crate::write) fn apply_in_copies(
        &self,
        quick: Quick<K, S>,
        reserve: &mut Reserve,
    ) -> [Option<Node<K, S>>; 4] {
        let LeafPath { place, at, .. } = quick.path;
        let Some(parent) = quick.path.parent else {
            debug_assert!(false, "a leaf that is the root has no neighbours");
            return [None; 4];
        };
        let leaf = place.leaf;
        let neighbour = quick.neighbour(parent);
        let above = reserve.take_copy(parent, parent.first_word());
        // Makes a copy of a leaf a child of the parent's copy.
        let mut copy_below = |at: usize, leaf: Node<K, S>| {
            let first_word = leaf.first_word_below(Some(above.node()));
            let copy = reserve.take_copy(leaf, first_word).node();
            above.set_slot(at, copy.word());
            copy
        };
        let new = copy_below(at, leaf);
        if let Some((at, node)) = neighbour {
            copy_below(at, node);
        }
        let path = LeafPath {
            place: BoundedLeaf { leaf: new, ..place },
            parent: Some(above.node()),
            at,
        };
        let copied = Quick { path, ..quick };
        // SAFETY: nothing leads to the copies yet, and the copied parent has room.
        let left_over = copied.apply_to_both(self, reserve, unsafe { Unread::new() });
        for i in 0..above.node().used() {
            above.node().child(i).set_parent(Some(above.node()));
        }
        match parent.parent(self.inner_kind()) {
            Some(node) => node.publish(node.search(place.min), above.node().word()),
            None => self.publish_root(above.node().word(), self.height()),
        }
        let neighbour = neighbour.map(|(_, node)| node);
        [Some(leaf), neighbour, Some(parent), left_over]
    }
}

impl<K: Key, S: Shape> Quick<K, S> {
    /// Returns the other leaf of the change, and its slot in the parent.
    fn neighbour(self, parent: Node<K, S>) -> Option<(usize, Node<K, S>)> {
        let at = self.path.at;
        let before = match self.rebalance {
            Rebalance::Spill { receiver, .. } if receiver != Receiver::New => {
                receiver == Receiver::Before
            }
            Rebalance::Underflow { left } => usize::from(left) < at,
            Rebalance::HoleAcross { before } => before,
            Rebalance::None | Rebalance::Append(_) | Rebalance::Spill { .. } => return None,
        };
        let at = if before { at - 1 } else { at + 1 };
        Some((at, parent.child(at).as_leaf()))
    }
}
