//! A readable dump of page tables: one line for each run of contiguous pages.

use core::fmt;

use crate::entry::{Attrs, Entry, PageSize};
use crate::format::Format;
use crate::phys::Memory;
use crate::space::PageTables;

/// Prints the lower half of an address space, or the upper half of [a
/// kernel's](PageTables::new_kernel): range, access, bits, size, frame.
///
/// ```text
/// 000000010000-000000014000 rw- uad- 4K 40001000
/// ```
#[derive(Debug)]
pub struct Dump<'a, F: Format, M: Memory>(pub &'a PageTables<F, M>);

#[derive(Clone, Copy)]
struct Run {
    start: u64,
    end: u64,
    phys: u64,
    attrs: Attrs,
    size: PageSize,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}-{:012x} ", self.start, self.end)?;
        for (attr, letter) in [
            (Attrs::READ, 'r'),
            (Attrs::WRITE, 'w'),
            (Attrs::EXEC, 'x'),
            (Attrs::empty(), ' '),
            (Attrs::USER, 'u'),
            (Attrs::ACCESSED, 'a'),
            (Attrs::DIRTY, 'd'),
            (Attrs::SPECIAL, 's'),
        ] {
            let letter = if self.attrs.contains(attr) {
                letter
            } else {
                '-'
            };
            write!(f, "{letter}")?;
        }
        let size = match self.size {
            PageSize::Small => "4K",
            PageSize::Large => "2M",
            PageSize::Giant => "1G",
        };
        writeln!(f, " {size} {:x}", self.phys)
    }
}

impl<F: Format, M: Memory> fmt::Display for Dump<'_, F, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut run: Option<Run> = None;
        let mut result = Ok(());
        self.0.walk(self.0.dump_range(), |addr, entry| {
            let (phys, attrs, size) = match entry {
                Entry::Page { phys, attrs, size } => (phys, attrs, size),
                Entry::Marker(marker) => {
                    if let Some(run) = run.take() {
                        result = result.and_then(|()| write!(f, "{run}"));
                    }
                    result = result.and_then(|()| writeln!(f, "{addr:012x} marker {marker:#x}"));
                    return;
                }
                Entry::Empty => return,
            };
            let next = addr.saturating_add(size.bytes());
            match &mut run {
                Some(run)
                    if run.end == addr
                        && run.phys + (run.end - run.start) == phys
                        && (run.attrs, run.size) == (attrs, size) =>
                {
                    run.end = next;
                }
                _ => {
                    let new = Run {
                        start: addr,
                        end: next,
                        phys,
                        attrs,
                        size,
                    };
                    if let Some(run) = run.replace(new) {
                        result = result.and_then(|()| write!(f, "{run}"));
                    }
                }
            }
        });
        if let Some(run) = run {
            result = result.and_then(|()| write!(f, "{run}"));
        }
        result
    }
}
