//! Freeing a tree that has no readers and whose entries are not needed.

use core::ptr::NonNull;

use crate::base::{Key, Shape};
use crate::node::{Kind, Node, is_leaf_word};

/// Hands `node` and all nodes of its subtree to `take`, children first. No leaf is read, so that
/// its entries are not found.
///
/// # Safety
///
/// Nothing leads to the node any more, and nothing reads or writes its subtree. `take` may free
/// each node that it gets.
pub(crate) unsafe fn dismantle<K: Key, S: Shape>(
    node: Node<K, S>,
    take: &mut impl FnMut(NonNull<u8>),
) {
    if !node.is_leaf() {
        let used = node.used();
        if is_leaf_word(node.slot(0)) {
            for i in 0..used {
                // SAFETY: all leaves are on one level.
                take(unsafe { Node::<K, S>::of_kind(node.slot(i), Kind::Leaf) }.block());
            }
        } else {
            for i in 0..used {
                // SAFETY: the caller's promise covers the subtree.
                unsafe { dismantle(node.child(i), take) };
            }
        }
    }
    take(node.block());
}
