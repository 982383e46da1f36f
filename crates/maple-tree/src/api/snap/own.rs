//! Making what a write touches the tree's own: the nodes down to it that other trees share are copied, and put in the place of what they were
//! copied from. Then each of these nodes names its parent, and is led to once, so that the write is made as in any other tree.
//!
//! Nodes are copied as memory, but for their first words, and what they lead to is counted once more. The values of a leaf that is copied are made once
//! more. Until the write is made all of that can be taken back, and is if there is no memory or a closure panics: a failed write changes nothing.

use core::marker::PhantomData;
use core::mem::{MaybeUninit, needs_drop};
use core::ptr::NonNull;

use crate::alloc::{AllocError, NodeAlloc, Reserve, TakeNodes};
use crate::api::Host;
use crate::base::{Duplicate, Finally, Key, Shape, Value, each};
use crate::node::{LAYOUT, NULL, Node, RawTree, Root, Unread, Word, flags, prefetch};
use crate::read::BoundedLeaf;
use crate::write::{Plan, Sink};

/// More levels than any tree has: its height is a field of the flags word, as in Linux. (With at
/// least two slots in each node except the last of a level, and 256 bytes a node, 31 levels need
/// more memory than any machine has.)
const MOST_LEVELS: usize = (flags::HEIGHT_MASK >> flags::HEIGHT_SHIFT) as usize;

/// On each level: the nodes at the two ends of the range and of what is replaced, and a neighbour.
const MOST_COPIES: usize = 5 * MOST_LEVELS;

/// Words of nodes that were shared, and of their copies.
pub(super) type Copies = [MaybeUninit<(Word, Word)>; MOST_COPIES];

/// Rebalance for them.
pub(super) const NO_COPIES: Copies = [const { MaybeUninit::uninit() }; MOST_COPIES];

/// A node, and one of its slots; `None` above a root.
pub(super) type At<K, S> = Option<(Node<K, S>, usize)>;

/// A tree whose nodes become its own on the path of a write.
pub(super) struct Owning<'a, K: Key, V: Duplicate, S: Shape, A: NodeAlloc> {
    pub(super) raw: &'a RawTree<K, S>,
    pub(super) alloc: &'a A,
    /// Nodes that were shared and their copies, in the order in which they were copied. The tree's count of each of the former is kept. Where this is
    /// does not move: it is some kilobytes.
    copies: &'a mut Copies,
    count: usize,
    /// The write is made: the copies stay.
    pub(super) made: bool,
    marker: PhantomData<V>,
}

impl<'a, K: Key, V: Duplicate, S: Shape, A: NodeAlloc> Owning<'a, K, V, S, A> {
    /// Nothing yet.
    ///
    /// # Safety
    ///
    /// The tree is exclusively borrowed for `'a`; its words are values of `V`, and its nodes are given back to `alloc`.
    #[inline(always)]
    pub(super) unsafe fn new(raw: &'a RawTree<K, S>, alloc: &'a A, copies: &'a mut Copies) -> Self {
        Self {
            raw,
            alloc,
            copies,
            count: 0,
            made: false,
            marker: PhantomData,
        }
    }

    /// Owns what a write to `first..=last` touches, which makes a hole if it `erases`, but for neighbours that only planning finds.
    #[inline]
    pub(super) fn range(&mut self, (first, last): (K, K), erases: bool) -> Result<(), AllocError> {
        let Some(left) = self.path(first, 0)? else {
            return Ok(());
        };
        let mut right = left;
        if last > left.max
            && let Some(place) = self.path(last, 0)?
        {
            right = place;
        }
        if erases {
            // Two holes never neighbour each other, across the edges of leaves neither.
            let before = first.predecessor().filter(|_| first == left.min);
            let after = last.successor().filter(|_| last == right.max);
            for key in before.into_iter().chain(after) {
                if self.raw.load(key).is_null() {
                    self.path(key, 0)?;
                }
            }
        }
        Ok(())
    }

    /// Owns the nodes on the way to `key`, from the root down to `level` above the leaves; gives the last one. `None` if there are no nodes.
    #[inline]
    pub(super) fn path(
        &mut self,
        key: K,
        level: u32,
    ) -> Result<Option<BoundedLeaf<K, S>>, AllocError> {
        let Root::Node(root) = self.raw.root() else {
            return Ok(None);
        };
        let mut place = BoundedLeaf::of_root(self.own(None, root)?);
        for _ in level + 1..self.raw.height() {
            let node = place.leaf;
            let slot = node.search(key);
            let leaf = self.own(Some((node, slot)), node.child(slot))?;
            let (min, max) = (node.first(slot, place.min), node.last(slot, place.max));
            place = BoundedLeaf { leaf, min, max };
        }
        Ok(Some(place))
    }

    /// Returns the node, which is a child of one that is owned or the root, or a copy of it if it
    /// is shared.
    #[inline(always)]
    pub(super) fn own(
        &mut self,
        above: At<K, S>,
        node: Node<K, S>,
    ) -> Result<Node<K, S>, AllocError> {
        if !node.is_counted() {
            return Ok(node);
        }
        if node.is_unique() {
            node.set_parent(above.map(|(parent, _)| parent));
            return Ok(node);
        }
        self.copy(above, node)
    }

    /// Puts a copy of a node in its place.
    #[inline(never)]
    fn copy(&mut self, above: At<K, S>, node: Node<K, S>) -> Result<Node<K, S>, AllocError> {
        let mut reserve = Reserve::new();
        reserve.provide(1, self.alloc)?;
        let copy = reserve.take_copy(node, node.first_word_below(above.map(|(parent, _)| parent)));
        let owns_values = node.is_leaf() && !V::PLAIN;
        if owns_values {
            for i in 0..node.used() {
                copy.set_slot(i, NULL);
            }
        }
        if !node.is_leaf() {
            // Raising waits for the memory each time, reading does not: let all come at once.
            for i in 0..node.used() {
                prefetch::lines::<0, 1>(node.slot(i));
            }
            for i in 0..node.used() {
                node.child(i).raise();
            }
        }
        self.copies[self.count].write((node.word(), copy.node().word()));
        self.count += 1;
        if owns_values {
            for i in 0..node.used() {
                if let Some(raw) = NonNull::new(node.slot(i)) {
                    // SAFETY: words in leaves are values, which stay while the tree is borrowed.
                    let value = V::duplicate(unsafe { V::borrow(raw) }).ok_or(AllocError)?;
                    copy.set_slot(i, value.into_raw().as_ptr());
                }
            }
        }
        self.put(above, copy.node().word());
        Ok(copy.node())
    }

    /// Makes an owned node's slot, or the root, lead to a node.
    fn put(&self, above: At<K, S>, word: Word) {
        match above {
            // SAFETY: the node is owned: no other thread sees it.
            Some((parent, slot)) => parent.write(unsafe { Unread::new() }).set_slot(slot, word),
            None => self.raw.publish_root(word, self.raw.height()),
        }
    }

    /// Takes the copy back that was made last, or, once the write is made, gives up the tree's count of what was copied.
    fn settle(&self, (shared, copy): (Word, Word)) {
        // SAFETY: the tree has a count of it.
        let shared = unsafe { Node::<K, S>::from_word(shared) };
        if self.made {
            // SAFETY: the tree does not lead there any more.
            unsafe { release::<K, V, S>(shared, self.alloc) };
            return;
        }
        // SAFETY: the write, which may replace it, is not made.
        let copy = unsafe { Node::<K, S>::from_word(copy) };
        let above = copy.parent(self.raw.inner_kind());
        let slot = above.map(|parent| {
            let slot = (0..parent.used()).find(|&i| parent.slot(i) == copy.word());
            slot.map(|slot| (parent, slot))
        });
        // A leaf that has not been put in its place yet is nowhere.
        match slot {
            Some(Some(slot)) => self.put(Some(slot), shared.word()),
            None if self.raw.root_word() == copy.word() => self.put(None, shared.word()),
            _ => {}
        }
        // SAFETY: nothing leads to it any more; what it leads to has been counted for it.
        unsafe { release::<K, V, S>(copy, self.alloc) };
    }
}

impl<K: Key, V: Duplicate, S: Shape, A: NodeAlloc> Drop for Owning<'_, K, V, S, A> {
    #[inline]
    fn drop(&mut self) {
        let count = self.count;
        if count > 0 {
            each(0..count, |i| {
                let i = if self.made { i } else { count - 1 - i };
                // SAFETY: those below the count are written.
                self.settle(unsafe { self.copies[i].assume_init() });
            });
        }
    }
}

/// Frees nodes at once, or gives up a count of them, and hands entries to a closure.
struct Releasing<'o, 'a, K: Key, V: Duplicate, S: Shape, A: NodeAlloc, F> {
    tree: &'o Owning<'a, K, V, S, A>,
    entry: F,
}

impl<K: Key, V: Duplicate, S: Shape, A: NodeAlloc, F> Sink<K> for Releasing<'_, '_, K, V, S, A, F>
where
    F: FnMut(K, K, Word),
{
    fn entry(&mut self, first: K, last: K, word: Word) {
        (self.entry)(first, last, word);
    }

    fn node(&mut self, block: NonNull<u8>) {
        // SAFETY: the tree's nodes are given back to this allocator; this one was its own, and has been replaced.
        unsafe { self.tree.alloc.deallocate(block, LAYOUT) }
    }

    fn shared(&mut self, node: Word) {
        // SAFETY: the tree's count, which does not lead there any more.
        unsafe { release::<K, V, S>(Node::from_word(node), self.tree.alloc) }
    }
}

// SAFETY: the tree's words are values of `V`; it is exclusively borrowed, and what a write changes is its own, so that there are no other writers and no
// readers; nodes come from its allocator.
unsafe impl<K: Key, V: Duplicate, S: Shape, A: NodeAlloc> Host<K, V, S> for Owning<'_, K, V, S, A> {
    /// The neighbours of the nodes that a write touches may be shared.
    const OWNS_NODES: bool = false;
    type Alloc = A;

    #[inline]
    fn tree(&self) -> &RawTree<K, S> {
        self.raw
    }

    fn nodes(&self) -> &A {
        self.alloc
    }

    fn alone(&self) -> bool {
        true
    }

    fn begins(&mut self) {
        self.made = true;
    }

    fn sink(&self, kept: Option<K>, mut entry: impl FnMut(K, K, Word)) -> impl Sink<K> {
        let entry = move |first, last, word| {
            if Some(first) != kept {
                entry(first, last, word);
            }
        };
        Releasing { tree: self, entry }
    }

    fn prepare(&mut self, plan: &mut Plan<K, S>) -> Result<(), AllocError> {
        plan.leave_root_to_nodes();
        while let Some((key, level)) = plan.shared {
            self.path(key, level)?;
            self.raw.plan_again(plan);
        }
        Ok(())
    }
}

/// Gives up one count of a node, and, if it was the last, the values in it and the counts of the nodes below. If dropping a value panics, the others are dropped all the same.
///
/// # Safety
///
/// The count is the caller's, who does not use it again. The node is of a tree with this `K`, `S` and `V`, whose nodes are given back
/// to `alloc`.
// In line: of the many that a node leads to few are led to from there alone.
#[inline(always)]
pub(super) unsafe fn release<K: Key, V: Value, S: Shape>(node: Node<K, S>, alloc: &impl NodeAlloc) {
    if node.lower() {
        // SAFETY: the caller's promise, and nothing refers to the node any more.
        unsafe { take_apart::<K, V, S>(node, alloc) };
    }
}

/// Gives up what a node leads to, and the node.
///
/// # Safety
///
/// As [`release`], and nothing refers to the node.
#[inline(never)]
unsafe fn take_apart<K: Key, V: Value, S: Shape>(node: Node<K, S>, alloc: &impl NodeAlloc) {
    // This happens also if dropping a value panics. SAFETY: no code uses the node any more. It came
    // from this allocator or from one that is interchangeable with it.
    let _free = Finally(|| unsafe { alloc.deallocate(node.block(), LAYOUT) });
    let is_leaf = node.is_leaf();
    if is_leaf && !needs_drop::<V>() {
        return;
    }
    each(0..node.used(), |i| {
        if !is_leaf {
            // SAFETY: slots of inner nodes hold nodes, of which they own a count, now the caller's.
            return unsafe { release::<K, V, S>(node.child(i), alloc) };
        }
        if let Some(raw) = NonNull::new(node.slot(i)) {
            // SAFETY: words in leaves are values, and nothing refers to this one any more.
            drop(unsafe { V::from_raw(raw) });
        }
    });
}
