//! Read-side sections, and the freeing of replaced nodes.
//!
//! A write passes its retired nodes on as one [chain](pending). The chain waits for a grace period
//! of the environment, through the hook `call_rcu` ([`hooked`]), or of the library's [`own`] RCU.
//!
//! # The head of a grace period
//!
//! `call_rcu` needs two words that it owns until the grace period is over. A retired node has them
//! unless it is full: [words that no reader looks at](maple_tree::raw::idle_words). Readers that
//! may still be in the node read its first word, its pivots, and slots up to its end, which does
//! not change any more. A reader that arrived before the node was retired, and one that arrives
//! later through another retired node, read the same words. The head is none of them. So what the
//! environment writes there needs no ordering with any read.
//!
//! One such node is enough for the chain. A write that may replace none has reserved the memory of
//! one more node, a *carrier*, which joins the chain for its idle words. So each chain has its own
//! grace period, which was requested when the chain was retired. Everything that was retired before
//! a barrier of the environment begins is freed when the barrier ends.
//!
//! Only the destruction of a tree cannot reserve anything. If all of its nodes are full (most often
//! it has one), it allocates a carrier. If there is no memory, it takes one of the library's own
//! heads.

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

/// A read-side section, which ends when it is dropped.
pub(crate) struct ReadSide {
    hooked: bool,
    /// `None` if the environment has its own grace periods.
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

/// Frees a node without readers.
///
/// # Safety
///
/// The node came from [`Gfp`], and nothing uses it any more.
pub(crate) unsafe fn free(block: NonNull<u8>) {
    // SAFETY: the caller's promise. Freeing ignores the flags.
    unsafe { Gfp(gfp::NOWAIT).deallocate(block, NODE_LAYOUT) }
}

/// Frees a chain of nodes, and returns their number.
///
/// # Safety
///
/// As for [`free`], for each node. [`RetiredNodes`] built the chain.
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

/// The retired nodes of one write, newest first.
pub(crate) struct RetiredNodes {
    newest: Option<NonNull<u8>>,
    oldest: Option<NonNull<u8>>,
    count: usize,
    /// Idle words of one of the nodes.
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

    /// Returns `true` if the nodes need a carrier: there are some, the environment has grace
    /// periods, and no node has space for the head.
    pub(crate) fn needs_carrier(&self) -> bool {
        self.newest.is_some() && self.head.is_none() && hooks::has_call_rcu()
    }

    /// Adds a carrier.
    ///
    /// # Safety
    ///
    /// It is the memory of a node that nothing else uses.
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

    /// Frees the nodes once the current readers are gone.
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

/// Makes sure that no node waits once the current readers have left. Nodes without readers are
/// freed now, and the last reader frees the others. Does nothing if the environment has its own
/// grace periods.
pub(crate) fn settle() {
    if !hooks::has_call_rcu() {
        own::settle();
    }
}
