//! Freeing a tree that no thread reads, and whose entries are not needed.

use core::ptr::NonNull;

use crate::base::{Key, Shape};
use crate::node::{Kind, Node, is_leaf_word};

/// Hands over `node` and all nodes below it, each after those below it, of a tree that no thread
/// reads and whose entries are not needed: no leaf is read.
///
/// # Safety
///
/// Nothing refers to the node any more, and no thread reads or writes the nodes below it. `take`
/// may free each node that it receives.
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
