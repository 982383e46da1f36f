//! Going through a tree entry by entry, from both ends.

use crate::base::atomic::Slot;
use crate::base::{Key, Shape};
use crate::node::RawTree;
use crate::read::{Found, Place, Spot, spot};

/// One end of a traversal: a leaf, and the slot to look at next, if there is one.
#[derive(Clone)]
struct End<K, S> {
    spot: Spot<K, S>,
    slot: Option<usize>,
}

/// The entries that intersect `lo..=hi`, in order. Each end moves its bound, so that none comes twice.
///
/// A writer may be about. A node's bounds and its pivots never change while it is in the tree, so that
/// what has been noted here stays true until the node is dead; each step looks whether it is, and finds its way anew from
/// the root if so. What a step yields was therefore in the tree when the step began, or later. An entry that has been stored
/// meanwhile may begin before the one yielded last ended.
#[derive(Clone)]
pub(crate) struct Traverse<K, S> {
    lo: K,
    hi: K,
    done: bool,
    front: Option<End<K, S>>,
    back: Option<End<K, S>>,
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
            Some(End { spot, slot }) => {
                let leaf = spot.place.leaf;
                // The step went on behind the entry.
                leaf.slot_memory(slot.map_or(leaf.end(), |next| next - 1))
            }
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
                        let key = if UP { self.lo } else { self.hi };
                        let spot = spot::find(root, key);
                        let slot = Some(spot.place.leaf.search(key));
                        *end = Some(End { spot, slot });
                        continue;
                    }
                    Err(found) => {
                        self.done = true;
                        return (!found.word.is_null()).then_some(found);
                    }
                }
            };
            let Place { leaf, min, max } = at.spot.place;
            if leaf.is_dead() {
                *end = None;
                continue;
            }
            let leaf = leaf.as_leaf();
            while let Some(i) = at.slot {
                at.slot = if UP {
                    (i < leaf.end()).then_some(i + 1)
                } else {
                    i.checked_sub(1)
                };
                let (first, last) = (leaf.first(i, min), leaf.last(i, max));
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
            let key = if UP {
                self.lo = max.wrapping_add(K::ONE);
                self.lo
            } else {
                self.hi = min.wrapping_sub(K::ONE);
                self.hi
            };
            *end = at.spot.next_leaf::<UP>(key).map(|spot| End {
                spot,
                slot: Some(if UP { 0 } else { spot.place.leaf.end() }),
            });
        }
    }
}
