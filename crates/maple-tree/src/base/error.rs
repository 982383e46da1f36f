//! Why a change was not made. Each error gives back what the caller had handed over.

use core::fmt;

pub(crate) const ALLOC: &str = "no memory for a tree node";
const EMPTY: &str = "the range is empty";
const SPLITS: &str = "the range lies strictly within an entry";

/// Makes a type an error, and says what it is told as.
macro_rules! told {
    ($error:ident $(<$value:ident>)?, $self:ident => $told:expr) => {
        impl $(<$value>)? core::fmt::Display for $error $(<$value>)? {
            fn fmt(&$self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str($told)
            }
        }

        impl $(<$value>)? core::error::Error for $error $(<$value>)? {}
    };
}
pub(crate) use told;

/// An error that gives a value back, which `$given` says more of: its causes, and what each is told as.
macro_rules! gives_back {
    (
        $(#[$what:meta])* $error:ident, $given:literal,
        $($(#[$why:meta])* $cause:ident => $told:expr),*
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

        told!($error<V>, self => match self {
            $(Self::$cause(_) => $told),*
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

gives_back! {
    /// Why [`insert_range`](crate::MapleTree::insert_range) stored nothing.
    InsertError, "The value that was not stored.",
    /// An entry is in the way.
    Occupied => "an entry is in the way",
    /// There was no memory for the nodes needed.
    Alloc => ALLOC,
    /// The range holds no index.
    EmptyRange => EMPTY
}

gives_back! {
    /// Why [`try_from_sorted`](crate::MapleTree::try_from_sorted) made no map.
    SortedError, "The value at which it ended.",
    /// The range begins before the one before it has ended: they overlap, or are not in ascending order.
    OutOfOrder => "the range begins before the one before it has ended",
    /// There was no memory for the nodes needed.
    Alloc => ALLOC,
    /// The range holds no index.
    EmptyRange => EMPTY
}

gives_back! {
    /// Why a store that overwrites stored nothing.
    StoreError, "The value that was not stored.",
    /// The range lies strictly within an entry, which would have to be on both sides of it.
    Splits => SPLITS,
    /// There was no memory for the nodes needed.
    Alloc => ALLOC,
    /// The range holds no index.
    EmptyRange => EMPTY
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

told!(EraseError, self => match self {
    Self::Splits => SPLITS,
    Self::Alloc => ALLOC,
    Self::EmptyRange => EMPTY,
});
