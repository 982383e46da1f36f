//! Node allocation: the allocators of [`samara_slab`] at the size of a node. Also how a write takes
//! nodes from its reserve, and what it leaves behind (`dead`).
//!
//! May use: `base`, and of `node` the size of a node and its initialisation.

pub(crate) mod dead;

use core::ptr::NonNull;

use crate::base::{Key, Shape};
use crate::node::{Kind, LAYOUT, Node, NodeMut, Word};

pub(crate) use samara_slab::AllocError;
#[doc(inline)]
pub use samara_slab::{Counted, Fork, Global, NodeAlloc};

const NODE: usize = LAYOUT.size();

/// An allocator that cuts nodes out of slabs: the default of a [`MapleTree`](crate::MapleTree).
///
/// A tree with one node takes 512 bytes. One with many nodes takes up to an eighth more, in nodes
/// that it has not used yet (at least 15 nodes, and no more than 32 KiB). The slabs are freed when
/// the tree is cleared or dropped.
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

/// A handle to a pool that threads share: the default allocator of a
/// [`SyncMapleTree`](crate::SyncMapleTree).
pub type SharedPool<A = Global> = samara_slab::SharedPool<A, NODE>;

/// Nodes that a client keeps for later writes, for example to undo a change even if no other memory
/// is left by then.
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

/// Nodes reserved before a write, so that the write itself cannot fail.
pub(crate) type Reserve = samara_slab::Reserve<NODE>;

/// The nodes of a duplicate.
pub(crate) type NodeBatch<'a, A> = samara_slab::NodeBatch<'a, A, NODE>;

/// Taking nodes from a write's reserve.
pub(crate) trait TakeNodes {
    /// Ensures that there are `count` nodes, before the write. If there is not enough memory, the
    /// nodes allocated so far are kept.
    fn provide<A: NodeAlloc>(&mut self, count: usize, alloc: &A) -> Result<(), AllocError>;

    /// Takes a node. There is one: the plan counted them.
    fn take_node<K: Key, S: Shape>(&mut self, kind: Kind) -> NodeMut<K, S>;

    /// Takes a node, as [`take_node`](Self::take_node) does, and makes it a copy of another, except
    /// for the first word.
    fn take_copy<K: Key, S: Shape>(&mut self, node: Node<K, S>, first: Word) -> NodeMut<K, S>;

    /// Asserts that a write has used everything reserved for it: the rest would leak, and shows a
    /// wrong count.
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
        // SAFETY: the block was the reserve's own, and a tree keeps its allocator.
        unsafe { NodeMut::init(counted(self.take()), kind) }
    }

    #[inline]
    fn take_copy<K: Key, S: Shape>(&mut self, node: Node<K, S>, first: Word) -> NodeMut<K, S> {
        // SAFETY: the block was the reserve's own. Only the writer writes to a node, and only the
        // writer copies one.
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

/// Returns the block, which exists because it was counted before.
#[inline(always)]
pub(crate) fn counted(block: Option<NonNull<u8>>) -> NonNull<u8> {
    let Some(block) = block else {
        unreachable!("more nodes were used than were counted")
    };
    block
}
