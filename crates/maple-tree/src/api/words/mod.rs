//! The tree of words, for shells in other languages: the same core that [`MapleTree`](crate::MapleTree) is a shell of, with
//! its duties left to the caller. Not part of the crate's stable interface.
//!
//! A user excludes writers, protects readers, owns entries, and disposes of replaced nodes, as the
//! safe map types do.

mod read;
mod write;

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use crate::base::Native;
use crate::node::{Geometry, Kind, Node, NodeMut, RawTree, Root, is_node};
use crate::read::BoundedLeaf;
use crate::write::SlotAt;

pub use crate::alloc::Spare as NodeReserve;
pub use write::Write;

/// The size and alignment of each node's memory.
pub const NODE_LAYOUT: Layout = crate::node::LAYOUT;

/// Slots that a leaf has room for.
const CAPACITY: usize = Geometry::<usize, Native>::SLOTS;

/// An [`offset`](InLeaf::offset) that no leaf has: what goes on from there is looked up anew.
pub const NO_SLOT: u8 = u8::MAX;

/// A tree over `usize` whose entries are words: flags, then the root, laid out as in C.
#[repr(transparent)]
pub struct WordTree(RawTree<usize, Native>);

/// The slot that a write begins in, and the way to it. It holds for as long as the tree is not changed.
#[derive(Clone, Copy)]
pub struct At(SlotAt<usize, Native>);

impl At {
    /// Returns the last index of the slot.
    #[inline(always)]
    pub fn last(&self) -> usize {
        self.0.found.last
    }

    /// Returns the entry, or NULL for a hole.
    #[inline(always)]
    pub fn entry(&self) -> *mut () {
        self.0.found.word
    }
}

/// A slot in its leaf.
#[derive(Clone, Copy, Debug)]
pub struct InLeaf {
    /// The leaf; NULL in a tree without nodes.
    pub leaf: *mut (),
    /// The first index that the leaf covers. Its range is inclusive.
    pub min: usize,
    /// The last index that the leaf covers.
    pub max: usize,
    /// The slot's place in the leaf, or [`NO_SLOT`] if there is none.
    pub offset: u8,
}

impl InLeaf {
    #[inline(always)]
    fn new(place: BoundedLeaf<usize, Native>, slot: usize) -> Self {
        Self {
            leaf: place.leaf.word(),
            min: place.min,
            max: place.max,
            // A node has at most 32 slots.
            offset: slot as u8,
        }
    }

    /// Returns a leaf that was looked up before.
    ///
    /// # Safety
    ///
    /// As for [`WordTree::seek_in`].
    #[inline(always)]
    unsafe fn place(self) -> BoundedLeaf<usize, Native> {
        debug_assert!(is_node(self.leaf));
        BoundedLeaf {
            // SAFETY: the caller's promise.
            leaf: unsafe { Node::of_kind(self.leaf, Kind::Leaf) },
            min: self.min,
            max: self.max,
        }
    }
}

/// A slot that was looked up, and where it is. In a tree without nodes: the single entry at index 0, the hole above that, or the hole that is all of the tree.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// The first index of the slot.
    pub first: usize,
    /// The last index of the slot.
    pub last: usize,
    /// The entry, or NULL for a hole.
    pub entry: *mut (),
    /// The position of the slot.
    pub place: InLeaf,
}

impl WordTree {
    /// Returns an empty tree with these modes.
    pub const fn new(flags: u32) -> Self {
        Self(RawTree::new(flags))
    }

    /// Returns the flags: Linux's `ma_flags`. Bits that the core does not know are kept as they
    /// are.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.0.flags()
    }

    /// Changes the flags in `mask` to those of `value`. Only for the writer.
    pub fn set_flags(&self, mask: u32, value: u32) {
        self.0.set_flags(mask, value);
    }

    /// Returns `true` if nothing is stored.
    #[inline]
    pub fn is_empty(&self) -> bool {
        matches!(self.0.root(), Root::Empty)
    }

    /// Levels of nodes.
    #[inline]
    pub fn height(&self) -> u32 {
        self.0.height()
    }
}

/// Chains a retired node to another, or to none.
///
/// # Safety
///
/// `block` was handed to a `retire` closure and has not been freed.
pub unsafe fn chain(block: NonNull<u8>, next: Option<NonNull<u8>>) {
    // SAFETY: the caller's promise.
    unsafe { Node::<usize, Native>::from_block(block) }
        .link_dead(next.map_or(ptr::null_mut(), NonNull::as_ptr));
}

/// Two words in a retired node that no reader looks at, if it has them: they may hold what is known of the node until it is freed. Nodes that are full
/// have none, unless they keep the sizes of holes.
///
/// # Safety
///
/// As for [`chain`].
#[inline]
pub unsafe fn idle_words(block: NonNull<u8>) -> Option<NonNull<[*mut (); 2]>> {
    // SAFETY: the caller's promise.
    let node = unsafe { Node::<usize, Native>::from_block(block) };
    node.idle().map(NonNull::cast)
}

/// Returns the retired node with these [idle words](idle_words).
///
/// # Safety
///
/// `idle` came from there, and the node has not been freed.
#[inline]
pub unsafe fn node_with(idle: NonNull<[*mut (); 2]>) -> NonNull<u8> {
    // SAFETY: the words are within the node, which is aligned to its size.
    unsafe {
        idle.cast::<u8>()
            .sub(idle.addr().get() % NODE_LAYOUT.align())
    }
}

/// Makes memory a node like those that are retired, which was in no tree. It has [idle words](idle_words).
///
/// # Safety
///
/// The memory has the layout [`NODE_LAYOUT`], and no other code uses it.
pub unsafe fn retired(block: NonNull<u8>) {
    // SAFETY: the caller's promise.
    unsafe { NodeMut::<usize, Native>::init(block, Kind::Leaf) }
        .node()
        .mark_dead();
}

/// Returns the node that `block` was chained to.
///
/// # Safety
///
/// As for [`chain`], which was called for `block`.
pub unsafe fn chained(block: NonNull<u8>) -> Option<NonNull<u8>> {
    // SAFETY: the caller's promise.
    NonNull::new(unsafe { Node::<usize, Native>::from_block(block) }.next_dead())
}
