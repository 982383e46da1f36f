//! Node allocation: [`samara_slab`]'s allocators at the size of a node, the nodes that a write
//! takes from its reserve, and the nodes that it leaves behind (`dead`).
//!
//! May know: `base`, and of `node` how large a node is and how one is made.

pub(crate) mod dead;

use core::ptr::NonNull;

use crate::base::{Key, Shape};
use crate::node::{Kind, LAYOUT, Node, NodeMut, Word};

pub(crate) use samara_slab::AllocError;
#[doc(inline)]
pub use samara_slab::{Counted, Fork, Global, NodeAlloc};

const NODE: usize = LAYOUT.size();

/// Nodes cut out of slabs: the allocator of a [`MapleTree`](crate::MapleTree) unless another is named.
///
/// A tree that has one node takes 512 bytes; one of many takes up to an eighth (at least 15 nodes, and no more than 32 KiB) in nodes that it has not used yet.
/// The slabs are given back when the tree is cleared or dropped.
///
/// ```
/// use maple_tree::MapleTree;
/// use maple_tree::alloc::{Counted, Global, Pool};
///
/// let slabs = Counted::new(Global);
/// let mut tree: MapleTree<u64, u32, Pool<&Counted<Global>>> = MapleTree::new_in(Pool::new_in(&slabs));
/// for i in 0..1000 {
///     tree.insert(i, 7)?;
/// }
/// assert!(tree.stats().nodes() > 60 && slabs.live() < 20);
/// drop(tree);
/// assert_eq!(slabs.live(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Pool<A = Global> = samara_slab::Pool<A, NODE>;

/// A handle to a pool that threads share: the allocator of a [`SyncMapleTree`](crate::SyncMapleTree) unless another is named.
pub type SharedPool<A = Global> = samara_slab::SharedPool<A, NODE>;

/// Nodes that a client keeps for later writes, so that an undo needs no memory, whatever else has
/// been allocated since.
///
/// ```
/// use maple_tree::alloc::Spare;
/// use maple_tree::{SyncMapleTree, Waiting};
///
/// let map = SyncMapleTree::new(Waiting::new());
/// let mut spare = Spare::new();
/// spare.fill(4, map.allocator())?;
/// // Now, or when there is no memory any more:
/// // SAFETY: they came from there.
/// unsafe { spare.release(map.allocator()) };
/// map.insert(1u64, 1u32)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Spare = Reserve;

/// Nodes set aside before a write, so that the write itself cannot fail.
pub(crate) type Reserve = samara_slab::Reserve<NODE>;

/// The nodes of a duplicate.
pub(crate) type Supply<'a, A> = samara_slab::NodeBatch<'a, A, NODE>;

/// Taking nodes from a write's reserve.
pub(crate) trait TakeNodes {
    /// Sees to it that there are `count` nodes, before the write. If there is no memory, those that could be had are kept.
    fn provide<A: NodeAlloc>(&mut self, count: usize, alloc: &A) -> Result<(), AllocError>;

    /// Takes a node out. There is one: the plan counted them.
    fn take_node<K: Key, S: Shape>(&mut self, kind: Kind) -> NodeMut<K, S>;

    /// Takes a node out, as [`take_node`](Self::take_node) does, and makes it a copy of another, but for the first word.
    fn take_copy<K: Key, S: Shape>(&mut self, node: Node<K, S>, first: Word) -> NodeMut<K, S>;

    /// Makes sure that a write has used all that was reserved for it: fewer would leak, and show that it was counted wrongly.
    fn assert_used_up(&self);
}

impl TakeNodes for Reserve {
    #[inline]
    fn provide<A: NodeAlloc>(&mut self, count: usize, alloc: &A) -> Result<(), AllocError> {
        let filled = self.fill(count, alloc);
        #[cfg(feature = "tracing")]
        let filled = filled.inspect_err(|_| crate::base::events::refused(count, self.count()));
        filled
    }

    #[inline]
    fn take_node<K: Key, S: Shape>(&mut self, kind: Kind) -> NodeMut<K, S> {
        // SAFETY: the block was the reserve's own; a tree keeps its allocator.
        unsafe { NodeMut::init(counted(self.take()), kind) }
    }

    #[inline]
    fn take_copy<K: Key, S: Shape>(&mut self, node: Node<K, S>, first: Word) -> NodeMut<K, S> {
        // SAFETY: the block was the reserve's own; only the writer writes to a node, and only it copies one.
        unsafe { NodeMut::copy(counted(self.take()), node, first) }
    }

    #[inline(always)]
    fn assert_used_up(&self) {
        assert!(
            self.is_empty(),
            "a write used fewer nodes than were reserved"
        );
    }
}

/// Memory that is there, since it was counted before.
#[inline(always)]
pub(crate) fn counted(block: Option<NonNull<u8>>) -> NonNull<u8> {
    let Some(block) = block else {
        unreachable!("more nodes were used than were counted")
    };
    block
}
