//! The map with policies, and the pages of each node, as `/proc/PID/numa_maps` prints it
//! (Documentation/filesystems/proc.rst, `numa(7)`).

use core::cell::Cell;
use core::fmt;

use samara_paging::Kind;

use crate::config::Layout;
use crate::observe::walk::Seen;
use crate::process::{Platform, Process};
use crate::space::maps::MapsLine;
use crate::vma::{Area, Policy};

/// The most nodes of a machine.
const NODES: usize = 64;

/// A VMA of `/proc/PID/numa_maps`. Its `Display` is the line, without its line feed.
///
/// The fields `active=`, `swapcache=` and `writeback=` are known only to a kernel's reclaim. They
/// are left out, as Linux leaves them out if they are 0. [`Smaps`](crate::process::Smaps) says
/// which pages are dirty.
#[derive(Clone, Debug)]
pub struct NumaLine<'a> {
    line: MapsLine<'a>,
    policy: Policy,
    file: bool,
    pages: u64,
    anon: u64,
    dirty: u64,
    mapmax: u32,
    nodes: [u64; NODES],
}

impl NumaLine<'_> {
    fn write_policy(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mode, flags) = (self.policy.mode & 0xfff, self.policy.mode & 0xf000);
        f.write_str(match mode {
            0 => "default",
            1 => "prefer",
            2 => "bind",
            3 => "interleave",
            4 => "local",
            5 => "prefer (many)",
            6 => "weighted interleave",
            _ => "unknown",
        })?;
        match flags {
            0x8000 => f.write_str("=static")?,
            0x4000 => f.write_str("=relative")?,
            0x2000 => f.write_str("=balancing")?,
            _ => {}
        }
        if self.policy.nodes == 0 || matches!(mode, 0 | 4) {
            return Ok(());
        }
        let mut sign = ':';
        let mut node = 0;
        while node < NODES as u32 {
            if self.policy.nodes >> node & 1 == 0 {
                node += 1;
                continue;
            }
            let len = (self.policy.nodes >> node).trailing_ones();
            match len {
                1 => write!(f, "{sign}{node}")?,
                _ => write!(f, "{sign}{node}-{}", node + len - 1)?,
            }
            sign = ',';
            node += len;
        }
        Ok(())
    }
}

impl fmt::Display for NumaLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x} ", self.line.start)?;
        self.write_policy(f)?;
        if self.file {
            write!(f, " file={}", self.line.name)?;
        } else if self.line.name == "[heap]" {
            f.write_str(" heap")?;
        } else if self.line.name == "[stack]" {
            f.write_str(" stack")?;
        }
        if self.pages == 0 {
            return Ok(());
        }
        let mut number = |label, number: u64| match number {
            0 => Ok(()),
            _ => write!(f, " {label}={number}"),
        };
        number("anon", self.anon)?;
        number("dirty", self.dirty)?;
        if self.pages != self.anon && self.pages != self.dirty {
            number("mapped", self.pages)?;
        }
        if self.mapmax > 1 {
            number("mapmax", u64::from(self.mapmax))?;
        }
        for (node, &pages) in self.nodes.iter().enumerate() {
            if pages > 0 {
                write!(f, " N{node}={pages}")?;
            }
        }
        f.write_str(" kernelpagesize_kB=4")
    }
}

impl<P: Platform> Process<P> {
    /// Writes what `/proc/PID/numa_maps` prints. `node` returns the node of a physical address, 0
    /// to 63. Calls wait until it returns, and faults do not. O(VMAs and pages).
    ///
    /// # Errors
    /// Those of `out`.
    ///
    /// ```
    /// # use samara_mm::process::{Machine, Platform, Process};
    /// # use samara_mm::{Config, Errno, Layout, Limits, MmapOptions, Prot};
    /// # fn nodes<P: Platform>(machine: &Machine<P>) -> Result<(), Errno> {
    /// let process = Process::new(machine, Config::default(), Limits::default(), Layout::default())?;
    /// let start = process.mmap(&MmapOptions::anonymous(0x2000).prot(Prot::READ | Prot::WRITE))?;
    /// process.copy_in(start, b"there");
    /// let mut text = String::new();
    /// process.write_numa_maps(|_| 0, &mut text).unwrap();
    /// assert_eq!(text, format!("{start:08x} default anon=1 dirty=1 N0=1 kernelpagesize_kB=4\n"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_numa_maps(
        &self,
        node: impl Fn(u64) -> usize,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        let space = self.mm.space.read();
        let layout = space.shown_layout();
        let current = Cell::new(None);
        let line = |area| {
            current.set(Some(area));
            NumaLine::new(area, &layout, space.config.numa_nodes)
        };
        self.write_areas(&space, out, "\n", line, |line, seen| {
            if let Seen::Page(at, page) = seen
                && let Some(frame) = page.frame
            {
                line.pages += 1;
                line.anon += u64::from(frame.kind == Kind::Anon);
                line.dirty += u64::from(self.mm.is_dirty(current.get(), at, &page));
                line.mapmax = line.mapmax.max(frame.mappings + page.users.max(1) - 1);
                let own = page.phys + (at & (page.size.bytes() - 1));
                if let Some(pages) = line.nodes.get_mut(node(own)) {
                    *pages += 1;
                }
            }
        })
    }
}

impl<'a> NumaLine<'a> {
    fn new(area: Area<'a>, layout: &Layout, numa_nodes: u32) -> Self {
        let vma = area.vma;
        NumaLine {
            line: MapsLine::of(area, layout),
            policy: Policy {
                nodes: vma.policy.effective(numa_nodes),
                ..vma.policy
            },
            file: !vma.is_anonymous() && !vma.is_special(),
            pages: 0,
            anon: 0,
            dirty: 0,
            mapmax: 0,
            nodes: [0; NODES],
        }
    }
}
