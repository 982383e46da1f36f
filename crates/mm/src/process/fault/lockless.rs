//! Faults without the lock of the address space.
//!
//! The VMA is found under RCU and held by its own lock
//! ([`SharedMap::hold`](crate::SharedMap::hold)). The rest of the fault concerns one page of this
//! VMA, the cache of its file, and one table. So the fault does not wait for calls that change
//! other VMAs, and they do not wait for it.
//!
//! The fault takes the lock of the address space instead if
//!
//! - nothing is mapped there (a stack may grow), or a call is changing the VMA;
//! - the VMA forbids the access, or has a protection key, which only the map can decide;
//! - the VMA has no owner of private pages yet;
//! - a page of a file must be read, because calls would spin for the VMA's lock during the read.

use crate::process::fault::{Blocking, Step};
use crate::process::handle::Process;
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::process::signal::Access;
use crate::vma::Vma;

impl<P: Platform> Process<P> {
    /// Switches the process to lockless faults. Call it before threads start to fault while others
    /// change the map.
    ///
    /// Calls become slower, because they change the tree under concurrent readers. The switch also
    /// happens by itself when a fault first has to wait for a call.
    pub fn expect_threads(&self) {
        self.mm.begin_lockless();
    }
}

impl<P: Platform> Mm<P> {
    pub(super) fn begin_lockless(&self) {
        if self.lockless.map().is_some() {
            return;
        }
        let mut space = self.space.write();
        // SAFETY: the map of this process, borrowed through its lock.
        unsafe { self.lockless.begin(&mut space) };
    }

    /// Handles the fault without the lock of the address space. Returns `false` if the caller must
    /// retry with the lock. Always inlined, as [`handle`](Self::handle): this is the hot path.
    #[inline(always)]
    pub(super) fn handle_lockless(&self, page: u64, access: Access) -> bool {
        let Some(map) = self.lockless.map() else {
            return false;
        };
        let Some(held) = map.hold(page) else {
            return false;
        };
        let area = held.area();
        if !vma_permits(area.vma, access) || self.is_owned_by_reading(&area, page) {
            return false;
        }
        loop {
            match self.handle_pte(&area, page, access, Blocking::No) {
                Ok(Step::Done) => return true,
                Ok(Step::Again) => {}
                Ok(Step::NeedsWriteLock) | Err(_) => return false,
            }
        }
    }
}

/// Returns `true` if the VMA's flags alone permit the access.
fn vma_permits(vma: &Vma, access: Access) -> bool {
    super::may_access(vma.flags, access) && vma.flags.pkey() == 0
}
