//! Places in swap: what they are in the page tables, who counts them, and how pages go there and come back.
//!
//! A page in swap is a marker in its table, with the number of its place. Places are counted: a fork copies markers, and the child's count once more.
//! A page leaves memory with its area closed to faults, and the address space locked, so that a fault that has found a marker cannot find the same
//! one again for other content.
//!
//! Only private anonymous memory that one process has alone goes to swap; what several have stays, as with `MADV_PAGEOUT`.

mod area;
mod markers;
mod swap_in;
mod swap_out;
mod swapon;

pub(in crate::process) use area::SwapArea;
pub use area::SwapDevice;
pub(in crate::process) use markers::free_slot;

/// A page that is in swap, as its marker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swapped {
    /// Its place.
    pub place: u32,
    /// It was written since this was last cleared.
    pub soft_dirty: bool,
}

impl Swapped {
    /// Guards have the lowest bit.
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
