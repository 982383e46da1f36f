//! A machine: the memory that processes share, and the list of processes.
//!
//! Each list is behind a lock of its own, inside which no other lock is taken. Processes are
//! visited without the list's lock.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
#[cfg(target_has_atomic = "64")]
use core::sync::atomic::AtomicU64;
use core::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(target_has_atomic = "64"))]
use portable_atomic::AtomicU64;

use lock_api::Mutex;
use samara_paging::{Asid, Context, Error, Invalidate, Kind, Memory, PageTables, Physical};

use crate::errno::Errno;
use crate::heap::counted::Counted;
use crate::object::new_object;
use crate::process::fault::SwapArea;
use crate::process::mm::{Mm, Tables};
use crate::process::needed_pages::NeededPages;
use crate::process::platform::Platform;

/// Physical memory, the cached pages of files, and the processes that use them.
///
/// This is a handle, which can be cloned. The machine lives as long as a handle or a process.
pub struct Machine<P: Platform> {
    inner: Counted<Inner<P>>,
    /// The kernel's tables. The handles of the machine inside these tables, and inside tables under
    /// them, have `None` here, so no handle keeps itself alive.
    kernel: Option<Counted<Tables<P>>>,
}

struct Inner<P: Platform> {
    /// Unique among all machines.
    number: u64,
    physical: Physical<P::Backing, P::Reclaim>,
    tlb: P::Tlb,
    /// All processes, sorted by number.
    processes: Mutex<P::Mutex, Vec<Counted<Mm<P>>>>,
    next: AtomicU32,
    /// The address of the shared 2 MiB of zeroes, or [`NONE`] until it is first needed. Atomic.
    huge_zero: AtomicU64,
    /// The swap area, if there is one.
    swap: Mutex<P::Mutex, Option<Counted<SwapArea>>>,
    /// The frames of pages that KSM has merged, sorted.
    merged: Mutex<P::Mutex, Vec<u64>>,
    /// The frames with needed clean pages.
    needed_pages: NeededPages<P>,
}

impl<P: Platform> Drop for Inner<P> {
    fn drop(&mut self) {
        let block = *self.huge_zero.get_mut();
        if block != NONE {
            self.physical.put_block(block, HUGE_ORDER);
        }
    }
}

/// Not an address of a frame, since memory may begin at 0.
const NONE: u64 = u64::MAX;

/// The order of a huge page in the buddy allocator.
pub(super) const HUGE_ORDER: u32 = 9;

/// The number of the kernel's tables. Processes count from 1.
const KERNEL_ASID: Asid = 0;

/// The number of frames in each use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MachineStats {
    /// Frames of page tables of processes, including their roots.
    pub tables: u64,
    /// Frames of page tables of the [kernel](Machine::kernel), including its root.
    pub kernel_tables: u64,
    /// Frames of private memory, without the zero page. Frames that the kernel maps as
    /// [`Source::Special`](samara_paging::Source::Special) are not counted. Its other frames count
    /// here if they are of [`Kind::Anon`], and below if they are of [`Kind::File`].
    pub anon: u64,
    /// Frames of files and of shared memory.
    pub file: u64,
    /// Last-level tables that several processes share.
    pub shared_tables: u64,
}

impl<P: Platform> Machine<P> {
    /// Creates a machine over this memory. It sends invalidations to `tlb`.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn new(physical: Physical<P::Backing, P::Reclaim>, tlb: P::Tlb) -> Result<Self, Errno> {
        let inner = Inner {
            number: new_object(),
            physical,
            tlb,
            processes: Mutex::new(Vec::new()),
            next: AtomicU32::new(1),
            huge_zero: AtomicU64::new(NONE),
            swap: Mutex::new(None),
            merged: Mutex::new(Vec::new()),
            needed_pages: NeededPages::new(),
        };
        Ok(Machine {
            inner: Counted::try_new(inner)?,
            kernel: None,
        })
    }

    /// Creates a machine whose processes share the kernel's half of the address space.
    ///
    /// `ranges` (in bytes, each end exclusive, [`u64::MAX`] for the end of all addresses) are all
    /// ranges in which the kernel will ever map something: see [`PageTables::new_kernel`].
    /// [`kernel`](Self::kernel) returns these tables.
    ///
    /// # Errors
    /// `ENOMEM`; `EINVAL`: a range is not in the upper half.
    ///
    /// ```
    /// # use samara_mm::process::{Machine, Platform, Process};
    /// # use samara_mm::{Config, Errno, Layout, Limits};
    /// # use samara_paging::{Attrs, PageSize, Physical, Source};
    /// # fn boot<P: Platform>(physical: Physical<P::Backing, P::Reclaim>, tlb: P::Tlb) -> Result<(), Errno> {
    /// const DIRECT_MAP: u64 = 0xffff_8880_0000_0000;
    /// const CODE: u64 = 0xffff_ffff_8000_0000;
    /// let ranges = [DIRECT_MAP..DIRECT_MAP + (512 << 30), CODE..u64::MAX];
    /// let machine = Machine::<P>::with_kernel(physical, tlb, &ranges)?;
    ///
    /// // The first 4 GiB of memory, mapped without counts, before the root is loaded.
    /// let attrs = Attrs::READ | Attrs::WRITE | Attrs::GLOBAL;
    /// let kernel = machine.kernel().ok_or(Errno::EINVAL)?;
    /// for at in (0..4).map(|gigabyte| gigabyte << 30) {
    ///     let mapped = kernel.map(DIRECT_MAP + at, PageSize::Giant, Source::Special(at), attrs, machine.tlb());
    ///     mapped.map_err(|_| Errno::ENOMEM)?;
    /// }
    ///
    /// // Its root has the kernel's half from the start.
    /// let init = Process::new(&machine, Config::default(), Limits::default(), Layout::default())?;
    /// assert_ne!(init.root(), kernel.root());
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_kernel(
        physical: Physical<P::Backing, P::Reclaim>,
        tlb: P::Tlb,
        ranges: &[Range<u64>],
    ) -> Result<Self, Errno> {
        let mut machine = Self::new(physical, tlb)?;
        let tables = PageTables::new_kernel(machine.clone(), KERNEL_ASID, ranges);
        let tables = tables.map_err(|error| match error {
            Error::Misaligned => Errno::EINVAL,
            _ => Errno::ENOMEM,
        })?;
        machine.kernel = Some(Counted::try_new(tables)?);
        Ok(machine)
    }

    /// Returns the kernel's tables, or `None` if the machine was made [without](Self::new). The
    /// kernel maps and unmaps its own memory through them, in its half of all address spaces. They
    /// live as long as a handle of the machine or a process. Their invalidations have the number 0,
    /// which no process has.
    pub fn kernel(&self) -> Option<&PageTables<P::Format, Self>> {
        self.kernel.as_deref()
    }

    /// Creates empty tables of a process, under the kernel's if there are any.
    pub(super) fn make_tables(&self) -> Result<Tables<P>, Errno> {
        let number = self.next_number();
        let tables = match self.kernel() {
            Some(kernel) => PageTables::new_process(kernel, number),
            None => PageTables::new(self.clone(), number),
        };
        tables.map_err(|_| Errno::ENOMEM)
    }

    pub(super) fn number(&self) -> u64 {
        self.inner.number
    }

    /// Returns the physical memory.
    pub fn physical(&self) -> &Physical<P::Backing, P::Reclaim> {
        &self.inner.physical
    }

    /// Returns the receiver of invalidations.
    pub fn tlb(&self) -> &P::Tlb {
        &self.inner.tlb
    }

    pub(super) fn swap_slot(&self) -> &Mutex<P::Mutex, Option<Counted<SwapArea>>> {
        &self.inner.swap
    }

    pub(super) fn merged_slot(&self) -> &Mutex<P::Mutex, Vec<u64>> {
        &self.inner.merged
    }

    pub(super) fn needed_pages(&self) -> &NeededPages<P> {
        &self.inner.needed_pages
    }

    /// Counts the frames in each use. Linear in the frames and in the kernel's tables: a walk
    /// counts the kernel's tables, and the rest belongs to processes.
    pub fn stats(&self) -> MachineStats {
        let physical = self.physical();
        let census = physical.frames().census();
        let kernel_tables = self.kernel().map_or(0, PageTables::table_frames);
        MachineStats {
            tables: physical.table_frames().saturating_sub(kernel_tables) as u64,
            kernel_tables: kernel_tables as u64,
            anon: census.anon,
            // Without the zero pages.
            file: census
                .file
                .saturating_sub(1 + self.huge_zero().map_or(0, |_| 1 << HUGE_ORDER)),
            shared_tables: physical.shared_tables() as u64,
        }
    }

    /// Returns the huge zero page, if it exists.
    fn huge_zero(&self) -> Option<u64> {
        // Acquire: pairs with the release in `make_huge_zero`, after the block was cleared.
        Some(self.inner.huge_zero.load(Ordering::Acquire)).filter(|&block| block != NONE)
    }

    /// Returns the shared huge zero page, or `None` if there is no such block. It stays as long as
    /// the machine. Out of line, so that faults of small pages have more registers.
    #[inline(never)]
    pub(super) fn make_huge_zero(&self) -> Option<u64> {
        if let Some(block) = self.huge_zero() {
            return Some(block);
        }
        let physical = self.physical();
        let block = physical.alloc_zeroed_block(HUGE_ORDER, Kind::File).ok()?;
        let shared = &self.inner.huge_zero;
        // Release: the zeroes come before the address. Acquire: as above.
        match shared.compare_exchange(NONE, block, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(block),
            Err(first) => {
                physical.put_block(block, HUGE_ORDER);
                Some(first)
            }
        }
    }

    /// Returns a new number for a process. Numbers count up, and start again at 1 after the
    /// highest.
    fn next_number(&self) -> Asid {
        loop {
            // Relaxed: numbers only have to differ.
            let number = self.inner.next.fetch_add(1, Ordering::Relaxed);
            if number != KERNEL_ASID {
                return number;
            }
        }
    }

    /// Adds a process to the list.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn add_process(&self, mm: &Counted<Mm<P>>) -> Result<(), Errno> {
        let mut processes = self.inner.processes.lock();
        processes.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let number = mm.asid();
        // Usually it is the highest. A search would touch processes that are no longer in the
        // processor's cache.
        let highest = processes.last().is_none_or(|last| last.asid() < number);
        let at = if highest {
            processes.len()
        } else {
            processes.partition_point(|other| other.asid() < number)
        };
        processes.insert(at, mm.clone());
        Ok(())
    }

    /// Removes a process from the list.
    pub(super) fn remove_process(&self, number: Asid) {
        let mut processes = self.inner.processes.lock();
        let at = processes.partition_point(|other| other.asid() < number);
        if processes.get(at).is_some_and(|mm| mm.asid() == number) {
            let mm = processes.remove(at);
            // Dropped without the lock, because it may free much.
            drop(processes);
            drop(mm);
        }
    }

    /// Calls `look` with all processes. None is added or removed during the call.
    pub(super) fn with_processes<R>(&self, look: impl FnOnce(&[Counted<Mm<P>>]) -> R) -> R {
        look(&self.inner.processes.lock())
    }

    /// Returns the process with this number, or the first above it.
    pub(crate) fn process_from(&self, number: Asid) -> Option<Counted<Mm<P>>> {
        let processes = self.inner.processes.lock();
        let at = processes.partition_point(|mm| mm.asid() < number);
        processes.get(at).cloned()
    }

    /// Visits every process, sorted by number, without a lock of the machine. A child has a higher
    /// number than its parent, and is in the list before the fork ends. So it is visited after its
    /// parent.
    pub(super) fn each_process(&self, visit: impl FnMut(&Mm<P>)) {
        self.each_process_that(|_| true, visit);
    }

    /// Visits the processes for which `is_wanted` returns `true` when their turn comes. `is_wanted`
    /// is called with the list locked.
    pub(super) fn each_process_that(
        &self,
        is_wanted: impl Fn(&Mm<P>) -> bool,
        mut visit: impl FnMut(&Mm<P>),
    ) {
        let mut next = 0;
        loop {
            let mm = {
                let processes = self.inner.processes.lock();
                let at = processes.partition_point(|mm| mm.asid() < next);
                match processes.iter().skip(at).find(|mm| is_wanted(mm)) {
                    Some(mm) => mm.clone(),
                    None => return,
                }
            };
            visit(&mm);
            let Some(after) = mm.asid().checked_add(1) else {
                return;
            };
            next = after;
        }
    }
}

impl<P: Platform> Clone for Machine<P> {
    fn clone(&self) -> Self {
        Machine {
            inner: self.inner.clone(),
            kernel: self.kernel.clone(),
        }
    }
}

impl<P: Platform> Memory for Machine<P> {
    type Backing = P::Backing;
    type Reclaim = P::Reclaim;

    fn physical(&self) -> &Physical<P::Backing, P::Reclaim> {
        &self.inner.physical
    }

    fn ended(&self, context: &Context) {
        self.tlb().ended(context);
    }
}

impl<P: Platform> fmt::Debug for Machine<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine")
            .field("tables", &self.physical().table_frames())
            .finish_non_exhaustive()
    }
}
