//! The crate `memory_set` of ArceOS, without page tables behind it.

use memory_addr::{AddrRange, MemoryAddr, VirtAddr};
use memory_set::{MappingBackend, MemoryArea, MemorySet};

use crate::{Areas, PAGE};

/// Maps nothing.
#[derive(Clone)]
struct Nothing;

impl MappingBackend for Nothing {
    type Addr = VirtAddr;
    type Flags = bool;
    type PageTable = ();

    fn map(&self, _: VirtAddr, _: usize, _: bool, _: &mut ()) -> bool {
        true
    }

    fn unmap(&self, _: VirtAddr, _: usize, _: &mut ()) -> bool {
        true
    }

    fn protect(&self, _: VirtAddr, _: usize, _: bool, _: &mut ()) -> bool {
        true
    }
}

pub(crate) struct Set(MemorySet<Nothing>);

fn address(addr: u64) -> VirtAddr {
    VirtAddr::from(addr as usize)
}

impl Areas for Set {
    const NAME: &'static str = "memory_set";

    fn new() -> Self {
        Set(MemorySet::new())
    }

    fn map_at(&mut self, addr: u64, len: u64, write: bool) {
        let area = MemoryArea::new(address(addr), len as usize, write, Nothing);
        let _ = self.0.map(area, &mut (), true);
    }

    fn map(&mut self, len: u64) -> u64 {
        let limit = AddrRange::new(address(PAGE), address(0x7fff_f7ff_f000));
        let found = self
            .0
            .find_free_area(address(crate::LOW), len as usize, limit, PAGE as usize);
        let Some(addr) = found else {
            return 0;
        };
        let addr = addr.align_down_4k().as_usize() as u64;
        self.map_at(addr, len, true);
        addr
    }

    fn unmap(&mut self, addr: u64, len: u64) {
        let _ = self.0.unmap(address(addr), len as usize, &mut ());
    }

    fn protect(&mut self, addr: u64, len: u64, write: bool) {
        let update = |old: bool| (old != write).then_some(write);
        let _ = self.0.protect(address(addr), len as usize, update, &mut ());
    }

    fn touch(&mut self, addr: u64) {
        std::hint::black_box(self.0.find(address(addr)));
    }
}
