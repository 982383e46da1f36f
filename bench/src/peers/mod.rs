//! One face over every map that is compared: what a user of a range map does with it.
//!
//! Ranges are half open here, `first..end`, because most of the rivals are; values are one word. A map tells with
//! [`offers`](RangeMap::offers) which operations it has; the row is left empty for one that it lacks.

mod btree;
mod capi;
mod im;
mod iset;
mod maple;
mod nodit;
mod rangemap;
mod vec;

pub use btree::Btree;
pub use capi::{Capi, set_hooks};
pub use im::Im;
pub use iset::Iset;
pub use maple::{Cow, Maple, OneByOne, Rcu};
pub use nodit::Nodit;
pub use rangemap::Rangemap;
pub use samara_bench_data::Item;
pub use vec::SortedVec;

/// The measured operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Looking up a page that is in a range.
    Get,
    /// Looking up sixteen pages at once; a figure for each.
    GetMany,
    /// Looking up a page that is in a hole.
    Miss,
    /// Going through all entries.
    Iterate,
    /// Inserting in ascending order.
    Append,
    /// Inserting in descending order.
    Descend,
    /// Taking all entries from the middle one on out of the map; a figure for the call.
    SplitHalf,
    /// Taking all but the first ten out of the map; a figure for the call.
    SplitAllButTen,
    /// Appending a map of one entry; a figure for the call.
    AppendOne,
    /// Building from a sorted iterator.
    FromSorted,
    /// Inserting in random order.
    Insert,
    /// Erasing in random order.
    Erase,
    /// Storing over exactly the same range.
    Replace,
    /// Storing over what is there.
    Overwrite,
    /// Erasing an entry and storing it again.
    Pair,
    /// Looking for free pages, upwards.
    GapUp(u64),
    /// Looking for free pages, downwards.
    GapDown(u64),
    /// Copying the map; a figure for the whole map.
    Duplicate,
    /// Copying the map, with a new value in each entry; a figure for the whole map.
    Renew,
    /// Dropping the map; a figure for the whole map.
    Destroy,
    /// A copy that shares all; a figure for the whole map.
    Snapshot,
    /// A snapshot, the first store after it (over an entry somewhere), and dropping the snapshot.
    Versions,
}

impl Kind {
    /// Returns `true` for operations that move entries from one map to another.
    pub fn moves_parts(self) -> bool {
        matches!(
            self,
            Kind::SplitHalf | Kind::SplitAllButTen | Kind::AppendOne
        )
    }
}

/// A map from ranges that do not overlap to words.
pub trait RangeMap: Default {
    /// As the tables print it.
    const NAME: &'static str;
    /// Maps of this kind have `split_off` and `append`.
    const MOVES_PARTS: bool = false;

    /// Returns `true` if this map has an operation. By default these are all that have no default
    /// below.
    fn offers(kind: Kind) -> bool {
        !matches!(
            kind,
            Kind::FromSorted | Kind::Overwrite | Kind::GapUp(_) | Kind::GapDown(_) | Kind::Renew
        )
    }

    /// Stores into a hole.
    fn insert(&mut self, item: Item);
    /// The value at a point.
    fn get(&self, key: u64) -> Option<u32>;
    /// Removes the range that starts at `item.0`.
    fn remove(&mut self, item: Item);
    /// Replaces the value of a range that is stored exactly so.
    fn replace(&mut self, item: Item);
    /// Sum over all ranges of first + value: what an iteration must read.
    fn sum(&self) -> u64;
    /// A copy with the same values.
    fn duplicate(&self) -> Self;

    /// The values at sixteen points: their sum, for maps without a call for it one by one.
    fn get_many(&self, keys: &[u64; 16]) -> u64 {
        keys.iter().fold(0, |sum, &key| {
            sum.wrapping_add(self.get(key).map_or(1, u64::from))
        })
    }
    /// Stores over whatever is there; ranges covered in part keep their other part.
    fn overwrite(&mut self, _item: Item) {}
    /// The lowest free range of `size` at or above `from`.
    fn gap_up(&self, _from: u64, _size: u64) -> Option<u64> {
        None
    }
    /// The highest free range of `size` below `to`.
    fn gap_down(&self, _to: u64, _size: u64) -> Option<u64> {
        None
    }
    /// A copy with another value in each entry.
    fn renewed(&self) -> Self {
        Self::default()
    }
    /// Takes what begins at a key or above out of the map.
    fn split_off(&mut self, _key: u64) -> Self {
        Self::default()
    }
    /// Takes over all of another map.
    fn append(&mut self, _other: &mut Self) {}
    /// A map of ranges in ascending order.
    fn from_sorted(_items: &[Item]) -> Self {
        Self::default()
    }
}
