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

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::process::fault::{Patience, Step};
use crate::process::mm::{Mm, Process};
use crate::process::platform::Platform;
use crate::process::signal::Access;
use crate::space::AddressSpace;
use crate::space::shared::SharedMap;
use crate::space::vma::Vma;

/// The map of a process as faults see it that take no lock: there from the first time on that a fault would have waited for a call. Before, calls change the
/// map in place, which is quicker.
pub(in crate::process) struct Beside {
    ready: AtomicBool,
    map: UnsafeCell<Option<SharedMap>>,
}

// SAFETY: `map` is written once, by `begin`, before `ready` says so; after that it is only read.
unsafe impl Sync for Beside {}

impl Beside {
    pub(in crate::process) fn new() -> Self {
        Beside {
            ready: AtomicBool::new(false),
            map: UnsafeCell::new(None),
        }
    }

    #[inline]
    pub(in crate::process) fn map(&self) -> Option<&SharedMap> {
        // Acquire: pairs with the release in `begin`.
        if !self.ready.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: written before, and never again.
        unsafe { (*self.map.get()).as_ref() }
    }

    /// # Safety
    /// `space` is the map of this process: its exclusive borrow is what keeps others out of here.
    unsafe fn begin(&self, space: &mut AddressSpace) {
        // Relaxed: whoever set it had the borrow before.
        if !self.ready.load(Ordering::Relaxed) {
            // SAFETY: one at a time, as the caller promises, and nobody reads before `ready` says so.
            unsafe { *self.map.get() = Some(space.share()) };
            self.ready.store(true, Ordering::Release);
        }
    }
}

impl<P: Platform> Process<P> {
    /// Says that several threads are about to fault, and calls to change other areas meanwhile: from now on such faults take no lock of the address
    /// space. Calls cost more then, since they change the map beside readers. It comes by itself when a fault has to wait
    /// for a call for the first time.
    pub fn expect_threads(&self) {
        self.mm.begin_beside();
    }
}

impl<P: Platform> Mm<P> {
    pub(super) fn begin_beside(&self) {
        if self.beside.map().is_some() {
            return;
        }
        let mut space = self.space.write();
        // SAFETY: its own map.
        unsafe { self.beside.begin(&mut space) };
    }

    /// Takes a fault; false: it is to be taken with the lock. In line, as [`handle`](Self::handle) is: these faults are the ones that are to be quick.
    #[inline(always)]
    pub(super) fn handle_alone(&self, page: u64, access: Access) -> bool {
        let Some(map) = self.beside.map() else {
            return false;
        };
        let Some(held) = map.hold(page) else {
            return false;
        };
        let area = held.area();
        if !is_enough(area.vma, access) || self.is_owned_by_reading(&area, page) {
            return false;
        }
        loop {
            match self.settle(&area, page, access, Patience::None) {
                Ok(Step::Done) => return true,
                Ok(Step::Again) => {}
                Ok(Step::Exclusive) | Err(_) => return false,
            }
        }
    }
}

/// Whether an area by itself tells that an access is allowed.
fn is_enough(vma: &Vma, access: Access) -> bool {
    super::may_access(vma.flags, access) && vma.flags.pkey() == 0
}
