//! Walkers that run during a history: pages are merged and pinned, and there is space for swap.

use std::sync::{Arc, Mutex};

use samara_mm::Errno;
use samara_mm::observe::PagemapWord;
use samara_mm::process::{Machine, PAGE_BYTES, Process, SwapDevice};
use samara_mm::walkers::{Ksm, PinFlags, PinnedPages};

use crate::countdown::spared;
use crate::world::Hosted;

/// Fewer than there are pages.
const PLACES: u32 = 24;

struct Device(Arc<Mutex<Vec<[u8; PAGE_BYTES]>>>);

impl SwapDevice for Device {
    fn read(&self, place: u32, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno> {
        *into = self.0.lock().unwrap()[place as usize];
        Ok(())
    }

    fn write(&self, place: u32, from: &[u8; PAGE_BYTES]) -> Result<(), Errno> {
        self.0.lock().unwrap()[place as usize] = *from;
        Ok(())
    }
}

pub(crate) struct Walkers {
    ksm: Ksm<Hosted>,
    pins: Vec<PinnedPages<Hosted>>,
}

impl Walkers {
    pub(crate) fn new(machine: &Machine<Hosted>) -> Self {
        let places = vec![[0; PAGE_BYTES]; PLACES as usize];
        let device = Device(Arc::new(Mutex::new(places)));
        machine.swap_on(device, PLACES).unwrap();
        Walkers {
            ksm: Ksm::new(machine),
            pins: Vec::new(),
        }
    }

    pub(crate) fn scan(&mut self, pages: u64) -> Result<u8, Errno> {
        self.ksm.scan(pages).map(|_| 0)
    }

    /// A page that cannot be pinned is no failure of memory.
    pub(crate) fn pin(
        &mut self,
        process: &Process<Hosted>,
        addr: u64,
        pages: usize,
        write: bool,
        long: bool,
    ) -> Result<u8, Errno> {
        let mut flags = PinFlags::empty();
        flags.set(PinFlags::WRITE, write);
        flags.set(PinFlags::LONGTERM, long);
        match process.pin(addr, pages, flags) {
            Ok(pins) => spared(|| self.pins.push(pins)),
            Err(Errno::ENOMEM) => return Err(Errno::ENOMEM),
            Err(_) => {}
        }
        Ok(0)
    }

    pub(crate) fn unpin(&mut self, pins: usize) {
        let pins = pins.min(self.pins.len());
        self.pins.drain(..pins);
    }
}

/// Returns `true` if the page is in swap.
pub(crate) fn is_swapped(process: &Process<Hosted>, addr: u64) -> bool {
    let mut word = [0];
    // Also of guards, of which these histories have none.
    process.pagemap(addr, &mut word).unwrap();
    word[0] & PagemapWord::SWAP.bits() != 0
}
