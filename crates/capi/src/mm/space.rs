//! An address space behind one interface: with pages in one of five formats, or only the map.

use core::fmt::Write;
use std::string::{String, ToString};

use samara_mm::heap::{Counted, try_box};
use samara_mm::process::{Access, Fault, ForkMode, HostLock, PageStatus, Platform, Process, Smaps};
use samara_mm::{AddressSpace, Call, Errno, Pages, Prot, VmFlags};
use samara_paging::Context;

use crate::mm::abi::MmArea;
use crate::mm::activity::{CallCounter, CallGuard};
use crate::mm::observe::area_of;

/// The operations of an address space that the functions of the header need.
pub(crate) trait Space: Send + Sync {
    /// Performs a call. `backend` is notified of its effects in addition to the tables, and may
    /// refuse.
    fn perform(&self, call: &Call, backend: Option<&mut dyn Pages>) -> Result<u64, Errno>;
    /// Handles a fault. `backend` is notified of a stack that grows.
    fn fault(
        &self,
        addr: u64,
        access: Access,
        backend: Option<&mut dyn Pages>,
    ) -> Result<(), Fault>;
    fn copy_out(&self, addr: u64, to: &mut [u8]) -> usize;
    fn copy_in(&self, addr: u64, from: &[u8]) -> usize;
    fn fork(&self, mode: ForkMode) -> Result<Box<dyn Space>, Errno>;
    /// Prepares for slow functions of the caller: during calls with them, faults in other areas
    /// must not wait.
    fn expect_hooks(&self);
    /// Stores a byte for each page: 1 if it is in memory.
    fn mincore(&self, addr: u64, len: u64, vec: &mut [u8]) -> Result<(), Errno>;
    fn translate(&self, addr: u64) -> Option<(u64, Prot)>;
    fn root(&self) -> u64;
    /// Returns the context of the page tables: number and generation. Returns `None` without pages.
    fn context(&self) -> Option<&Context>;
    fn page(&self, addr: u64) -> PageStatus;
    fn with_map(&self, look: &mut dyn FnMut(&AddressSpace));
    /// Finds the area that contains an address, or the first above it.
    fn find(&self, addr: u64) -> Option<MmArea>;
    fn smaps(&self, out: &mut dyn Write) -> core::fmt::Result;
    /// Checks its invariants, and those of its memory if no other call runs there.
    fn check(&self) -> Result<(), String>;
    /// Frees everything.
    fn put(self: Box<Self>);
    /// As [`put`](Self::put), and reports losses of file content.
    fn exit(self: Box<Self>) -> Result<(), Errno>;
}

/// An address space with pages.
pub(crate) struct Paged<P: Platform> {
    process: Process<P>,
    calls: Counted<CallCounter>,
}

impl<P: Platform> Paged<P> {
    pub(crate) fn new(process: Process<P>, calls: Counted<CallCounter>) -> Self {
        Paged { process, calls }
    }

    fn enter(&self) -> (CallGuard<'_>, &Process<P>) {
        (self.calls.enter(), &self.process)
    }
}

impl<P: Platform> Space for Paged<P> {
    fn perform(&self, call: &Call, backend: Option<&mut dyn Pages>) -> Result<u64, Errno> {
        let (_inside, process) = self.enter();
        match backend {
            Some(backend) => process.perform_with(call, backend),
            None => process.perform(call),
        }
    }

    fn fault(
        &self,
        addr: u64,
        access: Access,
        backend: Option<&mut dyn Pages>,
    ) -> Result<(), Fault> {
        let (_inside, process) = self.enter();
        match backend {
            Some(backend) => process.fault_with(addr, access, backend),
            None => process.fault(addr, access),
        }
    }

    fn copy_out(&self, addr: u64, to: &mut [u8]) -> usize {
        let (_inside, process) = self.enter();
        process.copy_out(addr, to)
    }

    fn copy_in(&self, addr: u64, from: &[u8]) -> usize {
        let (_inside, process) = self.enter();
        process.copy_in(addr, from)
    }

    fn fork(&self, mode: ForkMode) -> Result<Box<dyn Space>, Errno> {
        let (_inside, process) = self.enter();
        let child = process.fork(mode)?;
        Ok(try_box(Paged::new(child, self.calls.clone()))?)
    }

    fn expect_hooks(&self) {
        self.process.expect_threads();
    }

    fn mincore(&self, addr: u64, len: u64, vec: &mut [u8]) -> Result<(), Errno> {
        let (_inside, process) = self.enter();
        process.mincore(addr, len, vec)
    }

    fn translate(&self, addr: u64) -> Option<(u64, Prot)> {
        let (_inside, process) = self.enter();
        process.translate(addr)
    }

    fn root(&self) -> u64 {
        self.process.root()
    }

    fn context(&self) -> Option<&Context> {
        Some(self.process.context())
    }

    fn page(&self, addr: u64) -> PageStatus {
        let (_inside, process) = self.enter();
        process.page(addr)
    }

    fn with_map(&self, look: &mut dyn FnMut(&AddressSpace)) {
        let (_inside, process) = self.enter();
        process.with_space(look);
    }

    fn find(&self, addr: u64) -> Option<MmArea> {
        let (_inside, process) = self.enter();
        process.find(addr, area_of)
    }

    fn smaps(&self, out: &mut dyn Write) -> core::fmt::Result {
        let (_inside, process) = self.enter();
        process.write_smaps(out)
    }

    fn check(&self) -> Result<(), String> {
        let (_inside, process) = self.enter();
        process.check()?;
        // Counts can be compared only while no other call runs. If one has entered in between, the
        // result is meaningless.
        let Some(before) = self.calls.sole_call() else {
            return Ok(());
        };
        let counts = process.machine().check();
        if self.calls.sole_call() == Some(before) {
            counts
        } else {
            Ok(())
        }
    }

    fn put(self: Box<Self>) {
        let calls = self.calls.clone();
        let _inside = calls.enter();
        drop(self);
    }

    fn exit(self: Box<Self>) -> Result<(), Errno> {
        let Paged { process, calls } = *self;
        let _inside = calls.enter();
        process.exit()
    }
}

/// An address space without pages.
pub(crate) struct MapOnly(lock_api::RwLock<HostLock, AddressSpace>);

impl MapOnly {
    pub(crate) fn new(space: AddressSpace) -> Self {
        MapOnly(lock_api::RwLock::new(space))
    }
}

impl Space for MapOnly {
    fn perform(&self, call: &Call, backend: Option<&mut dyn Pages>) -> Result<u64, Errno> {
        let mut space = self.0.write();
        match backend {
            Some(backend) => space.perform_with(call, backend),
            None => space.perform(call),
        }
    }

    /// Decides by the map alone. The signals for accesses beyond a file's end and for read errors
    /// are unknown.
    fn fault(
        &self,
        addr: u64,
        access: Access,
        backend: Option<&mut dyn Pages>,
    ) -> Result<(), Fault> {
        let mut space = self.0.write();
        let there = |space: &AddressSpace| space.lookup(addr).map(|area| area.vma.flags);
        let write = access.contains(Access::WRITE);
        let done = match backend {
            Some(backend) => space.fault_with(addr, write, backend),
            None => space.fault(addr, write),
        };
        match there(&space) {
            None => Err(Fault::MAPERR),
            Some(flags) if access.contains(Access::EXEC) && !flags.contains(VmFlags::EXEC) => {
                Err(Fault::ACCERR)
            }
            Some(_) => done.map_err(|_| Fault::ACCERR),
        }
    }

    fn copy_out(&self, _: u64, _: &mut [u8]) -> usize {
        0
    }

    fn copy_in(&self, _: u64, _: &[u8]) -> usize {
        0
    }

    fn fork(&self, _: ForkMode) -> Result<Box<dyn Space>, Errno> {
        let child = self.0.write().fork()?;
        Ok(try_box(MapOnly::new(child))?)
    }

    fn expect_hooks(&self) {}

    fn mincore(&self, addr: u64, len: u64, vec: &mut [u8]) -> Result<(), Errno> {
        self.0.write().perform(&Call::Mincore { addr, len })?;
        vec.fill(0);
        Ok(())
    }

    fn translate(&self, _: u64) -> Option<(u64, Prot)> {
        None
    }

    fn root(&self) -> u64 {
        0
    }

    fn context(&self) -> Option<&Context> {
        None
    }

    fn page(&self, _: u64) -> PageStatus {
        PageStatus::empty()
    }

    fn with_map(&self, look: &mut dyn FnMut(&AddressSpace)) {
        look(&self.0.read());
    }

    fn find(&self, addr: u64) -> Option<MmArea> {
        let space = self.0.read();
        let start = space.find(addr)?.start;
        space.area_at(start).map(|line| area_of(&line))
    }

    fn smaps(&self, out: &mut dyn Write) -> core::fmt::Result {
        let space = self.0.read();
        space
            .maps()
            .try_for_each(|line| write!(out, "{}", Smaps::new(line, space.config().pkeys)))
    }

    fn check(&self) -> Result<(), String> {
        self.0.read().check().map_err(|broken| broken.to_string())
    }

    fn put(self: Box<Self>) {}

    fn exit(self: Box<Self>) -> Result<(), Errno> {
        Ok(())
    }
}
