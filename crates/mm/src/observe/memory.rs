//! Totals of a process's memory, as `/proc/PID/statm` and `status` print them, and the pages that
//! the choice of a process to kill needs.

use core::fmt;
use core::ops::ControlFlow;

use samara_paging::Kind;

use crate::flags::PAGE_SIZE;
use crate::observe::smaps::is_shared_memory;
use crate::observe::walk::Seen;
use crate::process::{Platform, Process};
use crate::space::counts::PageCounts;

/// The pages of a process. Its `Display` is the memory lines of `/proc/PID/status`, with the last
/// line feed.
///
/// Peaks (`VmPeak`, `VmHWM`), pins and page tables are not kept. Only the loader knows which code
/// is the program's own (`VmExe`, and the fourth number of `statm`). So all executable pages count
/// as libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Memory {
    /// Mapped pages.
    pub mapped: PageCounts,
    /// Private pages in memory, written copies of files included.
    pub anon: u64,
    /// Pages of files in memory.
    pub file: u64,
    /// Pages of shared memory in memory.
    pub shmem: u64,
    /// Pages in swap.
    pub swap: u64,
}

impl Memory {
    /// Returns the pages in memory.
    pub const fn resident(&self) -> u64 {
        self.anon + self.file + self.shmem
    }

    /// Returns the line of `/proc/PID/statm`. `text` is the number of pages of the program's own
    /// code.
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
    /// Counts the pages of the process. Calls wait until it returns, and faults do not. O(VMAs and pages).
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
