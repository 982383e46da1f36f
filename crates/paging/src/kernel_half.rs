//! The kernel's half of all address spaces: tables that every root points to.
//!
//! # Protocol
//!
//! - [`PageTables::new_kernel`] creates a root, and a table below each root entry that the kernel's
//!   ranges reach. From then on no entry of that root changes: such a table is not removed while it
//!   is empty, no page replaces it, and no other one is added. A copy of the entries therefore
//!   always equals the original, and no lock orders the two.
//! - [`PageTables::new_process`] creates a root with a copy of these entries. Calls on the
//!   process's tables do not go below them. Only calls on the kernel's tables lock, count and free
//!   what is there. A root's word counts only its own entries.
//! - Where the kernel has a root of its own ([`Format::kernel_start`]), there is nothing to copy.

use alloc::format;
use alloc::string::String;
use core::ops::Range;

use crate::cursor::Cursor;
use crate::entry::{ENTRIES, PAGE_SIZE, index, next};
use crate::error::Error;
use crate::format::Format;
use crate::invalidate::Asid;
use crate::phys::Memory;
use crate::space::PageTables;
use crate::table::Table;

/// The addresses that tables map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressBounds {
    /// The first address. The addresses of both halves are contiguous across the end of the address
    /// space, modulo 2^64.
    start: u64,
    len: u64,
    role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Tables for both halves, or for the lower half if there is no kernel.
    Standalone,
    Kernel,
    /// Tables of a process, under the kernel with this root.
    Process(u64),
}

impl AddressBounds {
    pub(crate) fn whole<F: Format>() -> Self {
        let upper = F::kernel_start();
        let start = if F::is_canonical(upper) { upper } else { 0 };
        Self {
            start,
            len: F::lower_end().wrapping_sub(start),
            role: Role::Standalone,
        }
    }
}

impl<F: Format, M: Memory> PageTables<F, M> {
    /// Creates the tables of a kernel, which all processes share: see
    /// [`new_process`](Self::new_process). `ranges` lists all addresses where the kernel will ever
    /// map something, in the upper half from [`Format::kernel_start`] on. It is in bytes, each end
    /// exclusive, and need not be aligned to pages; [`u64::MAX`] means the end of all addresses. A
    /// table is created at once below each root entry that the ranges reach, and stays until these
    /// tables are dropped.
    ///
    /// The kernel uses the same calls as others, within the regions of these root entries;
    /// elsewhere they return [`Error::OutOfRange`]. Its changes apply to all address spaces at
    /// once. Invalidations receive the `asid` given here, and must cover every processor, whichever
    /// address space it runs, and whether or not the pages are [global](crate::Attrs::GLOBAL).
    /// These tables cannot be forked from or to.
    ///
    /// | format | region of a root entry | the kernel's half |
    /// |---|---|---|
    /// | x86-64 | 512 GiB | from `0xffff_8000_0000_0000` on |
    /// | x86-64 LA57 | 256 TiB | from `0xff00_0000_0000_0000` on |
    /// | RISC-V Sv39 | 1 GiB, so that a kernel has no pages of that size | from `0xffff_ffc0_0000_0000` on |
    /// | RISC-V Sv48 | 512 GiB | from `0xffff_8000_0000_0000` on |
    /// | AArch64 | 512 GiB | from `0xffff_0000_0000_0000` on, with a root of its own |
    ///
    /// On AArch64 the processor translates these addresses through TTBR1. [`root`](Self::root) is
    /// loaded there once, and the roots of processes, which are loaded into TTBR0, contain nothing
    /// of it. Everything else is the same. On the other formats, a kernel that runs no process may
    /// load this root.
    ///
    /// No range reaches the last page of all addresses, because its exclusive end does not fit in
    /// 64 bits.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`]; [`Error::Misaligned`] if a range is not in the upper half. Everything
    /// is freed then.
    ///
    /// ```
    /// # use samara_paging::{Arena, Attrs, Error, Grace, PageSize, PageTables, Physical, Source, format::X86_64};
    /// # let memory = Physical::new(Arena::on_heap(64)?, Grace::new(), 1 << 30, 64)?;
    /// let direct_map = 0xffff_8880_0000_0000;
    /// let ranges = [direct_map..direct_map + (4 << 40), 0xffff_ffff_8000_0000..u64::MAX];
    /// let kernel = PageTables::<X86_64, _>::new_kernel(&memory, 0, &ranges)?;
    /// let process = PageTables::new_process(&kernel, 1)?;
    ///
    /// // All memory from physical address 0 on, a gigabyte an entry.
    /// let attrs = Attrs::READ | Attrs::WRITE | Attrs::GLOBAL;
    /// kernel.map(direct_map, PageSize::Giant, Source::Special(0), attrs, &())?;
    /// assert!(kernel.translate(direct_map + 0x1234).is_some());
    ///
    /// // A process's tables have only programs' addresses.
    /// assert!(process.translate(direct_map).is_none());
    /// let refused = process.unmap(direct_map..direct_map + (1 << 30), &());
    /// assert_eq!(refused, Err(Error::OutOfRange));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new_kernel(memory: M, asid: Asid, ranges: &[Range<u64>]) -> Result<Self, Error> {
        let start = F::kernel_start();
        let bounds = AddressBounds {
            start,
            len: start.wrapping_neg(),
            role: Role::Kernel,
        };
        let this = Self::with(memory, asid, bounds)?;
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            if !this.covers(range.start) {
                return Err(Error::Misaligned);
            }
            for i in index(range.start, Self::TOP)..=index(range.end - 1, Self::TOP) {
                this.make_permanent(i)?;
            }
        }
        Ok(this)
    }

    /// Creates a table below an entry of the root, unless there is one.
    fn make_permanent(&self, entry: usize) -> Result<(), Error> {
        let memory = self.physical();
        let root = memory.table(self.root);
        if root.load(entry) == 0 {
            let table = memory.alloc_empty_table()?;
            let mut root = root.lock();
            root.store(entry, F::table_entry(table, false));
            root.add_used(1);
        }
        Ok(())
    }

    /// Creates an empty address space for a process under the same kernel as `kernel`, which may be
    /// [the kernel's](Self::new_kernel) tables or those of another process. For tables without a
    /// kernel this is [`new`](Self::new).
    ///
    /// The root starts with the kernel's entries, so that the processor also finds the kernel's
    /// memory through it. Calls on these tables are for the lower half, and return
    /// [`Error::OutOfRange`] elsewhere. Look-ups and walks find nothing in the upper half, and no
    /// call changes, counts or frees anything there.
    ///
    /// The kernel's tables must not be dropped while a processor may have the root of a process
    /// loaded.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`]: the root table needs a frame.
    pub fn new_process(kernel: &Self, asid: Asid) -> Result<Self, Error> {
        let root = match kernel.bounds.role {
            Role::Standalone => return Self::new(kernel.memory.clone(), asid),
            Role::Kernel => kernel.root,
            Role::Process(root) => root,
        };
        let bounds = AddressBounds {
            start: 0,
            len: F::lower_end(),
            role: Role::Process(root),
        };
        let this = Self::with(kernel.memory.clone(), asid, bounds)?;
        let memory = this.physical();
        // Copied from the given tables, which have the same entries: the kernel's own may be gone.
        let (from, to) = (memory.table(kernel.root), memory.table(this.root).lock());
        for i in this.own_entries().end..ENTRIES {
            // Not counted: see the protocol.
            to.store(i, from.load(i));
        }
        drop(to);
        Ok(this)
    }

    /// Returns the number of frames that hold tables of this address space, including its root. A
    /// process's tables are counted without those of its kernel. Lock-free: tables that are created
    /// or removed concurrently may be counted or not. Linear in the tables above the last level.
    pub fn table_frames(&self) -> usize {
        let memory = self.physical();
        // Tables found during the section are not freed before its end.
        let section: Cursor<'_, F, M> = self.cursor(0);
        let count = 1 + self.tables_below(&memory.table(self.root), Self::TOP);
        drop(section);
        count
    }

    fn tables_below(&self, table: &Table<'_>, level: usize) -> usize {
        let entries = if level == Self::TOP {
            self.own_entries()
        } else {
            0..ENTRIES
        };
        let tables = entries
            .map(|i| table.read(i))
            .filter(|&raw| F::is_table(raw));
        if level == 1 {
            return tables.count();
        }
        let below = |raw| 1 + self.tables_below(&self.physical().table(F::phys(raw)), level - 1);
        tables.map(below).sum()
    }

    /// Returns `true` if these are tables of a kernel.
    #[inline]
    pub(crate) fn is_kernel(&self) -> bool {
        self.bounds.role == Role::Kernel
    }

    /// Returns `true` if the address is in the half that these tables map.
    #[inline]
    pub(crate) fn covers(&self, addr: u64) -> bool {
        addr.wrapping_sub(self.bounds.start) < self.bounds.len
    }

    /// Returns the root entries that belong to these tables: those of a process are without the
    /// kernel's.
    pub(crate) fn own_entries(&self) -> Range<usize> {
        let shared =
            matches!(self.bounds.role, Role::Process(_)) && F::is_canonical(F::kernel_start());
        0..if shared { ENTRIES / 2 } else { ENTRIES }
    }

    /// Checks that `range` consists of pages that may be changed through these tables.
    #[inline]
    pub(crate) fn check_range(&self, range: &Range<u64>) -> Result<(), Error> {
        self.check_readable(range)?;
        if self.is_kernel() {
            return self.check_kernel_range(range);
        }
        Ok(())
    }

    /// Checks that `range` consists of pages that these tables map.
    #[inline]
    pub(crate) fn check_readable(&self, range: &Range<u64>) -> Result<(), Error> {
        let aligned = (range.start | range.end).is_multiple_of(PAGE_SIZE);
        if !aligned || range.start > range.end {
            return Err(Error::Misaligned);
        }
        // No range crosses the hole between the halves: both ends lie in one of them.
        let inside = range.start == range.end
            || self.covers(range.start)
                && self.covers(range.end - 1)
                && range.start >> 63 == (range.end - 1) >> 63;
        if inside {
            return Ok(());
        }
        Err(self.range_error(range.start, range.end - range.start))
    }

    /// Returns the error for bytes that these tables do not map: [`Error::OutOfRange`] if other
    /// tables could map them.
    #[cold]
    pub(crate) fn range_error(&self, addr: u64, len: u64) -> Error {
        let last = addr.saturating_add(len.saturating_sub(1));
        let lower = last < F::lower_end();
        let upper = addr >= F::kernel_start();
        let others = !self.covers(addr) || !self.covers(last);
        if addr.is_multiple_of(PAGE_SIZE)
            && (lower || upper)
            && others
            && self.bounds.role != Role::Standalone
        {
            Error::OutOfRange
        } else {
            Error::Misaligned
        }
    }

    /// Checks that a kernel's tables were created for this range.
    #[cold]
    fn check_kernel_range(&self, range: &Range<u64>) -> Result<(), Error> {
        let root = self.physical().table(self.root);
        let mut at = range.start;
        while at < range.end {
            if !F::is_table(root.load(index(at, Self::TOP))) {
                return Err(Error::OutOfRange);
            }
            at = next(at, Self::TOP);
        }
        Ok(())
    }

    /// Checks that `range` can be copied to `child` or shared with it.
    #[inline]
    pub(crate) fn check_fork(&self, child: &Self, range: &Range<u64>) -> Result<(), Error> {
        self.check_readable(range)?;
        child.check_readable(range)?;
        if self.is_kernel() || child.is_kernel() {
            return Err(Error::OutOfRange);
        }
        Ok(())
    }

    /// Returns the range that [`Dump`](crate::Dump) prints.
    pub(crate) fn dump_range(&self) -> Range<u64> {
        if self.is_kernel() {
            self.bounds.start..PAGE_SIZE.wrapping_neg()
        } else {
            0..F::lower_end()
        }
    }

    /// Checks that a process's root has the entries of its kernel, which must be one of `spaces`.
    pub(crate) fn check_kernel(&self, spaces: &[&Self]) -> Result<(), String> {
        let Role::Process(kernel) = self.bounds.role else {
            return Ok(());
        };
        if !spaces.iter().any(|space| space.root == kernel) {
            return Err(format!(
                "the kernel's root at {kernel:#x} is not among those that are checked"
            ));
        }
        let memory = self.physical();
        let (own, kernel) = (memory.table(self.root), memory.table(kernel));
        match (self.own_entries().end..ENTRIES).find(|&i| own.load(i) != kernel.load(i)) {
            Some(i) => Err(format!(
                "entry {i} of the root at {:#x} is {:#x}, the kernel's is {:#x}",
                self.root,
                own.load(i),
                kernel.load(i)
            )),
            None => Ok(()),
        }
    }
}
