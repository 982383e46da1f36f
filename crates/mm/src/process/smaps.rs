//! The map and its pages as `/proc/PID/smaps` prints them.

use core::fmt;

use samara_paging::{Attrs, Entry, Kind, PAGE_SIZE, PageInfo, PageSize};

use crate::flags::{PMD_SIZE, VmFlags};
use crate::process::mm::Process;
use crate::process::platform::Platform;
use crate::space::maps::{MapsLine, line};

/// An area of `/proc/PID/smaps`, summed up page by page (`proc_pid_smaps(5)`). Its `Display` are the lines, the last with its line feed.
///
/// What there is not, pages that were swapped out or merged, is 0. A page is dirty or referenced if the entry that maps it says so. Of who has a page by a table
/// that several share ([`ForkMode::Share`](crate::process::ForkMode::Share)), others count one: the proportional sums may be above Linux's.
#[derive(Clone, Copy, Debug)]
pub struct Smaps<'a> {
    line: MapsLine<'a>,
    rss: u64,
    /// Bytes divided by how many map each, in units of 1/4096 byte.
    pss: u64,
    pss_dirty: u64,
    /// Clean and dirty bytes that several map, and that one maps.
    shared: [u64; 2],
    private: [u64; 2],
    referenced: u64,
    anonymous: u64,
    /// Clean private memory.
    free: u64,
    huge: u64,
    huge_file: u64,
    /// Whether the line that tells of the protection key is there.
    pkeys: bool,
}

impl<'a> Smaps<'a> {
    /// An area without any page.
    pub fn new(line: MapsLine<'a>, pkeys: bool) -> Self {
        Smaps {
            line,
            rss: 0,
            pss: 0,
            pss_dirty: 0,
            shared: [0; 2],
            private: [0; 2],
            referenced: 0,
            anonymous: 0,
            free: 0,
            huge: 0,
            huge_file: 0,
            pkeys,
        }
    }

    /// Adds a page of 4 KiB. Pages that are not counted, as the zero page, are none.
    fn add(&mut self, page: &PageInfo) {
        let Some(frame) = page.frame else { return };
        let dirty = page.attrs.contains(Attrs::DIRTY);
        // The entry of a shared table is one mapping for each that uses it.
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
            // It becomes clean by `MADV_FREE` alone.
            if !dirty {
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

    /// Whether huge pages may be used: asked for, and an aligned one lies inside.
    fn may_be_huge(&self) -> bool {
        let first = self.line.start.next_multiple_of(PMD_SIZE);
        self.line.flags.contains(VmFlags::HUGEPAGE)
            && first
                .checked_add(PMD_SIZE)
                .is_some_and(|end| end <= self.line.end)
    }
}

impl fmt::Display for Smaps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.line)?;
        let locked = if self.line.flags.contains(VmFlags::LOCKED) {
            self.pss >> 12
        } else {
            0
        };
        for (label, bytes) in [
            ("Size:", self.line.end - self.line.start),
            ("KernelPageSize:", PAGE_SIZE),
            ("MMUPageSize:", PAGE_SIZE),
            ("Rss:", self.rss),
            ("Pss:", self.pss >> 12),
            ("Pss_Dirty:", self.pss_dirty >> 12),
            ("Shared_Clean:", self.shared[0]),
            ("Shared_Dirty:", self.shared[1]),
            ("Private_Clean:", self.private[0]),
            ("Private_Dirty:", self.private[1]),
            ("Referenced:", self.referenced),
            ("Anonymous:", self.anonymous),
            ("KSM:", 0),
            ("LazyFree:", self.free),
            ("AnonHugePages:", self.huge),
            ("ShmemPmdMapped:", 0),
            ("FilePmdMapped:", self.huge_file),
            ("Shared_Hugetlb:", 0),
            ("Private_Hugetlb:", 0),
            ("Swap:", 0),
            ("SwapPss:", 0),
            ("Locked:", locked),
        ] {
            writeln!(f, "{label:<16}{:>8} kB", bytes >> 10)?;
        }
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

impl<P: Platform> Process<P> {
    /// Writes what `/proc/PID/smaps` would print. Calls wait meanwhile; faults do not. O(areas and pages).
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_smaps(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let space = self.mm.space.read();
        let tables = &self.mm.tables;
        for area in space.areas.iter() {
            let mut sums = Smaps::new(line(area, &space.layout), space.config.pkeys);
            tables.walk(area.start..area.end, |addr, entry| {
                let Entry::Page { size, .. } = entry else {
                    return;
                };
                let end = area.end.min(addr + size.bytes());
                let mut at = area.start.max(addr);
                while at < end {
                    if let Some(page) = tables.page(at) {
                        sums.add(&page);
                    }
                    at += PAGE_SIZE;
                }
            });
            write!(out, "{sums}")?;
        }
        Ok(())
    }
}
