//! The shared face: readers never wait, one writer at a time.
//!
//! # Nodes and readers
//!
//! A reader enters, reads from the root on, and leaves. A writer builds new nodes, publishes them with one release
//! store, and then retires the nodes and values that this store unlinked. What is retired is freed when the readers have left that had
//! entered before: [`Reclaim`] says when, and argues why a reader that comes to a published node sees it initialised.
//!
//! What the reader of an old root finds is whole: pivots of a published node never change, its slots still hold the words that were
//! current when the node was replaced, and its children are freed no sooner.
//!
//! So a walk down ends at an entry that was current at some moment of the walk. No dead mark is needed for this;
//! the mark is for readers that stay in a leaf, as iterators do, to tell that they should look again.

mod hint;
mod limbo;
mod reader;
mod writer;

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, RangeBounds, RangeInclusive};
use core::ptr;

use lock_api::RawMutex;
use samara_rcu::Reclaim;

use crate::alloc::{AllocError, NodeAlloc, SharedPool};
use crate::api::{MapleTree, constructors, demolish};
use crate::base::{EraseError, InsertError, Key, Native, Ref, Shape, StoreError, Value};
use crate::node::{RawTree, flags};

pub use crate::write::Hint;
pub use hint::{Look, Piece};
use limbo::Limbo;
pub use reader::{Reader, SyncIter};
pub use writer::{SharedCursorMut, Writer};

/// A value of a [`SyncMapleTree`]: every [`Value`] that may be viewed on any thread, and dropped on
/// another one when the last reader has left.
pub trait SyncValue: Value + Send + Sync + 'static {}

impl<V: Value + Send + Sync + 'static> SyncValue for V {}

/// An allocator for the nodes of a [`SyncMapleTree`]: every [`NodeAlloc`] whose nodes may be given
/// back to a clone on another thread.
pub trait SyncAlloc: NodeAlloc + Clone + Send + 'static {}

impl<A: NodeAlloc + Clone + Send + 'static> SyncAlloc for A {}

/// A map from ranges to values that is read while it is written.
///
/// Any number of [readers](SyncMapleTree::read) look things up without a lock; they never wait, whatever the one [writer](SyncMapleTree::write)
/// does. What is removed is freed when the readers that may have found it have left, as [`Reclaim`] `R` decides.
///
/// # What readers are guaranteed
///
/// * A look-up gives the entry or the hole that was there at some moment between its call and its return, with the range and the
///   value that belonged together then.
/// * A store replaces all that it covers at once. No reader sees a hole where an entry was
///   overwritten, or a part of the old contents together with a part of the new. A store across
///   several nodes becomes visible with one pointer store, too.
/// * An iterator yields entries in ascending (or descending) order, each as it was when the iterator came to it, or later. An entry
///   that is there throughout is yielded exactly once. One that was stored, or made longer, after the iterator had
///   come that far may begin before the previous one ended.
/// * Views of values live as long as the reader.
///
/// ```
/// use maple_tree::{SyncMapleTree, Waiting};
///
/// static AREAS: SyncMapleTree<usize, Box<&str>, Waiting> = SyncMapleTree::new(Waiting::new());
///
/// AREAS.write().insert_range(0x1000..0x3000, Box::new("text"))?;
/// std::thread::scope(|s| {
///     s.spawn(|| assert!(AREAS.read().get(0x2000).is_some()));
///     s.spawn(|| AREAS.write().store_range(0x2000..0x4000, Box::new("data")));
/// });
/// assert_eq!(AREAS.read().get_range(0x2000), Some((0x2000..=0x3fff, &"data")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The writers' lock is `L`, a spin lock unless another is named: any [`lock_api::RawMutex`], that of `parking_lot` say. A
/// lock that guards more than the tree can take its place: see
/// [`write_locked`](SyncMapleTree::write_locked).
pub struct SyncMapleTree<K, V, R, A = SharedPool, L = spin::Mutex<()>, S = Native>
where
    K: Key,
    V: SyncValue,
    R: Reclaim,
    A: SyncAlloc,
    L: RawMutex,
    S: Shape,
{
    /// The data that readers read: on cache lines of its own, which only a new root changes.
    raw: Apart<RawTree<K, S>>,
    /// The data that readers may write.
    reclaim: Apart<R>,
    own: Apart<Own<K, A, L, S>>,
    marker: PhantomData<V>,
}

/// Keeps what it holds away from its neighbours: what one processor writes often does not take from others what they read often.
///
/// Two lines of 64 bytes where processors fetch lines in pairs.
#[cfg_attr(any(target_arch = "x86_64", target_arch = "aarch64"), repr(align(128)))]
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    repr(align(64))
)]
struct Apart<T>(T);

impl<T> Deref for Apart<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// The data that only writers use.
struct Own<K, A, L, S> {
    lock: L,
    alloc: A,
    /// Only for the current writer.
    limbo: UnsafeCell<Limbo<K, S>>,
}

// SAFETY: one writer at a time, whom the lock sees to, uses what is in limbo.
unsafe impl<K, A: Sync, L: Sync, S> Sync for Own<K, A, L, S> {}

constructors!(
    SyncMapleTree,
    [K: Key, V: SyncValue, R: Reclaim] <K, V, R>,
    [K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape] <K, V, R, A, L, S>,
    (reclaim: R),
    SharedPool::new(),
    flags::RCU,
    "The map's nodes are a [`SharedPool`]'s, and its lock spins; [`new_in`](SyncMapleTree::new_in) makes maps with others.",
    "use maple_tree::{SyncMapleTree, Waiting};

let map = SyncMapleTree::new(Waiting::new());",
    "assert_eq!(map.read().get(1), Some(1));"
);

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape>
    SyncMapleTree<K, V, R, A, L, S>
{
    /// Returns a map of a tree in RCU mode whose words are values of `V`, and the allocator of
    /// its nodes.
    const fn from_parts(raw: RawTree<K, S>, reclaim: R, alloc: A) -> Self {
        Self {
            raw: Apart(raw),
            reclaim: Apart(reclaim),
            own: Apart(Own {
                lock: L::INIT,
                alloc,
                limbo: UnsafeCell::new(Limbo::new()),
            }),
            marker: PhantomData,
        }
    }

    /// Returns a map with the entries of another, which had been built without concurrent readers.
    /// O(1). Its nodes must be such as may be given back later: those of a [`SharedPool`], for
    /// example (`MapleTree::new_in(SharedPool::new())`).
    pub fn from_exclusive(map: MapleTree<K, V, A, S>, reclaim: R) -> Self {
        let (raw, alloc) = map.into_parts();
        // SAFETY: no other code has the tree.
        unsafe { raw.set_in_rcu(true) };
        Self::from_parts(raw, reclaim, alloc)
    }

    /// Returns the entries as a map without concurrent readers, whose changes are made in place.
    /// O(1).
    pub fn into_exclusive(self) -> MapleTree<K, V, A, S> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, nor dropped; all is moved out of it.
        let (raw, reclaim, own) = unsafe {
            (
                ptr::read(&raw const this.raw.0),
                ptr::read(&raw const this.reclaim.0),
                ptr::read(&raw const this.own.0),
            )
        };
        let Own { alloc, limbo, .. } = own;
        // SAFETY: readers borrow the map, so that there are none.
        unsafe { limbo.into_inner().release(&alloc) };
        // SAFETY: no other code has the tree, because readers and writers borrow the map.
        unsafe { raw.set_in_rcu(false) };
        let map = MapleTree::from_parts(raw, alloc);
        // It may drop values, which may panic: then the map is dropped, too.
        drop(reclaim);
        map
    }

    /// Enters as a reader. Never waits.
    ///
    /// Keep readers short: values and nodes that are removed while a reader exists are not freed. A
    /// thread may write while it has a reader. With [`Waiting`](crate::Waiting), a write that
    /// removes something then takes some microseconds, the next ones a tenth of that, and a later
    /// write frees what they removed.
    ///
    /// ```
    /// use maple_tree::{SyncMapleTree, Waiting};
    ///
    /// let map: SyncMapleTree<u32, Box<u32>, Waiting> = SyncMapleTree::new(Waiting::new());
    /// map.insert_range(0..10, Box::new(1))?;
    /// let reader = map.read();
    /// let before = reader.get(5);
    /// map.store_range(0..10, Box::new(2))?;
    /// assert_eq!((before, reader.get(5)), (Some(&1), Some(&2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Where there is no memory to note a removed value either, such a write waits until the readers have left: for its own thread's reader for ever. Values that
    /// need no drop need no such note.
    #[inline]
    pub fn read(&self) -> Reader<'_, K, V, R, A, L, S> {
        let guard = self.reclaim.enter();
        Reader { guard, tree: self }
    }

    /// Takes the lock, to write. Waits for another writer; a thread that has a writer already must not ask for a second one.
    ///
    /// The calling thread may have a reader at the same time: see [`read`](SyncMapleTree::read).
    #[inline]
    pub fn write(&self) -> Writer<'_, K, V, R, A, L, S> {
        self.own.lock.lock();
        self.writer(true)
    }

    #[inline]
    fn writer(&self, locked: bool) -> Writer<'_, K, V, R, A, L, S> {
        Writer {
            tree: self,
            locked,
            marker: PhantomData,
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_write(&self) -> Option<Writer<'_, K, V, R, A, L, S>> {
        // Not `then_some`: dropping a writer releases the lock.
        self.own.lock.try_lock().then(|| self.writer(true))
    }

    /// Writes under a lock of the caller's. The map's own is left alone.
    ///
    /// # Safety
    ///
    /// There is no other writer of this map, of either kind, while this one lives, and what such a writer did before happens
    /// before this call: a lock sees to both.
    #[inline]
    pub unsafe fn write_locked(&self) -> Writer<'_, K, V, R, A, L, S> {
        self.writer(false)
    }

    /// Switches RCU mode, in which a new map is. Off, changes are made in place, which costs less; readers see them half made. O(1).
    ///
    /// # Safety
    ///
    /// The caller is the only writer. To switch the mode off, no reader may exist. While it is off,
    /// a writer and a reader must never exist at once. The caller ensures this, for example by a
    /// count of the threads that may read.
    pub unsafe fn set_in_rcu(&self, on: bool) {
        // SAFETY: the caller's promise.
        unsafe { self.raw.set_in_rcu(on) };
    }

    /// Returns the reclaimer, which frees removed nodes and values.
    ///
    /// Nodes are collected up to [`Reclaim::BATCH`], and used again by the map's own writers. The
    /// write that removes a value retires it at once. With [`Waiting`](crate::Waiting) values are
    /// dropped then, or by the first write that removes something after the readers have left. With
    /// `UserRcu` they are dropped by a later write, its `barrier`, or with the map.
    ///
    /// ```
    /// # #[cfg(all(feature = "rcu", target_has_atomic = "64"))] {
    /// use maple_tree::{SyncMapleTree, UserRcu};
    ///
    /// static NAMES: SyncMapleTree<u32, Box<&str>, UserRcu> = SyncMapleTree::new(UserRcu::new());
    ///
    /// NAMES.insert_range(0..10, Box::new("low"))?;
    /// std::thread::scope(|s| {
    ///     s.spawn(|| assert!(NAMES.contains(4)));
    ///     s.spawn(|| NAMES.store_range(0..10, Box::new("lower")));
    /// });
    /// NAMES.reclaim().barrier();
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reclaim(&self) -> &R {
        &self.reclaim
    }

    /// Returns the allocator of the nodes.
    pub fn allocator(&self) -> &A {
        &self.own.alloc
    }
}

/// A call of the [writer](crate::Writer)'s under the lock: when it fails, its name, its arguments, what it gives, and an example on an empty `map`.
macro_rules! locked {
    ($(#[$errors:meta])* $name:ident($($argument:ident: $type:ty),*) -> $given:ty $(, $example:literal)+) => {
        #[doc = concat!("[`Writer::", stringify!($name), "`](crate::Writer::", stringify!($name), ") under the lock.")]
        ///
        /// ```
        /// # use maple_tree::{SyncMapleTree, Waiting};
        /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
        $(#[doc = $example])+
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        ///
        $(#[$errors])*
        pub fn $name(&self, $($argument: $type),*) -> $given {
            self.write().$name($($argument),*)
        }
    };
}

/// Each of these takes the lock, or enters as a reader, for its own duration. To do several things as one, ask for a
/// [writer](SyncMapleTree::write) or a [reader](SyncMapleTree::read).
impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape>
    SyncMapleTree<K, V, R, A, L, S>
{
    /// Calls `look` with the entry at `key` and returns its result, or `None` if there is no entry.
    /// Takes no lock. O(log n).
    ///
    /// ```
    /// # use maple_tree::{SyncMapleTree, Waiting};
    /// let names: SyncMapleTree<u32, Box<String>, Waiting> = SyncMapleTree::new(Waiting::new());
    /// names.insert_range(0..10, Box::new("low".to_string()))?;
    /// assert_eq!(names.with(4, |range, name| (range, name.len())), Some((0..=9, 3)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with<T>(
        &self,
        key: K,
        look: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> T,
    ) -> Option<T> {
        let reader = self.read();
        let (range, value) = reader.get_range(key)?;
        Some(look(range, value))
    }

    /// Returns `true` if `key` is within an entry at this moment. Takes no lock. O(log n).
    ///
    /// ```
    /// # use maple_tree::{SyncMapleTree, Waiting};
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// map.insert(7, 1)?;
    /// assert!(!map.is_empty() && map.contains(7) && !map.contains(8));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contains(&self, key: K) -> bool {
        self.read().contains(key)
    }

    /// Returns `true` if there are no entries at this moment. Takes no lock. O(1). For an example
    /// see [`contains`](Self::contains).
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    locked! {
        /// The value comes back if an entry intersects the range, if there is no memory, or if the range is empty.
        insert_range(range: impl RangeBounds<K>, value: V) -> Result<(), InsertError<V>>,
        "map.insert_range(0..10, 1)?;",
        "assert!(map.contains(9));"
    }

    locked! {
        /// The value comes back if an entry is at `key`, or if there is no memory.
        insert(key: K, value: V) -> Result<(), InsertError<V>>,
        "map.insert(7, 1)?;",
        "assert!(map.insert(7, 2).is_err());"
    }

    locked! {
        /// The value comes back if the range lies strictly within one entry, if there is no memory, or if the range is empty.
        store_range(range: impl RangeBounds<K>, value: V) -> Result<(), StoreError<V>>,
        "map.store_range(0..10, 1)?;",
        "map.store_range(5..20, 2)?;",
        "assert_eq!(map.with(4, |range, value| (range, value)), Some((0..=4, 1)));",
        "assert_eq!(map.remove(7), Ok(Some(5..=19)));"
    }

    locked! {
        /// If the range lies strictly within one entry, if there is no memory, or if the range is empty. Nothing has changed then.
        erase_range(range: impl RangeBounds<K>) -> Result<(), EraseError>,
        "map.insert_range(0..10, 1)?;",
        "map.erase_range(5..)?;",
        "assert!(map.contains(4) && !map.contains(5));"
    }

    locked! {
        /// If there is no memory; the entry is still there then.
        remove(key: K) -> Result<Option<RangeInclusive<K>>, AllocError>,
        "map.insert_range(0..10, 1)?;",
        "assert_eq!(map.remove(5)?, Some(0..=9));"
    }

    locked! {
        /// The value comes back if there is no entry, or if there is no memory where that takes some.
        replace(key: K, value: V) -> Result<(), V>,
        "map.insert_range(0..10, 1)?;",
        "assert_eq!(map.replace(5, 2), Ok(()));",
        "assert_eq!(map.replace(15, 2), Err(2));"
    }

    locked! {
        /// The value comes back if there is no such gap ([`InsertError::Occupied`]), if there is no memory, or if `bounds` holds no index or
        /// `size` is 0.
        alloc_range(bounds: impl RangeBounds<K>, size: K::Size, value: V) -> Result<K, InsertError<V>>,
        "map.insert_range(0..10, 1)?;",
        "assert_eq!(map.alloc_range(.., 5, 2)?, 10);"
    }

    /// [`Writer::clear`](crate::Writer::clear) under the lock. Never fails.
    ///
    /// ```
    /// # use maple_tree::{SyncMapleTree, Waiting};
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// map.insert_range(0..10, 1)?;
    /// map.clear();
    /// assert!(map.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear(&self) {
        self.write().clear();
    }
}

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape> Drop
    for SyncMapleTree<K, V, R, A, L, S>
{
    fn drop(&mut self) {
        let Own { alloc, limbo, .. } = &mut self.own.0;
        // SAFETY: readers and writers borrow the map, so that there are none.
        unsafe {
            limbo.get_mut().release(alloc);
            demolish::<true, K, V, A, S>(&self.raw, alloc);
        }
    }
}

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape> fmt::Debug
    for SyncMapleTree<K, V, R, A, L, S>
where
    for<'a> Ref<'a, V>: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.read().iter()).finish()
    }
}
