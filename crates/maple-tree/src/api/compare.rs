//! Maps as values: equal, ordered, hashed, shown, gone through. The same for maps of one owner and for those whose clones share nodes.

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::{Index, RangeInclusive};
use std_alloc::boxed::Box;

use crate::alloc::NodeAlloc;
use crate::api::{CowMapleTree, Iter, MapleTree, SharedAlloc};
use crate::base::{Key, Ref, Shape, Value};
use crate::inspect::dump::Format;

/// Returns an entry as something that has an order.
fn flat<K: Copy, T>((range, value): (RangeInclusive<K>, T)) -> (K, K, T) {
    (*range.start(), *range.end(), value)
}

macro_rules! as_values {
    ($map:ident, $alloc:ident) => {
        impl<'a, K: Key, V: Value, A: $alloc, S: Shape> IntoIterator for &'a $map<K, V, A, S> {
            type Item = (RangeInclusive<K>, Ref<'a, V>);
            type IntoIter = Iter<'a, K, V, S>;

            fn into_iter(self) -> Iter<'a, K, V, S> {
                self.iter()
            }
        }

        /// Maps are equal if they have equal entries at the same ranges. (Two entries that touch never equal one over both ranges.) O(n).
        ///
        /// ```
        #[doc = concat!("# use maple_tree::", stringify!($map), ";")]
        #[doc = concat!("let mut map: ", stringify!($map), "<u32, u32> = ", stringify!($map), "::new();")]
        #[doc = concat!("let mut other: ", stringify!($map), "<u32, u32> = ", stringify!($map), "::with_gaps();")]
        /// map.insert_range(0..10, 1)?;
        /// other.insert_range(0..10, 1)?;
        /// assert_eq!(map, other);
        /// other.insert_range(20..30, 2)?;
        /// assert!(map < other);
        /// # Ok::<(), maple_tree::InsertError<u32>>(())
        /// ```
        impl<K: Key, V: Value, A: $alloc, S: Shape> PartialEq for $map<K, V, A, S>
        where
            for<'a> Ref<'a, V>: PartialEq,
        {
            fn eq(&self, other: &Self) -> bool {
                self.iter().eq(other.iter())
            }
        }

        impl<K: Key, V: Value, A: $alloc, S: Shape> Eq for $map<K, V, A, S> where
            for<'a> Ref<'a, V>: Eq
        {
        }

        /// By the first entries that differ, as sequences are compared: by where they begin, then by where they end, then by their values. O(n).
        impl<K: Key, V: Value, A: $alloc, S: Shape> PartialOrd for $map<K, V, A, S>
        where
            for<'a> Ref<'a, V>: PartialOrd,
        {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                self.iter().map(flat).partial_cmp(other.iter().map(flat))
            }
        }

        impl<K: Key, V: Value, A: $alloc, S: Shape> Ord for $map<K, V, A, S>
        where
            for<'a> Ref<'a, V>: Ord,
        {
            fn cmp(&self, other: &Self) -> Ordering {
                self.iter().map(flat).cmp(other.iter().map(flat))
            }
        }

        impl<K: Key, V: Value, A: $alloc, S: Shape> Hash for $map<K, V, A, S>
        where
            for<'a> Ref<'a, V>: Hash,
        {
            fn hash<H: Hasher>(&self, state: &mut H) {
                let mut entries: usize = 0;
                for (range, value) in self {
                    range.hash(state);
                    value.hash(state);
                    entries += 1;
                }
                // As the length of a slice does: maps one after the other do not run into each other.
                entries.hash(state);
            }
        }

        impl<K: Key, V: Value, A: $alloc, S: Shape> fmt::Debug for $map<K, V, A, S>
        where
            for<'a> Ref<'a, V>: fmt::Debug,
        {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_map().entries(self.iter()).finish()
            }
        }

        /// The value at a key, for boxed values.
        ///
        /// # Panics
        ///
        /// If no entry is there, as the index of every collection does; [`get`](Self::get) does not.
        ///
        /// ```
        #[doc = concat!("# use maple_tree::", stringify!($map), ";")]
        #[doc = concat!("let mut map = ", stringify!($map), "::new();")]
        /// map.insert_range(0..10u32, Box::new("low"))?;
        /// assert_eq!(map[3], "low");
        /// # Ok::<(), maple_tree::InsertError<Box<&str>>>(())
        /// ```
        impl<K: Key, T, A: $alloc, S: Shape> Index<K> for $map<K, Box<T>, A, S> {
            type Output = T;

            fn index(&self, key: K) -> &T {
                // An index has no other way to say so.
                self.get(key).expect("no entry is at this key")
            }
        }

        impl<K: Key, V: Value, A: $alloc, S: Shape> fmt::Display for $map<K, V, A, S> {
            /// Returns the nodes as text, in decimal; in hexadecimal with `{:#}`.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let format = if f.alternate() {
                    Format::Hexadecimal
                } else {
                    Format::Decimal
                };
                self.dump(format).fmt(f)
            }
        }
    };
}

as_values!(MapleTree, NodeAlloc);
as_values!(CowMapleTree, SharedAlloc);
