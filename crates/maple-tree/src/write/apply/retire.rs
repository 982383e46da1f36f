//! Retiring nodes that have been replaced.

use core::mem::forget;

use crate::base::{Key, Offset, Shape};
use crate::node::Node;
use crate::write::Sink;

/// Retires `node` and the nodes of its subtree that went with it. Marks them as dead, and hands
/// them and the entries within `gone` to the sink. The node covers `min..=max`, and nothing leads
/// to it any more. If the sink panics, it still gets the rest while the panic unwinds.
///
/// A child that lives on got its new parent when that parent was filled. A child that still names
/// this node as its parent went with it. A counted child names no parent. It went with the node if
/// it is within `gone`, and goes to the sink as a whole, because other trees may lead to it.
pub(crate) fn retire_subtree<K: Key, S: Shape>(
    node: Node<K, S>,
    min: K,
    max: K,
    gone: (K, K),
    sink: &mut impl Sink<K>,
) {
    if node.is_counted() {
        sink.shared(node.word());
    } else {
        retire_from(node, (0, min), max, gone, sink);
    }
}

/// Retires as [`retire_subtree`] does, but skips the slots before `from.0`, which begins at index
/// `from.1`.
fn retire_from<K: Key, S: Shape, T: Sink<K>>(
    node: Node<K, S>,
    from: (usize, K),
    max: K,
    gone: (K, K),
    sink: &mut T,
) {
    let end = node.end();
    if !T::ENTRIES && node.is_leaf() {
        node.mark_dead();
        sink.node(node.block());
        return;
    }
    let mut retirement = Retirement {
        node,
        from,
        max,
        gone,
        sink,
    };
    while retirement.from.0 <= end {
        let (i, first) = retirement.from;
        let last = node.last(i, max);
        // Advanced before the call, because the sink may panic.
        retirement.from = (i + 1, last.wrapping_add(K::ONE));
        if node.is_leaf() {
            let word = node.slot(i);
            if !word.is_null() && gone.0 <= first && last <= gone.1 {
                retirement.sink.entry(first, last, word);
            }
        } else {
            let child = node.child(i);
            if child.is_child_of(node) || child.is_counted() && gone.0 <= first && last <= gone.1 {
                retire_subtree(child, first, last, gone, retirement.sink);
            }
        }
    }
    node.mark_dead();
    retirement.sink.node(node.block());
    forget(retirement);
}

/// The rest of a node that is being retired. Dropping this retires the rest, which happens if the
/// sink panics.
struct Retirement<'s, K: Key, S: Shape, T: Sink<K>> {
    node: Node<K, S>,
    from: (usize, K),
    max: K,
    gone: (K, K),
    sink: &'s mut T,
}

impl<K: Key, S: Shape, T: Sink<K>> Drop for Retirement<'_, K, S, T> {
    // Inlined: the rest then stays in registers and need not be stored for each entry.
    #[inline(always)]
    fn drop(&mut self) {
        retire_from(self.node, self.from, self.max, self.gone, self.sink);
    }
}
