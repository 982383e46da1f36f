//! What becomes of removed entries and nodes: they are retired.

use core::marker::PhantomData;
use core::mem::needs_drop;
use core::ptr::NonNull;

use crate::alloc::NodeAlloc;
use crate::key::Key;
use crate::node::{DeadNodes, Word};
use crate::reclaim::Reclaim;
use crate::shape::Shape;
use crate::store::Sink;
use crate::value::Value;

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
pub(super) struct Deferred<
    'a,
    K: Key,
    V,
    R: Reclaim,
    A: NodeAlloc + Clone + Send + 'static,
    S: Shape,
    F,
> {
    reclaim: &'a R,
    alloc: &'a A,
    dead: DeadNodes,
    displaced: F,
    announced: bool,
    /// The entry that began here is stored over itself, and stays.
    kept: Option<K>,
    marker: PhantomData<(K, V, S)>,
}

impl<'a, K: Key, V, R: Reclaim, A: NodeAlloc + Clone + Send + 'static, S: Shape, F>
    Deferred<'a, K, V, R, A, S, F>
{
    pub(super) fn new(reclaim: &'a R, alloc: &'a A, kept: Option<K>, displaced: F) -> Self {
        Self {
            reclaim,
            alloc,
            dead: DeadNodes::new(),
            displaced,
            announced: false,
            kept,
            marker: PhantomData,
        }
    }

    fn announce(&mut self) {
        if !self.announced {
            self.announced = true;
            self.reclaim.published();
        }
    }
}

impl<K, V, R, A, S, F> Sink<K> for Deferred<'_, K, V, R, A, S, F>
where
    K: Key,
    S: Shape,
    V: Value + Send + Sync + 'static,
    R: Reclaim,
    A: NodeAlloc + Clone + Send + 'static,
    F: FnMut(K, K, Word),
{
    fn entry(&mut self, first: K, last: K, word: Word) {
        if self.kept == Some(first) {
            return;
        }
        (self.displaced)(first, last, word);
        if needs_drop::<V>()
            && let Some(raw) = NonNull::new(word)
        {
            self.announce();
            let retired = Retired::<V> {
                raw,
                marker: PhantomData,
            };
            // SAFETY: the tree no longer leads to the value; readers that found it entered before.
            unsafe { self.reclaim.retire(move || retired.free()) };
        }
    }

    fn node(&mut self, block: NonNull<u8>) {
        // SAFETY: the tree hands over the block of a node that it has replaced.
        unsafe { self.dead.push::<K, S>(block) };
    }
}

impl<K: Key, V, R: Reclaim, A: NodeAlloc + Clone + Send + 'static, S: Shape, F> Drop
    for Deferred<'_, K, V, R, A, S, F>
{
    fn drop(&mut self) {
        let dead = core::mem::take(&mut self.dead);
        if !dead.is_empty() {
            self.announce();
            let alloc = self.alloc.clone();
            // SAFETY: the tree no longer leads to the nodes, which came from this allocator.
            unsafe { self.reclaim.retire(move || dead.free::<K, S>(&alloc)) };
        }
    }
}
