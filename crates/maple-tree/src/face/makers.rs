//! Making maps that are a tree and an allocator, and taking them apart: those of one owner, and those whose clones share nodes.

/// `new`, `with_gaps` and the like of `$map`, whose nodes come from an `$alloc`, by default from `$default`, as `$nodes` says; `$example` shows a new `map`.
macro_rules! makers {
    ($map:ident, $alloc:ident, $default:expr, $nodes:literal, $example:literal) => {
        impl<K: Key, V: Value> $map<K, V> {
            const_unless_loom! {
                /// An empty map. Allocates nothing.
                ///
                #[doc = $nodes]
                ///
                /// ```
                #[doc = concat!("use maple_tree::", stringify!($map), ";")]
                ///
                #[doc = concat!("let mut map = ", stringify!($map), "::new();")]
                /// map.insert(1u64, 1u32)?;
                #[doc = $example]
                /// # Ok::<(), maple_tree::InsertError<u32>>(())
                /// ```
                #[must_use]
                pub const fn new() -> Self {
                    Self::new_in($default)
                }

                /// An empty map that keeps the sizes of its holes, so that a gap is found in O(log n). Its inner nodes have
                /// fewer slots, and writes take a little longer. Allocates nothing.
                #[must_use]
                pub const fn with_gaps() -> Self {
                    Self::with_gaps_in($default)
                }
            }
        }

        impl<K: Key, V: Value, A: $alloc, S: Shape> $map<K, V, A, S> {
            const_unless_loom! {
                /// An empty map whose nodes come from `alloc`. Allocates nothing.
                #[must_use]
                pub const fn new_in(alloc: A) -> Self {
                    Self::from_parts(RawTree::new(0), alloc)
                }

                /// As [`with_gaps`](Self::with_gaps), with nodes from `alloc`.
                #[must_use]
                pub const fn with_gaps_in(alloc: A) -> Self {
                    Self::from_parts(RawTree::new(flags::GAPS), alloc)
                }
            }

            /// Where the nodes come from.
            pub fn allocator(&self) -> &A {
                &self.alloc
            }

            /// The tree and its allocator.
            pub(crate) fn into_parts(self) -> (RawTree<K, S>, A) {
                let this = core::mem::ManuallyDrop::new(self);
                // SAFETY: `this` is not used again, nor dropped.
                unsafe {
                    (
                        core::ptr::read(&raw const this.raw),
                        core::ptr::read(&raw const this.alloc),
                    )
                }
            }

            /// A map out of a tree whose words are values of `V`, and the allocator of its nodes.
            pub(crate) const fn from_parts(raw: RawTree<K, S>, alloc: A) -> Self {
                Self {
                    raw,
                    alloc,
                    marker: PhantomData,
                }
            }

            pub(crate) fn raw(&self) -> &RawTree<K, S> {
                &self.raw
            }
        }

        impl<K: Key, V: Value, A: $alloc, S: Shape> Drop for $map<K, V, A, S> {
            fn drop(&mut self) {
                self.clear();
            }
        }

        impl<K: Key, V: Value, A: $alloc + Default, S: Shape> Default for $map<K, V, A, S> {
            fn default() -> Self {
                Self::new_in(A::default())
            }
        }
    };
}

pub(crate) use makers;
