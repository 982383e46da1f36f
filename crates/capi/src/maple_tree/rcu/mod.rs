//! Read-side sections, and the fate of replaced nodes.
//!
//! A write hands over its dead nodes as one [chain](waiting). It waits for a grace period of the environment's, by the hook
//! `call_rcu` ([`hooked`]), or of the library's [`own`].
//!
//! # Where the head is
//!
//! `call_rcu` wants two words that are its own until the grace period is over. A dead node has them, unless it is full:
//! [words that no reader looks at](maple_tree::raw::idle_words). The readers that may still be in the node read its first word and its pivots, and slots up to
//! its end, which does not change any more. A reader that came to the node before it was given up and one
//! that comes later, by another dead node, read the same words, and the head is none of them: what the environment
//! writes there needs no order with anything that they do.
//!
//! One such node is enough for the chain. A write that may replace none has reserved the memory of one more node, a *carrier*, which joins the
//! chain for its idle words. So each chain has a grace period of its own that was asked for when it was given up, and all
//! that has been given up when a barrier of the environment's begins is freed when that ends.
//!
//! Only the destruction of a tree cannot reserve anything. If all of its nodes are full (most often it has one), it asks for a carrier; if there is
//! no memory, one of many heads that the library has is taken.

mod hooked;
#[cfg_attr(not(all(feature = "rcu", target_has_atomic = "64")), path = "none.rs")]
mod own;
mod pending;
#[cfg(all(feature = "rcu", target_has_atomic = "64"))]
mod periods;
mod section;

use core::ptr::NonNull;

use maple_tree::alloc::NodeAlloc;
use maple_tree::raw::{NODE_LAYOUT, chain, chained, idle_words, retired};

use crate::maple_tree::abi::{RcuHead, gfp};
use crate::maple_tree::hooks;
use crate::maple_tree::memory::{FreeBatch, Gfp};

pub use section::{maple_read_lock, maple_read_unlock};

/// A read-side section, ended when dropped.
pub(crate) struct ReadSide {
    hooked: bool,
    /// Unless the environment has its own grace periods.
    _own: Option<own::ReadSide>,
}

impl ReadSide {
    pub(crate) fn enter() -> Self {
        Self {
            hooked: hooks::read_lock(),
            _own: (!hooks::has_call_rcu()).then(own::ReadSide::enter),
        }
    }
}

impl Drop for ReadSide {
    fn drop(&mut self) {
        if self.hooked {
            hooks::read_unlock();
        }
    }
}

/// FreeBatch a node that nobody can be in.
///
/// # Safety
///
/// The node came from the hooks' memory, and has no users left.
pub(crate) unsafe fn free(block: NonNull<u8>) {
    // SAFETY: the caller's promise; freeing ignores the flags.
    unsafe { Gfp(gfp::NOWAIT).deallocate(block, NODE_LAYOUT) }
}

/// FreeBatch a chain of nodes; gives how many.
///
/// # Safety
///
/// As for [`free`], for each node; [`RetiredNodes`] built the chain.
unsafe fn free_chain(newest: Option<NonNull<u8>>) -> usize {
    let (mut next, mut count) = (newest, 0);
    let mut frees = FreeBatch::new();
    while let Some(block) = next {
        // SAFETY: the caller's promise.
        unsafe {
            next = chained(block);
            frees.add(block);
        }
        count += 1;
    }
    count
}

/// RetiredNodes nodes of one write, newest first.
pub(crate) struct RetiredNodes {
    newest: Option<NonNull<u8>>,
    oldest: Option<NonNull<u8>>,
    count: usize,
    /// Idle words of one of them.
    head: Option<NonNull<RcuHead>>,
}

impl RetiredNodes {
    pub(crate) const fn new() -> Self {
        Self {
            newest: None,
            oldest: None,
            count: 0,
            head: None,
        }
    }

    /// Whether the nodes need a carrier: there are some, the grace period is to be the environment's, and there is no place for its head.
    pub(crate) fn needs_carrier(&self) -> bool {
        self.newest.is_some() && self.head.is_none() && hooks::has_call_rcu()
    }

    /// Adds a carrier.
    ///
    /// # Safety
    ///
    /// It is the memory of a node, which nobody else uses.
    pub(crate) unsafe fn add_carrier(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe {
            retired(block);
            self.push(block);
        }
    }

    /// Adds a node.
    ///
    /// # Safety
    ///
    /// A write just retired the node, in RCU mode, and only this list has it.
    pub(crate) unsafe fn push(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe {
            chain(block, self.newest);
            if self.head.is_none() {
                self.head = idle_words(block).map(NonNull::cast);
            }
        }
        self.newest = Some(block);
        self.oldest.get_or_insert(block);
        self.count += 1;
    }

    /// FreeBatch the nodes once today's readers are gone.
    pub(crate) fn retire(mut self) {
        if self.needs_carrier()
            && let Some(block) = Gfp(gfp::NOWAIT).allocate(NODE_LAYOUT)
        {
            // SAFETY: the memory is new.
            unsafe { self.add_carrier(block) };
        }
        let (Some(newest), Some(oldest)) = (self.newest, self.oldest) else {
            return;
        };
        if !hooks::has_call_rcu() {
            own::retire(newest, oldest, self.count);
        } else if let Some(head) = self.head {
            // SAFETY: `push` built the chain and found the head in it.
            unsafe { hooked::retire(head, newest, oldest) };
        } else {
            hooked::retire_without_head(newest, oldest);
        }
    }
}

/// Sees to it that no node waits once the readers that are about have left: those that nobody can be in are freed now, the others by
/// the last reader. Does nothing if the environment has its own grace periods.
pub(crate) fn settle() {
    if !hooks::has_call_rcu() {
        own::settle();
    }
}
