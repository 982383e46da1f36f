//! The whole-tree check that tests call after every change.

use core::fmt;

use crate::base::{Key, Offset, Shape};
use crate::node::{Geometry, Kind, Node, RawTree, Root};

/// A defect that [`check`](crate::MapleTree::check) found, and the first index of the node
/// concerned. The cause is a bug in this crate, or memory that other code has overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage<K> {
    what: &'static str,
    at: K,
}

impl<K> Damage<K> {
    pub(crate) fn new(what: &'static str, at: K) -> Self {
        Self { what, at }
    }

    /// The rule that does not hold.
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// The first index of the node in which it does not hold.
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

/// Tells what is wrong with the first word of a node below another one (none: the root).
type FirstWord<'a, K, S> = &'a dyn Fn(Node<K, S>, Option<Node<K, S>>) -> Option<&'static str>;

/// State of the walk.
struct Walk<'a, K, S> {
    inner: Kind,
    height: u32,
    /// The slot before was a hole.
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

    /// Checks every rule of the structure, those of first words by a closure.
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
    /// Checks a node and all below; gives the size of the largest hole.
    fn node(&mut self, node: Node<K, S>, min: K, max: K, level: u32) -> Result<K, Damage<K>> {
        let damage = |what| Err(Damage::new(what, min));
        if node.is_leaf() != (level == self.height) {
            return damage("leaves are not all on the lowest level");
        }
        if !node.is_leaf() && node.kind() != self.inner {
            return damage("an inner node is of the wrong kind");
        }
        let end = node.end();
        let capacity = node.capacity();
        if end >= capacity {
            return damage("the end is beyond the slots");
        }
        // The outermost leaves, and the last inner nodes, may have any number.
        let exempt = level == 1 || max == K::MAX || (min == K::MIN && node.is_leaf());
        if !exempt && node.used() < Geometry::<K, S>::least(node.kind()) {
            return damage("a node has too few slots");
        }
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
        for i in end..capacity {
            if i + 1 < capacity && node.pivot(i) != K::MAX {
                return damage("a pivot after the last slot is in use");
            }
            if i > end && !node.slot(i).is_null() {
                return damage("a slot after the last one is in use");
            }
        }
        Ok(largest)
    }
}
