//! The kernel's half of all address spaces: tables that every root points to.
//!
//! # Protocol
//!
//! - [`PageTables::new_kernel`] makes a root, and a table below each of its entries that the kernel's ranges reach. From then on neither these entries
//!   nor the root's other ones change: nothing removes such a table while it is empty, puts a page in its place, or adds another one. So a copy of the
//!   entries says the same as the original at any time, and no lock orders the two.
//! - [`PageTables::new_process`] makes a root with a copy of these entries. Its calls do not go below them: they belong to the kernel's tables, which alone
//!   lock, count and free what is there. A root's word counts its own entries only.
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
    /// The first of them. Those of both halves follow each other across the end of all addresses.
    start: u64,
    len: u64,
    role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// One for both halves, or for the lower one where there is no kernel.
    Standalone,
    Kernel,
    /// A process, under the kernel with this root.
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
    /// Tables of a kernel, which the tables of all processes have in common: see [`under`](Self::new_process). `ranges` (in bytes, each end exclusive, not
    /// necessarily of whole pages; [`u64::MAX`] for the end of all addresses) are where the kernel will ever map something, in the upper half from
    /// [`Format::kernel_start`] on. Below each entry of the root that they reach, a table is made at once, and stays until these tables are dropped.
    ///
    /// The kernel maps and unmaps by the same calls as others do, within the stretches of these root entries: [`Error::OutOfRange`] elsewhere. What it
    /// changes there is so in all address spaces at once, and `tlb` is told with the `asid` given here: then the processors must forget it whichever address
    /// space they run, [global](crate::Attrs::GLOBAL) or not. These tables cannot be forked from or to.
    ///
    /// | format | an entry of the root stands for | the kernel's half |
    /// |---|---|---|
    /// | x86-64 | 512 GiB | from `0xffff_8000_0000_0000` on |
    /// | x86-64 LA57 | 256 TiB | from `0xff00_0000_0000_0000` on |
    /// | RISC-V Sv39 | 1 GiB, so that a kernel has no pages of that size | from `0xffff_ffc0_0000_0000` on |
    /// | RISC-V Sv48 | 512 GiB | from `0xffff_8000_0000_0000` on |
    /// | AArch64 | 512 GiB | from `0xffff_0000_0000_0000` on, by a root of its own |
    ///
    /// On AArch64 the processor translates these addresses by TTBR1: [`root`](Self::root) goes there, once, and the roots of processes, which go to TTBR0,
    /// have nothing of it. All else is as on the others. Elsewhere a kernel without a process of its own to run may load this root.
    ///
    /// No range reaches the last page of all addresses, since its end is no number.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`]; [`Error::Misaligned`]: a range is not in the upper half. Nothing is left then.
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

    /// Makes a table below an entry of the root, unless one is there.
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

    /// An empty address space of a process under the same kernel as `kernel`, which may be [the kernel's](Self::new_kernel) tables, or those of a process. Under
    /// tables that have no kernel this is [`new`](Self::new).
    ///
    /// The root starts with the kernel's entries, so that the processor finds the kernel's memory by it as well. Calls through these tables are for
    /// the lower half, as [`Error::OutOfRange`] tells; look-ups and walks find nothing in the upper one, and neither changes, counts or frees what is there.
    ///
    /// The kernel's tables must not be dropped while a processor may still have the root of a process loaded.
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
        // Of those at hand, which have the same entries: the kernel's own may be gone.
        let (from, to) = (memory.table(kernel.root), memory.table(this.root).lock());
        for i in this.own_entries().end..ENTRIES {
            // Not counted: see the protocol.
            to.store(i, from.load(i));
        }
        drop(to);
        Ok(this)
    }

    /// Returns how many frames hold tables of this address space, its root included; of a process's under a kernel, without the kernel's. Lock-free, so
    /// that tables that come or go meanwhile are counted or not. Linear in the tables above the last level.
    pub fn table_frames(&self) -> usize {
        let memory = self.physical();
        // Tables that are found stay tables until it is dropped.
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

    /// Returns `true` if these tables map this address, whatever is there.
    #[inline]
    pub(crate) fn covers(&self, addr: u64) -> bool {
        addr.wrapping_sub(self.bounds.start) < self.bounds.len
    }

    /// The entries of the root that are not the kernel's, or are and these tables are, too.
    pub(crate) fn own_entries(&self) -> Range<usize> {
        let shared =
            matches!(self.bounds.role, Role::Process(_)) && F::is_canonical(F::kernel_start());
        0..if shared { ENTRIES / 2 } else { ENTRIES }
    }

    /// Checks that `range` consists of pages of these tables, which may be changed.
    #[inline]
    pub(crate) fn check_range(&self, range: &Range<u64>) -> Result<(), Error> {
        self.check_readable(range)?;
        if self.is_kernel() {
            return self.check_kernel_range(range);
        }
        Ok(())
    }

    /// Checks that `range` consists of pages of these tables.
    #[inline]
    pub(crate) fn check_readable(&self, range: &Range<u64>) -> Result<(), Error> {
        let aligned = (range.start | range.end).is_multiple_of(PAGE_SIZE);
        if !aligned || range.start > range.end {
            return Err(Error::Misaligned);
        }
        // Ranges do not cross the hole between the halves: both ends lie in one of them.
        let inside = range.start == range.end
            || self.covers(range.start)
                && self.covers(range.end - 1)
                && range.start >> 63 == (range.end - 1) >> 63;
        if inside {
            return Ok(());
        }
        Err(self.range_error(range.start, range.end - range.start))
    }

    /// Why tables do not map these bytes: [`Error::OutOfRange`] if others could.
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

    /// Checks that a kernel's tables were made for this range.
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

    /// Checks that `range` can be copied to, or shared with, `child`.
    #[inline]
    pub(crate) fn check_fork(&self, child: &Self, range: &Range<u64>) -> Result<(), Error> {
        self.check_readable(range)?;
        child.check_readable(range)?;
        if self.is_kernel() || child.is_kernel() {
            return Err(Error::OutOfRange);
        }
        Ok(())
    }

    /// What [`Dump`](crate::Dump) prints.
    pub(crate) fn dump_range(&self) -> Range<u64> {
        if self.is_kernel() {
            self.bounds.start..PAGE_SIZE.wrapping_neg()
        } else {
            0..F::lower_end()
        }
    }

    /// Checks that a process's root has the entries of its kernel, which is one of `spaces`.
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
