//! The end of a tree that nobody reads, and whose entries nobody wants.

use core::ptr::NonNull;

use crate::base::{Key, Shape};
use crate::node::{Kind, Node, is_leaf_word};

/// Hands `node` and all nodes below it over, each after those below it, for a tree that nobody reads and whose entries nobody wants: no leaf
/// is looked at.
///
/// # Safety
///
/// Nothing leads to the node any more, and nobody reads or writes what is below it. `take` may free what it is handed.
pub(crate) unsafe fn dismantle<K: Key, S: Shape>(
    node: Node<K, S>,
    take: &mut impl FnMut(NonNull<u8>),
) {
    if !node.is_leaf() {
        let used = node.used();
        if is_leaf_word(node.slot(0)) {
            for i in 0..used {
                // SAFETY: leaves are all on one level.
                take(unsafe { Node::<K, S>::of_kind(node.slot(i), Kind::Leaf) }.block());
            }
        } else {
            for i in 0..used {
                // SAFETY: the caller's promise.
                unsafe { dismantle(node.child(i), take) };
            }
        }
    }
    take(node.block());
}
