//! Figures of a process's memory, as `/proc/PID/statm` and `status` print them, and what a machine without memory asks.

use core::fmt;
use core::ops::ControlFlow;

use samara_paging::Kind;

use crate::flags::PAGE_SIZE;
use crate::observe::smaps::is_shared_memory;
use crate::observe::walk::Seen;
use crate::process::{Platform, Process};
use crate::space::counts::PageCounts;

/// Pages of a process. Its `Display` are the lines of `/proc/PID/status` that tell of memory now, the last with its line feed.
///
/// Peaks (`VmPeak`, `VmHWM`), pins and page tables are not kept; which of the code is the program's own (`VmExe`, and the fourth number of `statm`) only
/// who has loaded it knows, so that all executable pages count as libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Memory {
    /// By the map.
    pub mapped: PageCounts,
    /// In memory: private ones, written copies of files among them.
    pub anon: u64,
    /// In memory: files'.
    pub file: u64,
    /// In memory: shared memory's.
    pub shmem: u64,
    /// In swap.
    pub swap: u64,
}

impl Memory {
    /// In memory.
    pub const fn resident(&self) -> u64 {
        self.anon + self.file + self.shmem
    }

    /// The line of `/proc/PID/statm`, where so many pages are the program's own code.
    ///
    /// ```
    /// use samara_mm::observe::Memory;
    /// assert_eq!(Memory::default().statm(2).to_string(), "0 0 0 2 0 0 0");
    /// ```
    pub fn statm(&self, text: u64) -> impl fmt::Display {
        Statm(*self, text)
    }
}

struct Statm(Memory, u64);

impl fmt::Display for Statm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Statm(memory, text) = self;
        let mapped = &memory.mapped;
        write!(
            f,
            "{} {} {} {text} 0 {} 0",
            mapped.total,
            memory.resident(),
            memory.file + memory.shmem,
            mapped.data + mapped.stack,
        )
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (label, pages) in [
            ("VmSize:", self.mapped.total),
            ("VmLck:", self.mapped.locked),
            ("VmPin:", 0),
            ("VmRSS:", self.resident()),
            ("RssAnon:", self.anon),
            ("RssFile:", self.file),
            ("RssShmem:", self.shmem),
            ("VmData:", self.mapped.data),
            ("VmStk:", self.mapped.stack),
            ("VmExe:", 0),
            ("VmLib:", self.mapped.exec),
            ("VmSwap:", self.swap),
        ] {
            writeln!(f, "{label}\t{:>8} kB", pages * (PAGE_SIZE >> 10))?;
        }
        Ok(())
    }
}

impl<P: Platform> Process<P> {
    /// How much memory there is of the process. Calls wait meanwhile; faults do not. O(areas and pages).
    pub fn memory(&self) -> Memory {
        let space = self.mm.space.read();
        let mut memory = Memory {
            mapped: space.page_counts(),
            ..Memory::default()
        };
        let mut shared = false;
        let _ = self.walk_in(&space, 0..space.config.task_size, |seen| {
            match seen {
                Seen::Area(area) => shared = is_shared_memory(area.vma),
                Seen::Page(_, page) => match page.frame {
                    None => {}
                    Some(frame) if frame.kind == Kind::Anon => memory.anon += 1,
                    Some(_) if shared => memory.shmem += 1,
                    Some(_) => memory.file += 1,
                },
                Seen::Swapped(..) => memory.swap += 1,
                _ => {}
            }
            ControlFlow::Continue(())
        });
        memory
    }
}
