//! The TLB of one virtual processor, and its misses.

use core::fmt;
use core::ptr::NonNull;

use samara_paging::Attrs;

use super::entries::{Entries, EntryTable};
use super::running::Running;
use super::vcpus::{Slot, TellsVcpus};
use crate::errno::Errno;
use crate::flags::PAGE_SIZE;
use crate::heap::counted::Counted;
use crate::pages::NoPages;
use crate::process::handle::Process;
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::process::signal::{Access, Fault};

/// The reason why an access of the guest fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The signal that the guest's access raises, or lack of memory.
    Fault(Fault),
    /// The access is allowed, but its page is not memory of the machine. The number is the physical
    /// address of the byte: registers of a [device](crate::process::PageFrame), which the emulator
    /// reads or writes itself.
    Device(u64),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Fault(fault)
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Fault(fault) => fault.fmt(f),
            Stop::Device(phys) => write!(f, "a device at {phys:#x}"),
        }
    }
}

impl core::error::Error for Stop {}

/// The translation cache of one virtual processor of an emulator. Guest accesses take a few
/// nanoseconds, and no lock.
///
/// Each thread of the guest has a `SoftTlb`. It executes the guest's instructions within
/// [`run`](Self::run), whose [`Running`] loads, stores and fetches. It handles the guest's system
/// calls outside of it, by [`Process::perform`] and the other methods of the process. The process's
/// pages and tables stay as long as its `SoftTlb`s, also when the `Process` is dropped or
/// [exits](Process::exit).
///
/// It has 1,024 entries, one for each page number modulo 1,024, on 32 KiB of the heap. The entries
/// stay between runs.
///
/// # What other threads see
///
/// When a call returns that takes pages away, protects, copies or moves them, no virtual processor
/// uses its entries of them any more. None is in the middle of an access that does. For this the
/// call waits for each virtual processor that is within `run` on the same process, until its next
/// access or [`poll`](Running::poll). It does not wait for one outside of `run`. So within `run`
///
/// - do not block, and [`poll`](Running::poll) where many instructions pass without an access;
/// - do not call the process, or others of its machine: the call could wait for this virtual
///   processor itself. With the feature `hosted`, calls, faults and forks of the process return
///   `EDEADLK` or [`Fault::Deadlock`] there, as from an [atomic operation](Process::atomic_u32).
///
/// Aligned words that several virtual processors use concurrently are loaded and stored in one
/// piece, without any order among them. The guest's fences are fences of the host.
///
/// ```
/// # #[cfg(not(feature = "hosted"))]
/// # fn main() {}
/// # #[cfg(feature = "hosted")]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use samara_mm::process::{Fault, HostLock, Hosted, Machine, Process, SoftTlb, Stop, Vcpus};
/// use samara_mm::{Config, Layout, Limits, MmapOptions, Prot};
/// use samara_paging::{Arena, HeapBytes};
///
/// type Emulator = Hosted<HeapBytes, Vcpus<HostLock>>;
/// let machine = Machine::<Emulator>::over_with(Arena::on_heap(1024)?, Vcpus::new(8)?)?;
/// let process = Process::new(&machine, Config::default(), Limits::default(), Layout::default())?;
/// let addr = process.mmap(&MmapOptions::anonymous(0x2000).prot(Prot::READ | Prot::WRITE))?;
///
/// let mut vcpu = SoftTlb::new(&process)?;
/// let sum = vcpu.run(|memory| {
///     memory.store(addr, 1_u64)?; // a fault, and a miss
///     memory.store(addr + 8, 2_u32)?; // a hit
///     Ok::<u64, Stop>(memory.load::<u64>(addr)? + u64::from(memory.load::<u32>(addr + 8)?))
/// });
/// assert_eq!(sum, Ok(3));
///
/// process.munmap(addr, 0x1000)?;
/// let gone = vcpu.run(|memory| memory.load::<u64>(addr));
/// assert_eq!(gone, Err(Stop::Fault(Fault::MAPERR)));
/// # Ok(())
/// # }
/// ```
pub struct SoftTlb<P>
where
    P: Platform,
    P::Tlb: TellsVcpus<P::Mutex>,
{
    mm: Counted<Mm<P>>,
    entries: EntryTable,
    /// Its slot in the machine's `Vcpus`, which live as long as `mm`.
    slot: NonNull<Slot<P::Mutex>>,
}

// SAFETY: several threads use the slot anyway, and the rest can be sent.
unsafe impl<P> Send for SoftTlb<P>
where
    P: Platform,
    P::Tlb: TellsVcpus<P::Mutex>,
{
}

impl<P> SoftTlb<P>
where
    P: Platform,
    P::Tlb: TellsVcpus<P::Mutex>,
{
    /// Creates a virtual processor of this process, without entries.
    ///
    /// # Errors
    /// `ENOMEM`. `EAGAIN` if all slots of the machine's [`Vcpus`](super::Vcpus) are taken.
    pub fn new(process: &Process<P>) -> Result<Self, Errno> {
        let mm = process.mm.clone();
        let entries = Entries::allocate()?;
        let slot = NonNull::from(mm.machine.tlb().vcpus().take(mm.tables.context())?);
        Ok(SoftTlb { mm, entries, slot })
    }

    /// Runs the guest. `work` does its loads, stores and fetches through [`Running`], and returns
    /// when the guest makes a system call, takes a signal, or has run long enough.
    ///
    /// Entering and leaving takes some 10 ns, so `work` should execute more than one instruction.
    /// The [type](Self) says what `work` must not do.
    #[inline]
    pub fn run<T>(&mut self, work: impl FnOnce(&mut Running<'_, P>) -> T) -> T {
        let mm = &*self.mm;
        // SAFETY: the machine's `Vcpus` live as long as `mm`, and do not move (`TellsVcpus`).
        let slot = unsafe { self.slot.as_ref() };
        let entries = self.entries.entries();
        mm.atomic_ops.within(mm.machine.number(), |operation| {
            work(&mut Running::enter(mm, slot, entries, operation))
        })
    }
}

impl<P> Drop for SoftTlb<P>
where
    P: Platform,
    P::Tlb: TellsVcpus<P::Mutex>,
{
    fn drop(&mut self) {
        // SAFETY: as in `run`.
        let slot = unsafe { self.slot.as_ref() };
        let vcpus = self.mm.machine.tlb().vcpus();
        vcpus.give_back(slot, self.mm.tables.context());
    }
}

impl<P> fmt::Debug for SoftTlb<P>
where
    P: Platform,
    P::Tlb: TellsVcpus<P::Mutex>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SoftTlb")
            .field("asid", &self.mm.asid())
            .finish_non_exhaustive()
    }
}

impl<P: Platform> Mm<P> {
    /// Makes an entry for the page at `addr`, after a fault if necessary.
    ///
    /// Preconditions: the virtual processor is outside of its section.
    ///
    /// # Errors
    /// The reason why the access fails.
    pub(super) fn refill(
        &self,
        entries: &mut Entries,
        addr: u64,
        access: Access,
    ) -> Result<(), Stop> {
        let mut need = Attrs::READ;
        if access.contains(Access::WRITE) {
            need = Attrs::WRITE;
        } else if access.contains(Access::EXEC) {
            need = Attrs::EXEC;
        }
        let (phys, attrs) = loop {
            match self.tables.refill(addr, need) {
                Ok(found) => break found,
                Err(_) => self.fault_with(addr, access, &mut NoPages)?,
            }
        };
        let data = access.intersects(Access::READ | Access::WRITE);
        // The entry allows reading, but the key of execute-only VMAs forbids it. Tested after the
        // look at the entry: if the VMA changes later, the entry changes, too, with an
        // invalidation.
        let keyed = attrs.pkey() != 0 || self.has_execute_only();
        let execute_only = keyed && self.is_execute_only_now(addr);
        if execute_only && data {
            return Err(Fault::PKUERR.into());
        }
        let physical = self.machine.physical();
        if !physical.frames().contains(phys) {
            return Err(Stop::Device(phys));
        }
        let forbidden = match execute_only {
            true => Attrs::READ | Attrs::WRITE,
            false => Attrs::empty(),
        };
        let page = physical.to_virt(phys & !(PAGE_SIZE - 1));
        entries.put(addr, page, attrs - forbidden);
        Ok(())
    }
}
