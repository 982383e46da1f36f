//! A shared, counted place on the heap: what `Arc` is, with an allocation that can fail.

use alloc::boxed::Box;
use core::any::Any;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::errno::Errno;
use crate::heap::boxed::try_box;

struct Inner<T: ?Sized> {
    /// How many handles there are. At the largest number it stays: the value is then never dropped.
    handles: AtomicUsize,
    value: T,
}

/// A handle to a value that is dropped with its last handle, and does not move until then.
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
        let inner = try_box(Inner {
            handles: AtomicUsize::new(1),
            value,
        })?;
        Ok(Counted {
            // SAFETY: a box is not null.
            inner: unsafe { NonNull::new_unchecked(Box::into_raw(inner)) },
            marker: PhantomData,
        })
    }

    /// The value, for a time that the caller keeps.
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
        let inner: Box<Inner<dyn Any + Send + Sync>> = try_box(Inner {
            handles: AtomicUsize::new(1),
            value,
        })?;
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

    /// Whether this is the only handle. Then it stays so until it is cloned, and all that was done through others happened
    /// before.
    pub(crate) fn is_alone(&self) -> bool {
        // Acquire: pairs with the release in `drop` of the handle that went last.
        self.inner().handles.load(Ordering::Acquire) == 1
    }
}

impl<T: ?Sized> Deref for Counted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner().value
    }
}

impl<T: ?Sized> Clone for Counted<T> {
    fn clone(&self) -> Self {
        // Relaxed: a new handle comes from one that there is. An error says that the count has reached its end, where it stays.
        let _ = self
            .inner()
            .handles
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_add(1));
        Counted {
            inner: self.inner,
            marker: PhantomData,
        }
    }
}

impl<T: ?Sized> Drop for Counted<T> {
    fn drop(&mut self) {
        // Release: what was done through this handle comes before the value is dropped, by whichever handle is last.
        let before = self.inner().handles.fetch_update(
            Ordering::Release,
            Ordering::Relaxed,
            // At its end the count no longer says how many there are.
            |n| (n != usize::MAX).then(|| n - 1),
        );
        if before == Ok(1) {
            // Acquire: pairs with the releases of the other handles, whose decrements the count that is read ends. A fence would
            // do as well, but ThreadSanitizer does not know fences.
            self.inner().handles.load(Ordering::Acquire);
            // SAFETY: this was the last handle; the memory came from a box.
            drop(unsafe { Box::from_raw(self.inner.as_ptr()) });
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
    use std::thread;

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
}
