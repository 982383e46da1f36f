//! Values that are owning pointers.
//!
//! Each points to a sized type: a pointer to a `str` is two words wide. For unsized types the
//! compiler should name what can be stored instead, rather than report an unknown size
//! (`do_not_recommend`).

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::pin::Pin;
use core::ptr::NonNull;
use std_alloc::boxed::Box;
use std_alloc::rc::Rc;
use std_alloc::sync::Arc;

use samara_rcu::try_box_uninit;

use crate::base::value::{Duplicate, Mut, Ref, Value, View};

impl<T: Clone> Duplicate for Box<T> {
    /// Clones the contents into a new box. (What `T::clone` allocates itself is not covered.)
    fn duplicate(view: &T) -> Option<Self> {
        Some(Box::write(try_box_uninit()?, view.clone()))
    }
}

impl<T: Clone> Duplicate for Pin<Box<T>> {
    /// Duplicates as `Box<T>` does.
    fn duplicate(view: Pin<&T>) -> Option<Self> {
        Box::duplicate(view.get_ref()).map(Box::into_pin)
    }
}

// The only pointer to its contents, and never NULL; the conversions are those of `Box`.
value!(
    [T] Box<T>, false, &'a T, &'a mut T,
    // SAFETY: a box is never NULL.
    value => unsafe { NonNull::new_unchecked(Box::into_raw(value)).cast() },
    // SAFETY: the caller promises that it came from `into_raw`, and that this is its last use.
    raw => unsafe { Box::from_raw(raw.cast().as_ptr()) },
    // SAFETY: the caller promises that it lives and is only shared for `'a`.
    raw => unsafe { raw.cast().as_ref() },
    // SAFETY: the caller promises that it lives and is not otherwise used for `'a`.
    slot => unsafe { slot.read().cast().as_mut() }
);

// `'static`, so always valid, and the tree has the only reference.
value!(
    [T] &'static mut T, false, &'a T, &'a mut T,
    value => NonNull::from(value).cast(),
    // SAFETY: as for `Box`.
    raw => unsafe { raw.cast().as_mut() },
    // SAFETY: as for `Box`.
    raw => unsafe { raw.cast().as_ref() },
    // SAFETY: as for `Box`.
    slot => unsafe { slot.read().cast().as_mut() }
);

// As `Box`. The pinned value is not moved, because the tree moves only the pointer.
value!(
    [T] Pin<Box<T>>, false, Pin<&'a T>, Pin<&'a mut T>,
    // SAFETY: the pinned value stays where it is until `from_raw` pins it again.
    value => <Box<T> as Value>::into_raw(unsafe { Pin::into_inner_unchecked(value) }),
    // SAFETY: the caller's promise.
    raw => Box::into_pin(unsafe { <Box<T> as Value>::from_raw(raw) }),
    // SAFETY: the caller's promise; it was pinned when it was stored.
    raw => unsafe { Pin::new_unchecked(<Box<T> as Value>::borrow(raw)) },
    // SAFETY: as above.
    slot => unsafe { Pin::new_unchecked(<Box<T> as Value>::borrow_mut(slot)) }
);

/// Reference-counted pointers: the tree owns a count, and views own none.
macro_rules! counted {
    ($pointer:ident, $view:ident, $name:literal, $module:literal) => {
        #[doc = concat!("A view of an [`", $name, "`] in a tree: an `&", $name, "<T>` in effect. Its `clone` is that of the pointer: one count more.")]
        ///
        /// ```
        #[doc = concat!("use std::", $module, "::", $name, ";")]
        /// use maple_tree::MapleTree;
        ///
        #[doc = concat!("let map = MapleTree::from([(0..10u64, ", $name, "::new(\"text\"))]);")]
        #[doc = concat!("let kept: Option<", $name, "<&str>> = map.get(5).map(|value| value.clone());")]
        /// drop(map);
        /// assert_eq!(kept.as_deref(), Some(&"text"));
        /// ```
        #[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $view<'a, T> {
            pointer: ManuallyDrop<$pointer<T>>,
            marker: PhantomData<&'a T>,
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

        impl<T> Duplicate for $pointer<T> {
            /// Adds a reference.
            fn duplicate(view: $view<'_, T>) -> Option<Self> {
                Some($pointer::clone(&view))
            }
        }

        // The conversions are those of the pointer, which is not NULL. A view does not own a count.
        value!(
            [T] $pointer<T>, false, $view<'a, T>, $view<'a, T>,
            // SAFETY: such a pointer is never NULL.
            value => unsafe { NonNull::new_unchecked($pointer::into_raw(value).cast_mut()).cast() },
            // SAFETY: the caller promises that it came from `into_raw`, and that this is its last
            // use.
            raw => unsafe { $pointer::from_raw(raw.cast().as_ptr()) },
            raw => {
                // SAFETY: the caller promises that the tree's count lives for `'a`; this one is not
                // dropped.
                let pointer = unsafe { $pointer::from_raw(raw.cast().as_ptr()) };
                $view { pointer: ManuallyDrop::new(pointer), marker: PhantomData }
            },
            // SAFETY: the caller's promise includes that of `borrow`.
            slot => unsafe { Self::borrow(slot.read()) }
        );
    };
}

counted!(Arc, ArcRef, "Arc", "sync");
counted!(Rc, RcRef, "Rc", "rc");
