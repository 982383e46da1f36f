//! Splitting a tree at a key, and joining two trees: O(log n) nodes change, and all others move
//! unchanged.
//!
//! [`split`] keeps the part below the key in the tree: nodes on the path to the key are shortened
//! in place. The upper part becomes what the tree would be if everything below the key had been
//! erased. That takes new nodes on the path, by the same [levels](crate::write::level) as in any
//! other write. [`join`] replaces the last node of one tree and the first of the other on each
//! level that both have, as a store over both would. It then continues in the higher tree.
//!
//! A split near an end of the tree moves few entries, so [`ends`] copies their slots instead. The
//! two trees then share no memory, and the remaining part keeps its nodes.
//!
//! The nodes that each takes are counted first, and with these neither can fail. If an operation
//! follows another one, its tree is not known yet. The most that it can take ([`most_for_split`],
//! [`most_for_join`]) are reserved then.
//!
//! Only without readers, and in trees that share no nodes. Nodes move from one tree to the other:
//! their allocators must be interchangeable.

mod ends;
mod join;
mod split;

pub(crate) use ends::End;
pub(crate) use join::most_for_join;
pub(crate) use split::{Sides, most_for_split};

use core::ptr::NonNull;

use crate::base::{Key, Shape};
use crate::node::{Kind, Node};

/// Frees the ancestors of a node, except those that are also ancestors of `other`.
fn free_above<K: Key, S: Shape>(
    node: Node<K, S>,
    other: Option<Node<K, S>>,
    inner: Kind,
    free: &mut impl FnMut(NonNull<u8>),
) {
    let mut others = other.and_then(|other| other.parent(inner));
    let mut next = node.parent(inner);
    while let Some(node) = next {
        if others == Some(node) {
            return;
        }
        next = node.parent(inner);
        others = others.and_then(|other| other.parent(inner));
        free(node.block());
    }
}
