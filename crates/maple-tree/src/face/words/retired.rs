//! Nodes that a write has replaced: lists of them take no other memory.

use crate::base::Native;
use crate::face::words::NODE_LAYOUT;
use crate::node::{Kind, Node, NodeMut};
use core::ptr::NonNull;

/// Chains a retired node to another, or to none.
///
/// # Safety
///
/// `block` was handed to a `retire` closure and has not been freed.
pub unsafe fn chain(block: NonNull<u8>, next: Option<NonNull<u8>>) {
    // SAFETY: the caller's promise.
    unsafe { Node::<usize, Native>::from_block(block) }
        .chain(next.map_or(core::ptr::null_mut(), NonNull::as_ptr));
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

/// The retired node with these [idle words](idle_words).
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
/// The memory is as [`NODE_LAYOUT`] says, and nobody else uses it.
pub unsafe fn retired(block: NonNull<u8>) {
    // SAFETY: the caller's promise.
    unsafe { NodeMut::<usize, Native>::init(block, Kind::Leaf) }
        .node()
        .mark_dead();
}

/// The node that `block` was chained to.
///
/// # Safety
///
/// As for [`chain`], which was called for `block`.
pub unsafe fn chained(block: NonNull<u8>) -> Option<NonNull<u8>> {
    // SAFETY: the caller's promise.
    NonNull::new(unsafe { Node::<usize, Native>::from_block(block) }.chained())
}
