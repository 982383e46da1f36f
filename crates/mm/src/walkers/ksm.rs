//! Merges equal pages (Documentation/admin-guide/mm/ksm.rst) of VMAs that have asked for it
//! (`MADV_MERGEABLE`).
//!
//! # Protocol
//!
//! A page is compared with a reference on its frame, and without permission to write. So its bytes
//! stay the same: a write faults and copies, because the page has another reference. It is compared
//! with the merged pages, and with the unmerged pages of this pass.
//!
//! A merged frame has a reference of its own for as long as any page is on it, so no write changes
//! it. No lock is held from one page to the next. Each exchange tests again if the page is the
//! same, and if its VMA is still mergeable. `MADV_UNMERGEABLE` gives each merged page of the VMA a
//! frame of its own: the machine has a list of these frames.

use alloc::vec::Vec;
use core::mem;
use core::ops::ControlFlow;

use samara_paging::{Asid, Attrs, Change, Entry, FrameRef, Kind, PageSize};

use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, VmFlags};
use crate::heap::counted::Counted;
use crate::process::{Machine, Mm, PAGE_BYTES, Platform};
use crate::space::AddressSpace;

/// A frame with several merged pages.
struct Merged {
    sum: u64,
    pin: FrameRef,
}

/// A page without an equal one in this pass so far.
#[derive(Clone, Copy)]
struct Single {
    sum: u64,
    process: Asid,
    page: u64,
}

/// The result of a pass or a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KsmStats {
    /// The number of scanned pages.
    pub scanned: u64,
    /// The number of pages that were moved to the frame of an equal page.
    pub merged: u64,
    /// `true` if the pass is complete. The next call begins a new one.
    pub finished: bool,
}

/// The scan of one machine: merged frames, and its position. It keeps a few words for each merged
/// frame, and for each unmerged page of this pass.
pub struct Ksm<P: Platform> {
    machine: Machine<P>,
    /// Sorted by checksum.
    merged: Vec<Merged>,
    /// Sorted by checksum.
    singles: Vec<Single>,
    next: (Asid, u64),
}

/// The number of pages found under one lock of an address space.
const BATCH: usize = 32;

impl<P: Platform> Ksm<P> {
    /// Creates a scan before its first pass.
    pub fn new(machine: &Machine<P>) -> Self {
        Ksm {
            machine: machine.clone(),
            merged: Vec::new(),
            singles: Vec::new(),
            next: (0, 0),
        }
    }

    /// Scans up to `pages` pages, concurrently with everything else. O(log n) for each, and the
    /// pages with an equal checksum.
    ///
    /// # Errors
    /// `ENOMEM`: the next call continues the pass.
    ///
    /// ```
    /// # use samara_mm::process::{Machine, Platform, Process};
    /// # use samara_mm::{Advice, Config, Errno, Layout, Limits, MmapOptions, Prot};
    /// use samara_mm::walkers::Ksm;
    ///
    /// # fn merge<P: Platform>(machine: &Machine<P>) -> Result<(), Errno> {
    /// let process = Process::new(machine, Config::default(), Limits::default(), Layout::default())?;
    /// let start = process.mmap(&MmapOptions::anonymous(0x2000).prot(Prot::READ | Prot::WRITE))?;
    /// process.madvise(start, 0x2000, Advice::MERGEABLE)?;
    /// process.copy_in(start, b"equal");
    /// process.copy_in(start + 0x1000, b"equal");
    ///
    /// let mut ksm = Ksm::new(machine);
    /// assert_eq!(ksm.scan(100)?.merged, 1);
    /// assert_eq!(machine.stats().anon, 1);
    /// process.copy_in(start, b"other"); // a copy of its own
    /// assert_eq!(machine.stats().anon, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan(&mut self, pages: u64) -> Result<KsmStats, Errno> {
        let mut stats = KsmStats::default();
        while stats.scanned < pages {
            let Some(mm) = self.machine.process_from(self.next.0) else {
                stats.finished = true;
                self.finish();
                break;
            };
            if mm.asid() != self.next.0 {
                self.next = (mm.asid(), 0);
            }
            let most = (pages - stats.scanned).min(BATCH as u64) as usize;
            let (found, count) = candidates(&mm, self.next.1, most);
            for &page in &found[..count] {
                stats.scanned += 1;
                self.next.1 = page + PAGE_SIZE;
                stats.merged += self.scan_page(&mm, page)?;
            }
            if count == 0 {
                let Some(number) = mm.asid().checked_add(1) else {
                    self.next.0 = Asid::MAX;
                    stats.finished = true;
                    self.finish();
                    break;
                };
                self.next = (number, 0);
            }
        }
        Ok(stats)
    }

    /// Returns the number of merged frames (`pages_shared`), and of pages on them (`pages_shared`
    /// plus `pages_sharing`). O(frames).
    pub fn counts(&self) -> (u64, u64) {
        let frames = self.machine.physical().frames();
        let mappings = |merged: &Merged| Some(u64::from(frames.info(merged.pin.phys())?.mappings));
        let used = self.merged.iter().filter_map(mappings);
        used.filter(|&mappings| mappings > 0)
            .fold((0, 0), |(shared, all), mappings| {
                (shared + 1, all + mappings)
            })
    }

    /// Returns a reference on a private page, whose bytes do not change while the reference lasts.
    /// `None` if it is not private, or has another reference.
    fn pin_stable(&self, mm: &Mm<P>, page: u64) -> Option<FrameRef> {
        let (tables, tlb) = (&mm.tables, mm.machine.tlb());
        let before = tables.page(page)?;
        let frame = before.frame?;
        let merged = || (self.merged.iter()).any(|merged| merged.pin.phys() == before.phys);
        let plain = frame.kind == Kind::Anon && before.size == PageSize::Small;
        if !plain || frame.references > 0 && !merged() {
            return None;
        }
        let pin = tables.get_page(page, Attrs::READ).ok()?;
        let range = page..page + PAGE_SIZE;
        let protected = tables.protect(range, Change::without(Attrs::WRITE), tlb);
        // An earlier pin is another reference. A later pin gets a copy.
        let after = tables.page(page).filter(|after| after.phys == before.phys);
        let same = pin.phys() == before.phys
            && (after.and_then(|after| after.frame)).is_some_and(|after| {
                after.kind == Kind::Anon && after.references == frame.references + 1
            });
        if protected.is_ok() && same {
            return Some(pin);
        }
        pin.put(mm.machine.physical());
        None
    }

    /// Ends a pass: forgets unmerged pages, which may have changed, and frees merged frames without
    /// pages.
    fn finish(&mut self) {
        self.next = (0, 0);
        self.singles.clear();
        let physical = self.machine.physical();
        let mut at = 0;
        while let Some(merged) = self.merged.get(at) {
            let info = physical.frames().info(merged.pin.phys());
            if info.is_none_or(|info| info.mappings == 0) {
                let gone = self.merged.remove(at).pin;
                self.machine.leave_merged(gone.phys());
                gone.put(physical);
            } else {
                at += 1;
            }
        }
    }

    /// Merges a page if there is an equal one. Returns the number of pages moved to another frame.
    fn scan_page(&mut self, mm: &Mm<P>, page: u64) -> Result<u64, Errno> {
        self.merged.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.singles.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let machine = self.machine.clone();
        let physical = machine.physical();
        let Some(pin) = self.pin_stable(mm, page) else {
            return Ok(0);
        };
        let bytes = |phys| {
            // SAFETY: a whole frame that a reference keeps, and that is not written: see the head
            // of this file.
            unsafe { physical.to_virt(phys).cast::<[u8; PAGE_BYTES]>().as_ref() }
        };
        let sum = checksum(bytes(pin.phys()));
        let first = self.merged.partition_point(|merged| merged.sum < sum);
        let same = self.merged[first..]
            .iter()
            .take_while(|merged| merged.sum == sum);
        for merged in same {
            let frame = merged.pin.phys();
            if frame == pin.phys() {
                pin.put(physical);
                return Ok(0);
            }
            if bytes(frame) == bytes(pin.phys()) {
                let done = merge_into(mm, page, &pin, frame);
                pin.put(physical);
                return Ok(u64::from(done));
            }
        }
        let mut at = self.singles.partition_point(|single| single.sum < sum);
        while let Some(&single) = self.singles.get(at).filter(|single| single.sum == sum) {
            at += 1;
            let Some(other) = machine
                .process_from(single.process)
                .filter(|other| other.asid() == single.process)
            else {
                continue;
            };
            if !is_candidate(&other, single.page) {
                continue;
            }
            let Some(kept) = self.pin_stable(&other, single.page) else {
                continue;
            };
            if kept.phys() != pin.phys() && bytes(kept.phys()) == bytes(pin.phys()) {
                let entered = machine.enter_merged(kept.phys());
                // Tested again after the frame is in the list. A later `MADV_UNMERGEABLE` finds the
                // frame there, and an earlier one is seen here.
                let done = entered.is_ok()
                    && is_candidate(&other, single.page)
                    && merge_into(mm, page, &pin, kept.phys());
                pin.put(physical);
                if !done {
                    machine.leave_merged(kept.phys());
                    kept.put(physical);
                    return entered.map(|()| 0);
                }
                self.singles.remove(at - 1);
                self.merged.insert(first, Merged { sum, pin: kept });
                return Ok(1);
            }
            kept.put(physical);
        }
        pin.put(physical);
        let process = mm.asid();
        self.singles.insert(at, Single { sum, process, page });
        Ok(0)
    }
}

impl<P: Platform> Drop for Ksm<P> {
    /// Merged pages stay merged. From then on they are like pages that processes share after a
    /// fork.
    fn drop(&mut self) {
        for merged in mem::take(&mut self.merged) {
            self.machine.leave_merged(merged.pin.phys());
            merged.pin.put(self.machine.physical());
        }
    }
}

impl<P: Platform> core::fmt::Debug for Ksm<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Ksm")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

/// Finds the first mergeable pages at or above an address.
fn candidates<P: Platform>(mm: &Counted<Mm<P>>, from: u64, most: usize) -> ([u64; BATCH], usize) {
    let mut found = [0; BATCH];
    let mut count = 0;
    let space = mm.space.read();
    let end = space.config.task_size;
    if from >= end {
        return (found, 0);
    }
    for area in space.areas.in_range(from..end) {
        if !area.vma.flags.contains(VmFlags::MERGEABLE) {
            continue;
        }
        let part = area.start.max(from)..area.end;
        let broken = mm.tables.walk_until(part, |page, entry| {
            if let Entry::Page { attrs, size, .. } = entry
                && size == PageSize::Small
                && !attrs.contains(Attrs::SPECIAL)
            {
                found[count] = page;
                count += 1;
            }
            if count < most {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        if broken.is_break() {
            break;
        }
    }
    (found, count)
}

/// Returns `true` if a page is in a mergeable VMA.
fn is_candidate<P: Platform>(mm: &Mm<P>, page: u64) -> bool {
    is_mergeable(&mm.space.read(), page)
}

fn is_mergeable(space: &AddressSpace, page: u64) -> bool {
    (space.areas.at(page)).is_some_and(|area| area.vma.flags.contains(VmFlags::MERGEABLE))
}

/// Moves a page to another frame, unless it has changed, or its VMA is no longer mergeable.
fn merge_into<P: Platform>(mm: &Mm<P>, page: u64, was: &FrameRef, frame: u64) -> bool {
    // No call changes the advice during the merge.
    let space = mm.space.read();
    let tlb = mm.machine.tlb();
    is_mergeable(&space, page) && mm.tables.merge(page, was.phys(), frame, tlb).is_ok()
}

/// Returns the checksum of a page: FNV-1a over its words.
fn checksum(bytes: &[u8; PAGE_BYTES]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, word| {
        let mixed = (sum ^ u64::from_le_bytes(*word)).wrapping_mul(0x0000_0100_0000_01b3);
        mixed ^ mixed >> 29
    })
}
