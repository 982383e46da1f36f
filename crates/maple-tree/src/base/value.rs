//! What a tree can hold: values that are one pointer wide.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::num::NonZeroUsize;
use core::ops::Deref;
use core::ptr::{self, NonNull};
use std_alloc::boxed::Box;
use std_alloc::sync::Arc;

/// A value that is stored as one word that is not NULL.
///
/// Implemented for [`Box`], [`Arc`], `&'static T`, and for integers that fit a word beside one tag bit
/// (`u8`, `u16`, and `u32` on 64-bit machines) or are never zero ([`NonZeroUsize`]), which are
/// stored in place.
///
/// # Safety
///
/// * [`from_raw`](Value::from_raw) of what [`into_raw`](Value::into_raw) gave is the same value.
/// * Between the two, [`borrow`](Value::borrow) gives a view of it any number of times.
/// * All three work on any thread if `Self` is `Send` and `Sync` as far as its use there needs it.
pub unsafe trait Value: Sized {
    /// A shared view of a stored value: `&T` for `Box<T>`, say.
    type Ref<'a>
    where
        Self: 'a;
    /// An exclusive view of a stored value: `&mut T` for `Box<T>`; where values are shared or stored
    /// in place, the same as [`Ref`](Value::Ref).
    type Mut<'a>
    where
        Self: 'a;

    /// The word is all that there is to a value: a copy of it is another value, and nothing is done when one is dropped. Maps of
    /// such values are duplicated without looking at them.
    ///
    /// The safety of this trait includes that this is only `true` if [`from_raw`](Value::from_raw) may be called any number of
    /// times for the same word.
    const PLAIN: bool = false;

    /// The word that stands for the value, which now owns it.
    fn into_raw(self) -> NonNull<()>;

    /// The value back.
    ///
    /// # Safety
    ///
    /// `raw` came from [`into_raw`](Value::into_raw) of this type, and this is its only use from now
    /// on: no view is left.
    unsafe fn from_raw(raw: NonNull<()>) -> Self;

    /// A view of the value.
    ///
    /// # Safety
    ///
    /// `raw` came from [`into_raw`](Value::into_raw) of this type, and is not made into a value nor
    /// viewed exclusively for `'a`.
    unsafe fn borrow<'a>(raw: NonNull<()>) -> Self::Ref<'a>
    where
        Self: 'a;

    /// An exclusive view of the value.
    ///
    /// # Safety
    ///
    /// `raw` came from [`into_raw`](Value::into_raw) of this type, and is not made into a value nor
    /// viewed in any other way for `'a`.
    unsafe fn borrow_mut<'a>(raw: NonNull<()>) -> Self::Mut<'a>
    where
        Self: 'a;
}

/// A value that can be made once more from a view of it: what `Clone` is for values that are at hand, with a failure instead of
/// an abort where there is no memory.
///
/// Splitting an entry takes one, and so does copying a map.
pub trait Duplicate: Value {
    /// Another value, equal to the one that is viewed; `None` if there is no memory for it.
    fn duplicate(view: Self::Ref<'_>) -> Option<Self>;
}

impl<T: Clone> Duplicate for Box<T> {
    /// A clone of what is in the box, in a box of its own. (What `T::clone` itself allocates is its own affair.)
    fn duplicate(view: &T) -> Option<Self> {
        let layout = Layout::new::<T>();
        if layout.size() == 0 {
            return Some(Box::new(view.clone()));
        }
        // SAFETY: the layout is not of size zero.
        let block = NonNull::new(unsafe { std_alloc::alloc::alloc(layout) })?.cast::<T>();
        let guard = Unfilled(block);
        let value = view.clone();
        core::mem::forget(guard);
        // SAFETY: the block is fresh, and has the layout of a `T`; a box of one is made like this.
        unsafe {
            block.write(value);
            Some(Box::from_raw(block.as_ptr()))
        }
    }
}

/// Memory for a `T` that is not there yet, and may never be: cloning may panic.
struct Unfilled<T>(NonNull<T>);

impl<T> Drop for Unfilled<T> {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and holds nothing.
        unsafe { std_alloc::alloc::dealloc(self.0.as_ptr().cast(), Layout::new::<T>()) }
    }
}

impl<T> Duplicate for Arc<T> {
    fn duplicate(view: ArcRef<'_, T>) -> Option<Self> {
        Some(Arc::clone(&view))
    }
}

impl<T> Duplicate for &'static T {
    fn duplicate(view: &'static T) -> Option<Self> {
        Some(view)
    }
}

impl Duplicate for NonZeroUsize {
    fn duplicate(view: Self) -> Option<Self> {
        Some(view)
    }
}

// SAFETY: a box is a unique, non-null pointer; the conversions are those of `Box`.
unsafe impl<T> Value for Box<T> {
    type Ref<'a>
        = &'a T
    where
        Self: 'a;
    type Mut<'a>
        = &'a mut T
    where
        Self: 'a;

    #[inline]
    fn into_raw(self) -> NonNull<()> {
        // SAFETY: a box is never NULL.
        unsafe { NonNull::new_unchecked(Box::into_raw(self)).cast() }
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: the caller promises that it came from `into_raw`, and that this is its last use.
        unsafe { Box::from_raw(raw.cast().as_ptr()) }
    }

    #[inline]
    unsafe fn borrow<'a>(raw: NonNull<()>) -> &'a T
    where
        Self: 'a,
    {
        // SAFETY: the caller promises that the box lives and is only shared for `'a`.
        unsafe { raw.cast().as_ref() }
    }

    #[inline]
    unsafe fn borrow_mut<'a>(raw: NonNull<()>) -> &'a mut T
    where
        Self: 'a,
    {
        // SAFETY: the caller promises that the box lives and is not otherwise used for `'a`.
        unsafe { raw.cast().as_mut() }
    }
}

/// A view of an [`Arc`] in a tree: an `&Arc<T>` in effect, so that it can be cloned from.
pub struct ArcRef<'a, T> {
    arc: ManuallyDrop<Arc<T>>,
    marker: PhantomData<&'a T>,
}

impl<T> Clone for ArcRef<'_, T> {
    fn clone(&self) -> Self {
        // SAFETY: the copy is not dropped as an `Arc` either, and lives no longer than the tree's
        // (the lifetime is the same).
        let arc = unsafe { ptr::read(&raw const self.arc) };
        Self {
            arc,
            marker: PhantomData,
        }
    }
}

impl<T> Deref for ArcRef<'_, T> {
    type Target = Arc<T>;

    #[inline]
    fn deref(&self) -> &Arc<T> {
        &self.arc
    }
}

impl<T: core::fmt::Debug> core::fmt::Debug for ArcRef<'_, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: PartialEq> PartialEq for ArcRef<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for ArcRef<'_, T> {}

impl<T: core::hash::Hash> core::hash::Hash for ArcRef<'_, T> {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

// SAFETY: the conversions are those of `Arc`, whose pointer is not NULL; a view does not own a count.
unsafe impl<T> Value for Arc<T> {
    type Ref<'a>
        = ArcRef<'a, T>
    where
        Self: 'a;
    type Mut<'a>
        = ArcRef<'a, T>
    where
        Self: 'a;

    #[inline]
    fn into_raw(self) -> NonNull<()> {
        // SAFETY: an `Arc`'s pointer is never NULL.
        unsafe { NonNull::new_unchecked(Arc::into_raw(self).cast_mut()).cast() }
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: the caller promises that it came from `into_raw`, and that this is its last use.
        unsafe { Arc::from_raw(raw.cast().as_ptr()) }
    }

    #[inline]
    unsafe fn borrow<'a>(raw: NonNull<()>) -> ArcRef<'a, T>
    where
        Self: 'a,
    {
        // SAFETY: the caller promises that the tree's count lives for `'a`; this one is not dropped.
        let arc = unsafe { Arc::from_raw(raw.cast().as_ptr()) };
        ArcRef {
            arc: ManuallyDrop::new(arc),
            marker: PhantomData,
        }
    }

    #[inline]
    unsafe fn borrow_mut<'a>(raw: NonNull<()>) -> ArcRef<'a, T>
    where
        Self: 'a,
    {
        // SAFETY: the caller's promise includes that of `borrow`.
        unsafe { Self::borrow(raw) }
    }
}

// SAFETY: a reference is a pointer that is not NULL and, being `'static`, always valid.
unsafe impl<T> Value for &'static T {
    type Ref<'a>
        = &'static T
    where
        Self: 'a;
    type Mut<'a>
        = &'static T
    where
        Self: 'a;

    const PLAIN: bool = true;

    #[inline]
    fn into_raw(self) -> NonNull<()> {
        NonNull::from(self).cast()
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: the caller promises that it came from `into_raw`.
        unsafe { raw.cast().as_ref() }
    }

    #[inline]
    unsafe fn borrow<'a>(raw: NonNull<()>) -> &'static T
    where
        Self: 'a,
    {
        // SAFETY: as above.
        unsafe { raw.cast().as_ref() }
    }

    #[inline]
    unsafe fn borrow_mut<'a>(raw: NonNull<()>) -> &'static T
    where
        Self: 'a,
    {
        // SAFETY: as above.
        unsafe { raw.cast().as_ref() }
    }
}

// SAFETY: the word is the number itself, which is not 0.
unsafe impl Value for NonZeroUsize {
    type Ref<'a>
        = Self
    where
        Self: 'a;
    type Mut<'a>
        = Self
    where
        Self: 'a;

    const PLAIN: bool = true;

    #[inline]
    fn into_raw(self) -> NonNull<()> {
        NonNull::dangling().with_addr(self)
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        raw.addr()
    }

    #[inline]
    unsafe fn borrow<'a>(raw: NonNull<()>) -> Self
    where
        Self: 'a,
    {
        raw.addr()
    }

    #[inline]
    unsafe fn borrow_mut<'a>(raw: NonNull<()>) -> Self
    where
        Self: 'a,
    {
        raw.addr()
    }
}

macro_rules! in_place {
    ($($t:ty),*) => {$(
        impl Duplicate for $t {
            fn duplicate(view: Self) -> Option<Self> {
                Some(view)
            }
        }

        // SAFETY: the word is the number shifted up by one with the lowest bit set; it fits, because
        // the type is narrower than a word, and is not 0.
        unsafe impl Value for $t {
            type Ref<'a>
        = Self
    where
        Self: 'a;
            type Mut<'a>
        = Self
    where
        Self: 'a;

            const PLAIN: bool = true;

            #[inline]
            fn into_raw(self) -> NonNull<()> {
                NonNull::dangling().with_addr(NonZeroUsize::MIN | ((self as usize) << 1))
            }

            #[inline]
            unsafe fn from_raw(raw: NonNull<()>) -> Self {
                (raw.addr().get() >> 1) as $t
            }

            #[inline]
            unsafe fn borrow<'a>(raw: NonNull<()>) -> Self
    where
        Self: 'a,
    {
                (raw.addr().get() >> 1) as $t
            }

            #[inline]
            unsafe fn borrow_mut<'a>(raw: NonNull<()>) -> Self
    where
        Self: 'a,
    {
                (raw.addr().get() >> 1) as $t
            }
        }
    )*};
}

in_place!(u8, u16);
#[cfg(target_pointer_width = "64")]
in_place!(u32);
