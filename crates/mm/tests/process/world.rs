//! A machine on the heap, and processes with few mappings.

use samara_mm::abi::{MAP_ANONYMOUS, MAP_FIXED, MAP_PRIVATE};
use samara_mm::process::{Machine, Platform, Process};
use samara_mm::{Call, Config, FileArg, Layout, Limits};
use samara_paging::{Arena, Grace, HeapBytes, Physical, format::X86_64};

pub(crate) const PAGE: u64 = 4096;
/// Where tests map: a boundary of last-level tables.
pub(crate) const BASE: u64 = 0x1_0000_0000;

pub(crate) struct Hosted;

impl Platform for Hosted {
    type Format = X86_64;
    type Backing = Arena<HeapBytes>;
    type Reclaim = Grace;
    type Tlb = ();
    type Mutex = parking_lot::RawMutex;
    type RwLock = parking_lot::RawRwLock;
}

pub(crate) fn machine(frames: usize) -> Machine<Hosted> {
    let arena = Arena::on_heap(frames).unwrap();
    let physical = Physical::new(arena, Grace::new(), Arena::<HeapBytes>::BASE, frames as u64);
    Machine::new(physical.unwrap(), ()).unwrap()
}

pub(crate) fn process(machine: &Machine<Hosted>) -> Process<Hosted> {
    let (config, limits, layout) = (Config::default(), Limits::default(), Layout::default());
    Process::new(machine, config, limits, layout).unwrap()
}

/// Private memory at a fixed place.
pub(crate) fn anonymous(addr: u64, pages: u64, prot: u64) -> Call {
    Call::Mmap {
        addr,
        len: pages * PAGE,
        prot,
        flags: MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
        file: FileArg::None,
        offset: 0,
    }
}

pub(crate) fn free_frames(machine: &Machine<Hosted>) -> u64 {
    machine.physical().backing().free_frames()
}

/// The byte at an address, or `None` where a load fails.
pub(crate) fn byte(process: &Process<Hosted>, addr: u64) -> Option<u8> {
    let mut byte = [0];
    (process.copy_out(addr, &mut byte) == 1).then_some(byte[0])
}
