//! Making maps, and taking those apart that are a tree and an allocator: those of one owner, and those whose clones share nodes.

/// `new`, `with_gaps` and the like of `$map`, a tree in the modes `$modes` whose nodes come from `$default` unless an allocator is named, as `$nodes` says. It may have to
/// be told how it is to reclaim, too. `$setup` and `$example` make a new `map` and show it.
macro_rules! constructors {
    (
        $map:ident, [$($few:tt)*] <$($of_few:ident),*>, [$($all:tt)*] <$($of_all:ident),*>,
        ($($reclaim:ident: $how:ident)?), $default:expr, $modes:expr,
        $nodes:literal, $setup:literal, $example:literal
    ) => {
        impl<$($few)*> $map<$($of_few),*> {
            const_unless_loom! {
                /// Returns an empty map. Allocates nothing.
                ///
                #[doc = $nodes]
                ///
                /// ```
                #[doc = $setup]
                /// map.insert(1u64, 1u32)?;
                #[doc = $example]
                /// # Ok::<(), maple_tree::InsertError<u32>>(())
                /// ```
                #[must_use]
                pub const fn new($($reclaim: $how)?) -> Self {
                    Self::new_in($($reclaim,)? $default)
                }

                /// Returns an empty map that keeps the sizes of its holes, so that a gap is found
                /// in O(log n). Its inner nodes have fewer slots, and writes take a little longer.
                /// Allocates nothing.
                #[must_use]
                pub const fn with_gaps($($reclaim: $how)?) -> Self {
                    Self::with_gaps_in($($reclaim,)? $default)
                }
            }
        }

        impl<$($all)*> $map<$($of_all),*> {
            const_unless_loom! {
                /// Returns an empty map whose nodes come from `alloc`. Allocates nothing.
                #[must_use]
                pub const fn new_in($($reclaim: $how,)? alloc: A) -> Self {
                    Self::from_parts(RawTree::new($modes), $($reclaim,)? alloc)
                }

                /// As [`with_gaps`](Self::with_gaps), with nodes from `alloc`.
                #[must_use]
                pub const fn with_gaps_in($($reclaim: $how,)? alloc: A) -> Self {
                    Self::from_parts(RawTree::new($modes | flags::GAPS), $($reclaim,)? alloc)
                }
            }
        }
    };
}

/// Constructors and modes of the maps that consist of a tree and an `$alloc`, by default
/// `$default`. The others are as for [`constructors`].
macro_rules! makers {
    ($map:ident, $alloc:ident, $default:expr, $nodes:literal, $setup:literal, $example:literal) => {
        $crate::api::makers::constructors!(
            $map, [K: Key, V: Value] <K, V>, [K: Key, V: Value, A: $alloc, S: Shape] <K, V, A, S>,
            (), $default, 0, $nodes, $setup, $example
        );

        impl<K: Key, V: Value, A: $alloc, S: Shape> $map<K, V, A, S> {
            /// Returns the allocator of the nodes.
            pub fn allocator(&self) -> &A {
                &self.alloc
            }

            /// Returns the tree and its allocator.
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

            /// Returns a map of a tree whose words are values of `V`, and the allocator of its
            /// nodes.
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

pub(crate) use {constructors, makers};
