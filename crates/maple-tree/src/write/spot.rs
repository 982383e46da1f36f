//! The way down of a write: to a leaf, with its bounds, and its place in the node above.

use crate::base::{Key, Shape};
use crate::node::{Kind, Node, is_leaf_word, prefetch};
use crate::read::Place;

/// A leaf, and where it is.
#[derive(Clone, Copy)]
pub(crate) struct Spot<K, S> {
    pub(crate) place: Place<K, S>,
    /// `None` above a leaf that is the root.
    pub(crate) parent: Option<Node<K, S>>,
    /// The leaf's slot in its parent.
    pub(crate) at: usize,
}

/// The leaf that covers `key`.
#[inline(always)]
pub(crate) fn find<K: Key, S: Shape>(root: Node<K, S>, key: K) -> Spot<K, S> {
    match root.kind() {
        Kind::Leaf => Spot {
            place: Place {
                leaf: root.as_leaf(),
                min: K::MIN,
                max: K::MAX,
            },
            parent: None,
            at: 0,
        },
        Kind::Range => below(root, Kind::Range, key),
        Kind::Gap => below(root, Kind::Gap, key),
    }
}

/// The leaf that covers `key` below nodes of the kind `inner`, of which `root` is one. For each kind a loop of its own, in which the
/// offsets of all that is read are known.
#[inline(always)]
fn below<K: Key, S: Shape>(root: Node<K, S>, inner: Kind, key: K) -> Spot<K, S> {
    let mut word = root.word();
    let mut min = K::MIN;
    let mut max = K::MAX;
    loop {
        // SAFETY: a node of this kind: the first is, and of those below, all that are not leaves. Slots of such nodes hold
        // nodes, which live as long as what leads to them; a writer's are his alone to replace.
        let node = unsafe { Node::<K, S>::of_kind(word, inner) };
        let at = node.search(key);
        word = node.slot(at);
        prefetch::node::<1>(word);
        min = node.first(at, min);
        max = node.last(at, max);
        if is_leaf_word(word) {
            // SAFETY: as above.
            let leaf = unsafe { Node::of_kind(word, Kind::Leaf) };
            return Spot {
                place: Place { leaf, min, max },
                parent: Some(node),
                at,
            };
        }
    }
}
