//! Faults without the lock of the address space.
//!
//! The area is found under RCU and held by its own lock ([`SharedMap::hold`](crate::SharedMap::hold)); what is left to be done concerns a page of
//! this area, the cache of its file, and one table. So a fault waits for no call that changes other areas, and no such call for it. It is taken with
//! the lock of the address space, from the start, when
//!
//! - nothing is mapped there (a stack may grow), or a call is changing the area;
//! - the area allows no such access, or has a protection key: then more than the area decides;
//! - it has no owner of private pages yet;
//! - a page of a file must be read, for which calls should not have to wait.

use crate::process::fault::{Blocking, Step};
use crate::process::handle::Process;
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::process::signal::Access;
use crate::space::vma::Vma;

impl<P: Platform> Process<P> {
    /// Says that several threads are about to fault, and calls to change other areas meanwhile: from now on such faults take no lock of the address
    /// space. Calls cost more then, since they change the map beside readers. It comes by itself when a fault has to wait
    /// for a call for the first time.
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
        // SAFETY: its own map.
        unsafe { self.lockless.begin(&mut space) };
    }

    /// Takes a fault; false: it is to be taken with the lock. In line, as [`handle`](Self::handle) is: these faults are the ones that are to be quick.
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

/// Whether an area by itself tells that an access is allowed.
fn vma_permits(vma: &Vma, access: Access) -> bool {
    super::may_access(vma.flags, access) && vma.flags.pkey() == 0
}
