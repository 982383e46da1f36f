//! The read path: down to a leaf, and from leaf to leaf. Nothing here writes.

use crate::base::{Key, Offset, Shape, Slot, either};
use crate::node::{Kind, NULL, Node, RawTree, Root, Word, is_leaf_word, prefetch};

/// A leaf and its range. (During a descent or traversal, also an inner node.)
#[derive(Clone, Copy)]
pub(crate) struct BoundedLeaf<K, S> {
    pub(crate) leaf: Node<K, S>,
    pub(crate) min: K,
    pub(crate) max: K,
}

/// A slot of a leaf, with its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found<K> {
    pub(crate) first: K,
    pub(crate) last: K,
    /// NULL for a hole.
    pub(crate) word: Word,
}

/// An entry, its leaf, and its slot there; `None` in a tree without nodes.
pub(crate) type InSlot<K, S> = (Found<K>, Option<(Node<K, S>, usize)>);

impl<K: Key, S: Shape> Root<K, S> {
    /// Returns the topmost node, or the slot at `key` of a tree without nodes: the single entry,
    /// the hole above it, or the hole of an empty tree.
    #[inline(always)]
    pub(crate) fn at(self, key: K) -> Result<Node<K, S>, Found<K>> {
        let (first, last, word) = match self {
            Root::Node(root) => return Ok(root),
            Root::Empty => (K::MIN, K::MAX, NULL),
            Root::Single(word) if key == K::MIN => (K::MIN, K::MIN, word),
            Root::Single(_) => (K::ONE, K::MAX, NULL),
        };
        Err(Found { first, last, word })
    }
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Returns the entry at `key`, or NULL.
    #[inline]
    pub(crate) fn load(&self, key: K) -> Word {
        match self.root().at(key) {
            Ok(root) => {
                let leaf = descend(root, key).leaf;
                leaf.slot(leaf.search(key))
            }
            Err(found) => found.word,
        }
    }

    /// Returns the address of the word of the entry at `key`, if there is one. Only with exclusive
    /// access to the tree.
    #[inline]
    pub(crate) fn slot_memory(&self, key: K) -> Option<Slot> {
        match self.root().at(key) {
            Ok(root) => {
                let leaf = descend(root, key).leaf;
                let i = leaf.search(key);
                (!leaf.slot(i).is_null()).then(|| leaf.slot_memory(i))
            }
            Err(found) => (!found.word.is_null()).then(|| self.root_memory()),
        }
    }

    /// Returns the entries at several keys, or NULL. All descend from the same root, level by level
    /// together: while one descent waits for the memory of its next node, the others continue.
    #[inline]
    pub(crate) fn load_many<const N: usize>(&self, keys: &[K; N]) -> [Word; N] {
        match self.root() {
            Root::Empty => [NULL; N],
            Root::Single(word) => keys.map(|key| if key == K::MIN { word } else { NULL }),
            Root::Node(root) => match root.kind() {
                Kind::Leaf => keys.map(|key| root.as_leaf().slot(root.as_leaf().search(key))),
                Kind::Range => load_many_below(root, Kind::Range, keys),
                Kind::Gap => load_many_below(root, Kind::Gap, keys),
            },
        }
    }

    /// Returns the entry or hole at `key`, with its range.
    #[inline]
    pub(crate) fn lookup(&self, key: K) -> Found<K> {
        match self.root().at(key) {
            Ok(root) => descend(root, key).at(key),
            Err(found) => found,
        }
    }

    /// Returns the first entry in the direction (`UP` or down) that intersects `lo..=hi`: the one
    /// at the bound where the search starts, or the one after the hole there.
    ///
    /// Takes one walk, and another if the hole continues to the end of its leaf. Under a concurrent
    /// writer, more holes may follow: each walk reads the tree at that time, and continues beyond
    /// what the last one has seen.
    #[inline]
    pub(crate) fn find<const UP: bool>(&self, bounds: (K, K)) -> Option<Found<K>> {
        self.find_slot::<UP>(bounds).map(|(found, _)| found)
    }

    /// Searches as [`find`](Self::find) does, and returns the entry's slot, too.
    #[inline]
    pub(crate) fn find_slot<const UP: bool>(&self, (lo, hi): (K, K)) -> Option<InSlot<K, S>> {
        let mut key = if UP { lo } else { hi };
        loop {
            let reaches = |found: &Found<K>| either::<UP, _>(found.last >= hi, found.first <= lo);
            let (found, at) = match self.root().at(key) {
                Ok(root) => {
                    let place = descend(root, key);
                    let mut i = place.leaf.search(key);
                    let mut found = place.slot(i);
                    let edge = if UP { place.leaf.end() } else { 0 };
                    if found.word.is_null() && !reaches(&found) && i != edge {
                        i = if UP { i + 1 } else { i - 1 };
                        found = place.slot(i);
                    }
                    (found, Some((place.leaf, i)))
                }
                Err(found) => (found, None),
            };
            if !found.word.is_null() {
                let within = either::<UP, _>(found.first <= hi, found.last >= lo);
                return within.then_some((found, at));
            }
            if reaches(&found) {
                return None;
            }
            key = found.beyond::<UP>()?;
        }
    }
}

impl<K: Key> Found<K> {
    /// Returns the first index after the slot in the direction (`UP` or down).
    #[inline(always)]
    pub(crate) fn beyond<const UP: bool>(&self) -> Option<K> {
        let last = if UP { self.last } else { self.first };
        last.next::<UP>()
    }
}

impl<K: Key, S: Shape> BoundedLeaf<K, S> {
    /// Returns the topmost node, which covers all indices.
    #[inline(always)]
    pub(crate) fn of_root(root: Node<K, S>) -> Self {
        let (leaf, min, max) = (root, K::MIN, K::MAX);
        Self { leaf, min, max }
    }

    /// Returns the slots of a leaf that intersect `lo..=hi`: bit `i` for slot `i`. The leaf
    /// contains one of the bounds, or both.
    #[cold]
    #[inline(never)]
    pub(crate) fn within(&self, lo: K, hi: K) -> u32 {
        let mut bits = u32::MAX;
        if self.min <= lo {
            bits &= u32::MAX << self.leaf.search(lo);
        }
        if hi <= self.max {
            bits &= u32::MAX >> (31 - self.leaf.search(hi));
        }
        bits
    }

    #[inline(always)]
    pub(crate) fn covers(&self, key: K) -> bool {
        self.min <= key && key <= self.max
    }

    /// Returns the slot at `key`, which is in this leaf.
    #[inline]
    pub(crate) fn at(&self, key: K) -> Found<K> {
        self.slot(self.leaf.search(key))
    }

    /// Returns the slot after slot `i` of a leaf (or before it, unless `UP`), and its number.
    /// Unless `holes` are wanted, a hole is skipped if it ends before `limit` and in this leaf.
    /// `edge`, which is before `limit`, is the end (or start) of slot `i`. Returns `None` if slot
    /// `i` no longer ends (or begins) there, or if it is the leaf's last (or first) one.
    ///
    /// This takes one comparison, where a search would take a dozen. A caller may remember `i` from
    /// an earlier lookup, and need not know how the leaf has changed since, while its bounds are
    /// the same. Pivots ascend, so that no other slot ends there. Those after the last slot are the
    /// largest key, which differs from the edge.
    #[inline(always)]
    pub(crate) fn adjacent<const UP: bool>(
        &self,
        i: usize,
        edge: K,
        limit: K,
        holes: bool,
    ) -> Option<(usize, Found<K>)> {
        let (leaf, min, max) = (self.leaf.as_leaf(), self.min, self.max);
        if UP {
            debug_assert!(edge < limit);
            if i + 1 >= leaf.capacity() || leaf.pivot(i) != edge {
                return None;
            }
            let upper = |i, first| {
                let (last, word) = (leaf.last(i, max), leaf.slot(i));
                (i, Found { first, last, word })
            };
            let next = upper(i + 1, edge.wrapping_add(K::ONE));
            let Found { last, word, .. } = next.1;
            let skips = word.is_null() && !holes && last < limit && last < max;
            return Some(if skips {
                upper(i + 2, last.wrapping_add(K::ONE))
            } else {
                next
            });
        }
        debug_assert!(edge > limit);
        let before = edge.wrapping_sub(K::ONE);
        if i == 0 || i >= leaf.capacity() || leaf.pivot(i - 1) != before {
            return None;
        }
        let lower = |i, last| {
            let (first, word) = (leaf.first(i, min), leaf.slot(i));
            (i, Found { first, last, word })
        };
        let next = lower(i - 1, before);
        let Found { first, word, .. } = next.1;
        let skips = word.is_null() && !holes && first > limit && i > 1;
        Some(if skips {
            lower(i - 2, first.wrapping_sub(K::ONE))
        } else {
            next
        })
    }

    #[inline]
    pub(crate) fn slot(&self, i: usize) -> Found<K> {
        Found {
            first: self.leaf.first(i, self.min),
            last: self.leaf.last(i, self.max),
            word: self.leaf.slot(i),
        }
    }
}

/// Returns the entries at `keys` below nodes of kind `inner`, of which `root` is one.
#[inline(always)]
fn load_many_below<K: Key, S: Shape, const N: usize>(
    root: Node<K, S>,
    inner: Kind,
    keys: &[K; N],
) -> [Word; N] {
    let mut words = [root.word(); N];
    let mut above = N > 0;
    while above {
        above = false;
        for (word, &key) in words.iter_mut().zip(keys) {
            // All leaves are on one level. A concurrent writer replaces a child only by a node of
            // the same level.
            if !is_leaf_word(*word) {
                // SAFETY: as in `descend_below`.
                let node = unsafe { Node::<K, S>::of_kind(*word, inner) };
                *word = node.slot(node.search(key));
                prefetch::node::<0>(*word);
                above |= !is_leaf_word(*word);
            }
        }
    }
    for (word, &key) in words.iter_mut().zip(keys) {
        // SAFETY: as in `descend_below`.
        let leaf = unsafe { Node::<K, S>::of_kind(*word, Kind::Leaf) };
        *word = leaf.slot(leaf.search(key));
    }
    words
}

/// Returns the leaf that covers `key`.
#[inline]
pub(crate) fn descend<K: Key, S: Shape>(root: Node<K, S>, key: K) -> BoundedLeaf<K, S> {
    descend_by(root, key, |_, _, _| {})
}

/// Descends as [`descend`] does, and calls `above` with the leaf's parent, if there is one, the
/// leaf's slot there, and the parent's range.
#[inline(always)]
pub(crate) fn descend_by<K: Key, S: Shape>(
    root: Node<K, S>,
    key: K,
    above: impl FnOnce(Node<K, S>, usize, (K, K)),
) -> BoundedLeaf<K, S> {
    // All inner nodes are of one kind: as a constant, it makes each level a fixed sequence of
    // instructions.
    match root.kind() {
        Kind::Leaf => BoundedLeaf::of_root(root.as_leaf()),
        Kind::Range => descend_below(root, Kind::Range, key, above),
        Kind::Gap => descend_below(root, Kind::Gap, key, above),
    }
}

/// Prefetches the two leaves after slot `i` of their parent, or before it unless `UP`.
#[inline(always)]
pub(crate) fn prefetch_leaves<const UP: bool, K: Key, S: Shape>(node: Node<K, S>, i: usize) {
    let end = node.end();
    for step in 1..=2 {
        let i = either::<UP, _>((i + step).min(end), i.saturating_sub(step));
        prefetch::node::<0>(node.slot(i));
    }
}

/// Returns the leaf that covers `key` below nodes of kind `inner`, of which `root` is one. For
/// `above` see [`descend_by`].
#[inline(always)]
fn descend_below<K: Key, S: Shape>(
    root: Node<K, S>,
    inner: Kind,
    key: K,
    above: impl FnOnce(Node<K, S>, usize, (K, K)),
) -> BoundedLeaf<K, S> {
    let mut word = root.word();
    let mut min = K::MIN;
    let mut max = K::MAX;
    loop {
        // SAFETY: the node is of this kind: the first is, and so are all nodes below that are not
        // leaves. Slots of such nodes hold nodes, which live as long as what leads to them. A
        // reader's guard keeps both alive.
        let node = unsafe { Node::<K, S>::of_kind(word, inner) };
        let i = node.search(key);
        word = node.slot(i);
        if inner == Kind::Gap {
            // The last line of an inner node has only gaps, which the writer changes: a cached copy
            // would slow the writer down.
            prefetch::lines::<1, 3>(word);
        } else {
            prefetch::node::<1>(word);
        }
        let bounds = (min, max);
        min = node.first(i, min);
        max = node.last(i, max);
        if is_leaf_word(word) {
            if inner == Kind::Gap {
                prefetch::node::<3>(word);
            }
            above(node, i, bounds);
            // SAFETY: as above.
            let leaf = unsafe { Node::of_kind(word, Kind::Leaf) };
            return BoundedLeaf { leaf, min, max };
        }
    }
}

/// Paths from a node to others, by way of its ancestors. Only for the writer.
impl<K: Key, S: Shape> Node<K, S> {
    /// Returns the pivot that bounds the node above, or, unless `UP`, below: an ancestor, one of
    /// its pivots, and the number of levels up. Returns `None` at the end of the key space. `key`
    /// is one of the node's indices, `inner` the kind of inner nodes in this tree.
    #[inline(always)]
    pub(crate) fn bounding<const UP: bool>(
        self,
        key: K,
        inner: Kind,
    ) -> Option<(Self, usize, u32)> {
        let (mut node, mut levels) = (self, 0);
        loop {
            node = node.parent(inner)?;
            levels += 1;
            let i = node.search(key);
            if i != if UP { node.end() } else { 0 } {
                return Some((node, if UP { i } else { i - 1 }, levels));
            }
        }
    }

    /// Returns the last index of the node, or the first unless `UP`. `key` and `inner` are as for
    /// [`bounding`](Self::bounding).
    pub(crate) fn bound<const UP: bool>(self, key: K, inner: Kind) -> K {
        match self.bounding::<UP>(key, inner) {
            Some((node, i, _)) if UP => node.pivot(i),
            Some((node, i, _)) => node.pivot(i).wrapping_add(K::ONE),
            None if UP => K::MAX,
            None => K::MIN,
        }
    }

    /// Returns the last index of slot `i`, or the first unless `UP`. `key` is an index of the node.
    /// `inner` is as for [`bound`](Self::bound).
    #[inline(always)]
    pub(crate) fn edge<const UP: bool>(self, i: usize, key: K, inner: Kind) -> K {
        match (UP, i) {
            (true, i) if i < self.end() => self.pivot(i),
            (false, i) if i > 0 => self.first(i, key),
            _ => self.bound::<UP>(key, inner),
        }
    }

    /// Returns the node `levels` levels below this one that begins after pivot `i`, or, unless
    /// `UP`, ends at it.
    pub(crate) fn adjacent_to_pivot<const UP: bool>(self, i: usize, levels: u32) -> Self {
        let mut at = self.child(if UP { i + 1 } else { i });
        for _ in 1..levels {
            at = at.child(if UP { 0 } else { at.end() });
        }
        at
    }

    /// Returns the next node on the level of this one (or the one before, unless `UP`), or `None`
    /// if it is the last. `key` and `inner` are as for [`bounding`](Self::bounding).
    pub(crate) fn neighbour<const UP: bool>(self, key: K, inner: Kind) -> Option<Self> {
        let (node, i, levels) = self.bounding::<UP>(key, inner)?;
        Some(node.adjacent_to_pivot::<UP>(i, levels))
    }
}
