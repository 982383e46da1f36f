//! A leaf, its bounds, and its slot in its parent, from which the next leaf is found. For writes,
//! cursors and traversals.

use crate::base::{Key, Offset, Shape};
use crate::node::{Kind, Node, prefetch};
use crate::read::BoundedLeaf;
use crate::read::walk::descend_by;

/// The number of leaves ahead that are prefetched.
const AHEAD: usize = 2;

/// A leaf, its parent, and its slot there.
#[derive(Clone, Copy)]
pub(crate) struct LeafPath<K, S> {
    pub(crate) place: BoundedLeaf<K, S>,
    /// `None` if the leaf is the root.
    pub(crate) parent: Option<Node<K, S>>,
    /// The leaf's slot in its parent.
    pub(crate) at: usize,
}

impl<K: Key, S: Shape> LeafPath<K, S> {
    /// Returns the leaf that covers `key`, if it is the next one in the direction, has the same
    /// parent, and is neither the first nor the last child: the parent then has its bounds. Returns
    /// `None` also if the parent is no longer in the tree. Prefetches a leaf further on.
    #[inline(always)]
    pub(crate) fn next_leaf<const UP: bool>(self, key: K) -> Option<Self> {
        let BoundedLeaf { min, max, .. } = self.place;
        let parent = self.parent?;
        let end = parent.end();
        let (follows, at, ahead) = if UP {
            let at = self.at + 1;
            (max.wrapping_add(K::ONE) == key && at < end, at, at + AHEAD)
        } else {
            let at = self.at.wrapping_sub(1);
            let follows = key.wrapping_add(K::ONE) == min && self.at > 1;
            (follows, at, at.saturating_sub(AHEAD))
        };
        if !follows || parent.is_dead() {
            return None;
        }
        prefetch::node::<0>(parent.slot(ahead.min(end)));
        let place = BoundedLeaf {
            // SAFETY: the children of a leaf's parent are leaves, which live as long as what leads
            // to them. A reader's guard keeps both alive, and a writer's nodes are replaced by that
            // writer only.
            leaf: unsafe { Node::of_kind(parent.slot(at), Kind::Leaf) },
            min: if UP { key } else { parent.first(at, min) },
            max: if UP { parent.pivot(at) } else { key },
        };
        Some(Self { place, at, ..self })
    }
}

/// Returns the leaf that covers `key`, with its parent.
#[inline(always)]
pub(crate) fn find<K: Key, S: Shape>(root: Node<K, S>, key: K) -> LeafPath<K, S> {
    let (mut parent, mut at) = (None, 0);
    let place = descend_by(root, key, |node, i, _| (parent, at) = (Some(node), i));
    LeafPath { place, parent, at }
}
