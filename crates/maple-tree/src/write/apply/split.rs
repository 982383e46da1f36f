//! Splitting a node in place: it keeps its first slots, the others go to one new node.

use crate::alloc::reserve::Reserve;
use crate::base::key::Key;
use crate::base::shape::Shape;
use crate::node::tree::RawTree;
use crate::node::{Geometry, Kind};
use crate::write::apply::fill::Fill;
use crate::write::apply::leaf::splice;
use crate::write::holes::{largest_below, largest_in_leaf};
use crate::write::level::Level;
use crate::write::{Item, Items, Span};

/// Replaces the span, which is in one node, by the items, and splits the node. Gives the two as slots of the level above.
///
/// # Safety
///
/// The caller is the only writer, and nobody reads meanwhile.
pub(super) unsafe fn split<K: Key, S: Shape>(
    tree: &RawTree<K, S>,
    span: &Span<K, S>,
    level: &Level<K, S>,
    items: &Items<K>,
    reserve: &mut Reserve,
) -> Items<K> {
    let node = span.left;
    let kind = node.kind();
    let items = items.as_slice();
    let replaced = span.to + 1 - span.from;
    let [keep, rest, _] = level.sizes(Geometry::<K, S>::slots(kind));
    // Slot `i` of the node as it would be if it had room for all.
    let slot = |i: usize| {
        let i = match i.checked_sub(span.from) {
            None => i,
            Some(i) if i < items.len() => return items[i],
            Some(i) => span.from + i - items.len() + replaced,
        };
        let gap = if kind == Kind::Gap {
            node.gap(i)
        } else {
            K::MIN
        };
        Item {
            word: node.slot(i),
            last: node.last(i, span.max),
            gap,
        }
    };
    let last = slot(keep - 1).last;
    let mut fill = Fill::<K, S>::new(kind, [rest, 0, 0], last.wrapping_add(K::ONE), reserve);
    for i in keep..keep + rest {
        fill.push(slot(i));
    }
    let new = fill.finish();

    // SAFETY: the caller's promise.
    let left = unsafe { node.write() };
    if keep <= span.from {
        left.truncate(keep);
    } else {
        let kept_items = items.len().min(keep - span.from);
        let kept_after = keep - span.from - kept_items;
        left.truncate(span.to + 1 + kept_after);
        splice(left, span.from, span.to, &items[..kept_items]);
        if !kind.is_leaf() {
            for i in span.from..span.from + kept_items {
                node.child(i).set_parent(Some(node));
            }
        }
    }
    let gap = match kind {
        Kind::Gap => largest_below(node),
        Kind::Leaf if tree.tracks_gaps() => largest_in_leaf(node, span.min, last),
        Kind::Leaf | Kind::Range => K::MIN,
    };
    let mut both = Items::new();
    both.push(Item {
        word: node.word(),
        last,
        gap,
    });
    for &item in new.as_slice() {
        both.push(item);
    }
    both
}
