//! Changes: each becomes visible to readers with one store; and how they are carried out: the entries and nodes that they remove are retired.

use core::mem::{ManuallyDrop, needs_drop};
use core::ops::{RangeBounds, RangeInclusive};
use core::ptr::NonNull;

use lock_api::RawMutex;

use crate::alloc::{AllocError, Reserve};
use crate::base::{EraseError, Finally, InsertError, Key, Ref, Shape, StoreError, inclusive};
use crate::face::changes::all_changes;
use crate::face::host::{Host, Touch};
use crate::face::look_ups::view;
use crate::face::store;
use crate::face::store::Held;
use crate::face::sync::limbo::Limbo;
use crate::face::sync::writer::Writer;
use crate::face::sync::{SyncAlloc, SyncMapleTree, SyncValue};
use crate::node::{RawTree, Word};
use crate::reclaim::Reclaim;
use crate::write::{Immediate, Sink};

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape>
    Writer<'_, K, V, R, A, L, S>
{
    all_changes!(
        Ref<'_, V>,
        shown,
        "retired",
        "Readers see all of the old or all of the new, and never a part of it.",
        "# use maple_tree::{SyncMapleTree, Waiting};
let shared: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
let mut map = shared.write();"
    );

    /// Removes the whole entry at `key`, retires its value, and gives its range. O(log n).
    ///
    /// ```
    /// # use maple_tree::{SyncMapleTree, Waiting};
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert_eq!(writer.remove(15)?, Some(10..=19));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory; the entry is still there then.
    pub fn remove(&mut self, key: K) -> Result<Option<RangeInclusive<K>>, AllocError> {
        Ok(store::remove(self, key)?.map(|(range, _)| range))
    }

    /// Exchanges the value of the entry at `key`, whose range stays as it is, with one store, and retires the old one.
    ///
    /// ```
    /// # use maple_tree::{SyncMapleTree, Waiting};
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert_eq!(writer.replace(25, 9), Ok(()));
    /// assert_eq!(map.read().get(25), Some(9));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The value comes back if there is no entry, or if there is no memory (which is needed only for an entry that is the only one,
    /// at index 0, and whose word cannot stand alone in a root).
    pub fn replace(&mut self, key: K, value: V) -> Result<(), V> {
        store::replace(self, key, value.into_raw()).map(|_| ())
    }

    /// Lets the entry at `key` grow to `range`, which contains all that it covers now. Other entries within the range are
    /// retired, entries that overlap one end of it keep what is outside.
    ///
    /// ```
    /// # use maple_tree::{SyncMapleTree, Waiting};
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// assert!(writer.grow(25, 15..35)?);
    /// assert_eq!(map.read().ranges().collect::<Vec<_>>(), [10..=14, 15..=34, 40..=49]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no memory. `Ok(false)`, with nothing changed, if there is no entry at `key`, or `range` does not contain its range.
    pub fn grow(&mut self, key: K, range: impl RangeBounds<K>) -> Result<bool, AllocError> {
        store::grow(self, key, inclusive(&range), |_, _, _| {})
    }

    /// Turns a closure over views into one over words. One that has panicked is not called again.
    pub(super) fn shown(
        mut show: impl FnMut(RangeInclusive<K>, Ref<'_, V>),
    ) -> impl FnMut(K, K, Word) {
        let mut called = false;
        move |first, last, word| {
            if called {
                return;
            }
            // SAFETY: the word was in the tree, and has not been retired yet.
            if let Some(value) = unsafe { view::<V>(word) } {
                called = true;
                show(first..=last, value);
                called = false;
            }
        }
    }
}

// SAFETY: the map's words are values; a writer is the only one, and the tree is in RCU mode, or nobody reads; its nodes come from the map's allocator.
unsafe impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape> Host<K, V, S>
    for Writer<'_, K, V, R, A, L, S>
{
    type Alloc = A;

    #[inline]
    fn tree(&self) -> &RawTree<K, S> {
        &self.tree.raw
    }

    #[inline]
    fn nodes(&self) -> &A {
        &self.tree.own.alloc
    }

    fn fill(&mut self, reserve: &mut Reserve, count: usize) -> Result<(), AllocError> {
        let own = &*self.tree.own;
        // SAFETY: this is the only writer, and it is borrowed.
        let limbo = unsafe { &mut *own.limbo.get() };
        limbo.fill(reserve, count, &own.alloc)
    }

    #[inline(always)]
    fn alone(&self) -> bool {
        !self.tree.raw.in_rcu()
    }

    #[inline]
    fn sink(&self, kept: Option<K>, taken: impl FnMut(K, K, Word)) -> impl Sink<K> {
        Deferred {
            map: self.tree,
            // SAFETY: only the writer uses it, and there is one sink at a time.
            limbo: unsafe { &mut *self.tree.own.limbo.get() },
            displaced: taken,
            announced: false,
            kept,
        }
    }

    #[inline(always)]
    fn sink_alone(&self, mut taken: impl FnMut(K, K, Word)) -> impl Sink<K> {
        Immediate {
            alloc: &self.tree.own.alloc,
            entry: move |first, last, word| {
                // Dropped also if the closure panics.
                let _value = NonNull::new(word).map(Held::<V>::of);
                taken(first, last, word);
            },
        }
    }

    fn discard(_: K, _: K, _: Word) {
        // It has been retired.
    }
}

/// Shows removed entries to a closure, and retires them and the nodes.
struct Deferred<'a, K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape, F> {
    map: &'a SyncMapleTree<K, V, R, A, L, S>,
    limbo: &'a mut Limbo<K, S>,
    displaced: F,
    announced: bool,
    /// The entry that began here is stored over itself, and stays.
    kept: Option<K>,
}

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape, F> Sink<K>
    for Deferred<'_, K, V, R, A, L, S, F>
where
    F: FnMut(K, K, Word),
{
    fn entry(&mut self, first: K, last: K, word: Word) {
        if self.kept == Some(first) {
            return;
        }
        // Also if the closure panics.
        let _retire = Finally(|| {
            if needs_drop::<V>()
                && let Some(raw) = NonNull::new(word)
            {
                // Whoever leaks what is retired drops no value.
                let value = ManuallyDrop::new(Held::<V>::of(raw));
                if !self.map.raw.in_rcu() {
                    // Nobody reads.
                    drop(ManuallyDrop::into_inner(value));
                    return;
                }
                if !self.announced {
                    self.announced = true;
                    self.map.reclaim.published();
                }
                let free = move || drop(ManuallyDrop::into_inner(value));
                // SAFETY: the tree no longer leads to the value; readers that found it entered before.
                unsafe { self.map.reclaim.retire(free) };
            }
        });
        (self.displaced)(first, last, word);
    }

    fn node(&mut self, block: NonNull<u8>) {
        // SAFETY: the tree hands over the block of a node that it has replaced.
        unsafe { self.limbo.push(block) };
    }
}

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape, F> Drop
    for Deferred<'_, K, V, R, A, L, S, F>
{
    #[inline]
    fn drop(&mut self) {
        let (height, own) = (self.map.raw.height(), &*self.map.own);
        // SAFETY: this is the map's writer, and the tree no longer leads to the nodes that it has handed over.
        unsafe { self.limbo.settle(height, &*self.map.reclaim, &own.alloc) };
    }
}
