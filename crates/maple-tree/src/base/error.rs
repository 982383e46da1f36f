//! Why a change was not made. Each error gives back what the caller had handed over.

use core::fmt;

/// Why [`insert_range`](crate::MapleTree::insert_range) stored nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum InsertError<V> {
    /// An entry is in the way.
    Occupied(V),
    /// There was no memory for the nodes needed.
    Alloc(V),
    /// The range holds no index.
    EmptyRange(V),
}

/// Why [`try_from_sorted`](crate::MapleTree::try_from_sorted) made no map.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SortedError<V> {
    /// The range begins before the one before it has ended: they overlap, or are not in ascending order.
    OutOfOrder(V),
    /// There was no memory for the nodes needed.
    Alloc(V),
    /// The range holds no index.
    EmptyRange(V),
}

/// Why a store that overwrites stored nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum StoreError<V> {
    /// The range lies strictly within an entry, which would have to be on both sides of it.
    Splits(V),
    /// There was no memory for the nodes needed.
    Alloc(V),
    /// The range holds no index.
    EmptyRange(V),
}

/// Why an erasure changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EraseError {
    /// The range lies strictly within an entry, which would have to be on both sides of it.
    Splits,
    /// There was no memory for the nodes needed.
    Alloc,
    /// The range holds no index.
    EmptyRange,
}

impl<V> InsertError<V> {
    /// The value that was not stored.
    pub fn into_value(self) -> V {
        match self {
            Self::Occupied(v) | Self::Alloc(v) | Self::EmptyRange(v) => v,
        }
    }
}

impl<V> SortedError<V> {
    /// The value at which it ended.
    pub fn into_value(self) -> V {
        match self {
            Self::OutOfOrder(v) | Self::Alloc(v) | Self::EmptyRange(v) => v,
        }
    }
}

impl<V> StoreError<V> {
    /// The value that was not stored.
    pub fn into_value(self) -> V {
        match self {
            Self::Splits(v) | Self::Alloc(v) | Self::EmptyRange(v) => v,
        }
    }
}

const ALLOC: &str = "no memory for a tree node";
const EMPTY: &str = "the range is empty";
const SPLITS: &str = "the range lies strictly within an entry";

impl<V> fmt::Display for InsertError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Occupied(_) => "an entry is in the way",
            Self::Alloc(_) => ALLOC,
            Self::EmptyRange(_) => EMPTY,
        })
    }
}

impl<V> fmt::Debug for InsertError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Occupied(_) => "Occupied(..)",
            Self::Alloc(_) => "Alloc(..)",
            Self::EmptyRange(_) => "EmptyRange(..)",
        })
    }
}

impl<V> fmt::Display for SortedError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfOrder(_) => "the range begins before the one before it has ended",
            Self::Alloc(_) => ALLOC,
            Self::EmptyRange(_) => EMPTY,
        })
    }
}

impl<V> fmt::Debug for SortedError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfOrder(_) => "OutOfOrder(..)",
            Self::Alloc(_) => "Alloc(..)",
            Self::EmptyRange(_) => "EmptyRange(..)",
        })
    }
}

impl<V> fmt::Display for StoreError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Splits(_) => SPLITS,
            Self::Alloc(_) => ALLOC,
            Self::EmptyRange(_) => EMPTY,
        })
    }
}

impl<V> fmt::Debug for StoreError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Splits(_) => "Splits(..)",
            Self::Alloc(_) => "Alloc(..)",
            Self::EmptyRange(_) => "EmptyRange(..)",
        })
    }
}

impl fmt::Display for EraseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Splits => SPLITS,
            Self::Alloc => ALLOC,
            Self::EmptyRange => EMPTY,
        })
    }
}

impl<V> core::error::Error for InsertError<V> {}
impl<V> core::error::Error for SortedError<V> {}
impl<V> core::error::Error for StoreError<V> {}
impl core::error::Error for EraseError {}
