//! Duplication: one pass over the nodes, depth first, each entry shown once to a closure that makes its copy or
//! leaves it out.

use core::marker::PhantomData;
use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::alloc::NodeAlloc;
use crate::gap_upkeep::{largest_below, largest_in_leaf};
use crate::key::Key;
use crate::node::{Kind, LAYOUT, NULL, Node, NodeMut, Word};
use crate::reserve::{AllocError, Reserve};
use crate::shape::Shape;
use crate::store::Sink;
use crate::tree::{RawTree, Root};
use crate::value::Value;

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
            Self::Alloc => f.write_str("no memory for a tree node"),
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

/// What goes into a duplicate, and what becomes of it if that is given up.
pub(crate) trait Copier<K> {
    /// Why an entry could not be copied.
    type Error;
    /// The copy of an entry, or NULL to leave it out.
    fn copy(&mut self, first: K, last: K, word: Word) -> Result<Word, Self::Error>;
    /// Takes a copy back.
    fn undo(&mut self, first: K, last: K, word: Word);
}

struct Dup<'a, A, C> {
    alloc: &'a A,
    copier: &'a mut C,
    /// Some entry was left out: holes may neighbour each other.
    left_out: bool,
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Fills `new`, which is empty and has the modes that the duplicate is to have, with copies. On failure it is empty
    /// again.
    ///
    /// # Safety
    ///
    /// Nobody writes `self` meanwhile, and nobody else uses `new`. Both track gaps, or none does. What the copier
    /// makes may stand in this tree.
    pub(crate) unsafe fn dup_into<A: NodeAlloc, C: Copier<K>>(
        &self,
        new: &Self,
        alloc: &A,
        copier: &mut C,
    ) -> Result<(), CloneError<C::Error>> {
        let root = match self.root() {
            Root::Empty => return Ok(()),
            Root::Single(word) => {
                let copy = copier
                    .copy(K::MIN, K::MIN, word)
                    .map_err(CloneError::Entry)?;
                return new.put_single(copy, alloc).inspect_err(|_| {
                    copier.undo(K::MIN, K::MIN, copy);
                });
            }
            Root::Node(root) => root,
        };
        let mut dup = Dup {
            alloc,
            copier,
            left_out: false,
        };
        let (copy, _) = dup.node(root, K::MIN, K::MAX)?;
        let left_out = dup.left_out;
        new.publish_root(copy.node().word(), self.height());
        if left_out && let Err(AllocError) = new.join_holes(alloc) {
            if let Root::Node(root) = new.root() {
                dup.undo(root, K::MIN, K::MAX);
            }
            new.publish_root(NULL, 0);
            return Err(CloneError::Alloc);
        }
        Ok(())
    }

    /// Stores a word at index 0 of an empty tree.
    fn put_single<A: NodeAlloc, E>(&self, word: Word, alloc: &A) -> Result<(), CloneError<E>> {
        let plan = self.plan_store(K::MIN, K::MIN, word);
        let mut reserve = Reserve::new();
        reserve.fill(plan.nodes, alloc)?;
        // SAFETY: nobody else uses this tree; its nodes are reserved.
        unsafe { self.apply(plan, &mut reserve, &mut Discard(alloc)) };
        Ok(())
    }

    /// Makes each run of holes one, and nodes that become too small join their neighbours.
    fn join_holes<A: NodeAlloc>(&self, alloc: &A) -> Result<(), AllocError> {
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
                    let plan = self.plan_store(found.first, last, NULL);
                    let mut reserve = Reserve::new();
                    if let Err(error) = reserve.fill(plan.nodes, alloc) {
                        reserve.release(alloc);
                        return Err(error);
                    }
                    // SAFETY: nobody else uses this tree; its nodes are reserved.
                    unsafe { self.apply(plan, &mut reserve, &mut Discard(alloc)) };
                }
            }
            key = last.successor();
        }
        Ok(())
    }
}

/// Frees nodes; holes are all that is removed.
struct Discard<'a, A>(&'a A);

impl<K, A: NodeAlloc> Sink<K> for Discard<'_, A> {
    fn entry(&mut self, _: K, _: K, _: Word) {
        debug_assert!(false, "only holes are written over");
    }

    fn node(&mut self, block: NonNull<u8>) {
        // SAFETY: nodes of the duplicate come from this allocator, and nobody else uses it yet.
        unsafe { self.0.deallocate(block, LAYOUT) }
    }
}

impl<A: NodeAlloc, C> Dup<'_, A, C> {
    /// Copies a node and all below; gives the size of its largest hole too, if the tree tracks them.
    #[expect(
        clippy::type_complexity,
        reason = "a node, a size, or the copier's error"
    )]
    fn node<K: Key, S: Shape>(
        &mut self,
        old: Node<K, S>,
        min: K,
        max: K,
    ) -> Result<(NodeMut<K, S>, K), CloneError<C::Error>>
    where
        C: Copier<K>,
    {
        let block = self.alloc.allocate(LAYOUT).ok_or(CloneError::Alloc)?;
        // SAFETY: the block is fresh, and has the layout of a node.
        let new = unsafe { NodeMut::<K, S>::init(block, old.kind()) };
        let end = old.end();
        let mut first = min;
        let mut left_out = false;
        for i in 0..=end {
            let last = old.last(i, max);
            let made = self.slot(old, new, i, first, last);
            match made {
                Ok(hole) => left_out |= hole,
                Err(error) => {
                    if i > 0 {
                        new.set_end(i - 1);
                        self.undo(new.node(), min, first.wrapping_sub(K::ONE));
                    } else {
                        // SAFETY: the block was allocated above and nothing leads to it.
                        unsafe { self.alloc.deallocate(block, LAYOUT) };
                    }
                    return Err(error);
                }
            }
            if i < end {
                new.set_pivot(i, last);
            }
            first = last.wrapping_add(K::ONE);
        }
        new.set_end(end);
        self.left_out |= left_out;
        let gap = match old.kind() {
            Kind::Gap => largest_below(new.node()),
            Kind::Leaf => largest_in_leaf(new.node(), min, max),
            Kind::Range => K::MIN,
        };
        Ok((new, gap))
    }

    /// Copies a slot; tells whether an entry was left out.
    fn slot<K: Key, S: Shape>(
        &mut self,
        old: Node<K, S>,
        new: NodeMut<K, S>,
        i: usize,
        first: K,
        last: K,
    ) -> Result<bool, CloneError<C::Error>>
    where
        C: Copier<K>,
    {
        let word = old.slot(i);
        if old.is_leaf() {
            if word.is_null() {
                return Ok(false);
            }
            let copy = self
                .copier
                .copy(first, last, word)
                .map_err(CloneError::Entry)?;
            new.set_slot(i, copy);
            return Ok(copy.is_null());
        }
        let (child, gap) = self.node(old.child(i), first, last)?;
        child.node().set_parent(Some(new.node()));
        new.set_slot(i, child.node().word());
        if old.kind() == Kind::Gap {
            new.node().set_gap(i, gap);
        }
        Ok(false)
    }

    /// Takes back a node of the duplicate, and all below.
    fn undo<K: Key, S: Shape>(&mut self, node: Node<K, S>, min: K, max: K)
    where
        C: Copier<K>,
    {
        for i in 0..=node.end() {
            let (first, last) = (node.first(i, min), node.last(i, max));
            let word = node.slot(i);
            if !node.is_leaf() {
                self.undo(node.child(i), first, last);
            } else if !word.is_null() {
                self.copier.undo(first, last, word);
            }
        }
        // SAFETY: the node came from this allocator, and the duplicate has no other users.
        unsafe { self.alloc.deallocate(node.block(), LAYOUT) };
    }
}

/// Copies values by a closure.
pub(crate) struct CopyWith<F, V> {
    copy: F,
    marker: PhantomData<fn() -> V>,
}

impl<F, V> CopyWith<F, V> {
    pub(crate) fn new(copy: F) -> Self {
        Self {
            copy,
            marker: PhantomData,
        }
    }
}

impl<K, V, E, F> Copier<K> for CopyWith<F, V>
where
    V: Value,
    F: FnMut(RangeInclusive<K>, V::Ref<'_>) -> Result<Option<V>, E>,
{
    type Error = E;

    fn copy(&mut self, first: K, last: K, word: Word) -> Result<Word, E> {
        let Some(raw) = NonNull::new(word) else {
            return Ok(NULL);
        };
        // SAFETY: words in the tree are values, and the tree is borrowed for the closure's call.
        let copy = (self.copy)(first..=last, unsafe { V::borrow(raw) })?;
        Ok(copy.map_or(NULL, |value| value.into_raw().as_ptr()))
    }

    fn undo(&mut self, _: K, _: K, word: Word) {
        if let Some(raw) = NonNull::new(word) {
            // SAFETY: the word was made by `copy` above, and the duplicate is given up.
            drop(unsafe { V::from_raw(raw) });
        }
    }
}
