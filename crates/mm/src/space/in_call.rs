//! The end of a call, from which faults find what it has changed.

use crate::space::AddressSpace;

/// A call under way for an owner of the pages. Dropping this ends the call, even if the owner
/// panics.
pub(crate) struct InCall<'a>(pub(crate) &'a mut AddressSpace);

impl Drop for InCall<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.end_call();
    }
}

impl AddressSpace {
    /// Opens the locks of all VMAs that a call has closed.
    #[inline]
    pub(crate) fn end_call(&mut self) {
        self.areas.open_locks();
    }
}
