//! A shared, counted place on the heap: what `Arc` is, with an allocation that can fail.

use alloc::alloc::{Layout, dealloc};
use alloc::boxed::Box;
use core::any::Any;
use core::fmt;
use core::marker::PhantomData;
#[cfg(feature = "paging")]
use core::mem::ManuallyDrop;
use core::mem::MaybeUninit;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::errno::Errno;
use crate::heap::boxed::{try_box, try_room};
use crate::heap::place::fill;

struct Inner<T: ?Sized> {
    /// The number of handles. From [`TOO_MANY`] on it is no longer exact, and the value is never
    /// dropped.
    handles: AtomicUsize,
    /// The number of [`Weak`] handles, plus one that all handles have in common. The last of these
    /// frees the memory.
    weak: AtomicUsize,
    value: T,
}

impl<T> Inner<T> {
    const fn new(value: T) -> Self {
        Inner {
            handles: AtomicUsize::new(1),
            weak: AtomicUsize::new(1),
            value,
        }
    }
}

/// Counts one more. The count stays far from both ends.
fn count(counter: &AtomicUsize) {
    // Relaxed: a new handle comes from one that there is, and is given to other threads by other means.
    if counter.fetch_add(1, Ordering::Relaxed) >= TOO_MANY {
        // Relaxed: it only must not come to its end.
        counter.store(STUCK, Ordering::Relaxed);
    }
}

/// Counts one less. Returns `true` if it was the last: then all that was done through the others happened
/// before.
fn uncount(counter: &AtomicUsize) -> bool {
    // Release: what was done through this handle comes before what whichever handle is last does.
    let before = counter.fetch_sub(1, Ordering::Release);
    if before >= TOO_MANY {
        // Relaxed: as above. The value still exists, because a handle of this many is never the
        // last one.
        counter.store(STUCK, Ordering::Relaxed);
    }
    if before == 1 {
        // Acquire: pairs with the releases of the other handles, whose decrements the count that is read ends. A fence would
        // do as well, but ThreadSanitizer does not know fences.
        counter.load(Ordering::Acquire);
    }
    before == 1
}

/// The count from which on handles are no longer counted. It is far from both ends of a word, so
/// that no number of threads that count at the same time reaches them.
const TOO_MANY: usize = 1 << (usize::BITS - 1);

/// The value of the count when there are too many.
const STUCK: usize = TOO_MANY | TOO_MANY >> 1;

/// A handle to a value that is dropped with its last handle, and does not move until then: what `Arc` is, with an allocation that can fail.
///
/// Handles are equal when their values are.
///
/// ```
/// use samara_mm::{Counted, File, FileArg, FileId};
///
/// let id = FileId { major: 8, minor: 1, inode: 4711 };
/// let file = Counted::try_new(File::new(id, "/bin/a".into()))?;
/// let argument = FileArg::File(file.clone());
/// assert_eq!((&*file.name, file.handles()), ("/bin/a", 2));
/// drop(argument);
/// assert!(file.is_alone());
/// # Ok::<(), samara_mm::Errno>(())
/// ```
pub struct Counted<T: ?Sized> {
    inner: NonNull<Inner<T>>,
    marker: PhantomData<Inner<T>>,
}

// SAFETY: handles on several threads give out views of the value (`Sync`), and any of them may be the last, which drops
// it (`Send`).
unsafe impl<T: Send + Sync + ?Sized> Send for Counted<T> {}
// SAFETY: as above: a handle can be cloned through a view of it.
unsafe impl<T: Send + Sync + ?Sized> Sync for Counted<T> {}

impl<T> Counted<T> {
    /// Puts `value` on the heap, with one handle.
    ///
    /// # Errors
    /// `ENOMEM` when the allocator has nothing; the value is dropped.
    pub fn try_new(value: T) -> Result<Self, Errno> {
        let inner = try_box(Inner::new(value))?;
        Ok(Counted {
            // SAFETY: a box is not null.
            inner: unsafe { NonNull::new_unchecked(Box::into_raw(inner)) },
            marker: PhantomData,
        })
    }

    /// Makes a value on the heap, in its place, with one handle.
    ///
    /// # Errors
    /// `ENOMEM` when the allocator has nothing; what `make` returns.
    ///
    /// # Safety
    /// `make` fills the place, or returns an error.
    #[inline]
    pub(crate) unsafe fn try_make(
        make: impl FnOnce(&mut MaybeUninit<T>) -> Result<(), Errno>,
    ) -> Result<Self, Errno> {
        let mut room = try_room::<Inner<T>>()?;
        let inner = room.as_mut_ptr();
        // SAFETY: a field of the room, in which nothing needs to be.
        make(unsafe { &mut *(&raw mut (*inner).value).cast() })?;
        let one = AtomicUsize::new(1);
        fill!(room, Inner<T> { handles: one, weak: AtomicUsize::new(1), value });
        Ok(Counted {
            // SAFETY: a box is not null.
            inner: unsafe { NonNull::new_unchecked(Box::into_raw(room)) }.cast(),
            marker: PhantomData,
        })
    }

    /// Returns the value, for a time that the caller keeps.
    ///
    /// # Safety
    /// The view is not used after this handle has been dropped.
    pub(crate) unsafe fn detached(&self) -> &'static T
    where
        T: 'static,
    {
        // SAFETY: the value stays where it is while this handle lives, and the caller uses the view no longer.
        unsafe { &self.inner.as_ref().value }
    }
}

impl Counted<dyn Any + Send + Sync> {
    /// As [`try_new`](Counted::try_new), without the type.
    ///
    /// # Errors
    /// `ENOMEM` when the allocator has nothing; the value is dropped.
    pub(crate) fn try_new_any<T: Any + Send + Sync>(value: T) -> Result<Self, Errno> {
        let inner: Box<Inner<dyn Any + Send + Sync>> = try_box(Inner::new(value))?;
        Ok(Counted {
            // SAFETY: a box is not null.
            inner: unsafe { NonNull::new_unchecked(Box::into_raw(inner)) },
            marker: PhantomData,
        })
    }
}

impl<T: ?Sized> Counted<T> {
    fn inner(&self) -> &Inner<T> {
        // SAFETY: what it points to lives as long as there is a handle, and is only shared.
        unsafe { self.inner.as_ref() }
    }

    /// Returns the number of handles. If other threads clone and drop theirs, the result may be
    /// outdated.
    pub fn handles(&self) -> usize {
        // Acquire: pairs with the release in `drop` of the handles that have gone.
        self.inner().handles.load(Ordering::Acquire)
    }

    /// Returns `true` if this is the only handle. It then stays the only one until it is cloned, or
    /// a weak one is upgraded, and all that was done through others happened before.
    pub fn is_alone(&self) -> bool {
        self.handles() == 1
    }

    /// Returns `true` if both are handles to one value.
    pub fn ptr_eq(one: &Self, other: &Self) -> bool {
        core::ptr::addr_eq(one.inner.as_ptr(), other.inner.as_ptr())
    }

    /// Returns a handle that does not keep the value.
    pub fn downgrade(&self) -> Weak<T> {
        count(&self.inner().weak);
        Weak {
            inner: self.inner,
            marker: PhantomData,
        }
    }
}

/// A handle that keeps the memory of a [`Counted`] value, but not the value.
pub struct Weak<T: ?Sized> {
    inner: NonNull<Inner<T>>,
    marker: PhantomData<Inner<T>>,
}

// SAFETY: all that it gives are handles: see `Counted`.
unsafe impl<T: Send + Sync + ?Sized> Send for Weak<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync + ?Sized> Sync for Weak<T> {}

impl<T: ?Sized> Weak<T> {
    /// Returns a handle, unless the last one has gone.
    pub fn upgrade(&self) -> Option<Counted<T>> {
        // SAFETY: the memory is freed with the last weak handle. Only the count is looked at: the value may be under way to be dropped.
        let handles = unsafe { &(*self.inner.as_ptr()).handles };
        // Relaxed: as in `count`; the value was there before this weak handle. At zero the last handle has gone, and there never is one again.
        let counted = handles.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| match n {
            0 => None,
            TOO_MANY.. => Some(STUCK),
            _ => Some(n + 1),
        });
        // Made only where it was counted, since dropping it counts it off.
        counted.ok().map(|_| Counted {
            inner: self.inner,
            marker: PhantomData,
        })
    }
}

impl<T: ?Sized> Drop for Weak<T> {
    fn drop(&mut self) {
        // SAFETY: the memory is there until the last of these has gone. As above, the value may not be.
        let weak = unsafe { &(*self.inner.as_ptr()).weak };
        if uncount(weak) {
            // SAFETY: only the layout is taken, which a value that has been dropped still has.
            let layout = Layout::for_value(unsafe { self.inner.as_ref() });
            // SAFETY: no handle of either kind exists, and the memory came from a box with this
            // layout.
            unsafe { dealloc(self.inner.as_ptr().cast(), layout) };
        }
    }
}

impl<T: ?Sized> fmt::Debug for Weak<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Weak")
    }
}

impl<T: PartialEq + ?Sized> PartialEq for Counted<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq + ?Sized> Eq for Counted<T> {}

impl<T: ?Sized> Deref for Counted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner().value
    }
}

impl<T: ?Sized> Clone for Counted<T> {
    fn clone(&self) -> Self {
        count(&self.inner().handles);
        Counted {
            inner: self.inner,
            marker: PhantomData,
        }
    }
}

impl<T: ?Sized> Counted<T> {
    /// Lets the handle go. If it was the last one, `last` is called with the value, which is dropped after that, also if `last` panics.
    #[cfg(feature = "paging")]
    pub(crate) fn let_go<R>(self, last: impl FnOnce(&mut T) -> R) -> Option<R> {
        /// Drops the value, and then frees its memory.
        struct Last<T: ?Sized>(Weak<T>);

        impl<T: ?Sized> Drop for Last<T> {
            fn drop(&mut self) {
                // SAFETY: there is no handle any more, and this is dropped once.
                unsafe { (&raw mut (*self.0.inner.as_ptr()).value).drop_in_place() };
            }
        }

        let handle = ManuallyDrop::new(self);
        if !uncount(&handle.inner().handles) {
            return None;
        }
        // What all handles had in common.
        let value = Last(Weak {
            inner: handle.inner,
            marker: PhantomData,
        });
        // SAFETY: that was the last handle. Weak ones look at the counts only.
        let view = unsafe { &mut (*value.0.inner.as_ptr()).value };
        Some(last(view))
    }
}

impl<T: ?Sized> Drop for Counted<T> {
    fn drop(&mut self) {
        if uncount(&self.inner().handles) {
            // What all handles had in common; it frees the memory after the value, also if dropping that panics.
            let _memory = Weak {
                inner: self.inner,
                marker: PhantomData,
            };
            // SAFETY: this was the last handle. Weak ones look at the counts only, and these are not dropped.
            unsafe { (&raw mut (*self.inner.as_ptr()).value).drop_in_place() };
        }
    }
}

impl<T: fmt::Debug + ?Sized> fmt::Debug for Counted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use alloc::sync::Arc;
    use std::sync::{Mutex, OnceLock};
    use std::thread;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn the_last_handle_drops_the_value() {
        let value = Arc::new(());
        let first = Counted::try_new(value.clone()).unwrap();
        assert!(first.is_alone());
        let others = [first.clone(), first.clone()];
        assert!(!first.is_alone());
        thread::scope(|s| {
            for other in others {
                s.spawn(move || assert_eq!(Arc::strong_count(&other), 2));
            }
        });
        assert!(first.is_alone());
        assert_eq!(Arc::strong_count(&value), 2);
        drop(first);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn too_many_handles_are_never_the_last() {
        let value = Arc::new(());
        let first = Counted::try_new(value.clone()).unwrap();
        let handles = &first.inner().handles;
        handles.store(TOO_MANY - 1, Ordering::Relaxed);
        let (second, third) = (first.clone(), first.clone());
        assert_eq!(first.handles(), STUCK);
        drop(third);
        assert_eq!(first.handles(), STUCK);
        drop(second);
        assert_eq!(first.handles(), STUCK);
        let weak = first.downgrade();
        let again = weak.upgrade().unwrap();
        assert_eq!(first.handles(), STUCK);
        // What is forgotten on purpose is given back, so that those who look for leaks find none.
        handles.store(2, Ordering::Relaxed);
        drop(again);
        drop(first);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    /// Looks for a handle to itself while it lives, and while it is dropped.
    struct Selfish(OnceLock<Weak<Selfish>>, Arc<Mutex<Vec<bool>>>);

    impl Selfish {
        fn look(&self) {
            let found = self.0.get().unwrap().upgrade().is_some();
            self.1.lock().unwrap().push(found);
        }
    }

    impl Drop for Selfish {
        fn drop(&mut self) {
            self.look();
        }
    }

    #[test]
    fn weak_handles_end_with_the_last_one() {
        let seen = Arc::default();
        let first = Counted::try_new(Selfish(OnceLock::new(), Arc::clone(&seen))).unwrap();
        assert!(first.0.set(first.downgrade()).is_ok());
        let outside = first.downgrade();
        first.look();
        let second = first.clone();
        drop(first);
        second.look();
        assert!(outside.upgrade().is_some() && second.is_alone());
        drop(second);
        assert_eq!(*seen.lock().unwrap(), [true, true, false]);
        assert!(outside.upgrade().is_none());
    }

    #[test]
    fn weak_handles_beside_the_last_ones() {
        let value = Arc::new(());
        for _ in 0..100 {
            let first = Counted::try_new(value.clone()).unwrap();
            let weak = [first.downgrade(), first.downgrade()];
            thread::scope(|s| {
                for weak in weak {
                    s.spawn(move || {
                        let found = weak.upgrade();
                        assert!(found.is_none_or(|found| Arc::strong_count(&found) >= 2));
                    });
                }
                drop(first);
            });
            assert_eq!(Arc::strong_count(&value), 1);
        }
    }
}
