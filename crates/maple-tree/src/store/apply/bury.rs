//! Taking leave of nodes that have been replaced.

use crate::key::Key;
use crate::node::Node;
use crate::shape::Shape;
use crate::store::Sink;

/// Marks `node` and the nodes below that went with it as dead, and hands them, and the entries within `gone`,
/// to the sink. The node covers `min..=max`, and nothing leads to it any more.
///
/// A child that lives on under a new parent was told so when that parent was filled; one that still
/// names this node as its parent went with it.
pub(crate) fn bury<K: Key, S: Shape>(
    node: Node<K, S>,
    min: K,
    max: K,
    gone: (K, K),
    sink: &mut impl Sink<K>,
) {
    let end = node.end();
    let mut first = min;
    for i in 0..=end {
        let last = node.last(i, max);
        if node.is_leaf() {
            let word = node.slot(i);
            if !word.is_null() && gone.0 <= first && last <= gone.1 {
                sink.entry(first, last, word);
            }
        } else {
            let child = node.child(i);
            if child.is_child_of(node) {
                bury(child, first, last, gone, sink);
            }
        }
        first = last.wrapping_add(K::ONE);
    }
    node.mark_dead();
    sink.node(node.block());
}
