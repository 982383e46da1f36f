//! Duplicates.

use core::convert::Infallible;
use core::ops::RangeInclusive;

use crate::alloc::{AllocError, Fork, NodeAlloc};
use crate::base::{Duplicate, Key, Ref, Shape, Value};
use crate::face::map::MapleTree;
use crate::face::map::build::no_memory;
use crate::node::RawTree;
use crate::write::duplicate::{CloneError, Copier, CopyWith, Verbatim};

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> MapleTree<K, V, A, S> {
    /// A duplicate of the map, in one pass over the nodes. `copy` is shown each entry once, in order, and gives the value that
    /// the duplicate has there, or `None` to leave the entry out.
    ///
    /// ```
    /// let parent = maple_tree::MapleTree::from([(0..10u64, Box::new(("inherited", true))), (10..20, Box::new(("private", false)))]);
    /// let child = parent.try_clone_with(|_, area| Ok::<_, ()>(area.1.then(|| Box::new(*area))));
    /// assert_eq!(child.map(|child| child.len()).ok(), Some(1));
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory for a node, or with the closure's error. What had been made has been dropped.
    pub fn try_clone_with<E>(
        &self,
        copy: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> Result<Option<V>, E>,
    ) -> Result<Self, CloneError<E>>
    where
        A: Fork,
    {
        let mut copier = CopyWith::<_, V>::new(copy);
        // SAFETY: the map is borrowed, so that nobody writes; the copier makes words out of values.
        unsafe { Self::duplicate_of(&self.raw, self.alloc.fork(), &mut copier) }
    }

    /// A duplicate of a tree, with its modes, and with words that `copier` makes.
    ///
    /// # Safety
    ///
    /// Nobody writes the tree meanwhile, and what the copier makes are words of values.
    pub(crate) unsafe fn duplicate_of<C: Copier<K>>(
        raw: &RawTree<K, S>,
        alloc: A,
        copier: &mut C,
    ) -> Result<Self, CloneError<C::Error>> {
        let mut new = Self::from_parts(raw.empty_like(), alloc);
        // SAFETY: the caller's promise; the new map is nobody else's, and tracks gaps if the tree does.
        let done = unsafe { raw.dup_into(&new.raw, &mut new.alloc, copier) };
        #[cfg(feature = "tracing")]
        crate::base::events::duplicate(raw.height(), done.is_ok());
        done.map(|()| new)
    }

    /// A duplicate of the map, with [duplicates](Duplicate) of the values, in one pass over the nodes. O(n).
    ///
    /// ```
    /// let map = maple_tree::MapleTree::from([(0..10u64, Box::new(1u32))]);
    /// assert_eq!(map.try_clone(), Ok(map));
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory for a node or for a value. What had been made has been dropped.
    pub fn try_clone(&self) -> Result<Self, AllocError>
    where
        V: Duplicate,
        A: Fork,
    {
        if V::PLAIN {
            // SAFETY: the map is borrowed, so that nobody writes; a copy of a value's word is a value (promise of `PLAIN`).
            let copy = unsafe { Self::duplicate_of(&self.raw, self.alloc.fork(), &mut Verbatim) };
            return copy.map_err(|_: CloneError<Infallible>| AllocError);
        }
        self.try_clone_with(|_, value| V::duplicate(value).map(Some).ok_or(AllocError))
            .map_err(|_| AllocError)
    }

    /// An empty map with the same modes, and a fork of the allocator.
    pub(super) fn empty_like(&self) -> Self
    where
        A: Fork,
    {
        Self::from_parts(self.raw.empty_like(), self.alloc.fork())
    }
}

/// As [`try_clone`](MapleTree::try_clone); where there is no memory this ends the program, as the clone of a `BTreeMap` does.
impl<K: Key, V: Duplicate, A: Fork, S: Shape> Clone for MapleTree<K, V, A, S> {
    fn clone(&self) -> Self {
        match self.try_clone() {
            Ok(map) => map,
            Err(AllocError) => no_memory(),
        }
    }
}
