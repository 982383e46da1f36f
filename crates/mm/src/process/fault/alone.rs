//! Faults without the lock of the address space.
//!
//! The area is found under RCU and held by its own lock ([`SharedMap::hold`](crate::SharedMap::hold)); what is left to be done concerns a page of this area, the cache of its file, and one table.
//! So a fault waits for no call that changes other areas, and no such call for it. It is taken with the lock of the address space, from the start, when
//!
//! - nothing is mapped there (a stack may grow), or a call is changing the area;
//! - the area allows no such access, or has a protection key: then more than the area decides;
//! - it has no owner of private pages yet;
//! - a page of a file must be read, for which calls should not have to wait.

use crate::process::fault::{Patience, Step};
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::process::signal::Access;
use crate::space::vma::Vma;

impl<P: Platform> Mm<P> {
    /// Takes a fault; false: it is to be taken with the lock.
    pub(super) fn handle_alone(&self, page: u64, access: Access) -> bool {
        let Some(held) = self.map.hold(page) else {
            return false;
        };
        let area = held.area();
        if !is_enough(area.vma, access) {
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
