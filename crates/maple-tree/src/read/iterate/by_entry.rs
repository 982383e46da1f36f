//! Going through a tree entry by entry, from both ends.

use crate::base::atomic::Slot;
use crate::base::key::Key;
use crate::base::shape::Shape;
use crate::node::Node;
use crate::node::tree::{RawTree, Root};
use crate::read::walk::Found;

/// A leaf in the course of a traversal, and where its parent has it, so that most moves to the next
/// leaf take one step up and one down.
struct At<K, S> {
    leaf: Node<K, S>,
    min: K,
    max: K,
    /// The next slot to look at.
    slot: usize,
    up: Option<Up<K, S>>,
}

impl<K: Copy, S> Clone for At<K, S> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

/// A parent, the slot in it that the traversal is below, and its bounds.
struct Up<K, S> {
    node: Node<K, S>,
    slot: usize,
    min: K,
    max: K,
}

impl<K: Copy, S> Clone for Up<K, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Copy, S> Copy for Up<K, S> {}

/// The entries that intersect `lo..=hi`, in order. Each end moves its bound, so that none comes twice.
///
/// `SHARED` is for readers beside a writer. A node's bounds and its pivots never change while it is in the tree, so that
/// what has been noted here stays true until the node is dead; each step looks whether it is, and finds its way anew from
/// the root if so. What a step yields was therefore in the tree when the step began, or later. An entry that has been stored
/// meanwhile may begin before the one yielded last ended.
pub(crate) struct Traverse<K, S> {
    lo: K,
    hi: K,
    done: bool,
    front: Option<At<K, S>>,
    back: Option<At<K, S>>,
}

impl<K: Copy, S> Clone for Traverse<K, S> {
    fn clone(&self) -> Self {
        Self {
            lo: self.lo,
            hi: self.hi,
            done: self.done,
            front: self.front.clone(),
            back: self.back.clone(),
        }
    }
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
            slot: node.search(key),
            up,
        }
    }

    /// The lowest entry left.
    #[inline]
    pub(crate) fn next(&mut self, tree: &RawTree<K, S>) -> Option<Found<K>> {
        if self.done {
            return None;
        }
        loop {
            let Some(at) = &mut self.front else {
                match tree.root() {
                    Root::Node(root) => {
                        self.front = Some(Self::seek(root, self.lo));
                        continue;
                    }
                    Root::Single(word) if self.lo == K::MIN => {
                        self.done = true;
                        return Some(Found {
                            first: K::MIN,
                            last: K::MIN,
                            word,
                        });
                    }
                    Root::Single(_) | Root::Empty => {
                        self.done = true;
                        return None;
                    }
                }
            };
            if at.leaf.is_dead() {
                self.front = None;
                continue;
            }
            let leaf = at.leaf.as_leaf();
            let end = leaf.end();
            while at.slot <= end {
                let i = at.slot;
                let last = leaf.last(i, at.max);
                let word = leaf.slot(i);
                at.slot = i + 1;
                if !word.is_null() {
                    let first = leaf.first(i, at.min);
                    if first > self.hi {
                        self.done = true;
                        return None;
                    }
                    match last.successor() {
                        Some(lo) if last < self.hi => self.lo = lo,
                        _ => self.done = true,
                    }
                    return Some(Found { first, last, word });
                }
                if last >= self.hi {
                    self.done = true;
                    return None;
                }
            }
            // The leaf ends below `hi`, so that there is another.
            self.lo = at.max.wrapping_add(K::ONE);
            match &mut at.up {
                Some(up) if up.slot < up.node.end() && !up.node.is_dead() => {
                    up.slot += 1;
                    at.leaf = up.node.child(up.slot);
                    at.min = self.lo;
                    at.max = up.node.last(up.slot, up.max);
                    at.slot = 0;
                }
                _ => self.front = None,
            }
        }
    }

    /// As [`next`](Self::next), with the place of the entry's word. Only for who has the tree for himself.
    #[inline]
    pub(crate) fn next_mut(&mut self, tree: &RawTree<K, S>) -> Option<(Found<K>, Slot)> {
        let found = self.next(tree)?;
        let slot = match &self.front {
            // The step went on behind the entry.
            Some(at) => at.leaf.slot_memory(at.slot - 1),
            None => tree.root_memory(),
        };
        Some((found, slot))
    }

    /// The highest entry left.
    #[inline]
    pub(crate) fn next_back(&mut self, tree: &RawTree<K, S>) -> Option<Found<K>> {
        if self.done {
            return None;
        }
        loop {
            let Some(at) = &mut self.back else {
                match tree.root() {
                    Root::Node(root) => {
                        let mut at = Self::seek(root, self.hi);
                        at.slot += 1;
                        self.back = Some(at);
                        continue;
                    }
                    Root::Single(word) if self.lo == K::MIN => {
                        self.done = true;
                        return Some(Found {
                            first: K::MIN,
                            last: K::MIN,
                            word,
                        });
                    }
                    Root::Single(_) | Root::Empty => {
                        self.done = true;
                        return None;
                    }
                }
            };
            if at.leaf.is_dead() {
                self.back = None;
                continue;
            }
            while at.slot > 0 {
                at.slot -= 1;
                let i = at.slot;
                let first = at.leaf.first(i, at.min);
                let word = at.leaf.slot(i);
                if !word.is_null() {
                    let last = at.leaf.last(i, at.max);
                    if last < self.lo {
                        self.done = true;
                        return None;
                    }
                    match first.predecessor() {
                        Some(hi) if first > self.lo => self.hi = hi,
                        _ => self.done = true,
                    }
                    return Some(Found { first, last, word });
                }
                if first <= self.lo {
                    self.done = true;
                    return None;
                }
            }
            // The leaf starts above `lo`, so that there is one before it.
            self.hi = at.min.wrapping_sub(K::ONE);
            match &mut at.up {
                Some(up) if up.slot > 0 && !up.node.is_dead() => {
                    up.slot -= 1;
                    at.leaf = up.node.child(up.slot);
                    at.max = self.hi;
                    at.min = up.node.first(up.slot, up.min);
                    at.slot = at.leaf.used();
                }
                _ => self.back = None,
            }
        }
    }
}
