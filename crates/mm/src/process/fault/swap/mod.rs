//! Swap: markers in the page tables, slots and their counts, swap-out and swap-in.
//!
//! A page in swap is a marker in its table, with the number of its slot. Slots are counted: a fork
//! copies markers, and counts each slot once more.
//!
//! A page is swapped out with its VMA closed to faults and the address space locked. So a fault
//! that found a marker cannot find the same marker again for other content.
//!
//! Only private anonymous memory of one process goes to swap. Shared pages stay, as with
//! `MADV_PAGEOUT`.

mod area;
mod markers;
mod swap_in;
mod swap_out;
mod swapon;

pub(in crate::process) use area::SwapArea;
pub use area::SwapDevice;
pub(in crate::process) use markers::free_slot;

/// A page in swap, as its marker describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swapped {
    /// The slot.
    pub place: u32,
    /// The page was written since soft-dirty was last cleared.
    pub soft_dirty: bool,
}

impl Swapped {
    /// Decodes a marker. Guards have the lowest bit set.
    pub(crate) fn of(marker: u32) -> Option<Self> {
        (marker & 1 == 0).then_some(Swapped {
            place: marker >> 2,
            soft_dirty: marker & 2 != 0,
        })
    }

    pub(crate) fn marker(self) -> u32 {
        self.place << 2 | u32::from(self.soft_dirty) << 1
    }
}
