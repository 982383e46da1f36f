//! The writer: one at a time, beside any number of readers.

mod change;
mod seat;
mod whole;

use core::marker::PhantomData;
use core::ops::{Bound, ControlFlow, RangeBounds, RangeInclusive};

use lock_api::RawMutex;

use crate::alloc::SharedPool;
use crate::base::{Key, Native, Ref, Shape, inclusive};
use crate::face::cursor::Writing;
use crate::face::iter::Iter;
use crate::face::surveys::all_asked;
use crate::face::sync::{SyncAlloc, SyncMapleTree, SyncValue};
use crate::node::RawTree;
use crate::reclaim::Reclaim;

pub use seat::{Look, Piece};

/// A position in a [`SyncMapleTree`] that changes it under its lock.
pub type SharedCursorMut<'h, 't, K, V, R, A, L, S> =
    Writing<'h, K, V, S, A, Writer<'t, K, V, R, A, L, S>>;

/// The writer of a [`SyncMapleTree`]: holds its lock.
///
/// # What readers see
///
/// Each call that changes one range ([`insert_range`](Writer::insert_range), [`store_range`](Writer::store_range) and its variants, coalescing,
/// [`erase_range`](Writer::erase_range), [`remove`](Writer::remove), [`replace`](Writer::replace), [`grow`](Writer::grow)) becomes visible with one
/// store to memory, however many entries and nodes it touches; so do [`append`](Writer::append), [`split_off_with`](Writer::split_off_with)
/// and [`clear`](Writer::clear). Readers find all of the old or all of the new. [`try_extend`](Writer::try_extend) and
/// [`retain`](Writer::retain) are many such changes, one after the other. A call that fails has changed nothing that readers could see.
///
/// What the writer looks up itself is what it has written: nobody else changes the map meanwhile. Values that it removes are *retired*: they are dropped when
/// the readers that may have found them have left, as the map's [`Reclaim`] decides. They are not given back; closures get views of them.
///
/// A closure that panics has been called for the last time; what the call had still to retire is retired all the same, while the panic unwinds. The
/// same holds for a value whose drop panics, where a [`Reclaim`] drops what is retired at once. The map is whole then, and holds what the
/// call had come to; a second panic meanwhile ends the program.
///
/// A writer that is dropped releases the lock.
pub struct Writer<'t, K, V, R, A = SharedPool, L = spin::Mutex<()>, S = Native>
where
    K: Key,
    V: SyncValue,
    R: Reclaim,
    A: SyncAlloc,
    L: RawMutex,
    S: Shape,
{
    pub(in crate::face::sync) tree: &'t SyncMapleTree<K, V, R, A, L, S>,
    /// The map's own lock is to be released.
    pub(in crate::face::sync) locked: bool,
    /// Some locks are to be released by the thread that took them.
    pub(in crate::face::sync) marker: PhantomData<L::GuardMarker>,
}

impl<K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape> Drop
    for Writer<'_, K, V, R, A, L, S>
{
    fn drop(&mut self) {
        if self.locked {
            // SAFETY: `write` or `try_write` has taken it.
            unsafe { self.tree.own.lock.unlock() };
        }
    }
}

impl<'t, K: Key, V: SyncValue, R: Reclaim, A: SyncAlloc, L: RawMutex, S: Shape>
    Writer<'t, K, V, R, A, L, S>
{
    /// The tree, which only this writer changes.
    fn raw(&self) -> &RawTree<K, S> {
        &self.tree.raw
    }

    all_asked!(
        "# use maple_tree::{SyncMapleTree, Waiting};
# let tree: SyncMapleTree<u64, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
# let mut map = tree.write();
# map.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)]).unwrap();
// 1 at 10..20, 2 at 20..30, 3 at 40..50"
    );

    /// A position in the map that changes it, with a range to look for or to store at.
    ///
    /// ```
    /// # use maple_tree::{SyncMapleTree, Waiting};
    /// let map: SyncMapleTree<u32, u32, Waiting> = SyncMapleTree::with_gaps(Waiting::new());
    /// let mut writer = map.write();
    /// writer.try_extend([(10..20, 1), (20..30, 2), (40..50, 3)])?;
    /// let mut cursor = writer.cursor_mut(0..=0);
    /// assert_eq!(cursor.find(..), Some(1));
    /// cursor.erase()?;
    /// assert_eq!(map.read().len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cursor_mut(
        &mut self,
        range: impl RangeBounds<K>,
    ) -> SharedCursorMut<'_, 't, K, V, R, A, L, S> {
        SharedCursorMut::new(self, inclusive(&range))
    }
}
