//! Values that are pointers to what is elsewhere, and own it.
//!
//! Each is of a type with a size: a pointer to a `str` is two words wide. For those the compiler is to say what can be stored instead
//! (`do_not_recommend`), rather than that a size is not known.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::pin::Pin;
use core::ptr::{self, NonNull};
use std_alloc::boxed::Box;
use std_alloc::rc::Rc;
use std_alloc::sync::Arc;

use crate::base::room;
use crate::base::value::{Duplicate, Value, View};

impl<T: Clone> Duplicate for Box<T> {
    /// A clone of what is in the box, in a box of its own. (What `T::clone` itself allocates is its own affair.)
    fn duplicate(view: &T) -> Option<Self> {
        Some(Box::write(room()?, view.clone()))
    }
}

impl<T: Clone> Duplicate for Pin<Box<T>> {
    /// As for `Box<T>`.
    fn duplicate(view: Pin<&T>) -> Option<Self> {
        Box::duplicate(view.get_ref()).map(Box::into_pin)
    }
}

/// Pointers to what is theirs alone: with the word of a value, and the value that a word stands for.
macro_rules! unique {
    ($pointer:ty, $value:ident => $into:expr, $raw:ident => $from:expr) => {
        impl<'a, T> View<'a> for $pointer {
            type Ref = &'a T;
            type Mut = &'a mut T;
        }

        // SAFETY: the only pointer to what it points to, and not NULL; beside each use of this is why the word stands for it.
        #[diagnostic::do_not_recommend]
        unsafe impl<T> Value for $pointer {
            #[inline]
            fn into_raw(self) -> NonNull<()> {
                let $value = self;
                $into
            }

            #[inline]
            unsafe fn from_raw($raw: NonNull<()>) -> Self {
                $from
            }

            #[inline]
            unsafe fn borrow<'a>(raw: NonNull<()>) -> &'a T
            where
                Self: 'a,
            {
                // SAFETY: the caller promises that it lives and is only shared for `'a`.
                unsafe { raw.cast().as_ref() }
            }

            #[inline]
            unsafe fn borrow_mut<'a>(slot: NonNull<NonNull<()>>) -> &'a mut T
            where
                Self: 'a,
            {
                // SAFETY: the caller promises that it lives and is not otherwise used for `'a`.
                unsafe { slot.read().cast().as_mut() }
            }
        }
    };
}

// The conversions are those of `Box`.
unique!(
    Box<T>,
    // SAFETY: a box is never NULL.
    value => unsafe { NonNull::new_unchecked(Box::into_raw(value)).cast() },
    // SAFETY: the caller promises that it came from `into_raw`, and that this is its last use.
    raw => unsafe { Box::from_raw(raw.cast().as_ptr()) }
);

// Being `'static`, it is always valid; the tree has the only one.
unique!(
    &'static mut T,
    value => NonNull::from(value).cast(),
    // SAFETY: as above.
    raw => unsafe { raw.cast().as_mut() }
);

impl<'a, T> View<'a> for Pin<Box<T>> {
    type Ref = Pin<&'a T>;
    type Mut = Pin<&'a mut T>;
}

// SAFETY: as for `Box`; what is pinned is not moved, as the tree moves the pointer only.
#[diagnostic::do_not_recommend]
unsafe impl<T> Value for Pin<Box<T>> {
    #[inline]
    fn into_raw(self) -> NonNull<()> {
        // SAFETY: what is pinned stays where it is until `from_raw` pins it again.
        <Box<T> as Value>::into_raw(unsafe { Pin::into_inner_unchecked(self) })
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: the caller promises that it came from `into_raw`, and that this is its last use.
        Box::into_pin(unsafe { <Box<T> as Value>::from_raw(raw) })
    }

    #[inline]
    unsafe fn borrow<'a>(raw: NonNull<()>) -> Pin<&'a T>
    where
        Self: 'a,
    {
        // SAFETY: the caller's promise; it was pinned when it was stored.
        unsafe { Pin::new_unchecked(<Box<T> as Value>::borrow(raw)) }
    }

    #[inline]
    unsafe fn borrow_mut<'a>(slot: NonNull<NonNull<()>>) -> Pin<&'a mut T>
    where
        Self: 'a,
    {
        // SAFETY: as in `borrow`.
        unsafe { Pin::new_unchecked(<Box<T> as Value>::borrow_mut(slot)) }
    }
}

/// Counted pointers: the tree has a count, and views have none.
macro_rules! counted {
    ($pointer:ident, $view:ident, $name:literal) => {
        #[doc = concat!("A view of an [`", $name, "`] in a tree: an `&", $name, "<T>` in effect, so that it can be cloned from.")]
        pub struct $view<'a, T> {
            pointer: ManuallyDrop<$pointer<T>>,
            marker: PhantomData<&'a T>,
        }

        impl<T> Clone for $view<'_, T> {
            fn clone(&self) -> Self {
                // SAFETY: the copy is not dropped as a pointer with a count either, and lives no longer than the tree's
                // (the lifetime is the same).
                let pointer = unsafe { ptr::read(&raw const self.pointer) };
                Self {
                    pointer,
                    marker: PhantomData,
                }
            }
        }

        impl<T> Deref for $view<'_, T> {
            type Target = $pointer<T>;

            #[inline]
            fn deref(&self) -> &$pointer<T> {
                &self.pointer
            }
        }

        impl<T: core::fmt::Debug> core::fmt::Debug for $view<'_, T> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<T: PartialEq> PartialEq for $view<'_, T> {
            fn eq(&self, other: &Self) -> bool {
                **self == **other
            }
        }

        impl<T: Eq> Eq for $view<'_, T> {}

        impl<T: PartialOrd> PartialOrd for $view<'_, T> {
            fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
                (**self).partial_cmp(&**other)
            }
        }

        impl<T: Ord> Ord for $view<'_, T> {
            fn cmp(&self, other: &Self) -> core::cmp::Ordering {
                (**self).cmp(&**other)
            }
        }

        impl<T: core::hash::Hash> core::hash::Hash for $view<'_, T> {
            fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
                (**self).hash(state);
            }
        }

        impl<T> Duplicate for $pointer<T> {
            /// One count more.
            fn duplicate(view: $view<'_, T>) -> Option<Self> {
                Some($pointer::clone(&view))
            }
        }

        impl<'a, T> View<'a> for $pointer<T> {
            type Ref = $view<'a, T>;
            type Mut = $view<'a, T>;
        }

        // SAFETY: the conversions are those of the pointer, which is not NULL; a view does not own a count.
        #[diagnostic::do_not_recommend]
        unsafe impl<T> Value for $pointer<T> {
            #[inline]
            fn into_raw(self) -> NonNull<()> {
                // SAFETY: such a pointer is never NULL.
                unsafe { NonNull::new_unchecked($pointer::into_raw(self).cast_mut()).cast() }
            }

            #[inline]
            unsafe fn from_raw(raw: NonNull<()>) -> Self {
                // SAFETY: the caller promises that it came from `into_raw`, and that this is its last use.
                unsafe { $pointer::from_raw(raw.cast().as_ptr()) }
            }

            #[inline]
            unsafe fn borrow<'a>(raw: NonNull<()>) -> $view<'a, T>
            where
                Self: 'a,
            {
                // SAFETY: the caller promises that the tree's count lives for `'a`; this one is not dropped.
                let pointer = unsafe { $pointer::from_raw(raw.cast().as_ptr()) };
                $view {
                    pointer: ManuallyDrop::new(pointer),
                    marker: PhantomData,
                }
            }

            #[inline]
            unsafe fn borrow_mut<'a>(slot: NonNull<NonNull<()>>) -> $view<'a, T>
            where
                Self: 'a,
            {
                // SAFETY: the caller's promise includes that of `borrow`.
                unsafe { Self::borrow(slot.read()) }
            }
        }
    };
}

counted!(Arc, ArcRef, "Arc");
counted!(Rc, RcRef, "Rc");
