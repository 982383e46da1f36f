//! One tree made two at a key, and two trees made one: O(log n) nodes are changed, all others go from tree to tree as they are.
//!
//! [`split`] leaves in the tree what is below the key: nodes on the way to the key are made shorter where they are. What is above is what the tree would be if all below the
//! key had been erased: new nodes on that way, by the same [levels](crate::write::level) as any other write. [`join`] replaces the last node of
//! one tree and the first of the other, on each level that both have, as a store over both would, and goes on in the higher one.
//!
//! A split near an end of the tree moves few entries: [`ends`] copies their slots instead. The two trees then share no memory, and what stays keeps its nodes.
//!
//! How many nodes each takes is counted first, and with these neither can fail. Of one that follows another the tree is not known yet: as many as it can take
//! ([`most_for_split`], [`most_for_join`]) are reserved then.
//!
//! Only without concurrent readers, and if all nodes belong to the tree alone. Nodes go from one
//! tree to the other, so their allocators must be interchangeable.

mod ends;
mod join;
mod split;

pub(crate) use ends::End;
pub(crate) use join::most_for_join;
pub(crate) use split::{Sides, most_for_split};

use core::ptr::NonNull;

use crate::base::{Key, Shape};
use crate::node::{Kind, Node};

/// Gives up the nodes above one, up to the root, but for those that are also above `other`.
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
