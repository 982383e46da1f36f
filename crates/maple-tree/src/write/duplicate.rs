//! Duplication: one pass over the nodes, depth first. Each node is copied as a whole. Then the
//! differences are corrected: the parent, the children, and, in leaves, the values.
//!
//! All nodes are allocated before the first is copied: as one run, if the allocator has runs. The
//! only possible failure during the copy is therefore that of the closure that makes the values. It
//! gets each entry once, in order, and may leave entries out. Where it leaves none out, the sizes
//! of holes are those of the original.

use core::marker::PhantomData;
use core::mem::forget;
use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::alloc::{AllocError, NodeAlloc, NodeBatch, Reserve, TakeNodes, counted};
use crate::base::{Key, Ref, Shape, Value};
use crate::node::{Kind, NULL, Node, NodeMut, RawTree, Root, Word, is_leaf_word, prefetch};
use crate::read::BoundedLeaf;
use crate::write::holes::propagate_ancestors;
use crate::write::{Immediate, Sink, retire_subtree};

/// The number of nodes ahead that are prefetched.
const AHEAD: usize = 2;

/// The reason why a duplicate was not made. Nothing of it is left.
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

/// Copies entries into a duplicate, and takes the copies back if it is abandoned.
pub(crate) trait Copier<K> {
    /// Returns the reason why an entry could not be copied.
    type Error;
    /// `true` if the copy of every word is the word itself. [`copy`](Copier::copy) and
    /// [`undo`](Copier::undo) need not be called then.
    const VERBATIM: bool = false;
    /// Returns the copy of an entry, or NULL to leave it out.
    fn copy(&mut self, first: K, last: K, word: Word) -> Result<Word, Self::Error>;
    fn undo(&mut self, word: Word);
}

/// An unfinished duplicate. Dropping it frees what exists of it.
struct Dup<'a, K: Key, S: Shape, A: NodeAlloc, C: Copier<K>> {
    batch: NodeBatch<'a, A>,
    copier: &'a mut C,
    /// The duplicate's root; `None` before it exists and once the duplicate is complete.
    root: Option<Node<K, S>>,
    /// `true` if an entry was left out: holes may be adjacent.
    left_out: bool,
}

/// Returns the number of nodes in the subtree of `node`. Reads inner nodes only.
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
    /// Fills `new` with copies. `new` is empty and has the modes of the future duplicate. On
    /// failure it is empty again.
    ///
    /// # Safety
    ///
    /// Nothing writes `self` during the call, and nothing else uses `new`. Both track gaps, or
    /// neither does. The words that the copier makes are valid in this tree.
    pub(crate) unsafe fn dup_into<A: NodeAlloc, C: Copier<K>>(
        &self,
        new: &Self,
        alloc: &mut A,
        copier: &mut C,
    ) -> Result<(), CloneError<C::Error>> {
        let root = match self.root() {
            Root::Empty => return Ok(()),
            Root::Single(word) => return new.put_copy(word, alloc, copier),
            Root::Node(root) => root,
        };
        let nodes = count(root);
        let batch = NodeBatch::new(nodes, alloc);
        #[cfg(feature = "tracing")]
        let batch = batch.inspect_err(|_| crate::base::events::refused(nodes, 0));
        let mut dup = Dup {
            batch: batch?,
            copier,
            root: None,
            left_out: false,
        };
        if C::VERBATIM {
            // All inner nodes are of one kind: as a constant, it fixes offsets.
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
            // Dropped here, not on return: if this panics, the error is dropped, too.
            drop(dup);
            return Err(CloneError::Entry(error));
        }
        dup.root = None;
        new.publish_root(copy.node().word(), self.height());
        if dup.left_out {
            dup.join_holes(new)?;
        }
        Ok(())
    }

    /// Stores a copy of the only entry, which covers index 0, in this tree, which is empty.
    fn put_copy<A: NodeAlloc, C: Copier<K>>(
        &self,
        word: Word,
        alloc: &A,
        copier: &mut C,
    ) -> Result<(), CloneError<C::Error>> {
        let copy = copier
            .copy(K::MIN, K::MIN, word)
            .map_err(CloneError::Entry)?;
        self.put(K::MIN, K::MIN, copy, alloc).map_err(|error| {
            if !copy.is_null() {
                copier.undo(copy);
            }
            error.into()
        })
    }

    /// Stores a word, or a hole, over holes.
    fn put(&self, first: K, last: K, word: Word, alloc: &impl NodeAlloc) -> Result<(), AllocError> {
        let plan = self.plan_store(first, last, word);
        let mut reserve = Reserve::new();
        let filled = reserve.provide(plan.nodes, alloc);
        // SAFETY: the reserve was filled from this allocator.
        filled.inspect_err(|_| unsafe { reserve.release(alloc) })?;
        let entry = |_, _, _| debug_assert!(false, "only holes are written over");
        // SAFETY: nothing else uses this tree. Its nodes come from the allocator, and those that
        // the plan takes are reserved.
        unsafe { self.apply(&plan, &mut reserve, &mut Immediate { alloc, entry }) };
        Ok(())
    }

    /// Joins each run of holes into one. Nodes that become too small join their neighbours.
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
    /// Joins the holes of `new`, the complete duplicate, after entries were left out. If that
    /// fails, or if only a hole is left, `new` is empty again.
    fn join_holes(&mut self, new: &RawTree<K, S>) -> Result<(), AllocError> {
        let joined = new.join_holes(self.batch.source());
        if let Root::Node(root) = new.root()
            && (joined.is_err() || root.end() == 0 && root.slot(0).is_null())
        {
            // The duplicate is abandoned, or its only entry, over all indices, was left out.
            new.publish_root(NULL, 0);
            self.root = Some(root);
        }
        joined
    }

    /// Copies an inner node (a gap node, or else a range node) and its subtree, values included.
    /// Cannot fail.
    ///
    /// The children's copies are adjacent if the allocator has runs. Their addresses are then known
    /// before any of them exists, so that no copy waits for another.
    fn verbatim<const GAP: bool>(&mut self, old: Word, parent: Option<Node<K, S>>) -> Node<K, S> {
        // SAFETY: inner nodes are of this kind.
        let old = unsafe { Node::<K, S>::of_kind(old, if GAP { Kind::Gap } else { Kind::Range }) };
        let new = self.copy_node(old, parent);
        let (end, used) = (old.end(), old.used());
        if is_leaf_word(old.slot(0)) {
            for i in 0..used {
                prefetch::node::<0>(old.slot((i + AHEAD).min(end)));
                // SAFETY: all leaves are on one level.
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

    /// Copies a node unchanged, except for the parent.
    #[inline(always)]
    fn copy_node(&mut self, old: Node<K, S>, parent: Option<Node<K, S>>) -> NodeMut<K, S> {
        // SAFETY: nothing else uses the block, and nothing writes the original (promise of
        // `dup_into`).
        unsafe {
            NodeMut::copy(
                counted(self.batch.take()),
                old,
                old.first_word_below(parent),
            )
        }
    }

    /// Replaces the children of a copied inner node by copies of their subtrees. On failure or
    /// panic, the node has the copies that were started. A child that was not started is still the
    /// original's, and names the original as its parent.
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

    /// Replaces the entries of a copied leaf by copies. On failure or panic, the leaf has the
    /// copies that were made.
    #[inline]
    fn leaf(
        &mut self,
        new: NodeMut<K, S>,
        parent: Option<Node<K, S>>,
        min: K,
        max: K,
    ) -> Result<(), C::Error> {
        let leaf = new.node();
        let place = BoundedLeaf { leaf, min, max };
        let mut left_out = false;
        // SAFETY: the node is exclusive to the duplicate.
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

/// A leaf of the duplicate whose entries in `left` are still the original's. Dropping this clears
/// them.
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
        // SAFETY: the block came from this batch, and the duplicate has no other users.
        unsafe { self.batch.put(block) };
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

/// A copier that calls a closure with each value of type `V`.
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
        // SAFETY: words in the tree are values, and the tree is borrowed during the closure's call.
        let copy = (self.0)(first..=last, unsafe { V::borrow(raw) })?;
        Ok(copy.map_or(NULL, |value| value.into_raw().as_ptr()))
    }

    fn undo(&mut self, word: Word) {
        if let Some(raw) = NonNull::new(word) {
            // SAFETY: `copy` above made the word, and the duplicate is abandoned.
            drop(unsafe { V::from_raw(raw) });
        }
    }
}
