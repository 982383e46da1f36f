//! The parts of a machine that its client provides.

use lock_api::{RawMutex, RawRwLock};
use samara_paging::{Format, FrameAllocator, Invalidate, PhysMem, Reclaim};

/// The choices of a machine's client: the format of its page tables, the source of frames, how
/// walks are waited for, how processors invalidate translations, and the locks.
///
/// If every allocation may fail, a lock must not need memory when a thread waits. Locks of kernels
/// do not, and `HostLock` of the feature `hosted` does not. `parking_lot`'s locks, as in the
/// example, end the program without memory.
///
/// ```
/// use samara_mm::process::Platform;
/// use samara_paging::{Arena, Grace, HeapBytes, format::X86_64};
///
/// /// Frames on the heap, no processor that would remember anything.
/// struct Hosted;
///
/// impl Platform for Hosted {
///     type Format = X86_64;
///     type Backing = Arena<HeapBytes>;
///     type Reclaim = Grace;
///     type Tlb = ();
///     type Mutex = parking_lot::RawMutex;
///     type RwLock = parking_lot::RawRwLock;
/// }
/// ```
pub trait Platform: Sized + 'static {
    /// The format of page tables.
    type Format: Format;
    /// The source of frames, and access to their bytes.
    type Backing: FrameAllocator + PhysMem + Send + Sync;
    /// The way to wait for walks of the tables.
    type Reclaim: Reclaim + Send + Sync;
    /// The receiver of invalidations.
    type Tlb: Invalidate + Send + Sync;
    /// The lock of short critical sections: a file's pages, the lists of a machine.
    type Mutex: RawMutex + Send + Sync;
    /// The lock of an address space.
    type RwLock: RawRwLock + Send + Sync;

    /// Returns the NUMA node of a frame, 0 to 63. A machine of one node has all frames on node 0.
    fn node(phys: u64) -> u32 {
        let _ = phys;
        0
    }
}
