//! Macros that both pools use.

/// Declares constructors that are `const`. The model checker's atomics have no `const`
/// constructors, so that these are plain functions under the checker.
macro_rules! const_unless_loom {
    ($(#[$meta:meta])* pub const fn $name:ident($($given:tt)*) -> Self $body:block) => {
        #[cfg(not(samara_loom))]
        $(#[$meta])* pub const fn $name($($given)*) -> Self $body
        #[cfg(samara_loom)]
        $(#[$meta])* pub fn $name($($given)*) -> Self $body
    };
}

/// Implements construction over the global allocator, queries and forking for a pool. `$bytes` is
/// the size of the slabs of the pool `$it`.
macro_rules! pool {
    ($pool:ident, NodeAlloc $(+ $more:ident)?, $it:ident => $bytes:expr) => {
        impl<const SIZE: usize> $pool<Global, SIZE> {
            const_unless_loom! {
                /// Creates an empty pool over the global allocator. Allocates nothing.
                #[must_use]
                pub const fn new() -> Self {
                    Self::new_in(Global)
                }
            }
        }

        impl<A: NodeAlloc $(+ $more)?, const SIZE: usize> $pool<A, SIZE> {
            /// The layout of the pool's nodes: blocks of `SIZE` bytes, aligned to the largest power
            /// of two that divides their size.
            pub const BLOCK: Layout = crate::block::layout::<SIZE>();

            /// Returns the source of the slabs.
            pub fn source(&self) -> &A {
                &self.source
            }

            /// Returns the total size of all slabs in bytes.
            pub fn bytes(&self) -> usize {
                let $it = self;
                $bytes
            }
        }

        impl<A: Fork $(+ $more)?, const SIZE: usize> Fork for $pool<A, SIZE> {
            /// Creates an empty pool, which is no handle to this one.
            fn fork(&self) -> Self {
                Self::new_in(self.source.fork())
            }
        }

        impl<A: NodeAlloc + Default $(+ $more)?, const SIZE: usize> Default for $pool<A, SIZE> {
            fn default() -> Self {
                Self::new_in(A::default())
            }
        }

        impl<A: NodeAlloc $(+ $more)?, const SIZE: usize> core::fmt::Debug for $pool<A, SIZE> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($pool))
                    .field("bytes", &self.bytes())
                    .finish_non_exhaustive()
            }
        }
    };
}
