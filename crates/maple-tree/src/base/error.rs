//! Reasons why a change was not made. Each error returns what the caller had handed over.

use core::fmt;

pub(crate) const ALLOC: &str = "no memory for a tree node";
const EMPTY: &str = "the range is empty";
const SPLITS: &str = "the range lies strictly within an entry";

/// Implements `Display`, with a message for each cause, and `Error`.
macro_rules! error_message {
    ($error:ident $(<$value:ident>)?, $self:ident => $message:expr) => {
        impl $(<$value>)? core::fmt::Display for $error $(<$value>)? {
            fn fmt(&$self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str($message)
            }
        }

        impl $(<$value>)? core::error::Error for $error $(<$value>)? {}
    };
}
pub(crate) use error_message;

/// Defines an error that returns a value, with its causes and their messages. `$given` describes
/// the value.
macro_rules! error_with_value {
    (
        $(#[$what:meta])* $error:ident, $given:literal,
        $($(#[$why:meta])* $cause:ident => $message:expr),*
    ) => {
        $(#[$what])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub enum $error<V> {
            $($(#[$why])* $cause(V)),*
        }

        impl<V> $error<V> {
            #[doc = $given]
            pub fn into_value(self) -> V {
                match self {
                    $(Self::$cause(value))|* => value,
                }
            }
        }

        error_message!($error<V>, self => match self {
            $(Self::$cause(_) => $message),*
        });

        impl<V> fmt::Debug for $error<V> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$cause(_) => concat!(stringify!($cause), "(..)")),*
                })
            }
        }
    };
}

error_with_value! {
    /// The reason why [`insert_range`](crate::MapleTree::insert_range) stored nothing.
    InsertError, "Returns the value that was not stored.",
    /// An entry overlaps the range.
    Occupied => "an entry is in the way",
    /// There was no memory for the needed nodes.
    Alloc => ALLOC,
    /// The range contains no index.
    EmptyRange => EMPTY
}

error_with_value! {
    /// The reason why [`try_from_sorted`](crate::MapleTree::try_from_sorted) built no map.
    SortedError, "Returns the value at which building stopped.",
    /// The range begins before the previous one has ended: the two overlap, or are not in ascending
    /// order.
    OutOfOrder => "the range begins before the one before it has ended",
    /// There was no memory for the needed nodes.
    Alloc => ALLOC,
    /// The range contains no index.
    EmptyRange => EMPTY
}

error_with_value! {
    /// The reason why a store that overwrites stored nothing.
    StoreError, "Returns the value that was not stored.",
    /// The range lies strictly within an entry, which would have to remain on both sides.
    Splits => SPLITS,
    /// There was no memory for the needed nodes.
    Alloc => ALLOC,
    /// The range contains no index.
    EmptyRange => EMPTY
}

/// The reason why an erasure changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EraseError {
    /// The range lies strictly within an entry, which would have to remain on both sides.
    Splits,
    /// There was no memory for the needed nodes.
    Alloc,
    /// The range contains no index.
    EmptyRange,
}

error_message!(EraseError, self => match self {
    Self::Splits => SPLITS,
    Self::Alloc => ALLOC,
    Self::EmptyRange => EMPTY,
});
