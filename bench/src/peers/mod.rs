//! One face over every map that is compared: what a user of a range map does with it.
//!
//! Ranges are half open here, `first..end`, because most of the rivals are; values are one word. A map that lacks an
//! operation answers `false` from its `can_…` constant, and the row is left empty for it.

mod btree;
mod im;
mod iset;
mod maple;
mod nodit;
mod rangemap;

pub use btree::Btree;
pub use im::Im;
pub use iset::Iset;
pub use maple::Maple;
pub use nodit::Nodit;
pub use rangemap::Rangemap;

/// A range, `first..end`, and its value.
pub type Item = (u64, u64, u32);

/// A map from ranges that do not overlap to words.
pub trait RangeMap: Default {
    /// As the tables print it.
    const NAME: &'static str;
    /// Whether [`overwrite`](RangeMap::overwrite) is one operation of this map.
    const CAN_OVERWRITE: bool = true;
    /// Whether [`gap_up`](RangeMap::gap_up) and [`gap_down`](RangeMap::gap_down) are offered.
    const CAN_FIND_GAPS: bool = false;

    /// Stores into a hole.
    fn insert(&mut self, item: Item);
    /// The value at a point.
    fn get(&self, key: u64) -> Option<u32>;
    /// Removes the range that starts at `item.0`.
    fn remove(&mut self, item: Item);
    /// Replaces the value of a range that is stored exactly so.
    fn replace(&mut self, item: Item);
    /// Stores over whatever is there; ranges covered in part keep their other part.
    fn overwrite(&mut self, _item: Item) {}
    /// Sum over all ranges of first + value: what an iteration must read.
    fn sum(&self) -> u64;
    /// A copy with the same values.
    fn duplicate(&self) -> Self;
    /// The lowest free range of `size` at or above `from`.
    fn gap_up(&self, _from: u64, _size: u64) -> Option<u64> {
        None
    }
    /// The highest free range of `size` below `to`.
    fn gap_down(&self, _to: u64, _size: u64) -> Option<u64> {
        None
    }
}
