//! The memory that processes have in common.

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
use crate::process::fault::SwapArea;
use crate::process::mm::{Mm, Tables};
use crate::process::needed_pages::NeededPages;
use crate::process::platform::Platform;
use crate::space::vma::new_object;

/// Physical memory, the pages of files, and the processes that use them: a handle, which can be cloned. What it stands for lives as long as
/// a handle or a process does.
pub struct Machine<P: Platform> {
    inner: Counted<Inner<P>>,
    /// The tables of the kernel. Their own handle of the machine, and those of the tables under them, have none here: no handle keeps itself alive.
    kernel: Option<Counted<Tables<P>>>,
}

struct Inner<P: Platform> {
    /// Unlike that of any other machine.
    number: u64,
    physical: Physical<P::Backing, P::Reclaim>,
    tlb: P::Tlb,
    /// Every process, by its number, upwards.
    processes: Mutex<P::Mutex, Vec<Counted<Mm<P>>>>,
    next: AtomicU32,
    /// 2 MiB of zeroes for whoever reads memory that asks for huge pages, once somebody has; [`NONE`]: nobody yet.
    huge_zero: AtomicU64,
    /// Where pages go that leave memory.
    swap: Mutex<P::Mutex, Option<Counted<SwapArea>>>,
    /// Frames that equal pages were put on, upwards.
    merged: Mutex<P::Mutex, Vec<u64>>,
    /// Frames with clean pages that are needed.
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

/// No address of a frame: memory may begin at 0.
const NONE: u64 = u64::MAX;

/// Of a huge page, as allocators count.
pub(super) const HUGE_ORDER: u32 = 9;

/// Of the kernel's tables among those of processes, which count from 1.
const KERNEL_ASID: Asid = 0;

/// How many frames are used for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MachineStats {
    /// Frames that hold page tables of a process, its root included.
    pub tables: u64,
    /// Frames that hold page tables of the [kernel](Machine::kernel), its root included.
    pub kernel_tables: u64,
    /// Frames of private memory; the zero page is not counted. What the kernel maps as [`Source::Special`](samara_paging::Source::Special) is not counted
    /// either; of its other pages, those of [`Kind::Anon`] are here, and those of [`Kind::File`] below.
    pub anon: u64,
    /// Frames of files and of shared memory.
    pub file: u64,
    /// Last-level tables that more than one process uses.
    pub shared_tables: u64,
}

impl<P: Platform> Machine<P> {
    /// A machine over this memory; `tlb` is told what the processors are to forget.
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

    /// A machine whose processes all have the kernel's half of the address space in common. `ranges` (in bytes, each end exclusive, [`u64::MAX`] for the end of
    /// all addresses) are where the kernel will ever map something: see [`PageTables::new_kernel`], whose tables [`kernel`](Self::kernel) gives.
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

    /// Returns the kernel's tables, through which it maps and unmaps its own memory in its half of all address spaces; none if the machine was made
    /// [without](Self::new). They live as long as a handle of the machine or a process does. Invalidations of them are told with the number 0, which no
    /// process has.
    pub fn kernel(&self) -> Option<&PageTables<P::Format, Self>> {
        self.kernel.as_deref()
    }

    /// Empty tables of a process, under the kernel's if there are any.
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

    /// The memory itself.
    pub fn physical(&self) -> &Physical<P::Backing, P::Reclaim> {
        &self.inner.physical
    }

    /// Who is told what the processors are to forget.
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

    /// How many frames are used for what. Linear in the frames, and in the kernel's tables: these are counted by a walk, and those of processes are the others.
    pub fn stats(&self) -> MachineStats {
        let physical = self.physical();
        let census = physical.frames().census();
        let kernel_tables = self.kernel().map_or(0, PageTables::table_frames);
        MachineStats {
            tables: physical.table_frames().saturating_sub(kernel_tables) as u64,
            kernel_tables: kernel_tables as u64,
            anon: census.anon,
            // Without the pages of zeroes.
            file: census
                .file
                .saturating_sub(1 + self.huge_zero().map_or(0, |_| 1 << HUGE_ORDER)),
            shared_tables: physical.shared_tables() as u64,
        }
    }

    /// The huge page of zeroes, if it is there.
    fn huge_zero(&self) -> Option<u64> {
        // Acquire: whoever put it there had cleared it.
        Some(self.inner.huge_zero.load(Ordering::Acquire)).filter(|&block| block != NONE)
    }

    /// A huge page of zeroes that all have in common; none if there is no such block. It stays as long as the machine does. A call, so that
    /// faults of small pages have more registers.
    #[inline(never)]
    pub(super) fn make_huge_zero(&self) -> Option<u64> {
        if let Some(block) = self.huge_zero() {
            return Some(block);
        }
        let physical = self.physical();
        let block = physical.alloc_zeroed_block(HUGE_ORDER, Kind::File).ok()?;
        let shared = &self.inner.huge_zero;
        // Release: the zeroes come before the number. Acquire: as above.
        match shared.compare_exchange(NONE, block, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(block),
            Err(first) => {
                physical.put_block(block, HUGE_ORDER);
                Some(first)
            }
        }
    }

    /// A number for a process, which invalidations are told with: they count up, and begin anew with 1 after all that there are.
    fn next_number(&self) -> Asid {
        loop {
            // Relaxed: only that numbers differ matters.
            let number = self.inner.next.fetch_add(1, Ordering::Relaxed);
            if number != KERNEL_ASID {
                return number;
            }
        }
    }

    /// Makes a process known to [`each_process`](Self::each_process).
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn add_process(&self, mm: &Counted<Mm<P>>) -> Result<(), Errno> {
        let mut processes = self.inner.processes.lock();
        processes.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let number = mm.asid();
        // Mostly it is the highest. To search is to look at processes that nobody has used for long.
        let highest = processes.last().is_none_or(|last| last.asid() < number);
        let at = if highest {
            processes.len()
        } else {
            processes.partition_point(|other| other.asid() < number)
        };
        processes.insert(at, mm.clone());
        Ok(())
    }

    /// The process is going.
    pub(super) fn remove_process(&self, number: Asid) {
        let mut processes = self.inner.processes.lock();
        let at = processes.partition_point(|other| other.asid() < number);
        if processes.get(at).is_some_and(|mm| mm.asid() == number) {
            let mm = processes.remove(at);
            // Dropped without the lock: what it frees may be much.
            drop(processes);
            drop(mm);
        }
    }

    /// Looks at all processes at once; none comes or goes meanwhile.
    pub(super) fn with_processes<R>(&self, look: impl FnOnce(&[Counted<Mm<P>>]) -> R) -> R {
        look(&self.inner.processes.lock())
    }

    /// The process with this number, or the first above.
    pub(crate) fn process_from(&self, number: Asid) -> Option<Counted<Mm<P>>> {
        let processes = self.inner.processes.lock();
        let at = processes.partition_point(|mm| mm.asid() < number);
        processes.get(at).cloned()
    }

    /// Visits every process, upwards by number, without holding a lock of the machine's. One that is made meanwhile by a fork has a higher
    /// number than its parent and is entered before the fork ends, so that it is visited after its parent.
    pub(super) fn each_process(&self, visit: impl FnMut(&Mm<P>)) {
        self.each_process_that(|_| true, visit);
    }

    /// Visits those that are asked for, when it is their turn. The machine's list is locked meanwhile.
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
