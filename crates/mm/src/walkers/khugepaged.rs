//! Replaces small pages by huge ones, for VMAs that have asked for it
//! (Documentation/admin-guide/mm/transhuge.rst).

use samara_paging::{Asid, Attrs, Entry, Kind, PageSize};

use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, PMD_SIZE, VmFlags, whole_stretches};
use crate::process::{Machine, Mm, Platform, Swapped};
use crate::vma::Vma;

/// The most exceptions among the 512 pages of 2 MiB. Names and defaults are Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollapseLimits {
    /// Pages that are absent or zero pages.
    pub max_ptes_none: u32,
    /// Pages that other processes share.
    pub max_ptes_shared: u32,
    /// Pages in swap.
    pub max_ptes_swap: u32,
}

impl Default for CollapseLimits {
    fn default() -> Self {
        CollapseLimits {
            max_ptes_none: 511,
            max_ptes_shared: 256,
            max_ptes_swap: 64,
        }
    }
}

/// The result of a part of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollapseStats {
    /// The number of scanned stretches of 2 MiB.
    pub scanned: u64,
    /// The number of stretches that got a huge page.
    pub collapsed: u64,
    /// `true` if the pass is complete. The next call begins a new one.
    pub finished: bool,
}

/// The position of a scan of a machine.
#[derive(Clone, Debug, Default)]
pub struct Khugepaged {
    limits: CollapseLimits,
    next: (Asid, u64),
}

impl Khugepaged {
    /// Creates a scan at the first stretch.
    pub const fn new(limits: CollapseLimits) -> Self {
        Khugepaged {
            limits,
            next: (0, 0),
        }
    }

    /// Scans up to `stretches` whole stretches of 2 MiB of VMAs with `MADV_HUGEPAGE`. It replaces
    /// those by a huge page that are within the limits and have an accessed page.
    ///
    /// Pinned pages stay. Faults on a stretch, and calls of its process, wait while its pages are
    /// copied. O(log n), and 512 steps for each.
    ///
    /// # Errors
    /// `ENOMEM`: there is no block of memory. The next call continues after this stretch.
    ///
    /// ```
    /// # use samara_mm::process::{Machine, Platform, Process};
    /// # use samara_mm::{Advice, Config, Errno, Layout, Limits, MmapOptions, Prot};
    /// use samara_mm::walkers::Khugepaged;
    ///
    /// # fn collapse<P: Platform>(machine: &Machine<P>) -> Result<(), Errno> {
    /// let process = Process::new(machine, Config::default(), Limits::default(), Layout::default())?;
    /// let start = process.mmap(&MmapOptions::anonymous(2 << 20).prot(Prot::READ | Prot::WRITE))?;
    /// process.copy_in(start, b"small");
    /// process.madvise(start, 2 << 20, Advice::HUGEPAGE)?;
    /// let stats = Khugepaged::default().scan(machine, 10)?;
    /// assert_eq!((stats.collapsed, machine.stats().anon), (1, 512));
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan<P: Platform>(
        &mut self,
        machine: &Machine<P>,
        stretches: u64,
    ) -> Result<CollapseStats, Errno> {
        let mut stats = CollapseStats::default();
        while stats.scanned < stretches {
            let Some(mm) = machine.process_from(self.next.0) else {
                self.next = (0, 0);
                stats.finished = true;
                break;
            };
            if mm.asid() != self.next.0 {
                self.next = (mm.asid(), 0);
            }
            let found = next_stretch(&mm, self.next.1);
            let Some(start) = found else {
                let Some(number) = mm.asid().checked_add(1) else {
                    self.next = (0, 0);
                    stats.finished = true;
                    break;
                };
                self.next = (number, 0);
                continue;
            };
            self.next.1 = start + PMD_SIZE;
            stats.scanned += 1;
            // Tested first without the write lock.
            if mm.is_collapsible(start, self.limits) {
                stats.collapsed += u64::from(mm.collapse_if(start, self.limits)?);
            }
        }
        Ok(stats)
    }
}

/// Returns `true` if khugepaged may collapse pages of a VMA.
fn is_eligible(vma: &Vma) -> bool {
    let flags = vma.flags;
    flags.contains(VmFlags::HUGEPAGE)
        && !flags.intersects(VmFlags::NOHUGEPAGE | VmFlags::SPECIAL)
        && vma.is_anonymous()
        && vma.is_private()
        && vma.anon().is_some()
}

/// Returns the first whole stretch at or above an address.
fn next_stretch<P: Platform>(mm: &Mm<P>, from: u64) -> Option<u64> {
    let space = mm.space.read();
    let end = space.config.task_size;
    if from >= end {
        return None;
    }
    space.areas.in_range(from..end).find_map(|area| {
        let whole = whole_stretches(area.start.max(from), area.end)?;
        is_eligible(area.vma).then_some(whole.start)
    })
}

impl<P: Platform> Mm<P> {
    /// Returns `true` if a stretch is within the limits.
    fn is_collapsible(&self, start: u64, limits: CollapseLimits) -> bool {
        let (mut there, mut shared, mut out, mut used) = (0, 0, 0, false);
        let mut fits = true;
        self.tables
            .walk(start..start + PMD_SIZE, |page, entry| match entry {
                Entry::Page { attrs, size, .. } => {
                    fits &= size == PageSize::Small;
                    if !fits || attrs.contains(Attrs::SPECIAL) {
                        return;
                    }
                    let Some(info) = self.tables.page(page) else {
                        return;
                    };
                    there += 1;
                    used |= attrs.contains(Attrs::ACCESSED);
                    let frame = info.frame;
                    fits &= frame
                        .is_some_and(|frame| frame.kind == Kind::Anon && frame.references == 0);
                    shared += u32::from(!info.exclusive());
                }
                Entry::Marker(marker) if Swapped::of(marker).is_some() => out += 1,
                _ => fits = false,
            });
        let pages = (PMD_SIZE / PAGE_SIZE) as u32;
        fits && used
            && pages - there - out <= limits.max_ptes_none
            && shared <= limits.max_ptes_shared
            && out <= limits.max_ptes_swap
    }

    /// Collapses a stretch if it is still within the limits.
    fn collapse_if(&self, start: u64, limits: CollapseLimits) -> Result<bool, Errno> {
        let mut space = self.space.write();
        space.areas.close_locks(start, start + PMD_SIZE);
        let area = space.areas.at(start);
        let fits = area.filter(|area| {
            start + PMD_SIZE <= area.end
                && is_eligible(area.vma)
                && self.is_collapsible(start, limits)
        });
        let result = match fits {
            Some(area) => match self.collapse_one(start, area.vma) {
                Ok(()) => Ok(true),
                Err(Errno::ENOMEM) => Err(Errno::ENOMEM),
                Err(_) => Ok(false),
            },
            None => Ok(false),
        };
        space.end_call();
        result
    }
}
