//! What becomes of removed entries and nodes: they are retired.

use core::marker::PhantomData;
use core::mem::needs_drop;
use core::ptr::NonNull;

use lock_api::RawMutex;

use crate::base::{Finally, Key, Shape, Value};
use crate::face::sync::limbo::Limbo;
use crate::face::sync::{SyncAlloc, SyncMapleTree, SyncValue};
use crate::node::{RawTree, Word};
use crate::reclaim::Reclaim;
use crate::write::Sink;

/// A value's word, on its way to the thread that drops it.
struct Retired<V> {
    raw: NonNull<()>,
    marker: PhantomData<V>,
}

// SAFETY: it stands for a value, which may be sent.
unsafe impl<V: Send> Send for Retired<V> {}

impl<V: Value> Retired<V> {
    /// # Safety
    ///
    /// No view of the value is left, and the tree has given the word up.
    unsafe fn free(self) {
        // SAFETY: the caller's promise.
        drop(unsafe { V::from_raw(self.raw) });
    }
}

/// Shows removed entries to a closure, and retires them and the nodes.
pub(super) struct Deferred<'a, K: Key, V, R: Reclaim, A: SyncAlloc, S: Shape, F> {
    tree: &'a RawTree<K, S>,
    reclaim: &'a R,
    alloc: &'a A,
    limbo: &'a mut Limbo<K, S>,
    displaced: F,
    announced: bool,
    /// The entry that began here is stored over itself, and stays.
    kept: Option<K>,
    marker: PhantomData<V>,
}

impl<'a, K: Key, V, R: Reclaim, A: SyncAlloc, S: Shape, F> Deferred<'a, K, V, R, A, S, F> {
    /// # Safety
    ///
    /// The caller is the writer of `map`, and makes no other of these meanwhile.
    #[inline]
    pub(super) unsafe fn new<L: RawMutex>(
        map: &'a SyncMapleTree<K, V, R, A, L, S>,
        kept: Option<K>,
        displaced: F,
    ) -> Self
    where
        V: SyncValue,
    {
        Self {
            tree: &map.raw,
            reclaim: &map.reclaim,
            alloc: &map.own.alloc,
            // SAFETY: only the writer uses it (the caller's promise).
            limbo: unsafe { &mut *map.own.limbo.get() },
            displaced,
            announced: false,
            kept,
            marker: PhantomData,
        }
    }
}

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, S: Shape, F: FnMut(K, K, Word)> Sink<K>
    for Deferred<'_, K, V, R, A, S, F>
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
                let retired = Retired::<V> {
                    raw,
                    marker: PhantomData,
                };
                if !self.tree.in_rcu() {
                    // SAFETY: nobody reads, and the tree no longer leads to the value.
                    unsafe { retired.free() };
                    return;
                }
                if !self.announced {
                    self.announced = true;
                    self.reclaim.published();
                }
                // SAFETY: the tree no longer leads to the value; readers that found it entered before.
                unsafe { self.reclaim.retire(move || retired.free()) };
            }
        });
        (self.displaced)(first, last, word);
    }

    fn node(&mut self, block: NonNull<u8>) {
        // SAFETY: the tree hands over the block of a node that it has replaced.
        unsafe { self.limbo.push(block) };
    }
}

impl<K: Key, V, R: Reclaim, A: SyncAlloc, S: Shape, F> Drop for Deferred<'_, K, V, R, A, S, F> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this is the map's writer, and the tree no longer leads to the nodes that it has handed over.
        unsafe {
            self.limbo
                .settle(self.tree.height(), self.reclaim, self.alloc)
        };
    }
}
