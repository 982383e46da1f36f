//! Iterators over entries.

use core::fmt;
use core::iter::FusedIterator;
use core::marker::PhantomData;
use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::api::{State, entry};
use crate::base::{Key, Mut, Native, Ref, Shape, Value, opaque};
use crate::node::RawTree;
use crate::read::Found;
use crate::read::iterate::by_leaf::Scan;

/// An iterator that goes both ways by a method `step`, which goes `UP` or down; and what else it has of its own.
macro_rules! both_ways {
    ([$($generic:tt)*] $iter:ty, $item:ty, { $($other:tt)* }) => {
        impl<$($generic)*> Iterator for $iter {
            type Item = $item;

            #[inline]
            fn next(&mut self) -> Option<Self::Item> {
                self.step::<true>()
            }

            $($other)*
        }

        impl<$($generic)*> DoubleEndedIterator for $iter {
            #[inline]
            fn next_back(&mut self) -> Option<Self::Item> {
                self.step::<false>()
            }
        }

        impl<$($generic)*> core::iter::FusedIterator for $iter {}
    };
}
pub(crate) use both_ways;

/// An iterator over the entries of a tree that is lent as `&'a`, or `&'a mut`; what is a step of it, and what else it has of its own.
macro_rules! entries {
    (
        $(#[$what:meta])* $iter:ident, &'a $($exclusive:ident)?, $view:ident,
        |$this:ident| $step:expr, { $($other:tt)* }
    ) => {
        $(#[$what])*
        pub struct $iter<'a, K: Key, V: Value, S: Shape = Native> {
            tree: &'a RawTree<K, S>,
            scan: Scan<K, S>,
            marker: PhantomData<&'a $($exclusive)? V>,
        }

        impl<'a, K: Key, V: Value, S: Shape> $iter<'a, K, V, S> {
            pub(crate) fn new(
                tree: &'a $($exclusive)? RawTree<K, S>,
                bounds: Option<(K, K)>,
            ) -> Self {
                let (scan, marker) = (Scan::new(bounds), PhantomData);
                Self { tree, scan, marker }
            }

            #[inline(always)]
            fn step<const UP: bool>(&mut $this) -> Option<(RangeInclusive<K>, $view<'a, V>)>
            where
                V: 'a,
            {
                $step
            }
        }

        both_ways!(['a, K: Key, V: Value + 'a, S: Shape] $iter<'a, K, V, S>,
            (RangeInclusive<K>, $view<'a, V>), {
            fn count(self) -> usize {
                // SAFETY: as in `step`.
                unsafe { self.scan.count(self.tree) }
            }

            #[inline]
            fn size_hint(&self) -> (usize, Option<usize>) {
                // SAFETY: as in `step`.
                unsafe { self.scan.size_hint(self.tree) }
            }

            $($other)*
        });
    };
}

entries!(
    /// Entries in order, with their ranges. Made by [`iter`](crate::MapleTree::iter) and [`range`](crate::MapleTree::range).
    Iter, &'a, Ref,
    // SAFETY: no thread writes the tree while it is borrowed for `'a`. Its words are values.
    |self| unsafe { entry::<K, V>(self.scan.next::<UP>(self.tree)?) },
    {
        #[inline]
        fn fold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, mut f: F) -> B {
            // SAFETY: as in `step`; a scan yields no holes.
            unsafe {
                self.scan.fold(self.tree, init, |folded, found| {
                    let raw = NonNull::new_unchecked(found.word);
                    f(folded, (found.first..=found.last, V::borrow(raw)))
                })
            }
        }
    }
);

impl<K: Key, V: Value, S: Shape> Clone for Iter<'_, K, V, S> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<'a, K: Key, V: Value, S: Shape> fmt::Debug for Iter<'a, K, V, S>
where
    Ref<'a, V>: fmt::Debug,
{
    /// Formats the entries that are left.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

entries!(
    /// Entries in order, with their ranges, for changing. Made by [`iter_mut`](crate::MapleTree::iter_mut) and
    /// [`range_mut`](crate::MapleTree::range_mut).
    IterMut, &'a mut, Mut,
    |self| {
        // SAFETY: no other code uses the tree while it is exclusively borrowed for `'a`.
        let (found, slot) = unsafe { self.scan.next_mut::<UP>(self.tree) }?;
        // SAFETY: words in the tree are values; as above; a scan yields each entry once, and does not read its slot again.
        Some((found.first..=found.last, unsafe { V::borrow_mut(slot) }))
    },
    {}
);

opaque!([K: Key, V: Value, S: Shape] IterMut<'_, K, V, S>, "IterMut");

/// The values of what an iterator over entries yields. Made by [`values`](crate::MapleTree::values),
/// [`values_mut`](crate::MapleTree::values_mut) and [`into_values`](crate::MapleTree::into_values).
#[derive(Clone, Debug)]
#[must_use = "iterators are lazy and do nothing unless consumed"]
pub struct Values<I>(pub(crate) I);

/// The ranges of what an iterator over entries yields. Made by [`ranges`](crate::MapleTree::ranges) and
/// [`into_ranges`](crate::MapleTree::into_ranges).
#[derive(Clone, Debug)]
#[must_use = "iterators are lazy and do nothing unless consumed"]
pub struct Ranges<I>(pub(crate) I);

/// An iterator over entries or holes, cut to bounds. Made by
/// [`range_clipped`](crate::MapleTree::range_clipped) and
/// [`holes_clipped`](crate::MapleTree::holes_clipped).
#[derive(Clone, Debug)]
#[must_use = "iterators are lazy and do nothing unless consumed"]
pub struct Clipped<I, K> {
    iter: I,
    lo: K,
    hi: K,
}

/// An item with a range that can be cut: an entry, or a hole.
pub trait Clip<K>: sealed::Sealed {
    /// Returns the part within `lo..=hi`, which it intersects.
    #[doc(hidden)]
    #[must_use]
    fn clip(self, lo: K, hi: K) -> Self;
}

mod sealed {
    pub trait Sealed {}
    impl<K> Sealed for core::ops::RangeInclusive<K> {}
    impl<K, T> Sealed for (core::ops::RangeInclusive<K>, T) {}
}

impl<K: Key> Clip<K> for RangeInclusive<K> {
    #[inline]
    fn clip(self, lo: K, hi: K) -> Self {
        (*self.start()).max(lo)..=(*self.end()).min(hi)
    }
}

impl<K: Key, T> Clip<K> for (RangeInclusive<K>, T) {
    #[inline]
    fn clip(self, lo: K, hi: K) -> Self {
        (self.0.clip(lo, hi), self.1)
    }
}

impl<I, K: Key> Clipped<I, K> {
    /// Without bounds there is nothing to cut, as the iterator yields nothing.
    pub(crate) fn new(iter: I, bounds: Option<(K, K)>) -> Self {
        let (lo, hi) = bounds.unwrap_or((K::MIN, K::MIN));
        Self { iter, lo, hi }
    }
}

/// An iterator that makes something of each item of the one `$inner`, and is of each kind that this one is.
macro_rules! adapter {
    (
        $adapter:ty, $inner:tt, [$($generic:tt)*] [$($bound:tt)*] $item:ty,
        |$this:ident, $entry:ident| $made:expr
    ) => {
        impl<I: Iterator<$($bound)*>, $($generic)*> Iterator for $adapter {
            type Item = $item;

            #[inline]
            fn next(&mut $this) -> Option<$item> {
                $this.$inner.next().map(|$entry| $made)
            }

            #[inline]
            fn fold<B, F: FnMut(B, $item) -> B>($this, init: B, mut f: F) -> B {
                $this.$inner.fold(init, |folded, $entry| f(folded, $made))
            }

            fn count(self) -> usize {
                self.$inner.count()
            }

            #[inline]
            fn size_hint(&self) -> (usize, Option<usize>) {
                self.$inner.size_hint()
            }
        }

        impl<I: DoubleEndedIterator<$($bound)*>, $($generic)*> DoubleEndedIterator for $adapter {
            #[inline]
            fn next_back(&mut $this) -> Option<$item> {
                $this.$inner.next_back().map(|$entry| $made)
            }
        }

        impl<I: FusedIterator<$($bound)*>, $($generic)*> FusedIterator for $adapter {}
    };
}

adapter!(Values<I>, 0, [R, T] [Item = (R, T)] T, |self, entry| entry.1);
adapter!(Ranges<I>, 0, [R, T] [Item = (R, T)] R, |self, entry| entry.0);
adapter!(
    Clipped<I, K>, iter, [K: Key] [Item: Clip<K>] I::Item,
    |self, entry| entry.clip(self.lo, self.hi)
);

impl<I: ExactSizeIterator<Item = (R, T)>, R, T> ExactSizeIterator for Values<I> {}
impl<I: ExactSizeIterator<Item = (R, T)>, R, T> ExactSizeIterator for Ranges<I> {}

/// Holes in order, with their whole ranges. Made by [`holes`](crate::MapleTree::holes).
#[derive(Clone)]
pub struct Holes<'a, K: Key, S: Shape = Native> {
    tree: &'a RawTree<K, S>,
    /// From where on, and up to where, holes are still to be looked for; `None` if there are no more.
    from: K,
    to: Option<K>,
    at: State<K, S>,
}

impl<K: Key, S: Shape> fmt::Debug for Holes<'_, K, S> {
    /// Formats the items that are left.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

impl<'a, K: Key, S: Shape> Holes<'a, K, S> {
    pub(crate) fn new(tree: &'a RawTree<K, S>, bounds: Option<(K, K)>) -> Self {
        Self {
            tree,
            from: bounds.map_or(K::MIN, |(lo, _)| lo),
            to: bounds.map(|(_, hi)| hi),
            at: State::new(bounds),
        }
    }
}

impl<K: Key, S: Shape> Iterator for Holes<'_, K, S> {
    type Item = RangeInclusive<K>;

    fn next(&mut self) -> Option<RangeInclusive<K>> {
        while let Some(to) = self.to {
            let word = self.at.seek::<true, false>(self.tree, to, true);
            self.to = (self.at.last < to).then_some(to);
            self.from = self.at.last.successor().unwrap_or(K::MAX);
            if word.is_null() {
                return Some(self.at.index..=self.at.last);
            }
        }
        None
    }
}

impl<K: Key, S: Shape> DoubleEndedIterator for Holes<'_, K, S> {
    fn next_back(&mut self) -> Option<RangeInclusive<K>> {
        while let Some(to) = self.to {
            let Found { first, last, word } = self.tree.lookup(to);
            self.to = first.predecessor().filter(|&before| before >= self.from);
            if word.is_null() {
                return Some(first..=last);
            }
        }
        None
    }
}

impl<K: Key, S: Shape> FusedIterator for Holes<'_, K, S> {}

impl<'a, K: Key, V: Value, A: crate::alloc::NodeAlloc, S: Shape> IntoIterator
    for &'a mut crate::MapleTree<K, V, A, S>
{
    type Item = (RangeInclusive<K>, Mut<'a, V>);
    type IntoIter = IterMut<'a, K, V, S>;

    fn into_iter(self) -> IterMut<'a, K, V, S> {
        self.iter_mut()
    }
}
