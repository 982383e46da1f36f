//! The map and its pages as `/proc/PID/smaps` prints them.

use core::cell::Cell;
use core::fmt;
use core::ops::ControlFlow;

use samara_paging::{Attrs, Kind, PAGE_SIZE, PageInfo, PageSize};

use crate::file::{FileId, FileKind};
use crate::flags::{VmFlags, whole_stretches};
use crate::observe::walk::Seen;
use crate::process::{Machine, Platform, Process};
use crate::space::maps::MapsLine;
use crate::vma::{Backing, Vma};

/// A VMA of `/proc/PID/smaps`, summed up page by page (`proc_pid_smaps(5)`). Its `Display` is the
/// lines, with the last line feed.
///
/// A page is referenced if the entry that maps it is accessed. It is dirty if the entry is dirty. A
/// page of a file or of shared memory is also dirty if a program was let write to it since the last
/// write-back (shared memory is never written back).
///
/// Differences from Linux: Linux learns of a write through another existing entry only when that
/// entry goes. Table sharing ([`ForkMode::Share`](crate::process::ForkMode::Share)) counts each
/// shared table as one mapping of other processes, so proportional sums may be above Linux's. A
/// merged page that is alone again stays dirty. Linux's entry is clean, since it records elsewhere
/// that the page must not be lost.
#[derive(Clone, Copy, Debug)]
pub struct Smaps<'a> {
    line: MapsLine<'a>,
    sums: Sums,
    /// `true` if the line of the protection key is present.
    pkeys: bool,
}

/// Sums over pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    rss: u64,
    /// The sum of each page's bytes divided by its mappings, in units of 1/4096 byte.
    pss: u64,
    pss_dirty: u64,
    /// Clean and dirty bytes with several mappings, and with one.
    shared: [u64; 2],
    private: [u64; 2],
    referenced: u64,
    anonymous: u64,
    /// The part of it on merged frames.
    merged: u64,
    /// Clean private memory.
    free: u64,
    huge: u64,
    huge_file: u64,
    swap: u64,
    /// As `pss`.
    swap_pss: u64,
}

impl<'a> Smaps<'a> {
    /// Creates the sums of a VMA without pages.
    pub fn new(line: MapsLine<'a>, pkeys: bool) -> Self {
        Smaps {
            line,
            sums: Sums::default(),
            pkeys,
        }
    }

    /// Returns `true` if the VMA wants huge pages and contains an aligned one.
    fn may_be_huge(&self) -> bool {
        self.line.flags.contains(VmFlags::HUGEPAGE)
            && whole_stretches(self.line.start, self.line.end).is_some()
    }
}

impl Sums {
    /// Adds a page of 4 KiB. Uncounted pages, such as the zero page, are left out.
    fn add<P: Platform>(&mut self, machine: &Machine<P>, page: &PageInfo, dirty: bool) {
        let Some(frame) = page.frame else { return };
        // The entry of a shared table is one mapping for each process that uses the table.
        let mappings = u64::from(frame.mappings.max(1)) + u64::from(page.users.max(1)) - 1;
        let part = (PAGE_SIZE << 12) / mappings;
        self.rss += PAGE_SIZE;
        self.pss += part;
        if dirty {
            self.pss_dirty += part;
        }
        let kind = if page.exclusive() {
            &mut self.private
        } else {
            &mut self.shared
        };
        kind[usize::from(dirty)] += PAGE_SIZE;
        if page.attrs.contains(Attrs::ACCESSED) {
            self.referenced += PAGE_SIZE;
        }
        let anonymous = frame.kind == Kind::Anon;
        if anonymous {
            self.anonymous += PAGE_SIZE;
            // KSM has a reference on a merged frame.
            if frame.references > 0 && machine.is_merged(page.phys) {
                self.merged += PAGE_SIZE;
            }
            // Only `MADV_FREE` makes it clean, but it may still be needed.
            if !dirty && !machine.is_needed(page.phys) {
                self.free += PAGE_SIZE;
            }
        }
        if page.size != PageSize::Small {
            *(if anonymous {
                &mut self.huge
            } else {
                &mut self.huge_file
            }) += PAGE_SIZE;
        }
    }

    /// Adds a page in swap with this many users.
    fn add_swapped(&mut self, users: u32) {
        self.swap += PAGE_SIZE;
        self.swap_pss += (PAGE_SIZE << 12) / u64::from(users.max(1));
    }

    /// Writes the lines from the clean and dirty pages on. `locked` is in bytes.
    fn rest(&self, f: &mut fmt::Formatter<'_>, locked: u64) -> fmt::Result {
        for (label, bytes) in [
            ("Shared_Clean:", self.shared[0]),
            ("Shared_Dirty:", self.shared[1]),
            ("Private_Clean:", self.private[0]),
            ("Private_Dirty:", self.private[1]),
            ("Referenced:", self.referenced),
            ("Anonymous:", self.anonymous),
            ("KSM:", self.merged),
            ("LazyFree:", self.free),
            ("AnonHugePages:", self.huge),
            ("ShmemPmdMapped:", 0),
            ("FilePmdMapped:", self.huge_file),
            ("Shared_Hugetlb:", 0),
            ("Private_Hugetlb:", 0),
            ("Swap:", self.swap),
            ("SwapPss:", self.swap_pss >> 12),
            ("Locked:", locked),
        ] {
            writeln!(f, "{label:<16}{:>8} kB", bytes >> 10)?;
        }
        Ok(())
    }
}

/// Returns `true` if the VMA maps shared memory, and not a file. For pages that are not private.
pub(super) fn is_shared_memory(vma: &Vma) -> bool {
    match &vma.backing {
        Backing::SharedAnonymous(_) | Backing::Shm { .. } => true,
        Backing::File(file) => matches!(file.kind, FileKind::Shmem | FileKind::DevZero),
        Backing::Anonymous | Backing::Special(_) => false,
    }
}

impl fmt::Display for Smaps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.line)?;
        let locked = if self.line.flags.contains(VmFlags::LOCKED) {
            self.sums.pss >> 12
        } else {
            0
        };
        for (label, bytes) in [
            ("Size:", self.line.end - self.line.start),
            ("KernelPageSize:", PAGE_SIZE),
            ("MMUPageSize:", PAGE_SIZE),
            ("Rss:", self.sums.rss),
            ("Pss:", self.sums.pss >> 12),
            ("Pss_Dirty:", self.sums.pss_dirty >> 12),
        ] {
            writeln!(f, "{label:<16}{:>8} kB", bytes >> 10)?;
        }
        self.sums.rest(f, locked)?;
        writeln!(
            f,
            "{:<16}{:>8}",
            "THPeligible:",
            u8::from(self.may_be_huge())
        )?;
        if self.pkeys {
            writeln!(f, "{:<16}{:>8}", "ProtectionKey:", self.line.flags.pkey())?;
        }
        f.write_str("VmFlags: ")?;
        for name in self.line.flags.smaps_names() {
            write!(f, "{name} ")?;
        }
        f.write_str("\n")
    }
}

/// The sums of `/proc/PID/smaps_rollup` over a whole process. Its `Display` is the lines, with the
/// last line feed.
#[derive(Clone, Copy, Debug)]
pub struct Rollup {
    start: u64,
    end: u64,
    all: Sums,
    /// As the total, for private pages, pages of files, and shared memory.
    pss: [u64; 3],
    /// The proportional part of locked VMAs.
    locked: u64,
}

impl fmt::Display for Rollup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = MapsLine {
            start: self.start,
            end: self.end,
            perms: *b"---p",
            offset: 0,
            id: FileId {
                major: 0,
                minor: 0,
                inode: 0,
            },
            name: "[rollup]",
            flags: VmFlags::empty(),
        };
        writeln!(f, "{line}")?;
        let number = |f: &mut fmt::Formatter<'_>, label, bytes: u64| {
            writeln!(f, "{label:<16}{:>8} kB", bytes >> 10)
        };
        number(f, "Rss:", self.all.rss)?;
        number(f, "Pss:", self.all.pss >> 12)?;
        number(f, "Pss_Dirty:", self.all.pss_dirty >> 12)?;
        for (label, part) in ["Pss_Anon:", "Pss_File:", "Pss_Shmem:"]
            .into_iter()
            .zip(self.pss)
        {
            number(f, label, part >> 12)?;
        }
        self.all.rest(f, self.locked >> 12)
    }
}

impl<P: Platform> Process<P> {
    /// Writes what `/proc/PID/smaps` prints. Calls wait until it returns, and faults do not. O(VMAs and
    /// pages).
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_smaps(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let space = self.mm.space.read();
        let swap = self.machine().swap();
        let layout = space.shown_layout();
        let current = Cell::new(None);
        let begin = |area| {
            current.set(Some(area));
            Smaps::new(MapsLine::of(area, &layout), space.config.pkeys)
        };
        self.write_areas(&space, out, "", begin, |smaps, seen| match seen {
            Seen::Page(at, page) => {
                let dirty = self.mm.is_dirty(current.get(), at, &page);
                smaps.sums.add(self.machine(), &page, dirty);
            }
            Seen::Swapped(_, out) => {
                let users = swap.as_ref().map_or(1, |swap| swap.count(out.place));
                smaps.sums.add_swapped(users);
            }
            _ => {}
        })
    }

    /// Returns the sums of `/proc/PID/smaps_rollup`. Calls wait until it returns, and faults do not.
    /// O(VMAs and pages).
    ///
    /// `None` without any VMA: Linux's file is empty then.
    pub fn rollup(&self) -> Option<Rollup> {
        let space = self.mm.space.read();
        let swap = self.machine().swap();
        let mut rollup: Option<Rollup> = None;
        let (mut shared, mut locked) = (false, false);
        let mut current = None;
        let _ = self.walk_in(&space, 0..space.config.task_size, |seen| {
            match (seen, &mut rollup) {
                (Seen::Area(area), rollup) => {
                    current = Some(area);
                    shared = is_shared_memory(area.vma);
                    locked = area.vma.flags.contains(VmFlags::LOCKED);
                    let all = rollup.get_or_insert(Rollup {
                        start: area.start,
                        end: area.end,
                        all: Sums::default(),
                        pss: [0; 3],
                        locked: 0,
                    });
                    all.end = area.end;
                }
                (Seen::Swapped(_, out), Some(rollup)) => {
                    let users = swap.as_ref().map_or(1, |swap| swap.count(out.place));
                    rollup.all.add_swapped(users);
                }
                (Seen::Page(at, page), Some(rollup)) => {
                    let before = rollup.all.pss;
                    let dirty = self.mm.is_dirty(current, at, &page);
                    rollup.all.add(self.machine(), &page, dirty);
                    let part = rollup.all.pss - before;
                    let kind = match page.frame {
                        Some(frame) if frame.kind == Kind::Anon => 0,
                        _ if shared => 2,
                        _ => 1,
                    };
                    rollup.pss[kind] += part;
                    if locked {
                        rollup.locked += part;
                    }
                }
                _ => {}
            }
            ControlFlow::Continue(())
        });
        rollup
    }
}
