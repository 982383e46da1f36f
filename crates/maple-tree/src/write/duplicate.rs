//! Duplication: one pass over the nodes, depth first. Each is copied as a whole, and then what differs is put right: the parent, the
//! children, and, in leaves, the values.
//!
//! All nodes are there before the first is copied: as one run, if the allocator has runs. So the only failure on the way is
//! that of the closure that makes the values. It is shown each entry once, in order, and may leave entries out; the sizes of holes
//! are those of the original wherever it did not.

use core::marker::PhantomData;
use core::mem::forget;
use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::alloc::{AllocError, NodeAlloc, Reserve, Supply, TakeNodes, counted};
use crate::base::{Key, Ref, Shape, Value};
use crate::node::{Kind, NULL, Node, NodeMut, RawTree, Root, Word, is_leaf_word, prefetch};
use crate::read::Place;
use crate::write::holes::propagate_ancestors;
use crate::write::{Immediate, Sink, retire_subtree};

/// The distance, in nodes, of memory prefetches.
const AHEAD: usize = 2;

/// Why a duplicate was not made. Nothing of it is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloneError<E> {
    /// There was no memory for a node.
    Alloc,
    /// The closure failed.
    Entry(E),
}

impl<E> From<AllocError> for CloneError<E> {
    fn from(AllocError: AllocError) -> Self {
        Self::Alloc
    }
}

impl<E: core::fmt::Display> core::fmt::Display for CloneError<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Alloc => AllocError.fmt(f),
            Self::Entry(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for CloneError<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Alloc => None,
            Self::Entry(error) => Some(error),
        }
    }
}

/// Makes the entries of a duplicate, and drops them if the duplicate is given up.
pub(crate) trait Copier<K> {
    /// Why an entry could not be copied.
    type Error;
    /// The copy of every word is the word itself: [`copy`](Copier::copy) and [`undo`](Copier::undo) need not be called.
    const VERBATIM: bool = false;
    /// The copy of an entry, or NULL to leave it out.
    fn copy(&mut self, first: K, last: K, word: Word) -> Result<Word, Self::Error>;
    fn undo(&mut self, word: Word);
}

/// A duplicate that is being made. What there is of it is taken back when this is dropped.
struct Dup<'a, K: Key, S: Shape, A: NodeAlloc, C: Copier<K>> {
    supply: Supply<'a, A>,
    copier: &'a mut C,
    /// Its root. `None` before the first node exists, and once the duplicate is complete.
    root: Option<Node<K, S>>,
    /// Some entry was left out: holes may neighbour each other.
    left_out: bool,
}

/// Returns the number of nodes from `node` down. Reads inner nodes only.
fn count<K: Key, S: Shape>(node: Node<K, S>) -> usize {
    if node.is_leaf() {
        return 1;
    }
    if node.child(0).is_leaf() {
        return 1 + node.used();
    }
    (0..=node.end()).fold(1, |nodes, i| nodes + count(node.child(i)))
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Fills `new`, which is empty and has the modes that the duplicate is to have, with copies. On failure it is empty
    /// again.
    ///
    /// # Safety
    ///
    /// No thread writes `self` during the call, and no other code uses `new`. Both track gaps, or
    /// neither does. The words that the copier makes are allowed in this tree.
    pub(crate) unsafe fn dup_into<A: NodeAlloc, C: Copier<K>>(
        &self,
        new: &Self,
        alloc: &mut A,
        copier: &mut C,
    ) -> Result<(), CloneError<C::Error>> {
        let root = match self.root() {
            Root::Empty => return Ok(()),
            Root::Single(word) => {
                let copy = copier
                    .copy(K::MIN, K::MIN, word)
                    .map_err(CloneError::Entry)?;
                return new.put(K::MIN, K::MIN, copy, alloc).map_err(|error| {
                    if !copy.is_null() {
                        copier.undo(copy);
                    }
                    error.into()
                });
            }
            Root::Node(root) => root,
        };
        let nodes = count(root);
        let supply = Supply::new(nodes, alloc);
        #[cfg(feature = "tracing")]
        let supply = supply.inspect_err(|_| crate::base::events::refused(nodes, 0));
        let mut dup = Dup {
            supply: supply?,
            copier,
            root: None,
            left_out: false,
        };
        if C::VERBATIM {
            // All nodes above the leaves are of one kind: known to the compiler, it decides offsets.
            let copy = match root.kind() {
                Kind::Leaf => dup.copy_node(root.as_leaf(), None).node(),
                Kind::Range => dup.verbatim::<false>(root.word(), None),
                Kind::Gap => dup.verbatim::<true>(root.word(), None),
            };
            new.publish_root(copy.word(), self.height());
            return Ok(());
        }
        let copy = dup.copy_node(root, None);
        dup.root = Some(copy.node());
        let made = if root.is_leaf() {
            dup.leaf(copy, None, K::MIN, K::MAX)
        } else {
            dup.inner(copy, K::MIN, K::MAX)
        };
        if let Err(error) = made {
            // Here, and not on return: if it panics, the error is dropped.
            drop(dup);
            return Err(CloneError::Entry(error));
        }
        dup.root = None;
        new.publish_root(copy.node().word(), self.height());
        if dup.left_out {
            let joined = new.join_holes(dup.supply.source());
            if let Root::Node(root) = new.root()
                && (joined.is_err() || root.end() == 0 && root.slot(0).is_null())
            {
                // It is given up, or the one entry over all indices has been left out.
                new.publish_root(NULL, 0);
                dup.root = Some(root);
            }
            joined?;
        }
        Ok(())
    }

    /// Stores a word, or a hole, over holes.
    fn put(&self, first: K, last: K, word: Word, alloc: &impl NodeAlloc) -> Result<(), AllocError> {
        let plan = self.plan_store(first, last, word);
        let mut reserve = Reserve::new();
        let filled = reserve.provide(plan.nodes, alloc);
        // SAFETY: it was filled from there.
        filled.inspect_err(|_| unsafe { reserve.release(alloc) })?;
        let entry = |_, _, _| debug_assert!(false, "only holes are written over");
        // SAFETY: no other code uses this tree, whose nodes come from the allocator. Those that it
        // takes are reserved.
        unsafe { self.apply(&plan, &mut reserve, &mut Immediate { alloc, entry }) };
        Ok(())
    }

    /// Makes each run of holes one, and nodes that become too small join their neighbours.
    fn join_holes(&self, alloc: &impl NodeAlloc) -> Result<(), AllocError> {
        let mut key = Some(K::MIN);
        while let Some(first) = key {
            let found = self.lookup(first);
            let mut last = found.last;
            if found.word.is_null() {
                let mut slots = 1;
                while let Some(next) = last.successor() {
                    let next = self.lookup(next);
                    if !next.word.is_null() {
                        break;
                    }
                    last = next.last;
                    slots += 1;
                }
                if slots > 1 {
                    self.put(found.first, last, NULL, alloc)?;
                }
            }
            key = last.successor();
        }
        Ok(())
    }
}

impl<K: Key, S: Shape, A: NodeAlloc, C: Copier<K>> Dup<'_, K, S, A, C> {
    /// Copies an inner node (a gap node, or else a range node) and all below, values included. Cannot fail.
    ///
    /// The children's copies lie one behind the other, if the allocator has runs: so their addresses are known before any of them is
    /// there, and no copy waits for another.
    fn verbatim<const GAP: bool>(&mut self, old: Word, parent: Option<Node<K, S>>) -> Node<K, S> {
        // SAFETY: nodes above the leaves are of this kind.
        let old = unsafe { Node::<K, S>::of_kind(old, if GAP { Kind::Gap } else { Kind::Range }) };
        let new = self.copy_node(old, parent);
        let (end, used) = (old.end(), old.used());
        if is_leaf_word(old.slot(0)) {
            for i in 0..used {
                prefetch::node::<0>(old.slot((i + AHEAD).min(end)));
                // SAFETY: leaves are all on one level.
                let leaf = unsafe { Node::of_kind(old.slot(i), Kind::Leaf) };
                let copy = self.copy_node(leaf, Some(new.node()));
                new.set_slot(i, copy.node().word());
            }
        } else {
            for i in 0..used {
                prefetch::node::<0>(old.slot((i + 1).min(end)));
                let copy = self.verbatim::<GAP>(old.slot(i), Some(new.node()));
                new.set_slot(i, copy.word());
            }
        }
        new.node()
    }

    /// Copies a node unchanged, except for its parent.
    #[inline(always)]
    fn copy_node(&mut self, old: Node<K, S>, parent: Option<Node<K, S>>) -> NodeMut<K, S> {
        // SAFETY: no other code uses the block, and no thread writes the original (promise of
        // `dup_into`).
        unsafe {
            NodeMut::copy(
                counted(self.supply.take()),
                old,
                old.first_word_below(parent),
            )
        }
    }

    /// Replaces the children of a copied inner node by copies, with all below. If that fails or panics, the node has those that have been begun; a child that
    /// has not been is still the original's, and names that as its parent.
    fn inner(&mut self, new: NodeMut<K, S>, min: K, max: K) -> Result<(), C::Error> {
        let node = new.node();
        let end = node.end();
        for i in 0..node.used() {
            prefetch::node::<0>(node.slot((i + AHEAD).min(end)));
            let child = node.child(i);
            let (first, last) = (node.first(i, min), node.last(i, max));
            if child.is_leaf() {
                let copy = self.copy_node(child.as_leaf(), Some(node));
                new.set_slot(i, copy.node().word());
                self.leaf(copy, Some(node), first, last)?;
            } else {
                let copy = self.copy_node(child, Some(node));
                new.set_slot(i, copy.node().word());
                self.inner(copy, first, last)?;
            }
        }
        Ok(())
    }

    /// Replaces the entries of a copied leaf by copies. If that fails or panics, the leaf has those that have been made.
    #[inline]
    fn leaf(
        &mut self,
        new: NodeMut<K, S>,
        parent: Option<Node<K, S>>,
        min: K,
        max: K,
    ) -> Result<(), C::Error> {
        let leaf = new.node();
        let place = Place { leaf, min, max };
        let mut left_out = false;
        // SAFETY: the node is ours.
        let left = unsafe { leaf.entries() };
        let mut entries = Entries { new, left };
        while entries.left != 0 {
            let i = entries.left.trailing_zeros() as usize;
            let found = place.slot(i);
            let copy = self.copier.copy(found.first, found.last, found.word)?;
            new.set_slot(i, copy);
            left_out |= copy.is_null();
            entries.left &= entries.left - 1;
        }
        forget(entries);
        if left_out {
            self.left_out = true;
            if let Some(parent) = parent {
                propagate_ancestors(leaf, min, max, parent.kind());
            }
        }
        Ok(())
    }
}

/// A leaf of the duplicate in which the entries that are left are still the original's. It gives them up when it is dropped.
struct Entries<K: Key, S: Shape> {
    new: NodeMut<K, S>,
    left: u32,
}

impl<K: Key, S: Shape> Drop for Entries<K, S> {
    #[inline(always)]
    fn drop(&mut self) {
        while self.left != 0 {
            self.new.set_slot(self.left.trailing_zeros() as usize, NULL);
            self.left &= self.left - 1;
        }
    }
}

impl<K: Key, S: Shape, A: NodeAlloc, C: Copier<K>> Drop for Dup<'_, K, S, A, C> {
    fn drop(&mut self) {
        if let Some(root) = self.root.take() {
            retire_subtree(root, K::MIN, K::MAX, (K::MIN, K::MAX), self);
        }
    }
}

impl<K: Key, S: Shape, A: NodeAlloc, C: Copier<K>> Sink<K> for Dup<'_, K, S, A, C> {
    fn entry(&mut self, _: K, _: K, word: Word) {
        self.copier.undo(word);
    }

    fn node(&mut self, block: NonNull<u8>) {
        // SAFETY: it was taken from there, and the duplicate has no other users.
        unsafe { self.supply.put(block) };
    }
}

pub(crate) struct Verbatim;

impl<K> Copier<K> for Verbatim {
    type Error = core::convert::Infallible;

    const VERBATIM: bool = true;

    fn copy(&mut self, _: K, _: K, word: Word) -> Result<Word, Self::Error> {
        Ok(word)
    }

    fn undo(&mut self, _: Word) {}
}

/// Words of values `V` that a closure makes.
pub(crate) struct CopyWith<F, V>(pub(crate) F, pub(crate) PhantomData<fn() -> V>);

impl<K, V, E, F> Copier<K> for CopyWith<F, V>
where
    V: Value,
    F: FnMut(RangeInclusive<K>, Ref<'_, V>) -> Result<Option<V>, E>,
{
    type Error = E;

    fn copy(&mut self, first: K, last: K, word: Word) -> Result<Word, E> {
        let Some(raw) = NonNull::new(word) else {
            return Ok(NULL);
        };
        // SAFETY: words in the tree are values, and the tree is borrowed for the closure's call.
        let copy = (self.0)(first..=last, unsafe { V::borrow(raw) })?;
        Ok(copy.map_or(NULL, |value| value.into_raw().as_ptr()))
    }

    fn undo(&mut self, word: Word) {
        if let Some(raw) = NonNull::new(word) {
            // SAFETY: the word was made by `copy` above, and the duplicate is given up.
            drop(unsafe { V::from_raw(raw) });
        }
    }
}
