//! What a machine is made of, and who brings it.

use lock_api::{RawMutex, RawRwLock};
use samara_paging::{Format, FrameAllocator, Invalidate, PhysMem, Reclaim};

/// All that the owner of a machine chooses: the format of its page tables, where frames come from, how walks are waited for, how
/// processors are told to forget translations, and the locks.
///
/// Where every allocation may fail, locks must not need memory when a thread waits. Those of a kernel do not, nor does the feature `hosted`'s `HostLock`;
/// `parking_lot`'s, as in the example, end the program when there is none.
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
    /// How processors write page tables down.
    type Format: Format;
    /// Where frames come from, and where they are read and written.
    type Backing: FrameAllocator + PhysMem + Send + Sync;
    /// How the tables' walks are waited for.
    type Reclaim: Reclaim + Send + Sync;
    /// How processors are told to forget.
    type Tlb: Invalidate + Send + Sync;
    /// Locks that are held for a short time: of a file's pages, of the lists of a machine.
    type Mutex: RawMutex + Send + Sync;
    /// The lock of an address space.
    type RwLock: RawRwLock + Send + Sync;

    /// The node that a frame is of, 0 to 63. A machine of one node has all on the first.
    fn node(phys: u64) -> u32 {
        let _ = phys;
        0
    }
}
