//! What a write puts at its range, as types: a write that is refused gives back what it was given, so that nobody has to ask what that was.

use crate::base::Value;
use crate::node::{NULL, Word};

/// What a write puts at its range.
pub(super) trait New<V>: Sized {
    /// The range becomes a hole.
    const ERASES: bool = false;

    /// The word to be stored, which the tree owns from now on: NULL for a hole.
    fn into_word(self) -> Word;
}

/// Nothing.
pub(super) struct Hole;

impl<V> New<V> for Hole {
    const ERASES: bool = true;

    #[inline]
    fn into_word(self) -> Word {
        NULL
    }
}

/// A value.
pub(super) struct Stored<V>(pub(super) V);

impl<V: Value> New<V> for Stored<V> {
    #[inline]
    fn into_word(self) -> Word {
        self.0.into_raw().as_ptr()
    }
}

/// Why a write changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Alloc,
    /// The closure did not make a value for the upper part of an entry.
    Splits,
}
