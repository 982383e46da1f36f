//! Read-side sections, and the fate of replaced nodes.
//!
//! A write hands over its dead nodes as one [chain](waiting). It waits for a grace period of the environment's, by the hook
//! `call_rcu` ([`hooked`]), or of the library's [`own`]. Nothing is allocated for that.

mod hooked;
#[cfg_attr(not(all(feature = "rcu", target_has_atomic = "64")), path = "none.rs")]
mod own;
#[cfg(all(feature = "rcu", target_has_atomic = "64"))]
mod periods;
mod section;
mod waiting;

use core::ptr::NonNull;

use maple_tree::alloc::NodeAlloc;
use maple_tree::raw::{NODE_LAYOUT, chain, chained};

use crate::maple_tree::abi::gfp;
use crate::maple_tree::hooks;
use crate::maple_tree::memory::{Frees, Gfp};

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

/// Frees a node that nobody can be in.
///
/// # Safety
///
/// The node came from the hooks' memory, and has no users left.
pub(crate) unsafe fn free(block: NonNull<u8>) {
    // SAFETY: the caller's promise; freeing ignores the flags.
    unsafe { Gfp(gfp::NOWAIT).deallocate(block, NODE_LAYOUT) }
}

/// Frees a chain of nodes; gives how many.
///
/// # Safety
///
/// As for [`free`], for each node; [`Dead`] built the chain.
unsafe fn free_chain(newest: Option<NonNull<u8>>) -> usize {
    let (mut next, mut count) = (newest, 0);
    let mut frees = Frees::new();
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

/// Dead nodes of one write, newest first.
pub(crate) struct Dead {
    newest: Option<NonNull<u8>>,
    oldest: Option<NonNull<u8>>,
    count: usize,
}

impl Dead {
    pub(crate) const fn new() -> Self {
        Self {
            newest: None,
            oldest: None,
            count: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.newest.is_none()
    }

    /// Adds a node.
    ///
    /// # Safety
    ///
    /// A write just retired the node, in RCU mode, and only this list has it.
    pub(crate) unsafe fn push(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { chain(block, self.newest) };
        self.newest = Some(block);
        self.oldest.get_or_insert(block);
        self.count += 1;
    }

    /// Frees the nodes once today's readers are gone.
    pub(crate) fn retire(self) {
        let (Some(newest), Some(oldest)) = (self.newest, self.oldest) else {
            return;
        };
        if hooks::has_call_rcu() {
            hooked::retire(newest, oldest);
            return;
        }
        own::retire(newest, oldest, self.count);
    }
}

/// Sees to it that no node waits once the readers that are about have left: those that nobody can be in are freed now, the others by
/// the last reader. Does nothing if the environment has its own grace periods.
pub(crate) fn settle() {
    if !hooks::has_call_rcu() {
        own::settle();
    }
}
