//! One level of a change: which nodes take part, and how many replace them.

use core::ops::Range;

use crate::base::{Key, Shape};
use crate::face::snap::path::{Path, Step};
use crate::node::{Geometry, Kind, Node};

/// What replacing the slots from the one of `left` to the one of `right` by some items does to their level.
pub(super) struct Level<K, S> {
    /// Slots after the change, those of a neighbour included.
    pub(super) total: usize,
    /// Nodes that take the place of those that take part; 0 if the one node is changed in place.
    pub(super) parts: usize,
    /// The nodes that take part are all there are on this level.
    pub(super) whole: bool,
    /// The items are the last slots of the level: fill the node before them.
    append: bool,
    /// A neighbour that takes part because too little would be left without it.
    before: Option<Step<K, S>>,
    pub(super) left: Step<K, S>,
    pub(super) right: Step<K, S>,
    after: Option<Step<K, S>>,
}

/// A node that takes part, and the slots of it that stay.
pub(super) type Kept<K, S> = (Step<K, S>, Range<usize>);

/// Whether `total` slots in a node of a kind are too few to be left alone, in place of those in `left` (the only node that is
/// touched, or the first of several).
pub(super) fn too_few<K: Key, S: Shape>(
    total: usize,
    left: &Step<K, S>,
    one: bool,
    whole: bool,
) -> bool {
    let shrinks = !one || total < left.node.used();
    shrinks && !whole && total < Geometry::<K, S>::least(left.node.kind())
}

impl<K: Key, S: Shape> Level<K, S> {
    /// Replaces the slots of `level` from where `left` goes through to where `right` does by `items` items. If a
    /// neighbour takes part, the path on its side goes over to it, so that the paths always lead to the slots of the level above that are to
    /// be replaced next.
    pub(super) fn of(
        level: usize,
        left: &mut Path<K, S>,
        right: &mut Path<K, S>,
        items: usize,
    ) -> Self {
        let (l, r) = (*left.at(level), *right.at(level));
        let one = l.node == r.node;
        let kept_after = r.node.end() - r.slot;
        let mut new = Self {
            total: l.slot + items + kept_after,
            parts: 0,
            whole: l.min == K::MIN && r.max == K::MAX,
            append: r.max == K::MAX && kept_after == 0,
            before: None,
            left: l,
            right: r,
            after: None,
        };
        if too_few(new.total, &l, one, new.whole) {
            // Preferably one with the same parent: the nodes above then change least.
            let after = right.has_sibling(level, true)
                || (!left.has_sibling(level, false) && r.max != K::MAX);
            let path = if after { right } else { left };
            if path.step_aside(level, after) {
                let step = *path.at(level);
                new.total += step.node.used();
                if after {
                    new.after = Some(step);
                } else {
                    new.before = Some(step);
                }
                new.append = false;
                let (first, last) = new.bounds();
                new.whole = first == K::MIN && last == K::MAX;
            }
        }
        let alone = new.before.is_none() && new.after.is_none();
        let capacity = l.node.capacity();
        if !(one && alone && l.owned && new.total <= capacity) {
            new.parts = new.total.div_ceil(capacity);
        }
        new
    }

    /// The first and the last index of what takes part.
    pub(super) fn bounds(&self) -> (K, K) {
        (
            self.before.as_ref().unwrap_or(&self.left).min,
            self.after.as_ref().unwrap_or(&self.right).max,
        )
    }

    pub(super) fn kind(&self) -> Kind {
        self.left.node.kind()
    }

    /// How many slots each of the new nodes gets.
    pub(super) fn sizes(&self) -> [usize; 3] {
        let n = self.total;
        match self.parts {
            0 | 1 => [n, 0, 0],
            2 if self.append => {
                let capacity = self.left.node.capacity();
                [capacity, n - capacity, 0]
            }
            2 => [n - n / 2, n / 2, 0],
            _ => [n - 2 * (n / 3), n / 3, n / 3],
        }
    }

    /// The slots before the items, in order.
    pub(super) fn kept_before(&self) -> impl Iterator<Item = Kept<K, S>> {
        let before = self.before.map(|step| (step, 0..step.node.used()));
        before.into_iter().chain([(self.left, 0..self.left.slot)])
    }

    /// The slots after the items, in order.
    pub(super) fn kept_after(&self) -> impl Iterator<Item = Kept<K, S>> {
        let right = self.right.slot + 1..self.right.node.used();
        let after = self.after.map(|step| (step, 0..step.node.used()));
        [(self.right, right)].into_iter().chain(after)
    }
}

/// How many nodes a change takes: `zero` is what happens to the leaves, and the paths lead to what is replaced above them.
pub(super) fn count_nodes<K: Key, S: Shape>(
    zero: &Level<K, S>,
    left: &Path<K, S>,
    right: &Path<K, S>,
) -> usize {
    let mut parts = zero.parts;
    let mut whole = zero.whole;
    let mut nodes = parts;
    let (mut left, mut right) = (left.clone(), right.clone());
    let mut level = 0;
    while !whole {
        level += 1;
        let next = Level::of(level, &mut left, &mut right, parts);
        if next.parts == 0 {
            return nodes;
        }
        parts = next.parts;
        whole = next.whole;
        nodes += parts;
    }
    // Several nodes where the root was need a new root above them.
    nodes + usize::from(parts > 1)
}

/// Tells the nodes above a level of a path, all of which are owned, the size of the largest hole in the node there.
pub(super) fn tell_ancestors<K: Key, S: Shape>(path: &Path<K, S>, level: usize, gap: K) {
    let mut gap = gap;
    for above in level + 1..path.height() {
        let step = path.at(above);
        let node: Node<K, S> = step.node;
        if node.kind() != Kind::Gap || node.gap(step.slot) == gap {
            return;
        }
        node.set_gap(step.slot, gap);
        gap = crate::write::holes::largest_below(node);
    }
}
