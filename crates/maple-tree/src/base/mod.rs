//! The foundation of all other modules: keys, fanout, values as words, errors, events, and the
//! atomics that a model checker replaces.
//!
//! Uses nothing else of the crate.

/// Implements `Debug` that shows only the type's name.
macro_rules! opaque {
    ([$($generic:tt)*] $type:ty, $name:literal) => {
        impl<$($generic)*> core::fmt::Debug for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct($name).finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use opaque;

/// Returns `up` if the direction is `UP`, else `down`. Both are evaluated.
#[inline(always)]
pub(crate) fn either<const UP: bool, T>(up: T, down: T) -> T {
    if UP { up } else { down }
}

#[cfg(feature = "tracing")]
pub(crate) mod events;

pub(crate) mod atomic;
pub(crate) mod bounds;
pub(crate) mod error;
pub(crate) mod key;
pub(crate) mod shape;
pub(crate) mod unwind;
pub(crate) mod value;

pub(crate) use atomic::Slot;
pub use bounds::HalfOpen;
pub(crate) use bounds::inclusive;
pub use error::{EraseError, InsertError, SortedError, StoreError};
pub use key::Key;
pub(crate) use key::Offset;
pub use shape::{Fanout, Native, Shape};
pub(crate) use unwind::{Finally, each};
pub use value::{ArcRef, Duplicate, Mut, RcRef, Ref, Value, View};
