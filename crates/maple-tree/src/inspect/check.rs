//! The check of a whole tree that tests run after every change.

use core::fmt;

use crate::base::{Key, Offset, Shape};
use crate::node::{Geometry, Kind, Node, RawTree, Root};

/// Damage that [`check`](crate::MapleTree::check) found in a tree, with the first index of the
/// affected node. Only a defect of this crate, or overwritten memory, can cause it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage<K> {
    what: &'static str,
    at: K,
}

impl<K> Damage<K> {
    pub(crate) fn new(what: &'static str, at: K) -> Self {
        Self { what, at }
    }

    /// Returns the violated rule.
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// Returns the first index of the node that violates it.
    pub fn at(&self) -> &K {
        &self.at
    }
}

impl<K: Key> fmt::Display for Damage<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (node at {})", self.what, self.at)
    }
}

impl<K: Key> core::error::Error for Damage<K> {}

/// Returns the fault in the first word of a node below another one (`None` for the root), if any.
type FirstWord<'a, K, S> = &'a dyn Fn(Node<K, S>, Option<Node<K, S>>) -> Option<&'static str>;

/// The state of the walk.
struct Walk<'a, K, S> {
    inner: Kind,
    height: u32,
    /// `true` if the previous slot was a hole.
    after_hole: bool,
    first_word: FirstWord<'a, K, S>,
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Checks every rule of the structure.
    pub(crate) fn check(&self) -> Result<(), Damage<K>> {
        let inner = self.inner_kind();
        self.check_with(&|node, above| match above {
            None if node.is_dead() || node.parent(inner).is_some() => {
                Some("the root is dead or has a parent")
            }
            Some(_) if node.is_dead() => Some("a dead node is reachable"),
            Some(above) if !node.is_child_of(above) => Some("a child has another parent"),
            _ => None,
        })
    }

    /// Checks every rule of the structure, with a closure for first words.
    pub(crate) fn check_with(&self, first_word: FirstWord<'_, K, S>) -> Result<(), Damage<K>> {
        let root = match self.root() {
            Root::Empty | Root::Single(_) if self.height() == 0 => return Ok(()),
            Root::Empty | Root::Single(_) => {
                return Err(Damage::new("a tree without nodes has a height", K::MIN));
            }
            Root::Node(root) => root,
        };
        let mut walk = Walk {
            inner: self.inner_kind(),
            height: self.height(),
            after_hole: false,
            first_word,
        };
        if let Some(what) = (walk.first_word)(root, None) {
            return Err(Damage::new(what, K::MIN));
        }
        if root.end() == 0 && (!root.is_leaf() || root.slot(0).is_null()) {
            return Err(Damage::new("the root is not needed", K::MIN));
        }
        walk.node(root, K::MIN, K::MAX, 1)?;
        Ok(())
    }
}

impl<K: Key, S: Shape> Walk<'_, K, S> {
    /// Checks a node and its subtree, and returns the size of its largest hole.
    fn node(&mut self, node: Node<K, S>, min: K, max: K, level: u32) -> Result<K, Damage<K>> {
        let damage = |what| Err(Damage::new(what, min));
        if let Some(what) = self.shape(node, min, max, level) {
            return damage(what);
        }
        let end = node.end();
        let mut first = min;
        let mut largest = K::MIN;
        for i in 0..=end {
            let last = node.last(i, max);
            if last < first || max < last || (i < end && last == max) || (i == end && last != max) {
                return damage("pivots are not in order");
            }
            let word = node.slot(i);
            if node.is_leaf() {
                if word.is_null() {
                    if self.after_hole {
                        return damage("two holes are neighbours");
                    }
                    largest = largest.max(K::span(first, last));
                }
                self.after_hole = word.is_null();
            } else {
                if !crate::node::is_node(word) {
                    return damage("a slot of an inner node holds no node");
                }
                let child = node.child(i);
                if let Some(what) = (self.first_word)(child, Some(node)) {
                    return damage(what);
                }
                let gap = self.node(child, first, last, level + 1)?;
                if node.kind() == Kind::Gap {
                    if node.gap(i) != gap {
                        return damage("the size of the largest hole is wrong");
                    }
                    largest = largest.max(gap);
                }
            }
            first = last.wrapping_add(K::ONE);
        }
        match unused(node) {
            Some(what) => damage(what),
            None => Ok(largest),
        }
    }

    /// Checks a node's kind and its number of slots.
    fn shape(&self, node: Node<K, S>, min: K, max: K, level: u32) -> Option<&'static str> {
        if node.is_leaf() != (level == self.height) {
            return Some("leaves are not all on the lowest level");
        }
        if !node.is_leaf() && node.kind() != self.inner {
            return Some("an inner node is of the wrong kind");
        }
        if node.end() >= node.capacity() {
            return Some("the end is beyond the slots");
        }
        // The outermost leaves, and the last inner nodes, may have any number of slots.
        let exempt = level == 1 || max == K::MAX || (min == K::MIN && node.is_leaf());
        let few = node.used() < Geometry::<K, S>::least(node.kind());
        (few && !exempt).then_some("a node has too few slots")
    }
}

/// Checks the pivots and slots after a node's end.
fn unused<K: Key, S: Shape>(node: Node<K, S>) -> Option<&'static str> {
    let (end, capacity) = (node.end(), node.capacity());
    for i in end..capacity {
        if i + 1 < capacity && node.pivot(i) != K::MAX {
            return Some("a pivot after the last slot is in use");
        }
        if i > end && !node.slot(i).is_null() {
            return Some("a slot after the last one is in use");
        }
    }
    None
}
