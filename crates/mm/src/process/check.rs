//! Invariants, checked exhaustively, for tests.

use alloc::format;
use alloc::string::String;

use alloc::vec::Vec;

use samara_paging::{Attrs, Entry};

use crate::flags::VmFlags;
use crate::process::handle::Process;
use crate::process::machine::Machine;
use crate::process::mm::Mm;
use crate::process::platform::Platform;

impl<P: Platform> Process<P> {
    /// Checks the map, and that every present page lies in a VMA that permits what its entry
    /// permits. Allocates infallibly: for tests only.
    ///
    /// # Errors
    /// A description of the violation.
    pub fn check(&self) -> Result<(), String> {
        self.mm.check()
    }
}

impl<P: Platform> Machine<P> {
    /// Checks every process, and counts all frames again from all tables. No other thread may use
    /// the machine during the call.
    ///
    /// # Errors
    /// A description of the violation.
    pub fn check(&self) -> Result<(), String> {
        let mut all = Vec::new();
        self.each_process(|mm| all.push(mm.check()));
        all.into_iter().collect::<Result<(), String>>()?;
        self.with_processes(|processes| {
            let tables = processes.iter().map(|mm| &mm.tables);
            let tables: Vec<_> = self.kernel().into_iter().chain(tables).collect();
            samara_paging::check(&tables)
        })
    }
}

impl<P: Platform> Mm<P> {
    fn check(&self) -> Result<(), String> {
        let space = self.space.read();
        space.check().map_err(|broken| format!("{broken:?}"))?;
        let mut result = Ok(());
        self.tables.walk(0..space.config.task_size, |addr, entry| {
            if result.is_ok()
                && let Entry::Page { attrs, size, .. } = entry
            {
                let Some(area) = space.areas.at(addr) else {
                    result = Err(format!("a page at {addr:#x}, where no area is"));
                    return;
                };
                if area.end - addr < size.bytes() {
                    result = Err(format!("the page at {addr:#x} is longer than its area"));
                }
                let flags = area.vma.flags;
                if attrs.contains(Attrs::WRITE) && !flags.contains(VmFlags::WRITE)
                    || attrs.contains(Attrs::EXEC) && !flags.contains(VmFlags::EXEC)
                    || attrs.intersects(Attrs::ACCESS) && !flags.intersects(VmFlags::ACCESS)
                {
                    result = Err(format!(
                        "the page at {addr:#x} allows {attrs:?}, its area {flags:?}"
                    ));
                }
            }
        });
        result
    }
}
