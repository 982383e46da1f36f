//! The way from the root to a node: what parent pointers are for other trees. A shared node has several parents, so that only who
//! came down knows which of them he came from, and whether all that he passed is his alone.

use core::mem::MaybeUninit;

use crate::base::{Key, Shape};
use crate::node::Node;
use crate::node::tree::flags;

/// No tree is higher: its height is a field of the flags word, as it is in Linux. (Two slots or more in each node but the last of a
/// level, and 256 bytes a node, make more than 31 levels of what no machine has memory for.)
pub(super) const MOST_LEVELS: usize = (flags::HEIGHT_MASK >> flags::HEIGHT_SHIFT) as usize;

/// A node on the way, and the slot that the way goes through.
#[derive(Clone, Copy)]
pub(super) struct Step<K, S> {
    pub(super) node: Node<K, S>,
    pub(super) slot: usize,
    /// The first and the last index that the node covers.
    pub(super) min: K,
    pub(super) max: K,
    /// The node and all above it are led to once: nobody else sees them.
    pub(super) owned: bool,
}

impl<K: Key, S: Shape> Step<K, S> {
    /// Further down through slot `i`.
    #[inline]
    fn child(&self) -> (Node<K, S>, K, K, bool) {
        let node = self.node.child(self.slot);
        (
            node,
            self.node.first(self.slot, self.min),
            self.node.last(self.slot, self.max),
            self.owned && node.is_sole(),
        )
    }

    /// The first index of the slot.
    #[inline]
    pub(super) fn first(&self) -> K {
        self.node.first(self.slot, self.min)
    }

    /// The last index of the slot.
    #[inline]
    pub(super) fn last(&self) -> K {
        self.node.last(self.slot, self.max)
    }
}

/// A way from the root, level `height - 1`, down to a leaf, level 0.
pub(super) struct Path<K, S> {
    height: usize,
    steps: [MaybeUninit<Step<K, S>>; MOST_LEVELS],
}

impl<K: Key, S: Shape> Clone for Path<K, S> {
    /// Copies the levels that there are.
    #[inline]
    fn clone(&self) -> Self {
        let mut new = Self {
            height: self.height,
            steps: [const { MaybeUninit::uninit() }; MOST_LEVELS],
        };
        new.steps[..self.height].copy_from_slice(&self.steps[..self.height]);
        new
    }
}

impl<K: Key, S: Shape> Path<K, S> {
    /// Down to the slot of a leaf that covers `key`. All levels of the path are written.
    // In line, so that the path is made where it is kept: it is large.
    #[inline(always)]
    pub(super) fn down(root: Node<K, S>, height: usize, key: K) -> Self {
        let mut path = Self {
            height,
            steps: [const { MaybeUninit::uninit() }; MOST_LEVELS],
        };
        path.go_down(root, key);
        path
    }

    #[inline]
    fn go_down(&mut self, root: Node<K, S>, key: K) {
        let mut at = (root, K::MIN, K::MAX, root.is_sole());
        for level in (0..self.height).rev() {
            let (node, min, max, owned) = at;
            let step = self.steps[level].write(Step {
                node,
                slot: node.search(key),
                min,
                max,
                owned,
            });
            if level > 0 {
                at = step.child();
            }
        }
    }

    #[inline]
    pub(super) fn height(&self) -> usize {
        self.height
    }

    /// How many nodes of the path, from the leaf up, are not owned.
    #[inline]
    pub(super) fn shared(&self) -> usize {
        (0..self.height)
            .find(|&l| self.at(l).owned)
            .unwrap_or(self.height)
    }

    /// The step at a level, which is below the height.
    #[inline]
    pub(super) fn at(&self, level: usize) -> &Step<K, S> {
        debug_assert!(level < self.height);
        // SAFETY: the levels below the height are written when the path is made; the array's bounds are checked.
        unsafe { self.steps[..self.height][level].assume_init_ref() }
    }

    #[inline]
    pub(super) fn at_mut(&mut self, level: usize) -> &mut Step<K, S> {
        debug_assert!(level < self.height);
        // SAFETY: as in `at`.
        unsafe { self.steps[..self.height][level].assume_init_mut() }
    }

    /// Whether the node at a level has a neighbour with the same parent, before it or after.
    pub(super) fn has_sibling(&self, level: usize, after: bool) -> bool {
        level + 1 < self.height && {
            let above = self.at(level + 1);
            if after {
                above.slot < above.node.end()
            } else {
                above.slot > 0
            }
        }
    }

    /// Goes over to the next node at a level, or to the one before, and to its first slot, or its last. The levels below are no longer
    /// of any use. False, with nothing changed, if there is no such node.
    pub(super) fn step_aside(&mut self, level: usize, after: bool) -> bool {
        let Some(top) = (level..self.height).find(|&l| self.has_sibling(l, after)) else {
            return false;
        };
        let turn = self.at_mut(top + 1);
        turn.slot = if after { turn.slot + 1 } else { turn.slot - 1 };
        for l in (level..=top).rev() {
            let (node, min, max, owned) = self.at(l + 1).child();
            let slot = if after { 0 } else { node.end() };
            *self.at_mut(l) = Step {
                node,
                slot,
                min,
                max,
                owned,
            };
        }
        true
    }
}
