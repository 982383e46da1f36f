//! A leaf with its bounds and its slot in the node above, by which the next leaf is found: for
//! writes, cursors and traversals.

use crate::base::{Key, Offset, Shape};
use crate::node::{Kind, Node, prefetch};
use crate::read::Place;
use crate::read::walk::descend_by;

/// The distance, in leaves, of memory prefetches.
const AHEAD: usize = 2;

/// A leaf and its position below its parent.
#[derive(Clone, Copy)]
pub(crate) struct LeafPath<K, S> {
    pub(crate) place: Place<K, S>,
    /// `None` above a leaf that is the root.
    pub(crate) parent: Option<Node<K, S>>,
    /// The leaf's slot in its parent.
    pub(crate) at: usize,
}

impl<K: Key, S: Shape> LeafPath<K, S> {
    /// Returns the leaf that covers `key` if that is the next one, `UP` or down, below the same
    /// node, and lies between two others: then the node has its bounds. Returns `None` also if that
    /// node is no longer in the tree. Prefetches a leaf further on.
    #[inline(always)]
    pub(crate) fn next_leaf<const UP: bool>(self, key: K) -> Option<Self> {
        let Place { min, max, .. } = self.place;
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
        let place = Place {
            // SAFETY: the children of a node above a leaf are leaves, which live as long as the
            // references to them. A reader's guard keeps both, and only the writer itself replaces
            // its own.
            leaf: unsafe { Node::of_kind(parent.slot(at), Kind::Leaf) },
            min: if UP { key } else { parent.first(at, min) },
            max: if UP { parent.pivot(at) } else { key },
        };
        Some(Self { place, at, ..self })
    }
}

/// Returns the leaf that covers `key`.
#[inline(always)]
pub(crate) fn find<K: Key, S: Shape>(root: Node<K, S>, key: K) -> LeafPath<K, S> {
    let (mut parent, mut at) = (None, 0);
    let place = descend_by(root, key, |node, i, _| (parent, at) = (Some(node), i));
    LeafPath { place, parent, at }
}
