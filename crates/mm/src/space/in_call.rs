//! The end of a call, when faults find what it has changed.

use crate::space::AddressSpace;

/// A call under way for an owner of the pages. It ends when this is dropped: also when the owner panics.
pub(crate) struct InCall<'a>(pub(crate) &'a mut AddressSpace);

impl Drop for InCall<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.end_call();
    }
}

impl AddressSpace {
    /// Opens the locks of all areas that a call has closed.
    #[inline]
    pub(crate) fn end_call(&mut self) {
        self.areas.open_locks();
    }
}
