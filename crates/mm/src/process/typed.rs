//! System calls with typed arguments.

use crate::abi::{Advice, AttachFlags, LockAllFlags, LockFlags, Prot, SyncFlags};
use crate::call::{Call, ShmSegment};
use crate::calls::typed::{MmapOptions, MremapOptions, typed_calls};
use crate::config::Layout;
use crate::errno::Errno;
use crate::heap::Counted;
use crate::process::handle::Process;
use crate::process::platform::Platform;

/// The system calls by name, as [`AddressSpace`](crate::AddressSpace) has them.
#[allow(
    clippy::missing_errors_doc,
    reason = "said once, there: each call's are in its manual page"
)]
impl<P: Platform> Process<P> {
    fn layout(&self) -> Layout {
        self.with_space(|space| space.layout())
    }

    typed_calls!(self, &self);
}
