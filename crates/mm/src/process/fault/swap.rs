//! Places in swap: what they are in the page tables, who counts them, and how pages go there and come back.
//!
//! A page in swap is a marker in its table, with the number of its place. Places are counted: a fork copies markers, and the child's count once more.
//! A page leaves memory with its area closed to faults, and the address space locked, so that a fault that has found a marker cannot find the same
//! one again for other content.
//!
//! Only private anonymous memory that one process has alone goes to swap; what several have stays, as with `MADV_PAGEOUT`.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{ControlFlow, Range};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use samara_paging::{Attrs, Change, Entry, Error, Kind, PageSize, Source, Write};

use super::{Step, allowed, readable, written};
use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, VmFlags};
use crate::heap::boxed::try_box;
use crate::heap::counted::Counted;
use crate::process::file::PAGE_BYTES;
use crate::process::machine::Machine;
use crate::process::mm::{Mm, Process};
use crate::process::platform::Platform;
use crate::process::signal::Fault;
use crate::space::vma::Vma;

/// Where pages go that leave memory: a disk, or memory elsewhere. Places are numbered from 0 on. Several threads may call it at once, not for one
/// place while it is written.
pub trait SwapDevice: Send + Sync {
    /// Fills a page with what was last written there.
    ///
    /// # Errors
    /// The program gets `SIGBUS`.
    fn read(&self, place: u32, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno>;

    /// Keeps a page.
    ///
    /// # Errors
    /// The page stays in memory.
    fn write(&self, place: u32, from: &[u8; PAGE_BYTES]) -> Result<(), Errno>;
}

/// A page that is in swap, as its marker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swapped {
    /// Its place.
    pub place: u32,
    /// It was written since this was last cleared.
    pub soft_dirty: bool,
}

/// Places that a marker can name.
const MOST: u32 = 1 << 30;

impl Swapped {
    /// Guards have the lowest bit.
    pub(crate) fn of(marker: u32) -> Option<Self> {
        (marker & 1 == 0).then_some(Swapped {
            place: marker >> 2,
            soft_dirty: marker & 2 != 0,
        })
    }

    pub(crate) fn marker(self) -> u32 {
        self.place << 2 | u32::from(self.soft_dirty) << 1
    }
}

/// A device, and how many entries of page tables name each of its places.
pub(crate) struct SwapArea {
    device: Box<dyn SwapDevice>,
    counts: Vec<AtomicU32>,
    /// Where the next free place is looked for.
    next: AtomicU32,
    /// Nothing goes there any more.
    off: AtomicBool,
}

impl SwapArea {
    pub(crate) fn new(device: Box<dyn SwapDevice>, places: u32) -> Result<Self, Errno> {
        if places > MOST {
            return Err(Errno::EINVAL);
        }
        let mut counts = Vec::new();
        counts
            .try_reserve_exact(places as usize)
            .map_err(|_| Errno::ENOMEM)?;
        counts.resize_with(places as usize, || AtomicU32::new(0));
        Ok(SwapArea {
            device,
            counts,
            next: AtomicU32::new(0),
            off: AtomicBool::new(false),
        })
    }

    /// A place of one entry. Linear in the places that are taken.
    fn take(&self) -> Option<u32> {
        // Relaxed: only that places differ matters, which the exchange sees to.
        if self.off.load(Ordering::Relaxed) {
            return None;
        }
        let len = self.counts.len();
        let first = self.next.load(Ordering::Relaxed) as usize;
        let mut order = (first..len).chain(0..first.min(len));
        let place = order.find(|&place| {
            let count = &self.counts[place];
            // Acquire: with the release of who gave it up, whose reading comes before this one's writing.
            count
                .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        })?;
        self.next.store(place as u32 + 1, Ordering::Relaxed);
        Some(place as u32)
    }

    /// One more entry names a place that an entry of the caller's names.
    pub(crate) fn duplicate(&self, place: u32) {
        if let Some(count) = self.counts.get(place as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One entry less. Waits for nobody, so that it may be called under the lock of a table.
    pub(crate) fn put(&self, place: u32) {
        if let Some(count) = self.counts.get(place as usize) {
            count.fetch_sub(1, Ordering::Release);
        }
    }

    /// How many entries name a place.
    pub(crate) fn count(&self, place: u32) -> u32 {
        let count = self.counts.get(place as usize);
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Places that are taken. O(places).
    fn used(&self) -> u64 {
        let taken = |count: &&AtomicU32| count.load(Ordering::Relaxed) > 0;
        self.counts.iter().filter(taken).count() as u64
    }
}

impl<P: Platform> Machine<P> {
    /// `swapon(2)`: private pages may go to this device from now on, as many as it has places.
    ///
    /// # Errors
    /// `EBUSY`: there is one already; `EINVAL`: more than 2^30 places; `ENOMEM`.
    ///
    /// ```
    /// # use std::sync::Mutex;
    /// # use samara_mm::process::{Machine, PAGE_BYTES, Platform, Process, SwapDevice};
    /// # use samara_mm::{Config, Errno, Layout, Limits, MmapOptions, Prot};
    /// struct Memory(Mutex<Vec<[u8; PAGE_BYTES]>>);
    ///
    /// impl SwapDevice for Memory {
    ///     fn read(&self, place: u32, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno> {
    ///         *into = self.0.lock().unwrap()[place as usize];
    ///         Ok(())
    ///     }
    ///     fn write(&self, place: u32, from: &[u8; PAGE_BYTES]) -> Result<(), Errno> {
    ///         self.0.lock().unwrap()[place as usize] = *from;
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # fn out<P: Platform>(machine: &Machine<P>) -> Result<(), Errno> {
    /// machine.swap_on(Memory(Mutex::new(vec![[0; PAGE_BYTES]; 8])), 8)?;
    /// let process = Process::new(machine, Config::default(), Limits::default(), Layout::default())?;
    /// let start = process.mmap(&MmapOptions::anonymous(0x1000).prot(Prot::READ | Prot::WRITE))?;
    /// process.copy_in(start, b"bytes");
    /// assert_eq!(process.swap_out(start, start + 0x1000), 1);
    /// assert_eq!((machine.stats().anon, machine.swapped()), (0, 1));
    ///
    /// let mut bytes = [0; 5];
    /// process.copy_out(start, &mut bytes);
    /// assert_eq!(&bytes, b"bytes");
    /// machine.swap_off()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn swap_on(&self, device: impl SwapDevice + 'static, places: u32) -> Result<(), Errno> {
        let area = Counted::try_new(SwapArea::new(try_box(device)?, places)?)?;
        let mut swap = self.swap_slot().lock();
        if swap.is_some() {
            return Err(Errno::EBUSY);
        }
        *swap = Some(area);
        Ok(())
    }

    /// `swapoff(2)`: brings all pages back, process by process, beside their faults and calls. Linear in the pages of processes that ever had something in swap.
    ///
    /// # Errors
    /// `EINVAL` if there is none; `ENOMEM`, `EIO`: some pages are still in swap, and it stays on.
    pub fn swap_off(&self) -> Result<(), Errno> {
        let swap = self.swap().ok_or(Errno::EINVAL)?;
        swap.off.store(true, Ordering::Relaxed);
        let mut result = Ok(());
        self.each_process(|mm| {
            if mm.swapped() {
                result = result.and(mm.swap_in_all());
            }
        });
        // Who had found the device before it was off may have put one more page there.
        if result.is_ok() && swap.used() > 0 {
            result = Err(Errno::EBUSY);
        }
        match result {
            Ok(()) => *self.swap_slot().lock() = None,
            Err(_) => swap.off.store(false, Ordering::Relaxed),
        }
        result
    }

    /// Places in swap that are taken. O(places).
    pub fn swapped(&self) -> u64 {
        self.swap().map_or(0, |swap| swap.used())
    }

    /// Where pages go, if there is such a place.
    pub(crate) fn swap(&self) -> Option<Counted<SwapArea>> {
        self.swap_slot().lock().clone()
    }
}

impl<P: Platform> Process<P> {
    /// Puts private pages of `[start, end)` into swap, those that this process has alone and nobody has pinned; not those of locked areas. How many:
    /// fewer when swap is full, or the device fails. Calls and faults of the process wait meanwhile. O(areas and pages).
    pub fn swap_out(&self, start: u64, end: u64) -> u64 {
        let mut space = self.mm.space.write();
        if start >= end {
            return 0;
        }
        space.areas.close(start, end);
        let mut done = 0;
        let mut next = start;
        while let Some(area) = space.areas.find_in(next, end) {
            next = area.end;
            let kept = VmFlags::LOCKED | VmFlags::SPECIAL;
            if !area.vma.flags.intersects(kept) {
                let (start, end) = (area.start.max(start), area.end.min(end));
                done += self.mm.swap_out(start, end, area.vma);
            }
        }
        space.end_call();
        done
    }
}

/// Markers that are gathered before pages are brought back.
const BATCH: usize = 64;

impl<P: Platform> Mm<P> {
    /// Puts pages of a part of an area into swap; how many. The caller holds the address space's lock for writing, and the area is closed to faults.
    pub(in crate::process) fn swap_out(&self, start: u64, end: u64, vma: &Vma) -> u64 {
        let Some(swap) = self.machine.swap() else {
            return 0;
        };
        if !vma.is_private() || !vma.is_anonymous() {
            return 0;
        }
        let mut done = 0;
        let mut at = start;
        while at < end {
            let mut found = [0; BATCH];
            let mut count = 0;
            let _ = self.tables.walk_until(at..end, |addr, entry| {
                if let Entry::Page { attrs, size, .. } = entry
                    && !attrs.contains(Attrs::SPECIAL)
                {
                    // Of a huge page, those that the range holds come one by one, since it is divided at the first.
                    found[count] = addr.max(at);
                    count += if size == PageSize::Small { 1 } else { BATCH };
                }
                go_on(count)
            });
            let whole = count < BATCH;
            for &page in &found[..count.min(BATCH)] {
                if page == 0 {
                    break;
                }
                at = page + PAGE_SIZE;
                if page >= end {
                    break;
                }
                match self.swap_out_page(page, vma, &swap) {
                    Some(true) => done += 1,
                    Some(false) => {}
                    None => return done,
                }
            }
            if whole {
                break;
            }
        }
        done
    }

    /// Puts one page into swap; `None`: there is no room, or it cannot be written.
    fn swap_out_page(&self, page: u64, vma: &Vma, swap: &SwapArea) -> Option<bool> {
        let (tables, tlb) = (&self.tables, self.machine.tlb());
        let physical = self.machine.physical();
        let Some(mut info) = tables.page(page) else {
            return Some(false);
        };
        let alone = |frame: samara_paging::FrameInfo| {
            frame.kind == Kind::Anon && frame.mappings == 1 && frame.references == 0
        };
        if !info.frame.is_some_and(alone) || info.users > 1 {
            return Some(false);
        }
        if info.size != PageSize::Small {
            if tables.split(page, PageSize::Small, tlb).is_err() {
                return Some(false);
            }
            info = tables.page(page)?;
        }
        let place = swap.take()?;
        self.set_swapped();
        // Nobody stores to it any more, nor gets a reference.
        let range = page..page + PAGE_SIZE;
        let hidden = tables.protect(range.clone(), Change::without(Attrs::ACCESS), tlb);
        let still = hidden.is_ok() && physical.frames().info(info.phys).is_some_and(alone);
        let swapped = Swapped {
            place,
            soft_dirty: info.attrs.contains(Attrs::SOFT_DIRTY),
        };
        let mut failed = false;
        if still {
            // SAFETY: a whole frame, which stays in its entry while the area is closed and the address space locked. Nobody has access by the entry, and no other
            // entry or reference is there, nor can there be one.
            let bytes = unsafe { physical.to_virt(info.phys).cast().as_ref() };
            failed = swap.device.write(place, bytes).is_err();
            if !failed && tables.evict(page, info.phys, swapped.marker(), tlb).is_ok() {
                return Some(true);
            }
        }
        swap.put(place);
        // As it was; what cannot be given back now, a fault gives.
        let access = Change::access(allowed(vma.flags), Write::Alone);
        let _ = tables.protect(range, access, tlb);
        if failed { None } else { Some(false) }
    }

    /// A fault on a page that is in swap.
    #[inline(never)]
    pub(super) fn swap_in(
        &self,
        vma: &Vma,
        page: u64,
        marker: u32,
        write: bool,
    ) -> Result<Step, Fault> {
        let gone = || self.tables.entry(page) != Entry::Marker(marker);
        let swapped = Swapped::of(marker).ok_or(Fault::MAPERR)?;
        let Some(swap) = self.machine.swap() else {
            return if gone() {
                Ok(Step::Again)
            } else {
                Err(Fault::ADRERR)
            };
        };
        let frame = self.new_frame()?;
        // SAFETY: a new frame, whole; nobody else knows it.
        let bytes = unsafe { self.machine.physical().to_virt(frame.phys).cast().as_mut() };
        if swap.device.read(swapped.place, bytes).is_err() {
            return if gone() {
                Ok(Step::Again)
            } else {
                Err(Fault::ADRERR)
            };
        }
        let attrs = if write {
            written(vma.flags)
        } else {
            let mut attrs = readable(vma.flags) | Attrs::DIRTY;
            attrs.set(Attrs::SOFT_DIRTY, swapped.soft_dirty);
            attrs
        };
        let tlb = self.machine.tlb();
        let source = Source::Owned(frame.phys);
        match self.tables.restore(page, marker, source, attrs, tlb) {
            Ok(()) => {
                frame.keep();
                swap.put(swapped.place);
                Ok(if write { Step::Done } else { Step::Again })
            }
            // Another thread was faster.
            Err(Error::NotMapped) => Ok(Step::Again),
            Err(error) => Err(error.into()),
        }
    }

    /// Brings all pages back.
    fn swap_in_all(&self) -> Result<(), Errno> {
        let space = self.space.read();
        for area in space.areas.iter() {
            self.swap_in_range(area.start..area.end, area.vma)?;
        }
        Ok(())
    }

    /// Brings the pages of a part of an area back. The caller holds the address space's lock.
    pub(in crate::process) fn swap_in_range(
        &self,
        range: Range<u64>,
        vma: &Vma,
    ) -> Result<(), Errno> {
        self.each_marker(range, |page, _| {
            while let Entry::Marker(marker) = self.tables.entry(page)
                && Swapped::of(marker).is_some()
            {
                self.swap_in(vma, page, marker, false)
                    .map_err(|fault| match fault {
                        Fault::NoMemory => Errno::ENOMEM,
                        Fault::Signal { .. } => Errno::EIO,
                    })?;
            }
            Ok(())
        })
    }

    /// Calls `act` for the pages in swap of a range, upwards, with their markers; not from within the walk, so that it may change the tables.
    fn each_marker<E>(
        &self,
        range: Range<u64>,
        mut act: impl FnMut(u64, u32) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = range.start;
        loop {
            let (found, count) = self.markers(at..range.end);
            for &(page, marker) in &found[..count] {
                at = page + PAGE_SIZE;
                act(page, marker)?;
            }
            if count < BATCH {
                return Ok(());
            }
        }
    }

    /// The first pages in swap of a range, with their markers.
    fn markers(&self, range: Range<u64>) -> ([(u64, u32); BATCH], usize) {
        let mut found = [(0, 0); BATCH];
        let mut count = 0;
        let _ = self.tables.walk_until(range, |page, entry| {
            if let Entry::Marker(marker) = entry
                && Swapped::of(marker).is_some()
            {
                found[count] = (page, marker);
                count += 1;
            }
            go_on(count)
        });
        (found, count)
    }

    /// Pages of a range that are in swap count as not written. The caller holds the address space's lock for writing, and the areas are closed to faults.
    pub(crate) fn clean_swapped(&self, range: Range<u64>) -> Result<(), Errno> {
        if !self.swapped() {
            return Ok(());
        }
        self.each_marker(range, |page, marker| {
            if let Some(swapped) = Swapped::of(marker) {
                let clean = Swapped {
                    soft_dirty: false,
                    ..swapped
                };
                (self.tables)
                    .mark(page, Some(clean.marker()), self.machine.tlb())
                    .map_err(|_| Errno::ENOMEM)?;
            }
            Ok(())
        })
    }

    /// Pages of a range that are in swap are given up. The caller holds the address space's lock for writing.
    pub(in crate::process) fn drop_swapped(&self, range: Range<u64>) -> Result<(), Error> {
        let Some(swap) = self.machine.swap() else {
            return Ok(());
        };
        self.each_marker(range, |page, marker| {
            match self.tables.unmark(page, marker, self.machine.tlb()) {
                Ok(()) => put(&swap, marker),
                Err(Error::NotMapped) => {}
                Err(error) => return Err(error),
            }
            Ok(())
        })
    }

    /// The child has got this process's markers: their places count once more.
    pub(in crate::process) fn inherit_swapped(&self, child: &Self, end: u64) {
        child.set_swapped();
        let Some(swap) = self.machine.swap() else {
            return;
        };
        child.tables.walk(0..end, |_, entry| {
            if let Entry::Marker(marker) = entry
                && let Some(swapped) = Swapped::of(marker)
            {
                swap.duplicate(swapped.place);
            }
        });
    }

    /// The process has gone.
    pub(in crate::process) fn leave_swap(&self, end: u64) {
        if let Some(swap) = self.machine.swap() {
            self.tables.walk(0..end, |_, entry| {
                if let Entry::Marker(marker) = entry {
                    put(&swap, marker);
                }
            });
        }
    }
}

/// Goes on while there is room in a batch.
fn go_on(count: usize) -> ControlFlow<()> {
    if count < BATCH {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}

/// An entry that has gone named a place, unless it was a guard.
pub(in crate::process) fn put(swap: &SwapArea, marker: u32) {
    if let Some(swapped) = Swapped::of(marker) {
        swap.put(swapped.place);
    }
}
