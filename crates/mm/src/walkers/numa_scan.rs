//! NUMA hinting faults: each page faults once, which shows the accessing processor
//! (Documentation/admin-guide/sysctl/kernel.rst, `numa_balancing`).

use core::ops::ControlFlow;

use samara_paging::{Attrs, Change, Entry};

use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, PMD_SIZE, VmFlags};
use crate::process::{Platform, Process};
use crate::vma::Vma;

/// The position of a scan of a process: an address, so that the map may change between two parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumaScan {
    next: u64,
}

/// The result of a part of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumaStats {
    /// The number of pages that will fault at their next access.
    pub pages: u64,
    /// `true` if the end was reached. The next part begins at the start.
    pub finished: bool,
}

impl NumaScan {
    /// Returns the address at which the scan continues.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Removes all permissions from up to `pages` pages, in steps of up to 2 MiB. It ends earlier
    /// after eight times as many pages of addresses.
    ///
    /// The next access to each page faults, which restores the permissions and shows the caller the
    /// accessing processor. Left out are VMAs bound to one policy's nodes, VMAs without access, and
    /// VMAs of files that are only read (code and libraries). Calls of the process wait until it returns,
    /// and faults do not.
    ///
    /// # Errors
    /// `ENOMEM`: a table that is shared after a fork could not be split. The next call continues
    /// after it.
    ///
    /// ```
    /// # use samara_mm::process::{Access, Machine, Platform, Process};
    /// # use samara_mm::{Config, Errno, Layout, Limits, MmapOptions, Prot};
    /// use samara_mm::walkers::NumaScan;
    ///
    /// # fn balance<P: Platform>(machine: &Machine<P>) -> Result<(), Errno> {
    /// let process = Process::new(machine, Config::default(), Limits::default(), Layout::default())?;
    /// let start = process.mmap(&MmapOptions::anonymous(0x1000).prot(Prot::READ | Prot::WRITE))?;
    /// process.copy_in(start, b"here");
    /// let mut scan = NumaScan::default();
    /// assert_eq!(scan.scan(&process, 100)?.pages, 1);
    /// assert_eq!(process.translate(start), None);
    /// process.fault(start, Access::WRITE).unwrap(); // shows the accessing processor
    /// assert!(process.translate(start).is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan<P: Platform>(
        &mut self,
        process: &Process<P>,
        pages: u64,
    ) -> Result<NumaStats, Errno> {
        let mm = &*process.mm;
        let space = mm.space.read();
        let mut stats = NumaStats::default();
        let mut passed = 0;
        let end = space.config.task_size;
        for area in space
            .areas
            .in_range(self.next.min(end.saturating_sub(1))..end)
        {
            if !is_scanned(area.vma) {
                continue;
            }
            let mut at = area.start.max(self.next);
            while at < area.end {
                if stats.pages >= pages || passed >= pages.saturating_mul(8) {
                    self.next = at;
                    return Ok(stats);
                }
                let next = (at | (PMD_SIZE - 1)).saturating_add(1).min(area.end);
                self.next = next;
                passed += (next - at) / PAGE_SIZE;
                let change = Change::without(Attrs::ACCESS);
                let done =
                    mm.tables
                        .protect_with(at..next, change, mm.machine.tlb(), |_, entry| {
                            if let Entry::Page { size, .. } = entry {
                                stats.pages += size.frames();
                            }
                        });
                done.map_err(|_| Errno::ENOMEM)?;
                at = next;
            }
        }
        self.next = 0;
        stats.finished = true;
        Ok(stats)
    }
}

fn is_scanned(vma: &Vma) -> bool {
    let flags = vma.flags;
    let only_read = flags & (VmFlags::READ | VmFlags::WRITE) == VmFlags::READ;
    flags.intersects(VmFlags::ACCESS)
        && !flags.intersects(VmFlags::SPECIAL | VmFlags::HUGETLB)
        && !vma.is_special()
        && (vma.is_anonymous() || !only_read)
        // The policy binds it to one set of nodes.
        && vma.policy.mode & 0xfff != 2
}

/// A memory control group (`Documentation/admin-guide/cgroup-v1/memory.rst`, "Move charges at task
/// migration").
pub trait Charges {
    /// Charges the frame at this physical address to the new group. Returns `false` if the group is
    /// full: the walk ends before this page.
    fn charge(&mut self, frame: u64) -> bool;

    /// Charges a slot in swap in the same way.
    fn charge_swapped(&mut self, place: u32) -> bool {
        let _ = place;
        true
    }
}

impl<P: Platform> Process<P> {
    /// Moves the charges of pages from `from` on, when the process changes its group. Returns the
    /// address at which to continue if the new group is full.
    ///
    /// Charged are private memory and pages in swap that no other process shares, and with `files`
    /// pages of mapped files. Calls wait until it returns, and faults do not. O(VMAs and pages).
    ///
    /// ```
    /// # use samara_mm::process::{Machine, Platform, Process};
    /// # use samara_mm::{Config, Errno, Layout, Limits, MmapOptions, Prot};
    /// use samara_mm::walkers::Charges;
    ///
    /// struct Room(u32);
    ///
    /// impl Charges for Room {
    ///     fn charge(&mut self, _: u64) -> bool {
    ///         self.0.checked_sub(1).map(|left| self.0 = left).is_some()
    ///     }
    /// }
    ///
    /// # fn migrate<P: Platform>(machine: &Machine<P>) -> Result<(), Errno> {
    /// let process = Process::new(machine, Config::default(), Limits::default(), Layout::default())?;
    /// let start = process.mmap(&MmapOptions::anonymous(0x3000).prot(Prot::READ | Prot::WRITE))?;
    /// process.copy_in(start, &[1; 0x3000]);
    /// assert_eq!(process.move_charges(0, false, &mut Room(2)), Some(start + 0x2000));
    /// assert_eq!(process.move_charges(start + 0x2000, false, &mut Room(2)), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn move_charges(&self, from: u64, files: bool, charges: &mut dyn Charges) -> Option<u64> {
        use crate::observe::Seen;
        let swap = self.machine().swap();
        let mut full = None;
        let space = self.mm.space.read();
        let _ = self.walk_in(&space, from..space.config.task_size, |seen| {
            let (at, moved) = match seen {
                Seen::Page(at, page) => {
                    let own = page.phys + (at & (page.size.bytes() - 1));
                    let counted = match page.frame {
                        None => false,
                        Some(_) if page.file() => files,
                        Some(_) => page.exclusive(),
                    };
                    (at, !counted || charges.charge(own))
                }
                Seen::Swapped(at, out) => {
                    let alone = swap.as_ref().is_some_and(|swap| swap.count(out.place) == 1);
                    (at, !alone || charges.charge_swapped(out.place))
                }
                _ => return ControlFlow::Continue(()),
            };
            if moved {
                return ControlFlow::Continue(());
            }
            full = Some(at);
            ControlFlow::Break(())
        });
        full
    }
}
