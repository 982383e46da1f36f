//! The whole-tree check that tests call after every change, the check of a family of trees, and figures of what is shared.

use core::mem::swap;
use std_alloc::vec::Vec;

use crate::api::{CowMapleTree, SharedAlloc};
use crate::base::{Key, Shape, Value};
use crate::inspect::check::Damage;
use crate::node::{Node, Root};

/// The number of a map's own and shared nodes. Made by [`CowMapleTree::sharing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sharing {
    /// Nodes to which no other tree refers: writes change them in place.
    pub own: usize,
    /// Nodes that a snapshot leads to as well: writes copy them.
    pub shared: usize,
}

impl<K: Key, V: Value, A: SharedAlloc, S: Shape> CowMapleTree<K, V, A, S> {
    /// Checks every rule of the structure but the counts of shared nodes. O(n). Meant for tests.
    ///
    /// # Errors
    ///
    /// The first rule that does not hold.
    pub fn check(&self) -> Result<(), Damage<K>> {
        if let Root::Single(_) = self.raw.root() {
            return Err(Damage::new("an entry stands in the root", K::MIN));
        }
        self.raw.check_with(&|node, above| {
            // Looked at in this order: others who lead to a node may begin to count it at any time, and never cease to while this tree leads there.
            let named = node.has_parent(above);
            let counted = node.is_counted();
            let lost = if counted {
                node.count() == Some(0)
            } else {
                !named
            };
            lost.then_some("a node is reachable that is not counted, nor names what leads to it")
        })
    }

    /// Checks the maps, and that the count of every node is its number of references. The maps must
    /// be all that share nodes with one another, and none may be written during the call. O(n log
    /// n). Meant for tests.
    ///
    /// # Errors
    ///
    /// The first rule that does not hold, or that there was no memory for the check.
    pub fn check_family(family: &[&Self]) -> Result<(), Damage<K>> {
        let no_memory = |_| Damage::new("no memory for the check", K::MIN);
        let mut here: Vec<Node<K, S>> = Vec::new();
        let mut below: Vec<Node<K, S>> = Vec::new();
        let top = family.iter().map(|map| map.raw.height()).max();
        for height in (1..=top.unwrap_or(0)).rev() {
            // Those that nodes of the level above lead to are there already.
            for map in family.iter().filter(|map| map.raw.height() == height) {
                if let Root::Node(root) = map.raw.root() {
                    here.try_reserve(1).map_err(no_memory)?;
                    here.push(root);
                }
            }
            here.sort_unstable_by_key(|node| node.block());
            for led_to in here.chunk_by(|a, b| a == b) {
                let Some(&node) = led_to.first() else {
                    continue;
                };
                if node.count().is_some_and(|count| count != led_to.len()) {
                    return Err(Damage::new(
                        "a node is not counted as often as it is led to",
                        K::MIN,
                    ));
                }
                if !node.is_leaf() {
                    below.try_reserve(node.used()).map_err(no_memory)?;
                    below.extend((0..node.used()).map(|i| node.child(i)));
                }
            }
            here.clear();
            swap(&mut here, &mut below);
        }
        family.iter().try_for_each(|map| map.check())
    }

    /// Returns `true` if a snapshot shares the whole of this map at the moment, so that a write
    /// would copy its path from the root on. Returns `false` for an empty map. O(1). (If snapshots
    /// are dropped on other threads, the result may be outdated when it returns.)
    ///
    /// ```
    /// let mut map = maple_tree::CowMapleTree::<u64, u32>::new();
    /// map.insert_range(0..10, 1)?;
    /// let before = map.snapshot();
    /// assert!(map.is_shared());
    /// drop(before);
    /// assert!(!map.is_shared());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_shared(&self) -> bool {
        matches!(self.raw.root(), Root::Node(root) if !root.is_unique())
    }

    /// Returns the number of nodes that this map alone has, and of those that it shares. O(n).
    ///
    /// ```
    /// let mut map = maple_tree::CowMapleTree::<u64, u32>::new();
    /// map.try_extend((0..100).map(|i| (i * 10..i * 10 + 5, i as u32)))?;
    /// let before = map.snapshot();
    /// assert_eq!(map.sharing().own, 0);
    /// map.store_range(0..5, 7)?;
    /// // The root and one leaf.
    /// assert_eq!((map.sharing().own, before.sharing().own), (map.height(), map.height()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sharing(&self) -> Sharing {
        let mut sharing = Sharing::default();
        if let Root::Node(root) = self.raw.root() {
            count(root, true, &mut sharing);
        }
        sharing
    }
}

fn count<K: Key, S: Shape>(node: Node<K, S>, owned: bool, sharing: &mut Sharing) {
    let owned = owned && node.is_unique();
    sharing.own += usize::from(owned);
    sharing.shared += usize::from(!owned);
    if !node.is_leaf() {
        for i in 0..node.used() {
            count(node.child(i), owned, sharing);
        }
    }
}
