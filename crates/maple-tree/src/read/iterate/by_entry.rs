//! Going through a tree entry by entry, from both ends.

use crate::base::atomic::Slot;
use crate::base::{Key, Shape};
use crate::node::{Node, RawTree};
use crate::read::Found;

/// A leaf in the course of a traversal, and where its parent has it, so that most moves to the next
/// leaf take one step up and one down.
#[derive(Clone)]
struct At<K, S> {
    leaf: Node<K, S>,
    min: K,
    max: K,
    /// The next slot to look at, if there is one.
    slot: Option<usize>,
    up: Option<Up<K, S>>,
}

/// A parent, the slot in it that the traversal is below, and its bounds.
#[derive(Clone, Copy)]
struct Up<K, S> {
    node: Node<K, S>,
    slot: usize,
    min: K,
    max: K,
}

/// The entries that intersect `lo..=hi`, in order. Each end moves its bound, so that none comes twice.
///
/// `SHARED` is for readers beside a writer. A node's bounds and its pivots never change while it is in the tree, so that
/// what has been noted here stays true until the node is dead; each step looks whether it is, and finds its way anew from
/// the root if so. What a step yields was therefore in the tree when the step began, or later. An entry that has been stored
/// meanwhile may begin before the one yielded last ended.
#[derive(Clone)]
pub(crate) struct Traverse<K, S> {
    lo: K,
    hi: K,
    done: bool,
    front: Option<At<K, S>>,
    back: Option<At<K, S>>,
}

impl<K: Key, S: Shape> Traverse<K, S> {
    /// Goes through `bounds`, or through nothing.
    #[inline]
    pub(crate) fn new(bounds: Option<(K, K)>) -> Self {
        let (lo, hi) = bounds.unwrap_or((K::MIN, K::MIN));
        Self {
            lo,
            hi,
            done: bounds.is_none(),
            front: None,
            back: None,
        }
    }

    /// Down to the leaf that covers `key`.
    fn seek(root: Node<K, S>, key: K) -> At<K, S> {
        let mut node = root;
        let mut min = K::MIN;
        let mut max = K::MAX;
        let mut up = None;
        while !node.is_leaf() {
            let slot = node.search(key);
            up = Some(Up {
                node,
                slot,
                min,
                max,
            });
            min = node.first(slot, min);
            max = node.last(slot, max);
            node = node.child(slot);
        }
        At {
            leaf: node,
            min,
            max,
            slot: Some(node.search(key)),
            up,
        }
    }

    /// The lowest entry left.
    #[inline]
    pub(crate) fn next(&mut self, tree: &RawTree<K, S>) -> Option<Found<K>> {
        self.step::<true>(tree)
    }

    /// As [`next`](Self::next), with the place of the entry's word. Only for who has the tree for himself.
    #[inline]
    pub(crate) fn next_mut(&mut self, tree: &RawTree<K, S>) -> Option<(Found<K>, Slot)> {
        let found = self.next(tree)?;
        let slot = match &self.front {
            // The step went on behind the entry.
            Some(at) => at
                .leaf
                .slot_memory(at.slot.map_or(at.leaf.end(), |next| next - 1)),
            None => tree.root_memory(),
        };
        Some((found, slot))
    }

    /// The entry that is left at the end that goes `UP`, or at the one that goes down.
    #[inline]
    pub(crate) fn step<const UP: bool>(&mut self, tree: &RawTree<K, S>) -> Option<Found<K>> {
        if self.done {
            return None;
        }
        let end = if UP { &mut self.front } else { &mut self.back };
        loop {
            let Some(at) = end else {
                match tree.root().at(self.lo) {
                    Ok(root) => {
                        *end = Some(Self::seek(root, if UP { self.lo } else { self.hi }));
                        continue;
                    }
                    Err(found) => {
                        self.done = true;
                        return (!found.word.is_null()).then_some(found);
                    }
                }
            };
            if at.leaf.is_dead() {
                *end = None;
                continue;
            }
            let leaf = at.leaf.as_leaf();
            while let Some(i) = at.slot {
                at.slot = if UP {
                    (i < leaf.end()).then_some(i + 1)
                } else {
                    i.checked_sub(1)
                };
                let (first, last) = (leaf.first(i, at.min), leaf.last(i, at.max));
                let word = leaf.slot(i);
                let (beyond, reaches) = if UP {
                    (first > self.hi, last >= self.hi)
                } else {
                    (last < self.lo, first <= self.lo)
                };
                self.done = reaches;
                if !word.is_null() && !beyond {
                    if UP {
                        self.lo = last.wrapping_add(K::ONE);
                    } else {
                        self.hi = first.wrapping_sub(K::ONE);
                    }
                    return Some(Found { first, last, word });
                }
                if reaches {
                    return None;
                }
            }
            // The leaf ends within the bounds, so that there is another.
            if UP {
                self.lo = at.max.wrapping_add(K::ONE);
            } else {
                self.hi = at.min.wrapping_sub(K::ONE);
            }
            match &mut at.up {
                Some(up) if up.has_next::<UP>() && !up.node.is_dead() => {
                    if UP {
                        up.slot += 1;
                        at.min = self.lo;
                        at.max = up.node.last(up.slot, up.max);
                    } else {
                        up.slot -= 1;
                        at.min = up.node.first(up.slot, up.min);
                        at.max = self.hi;
                    }
                    at.leaf = up.node.child(up.slot);
                    at.slot = Some(if UP { 0 } else { at.leaf.end() });
                }
                _ => *end = None,
            }
        }
    }
}

impl<K: Key, S: Shape> Up<K, S> {
    /// Whether there is a slot after the one that the traversal is below, or before it.
    #[inline(always)]
    fn has_next<const UP: bool>(&self) -> bool {
        if UP {
            self.slot < self.node.end()
        } else {
            self.slot > 0
        }
    }
}
