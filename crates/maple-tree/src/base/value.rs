//! What a tree can hold: values that are one pointer wide.
//!
//! | value | stored as | [`Ref`] | [`Mut`] |
//! |---|---|---|---|
//! | `Box<T>`, `&'static mut T` | its pointer | `&T` | `&mut T` |
//! | `Pin<Box<T>>` | its pointer | `Pin<&T>` | `Pin<&mut T>` |
//! | `Arc<T>`, `Rc<T>` | its pointer | [`ArcRef`], [`RcRef`]: an `&Arc<T>`, an `&Rc<T>` | the same |
//! | `&T` | its pointer | `&T` | the same |
//! | `NonNull<T>`, `NonZeroUsize`, `NonZeroIsize` (and those of the same width) | the word itself | a copy | a shared reference: see below |
//! | numbers narrower than a word, `bool`, `char`, `()` | in place, beside a tag bit | a copy | `&mut` of what is in the node |

use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::num::{NonZeroI8, NonZeroI16, NonZeroIsize, NonZeroU8, NonZeroU16, NonZeroUsize};
#[cfg(target_pointer_width = "64")]
use core::num::{NonZeroI32, NonZeroI64, NonZeroU32, NonZeroU64};
#[cfg(target_pointer_width = "32")]
use core::num::{NonZeroI32, NonZeroU32};
use core::ops::Deref;
use core::pin::Pin;
use core::ptr::{self, NonNull};
use std_alloc::boxed::Box;
use std_alloc::rc::Rc;
use std_alloc::sync::Arc;

/// What views of a value are like, for each lifetime `'a` that a view may have.
///
/// It is a trait of its own, and has a parameter `B` that nobody names, so that values may borrow: `&'a Self` says that no view outlives the
/// value, where "for every `'a`" would otherwise say that values live for ever. See [`Value`] for how a type of one's own has one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored in a maple tree as it is",
    label = "not one word wide, or has no bit to spare",
    note = "a tree holds one word for each entry: `Box<{Self}>` can be stored, and so can `Arc<{Self}>` and `&'static {Self}` if `{Self}` is sized",
    note = "stored in place: `bool`, `char`, `()`, numbers narrower than a pointer, `NonZero` ones as wide as a pointer (there is no room beside all 64 bits of a `u64`)",
    note = "pointers to `str`, slices and `dyn` objects are two words wide: box them once more, as `Box<Box<dyn Trait>>`",
    note = "instead of an `Option`, leave a hole where there is nothing"
)]
pub trait View<'a, B = &'a Self> {
    /// A shared view of a stored value: `&'a T` for `Box<T>`, say.
    type Ref;
    /// An exclusive view of a stored value: `&'a mut T` for `Box<T>`, say.
    type Mut;
}

/// A shared view of a stored value: `&'a T` for `Box<T>`, `u32` for `u32`.
pub type Ref<'a, V> = <V as View<'a>>::Ref;

/// An exclusive view of a stored value: `&'a mut T` for `Box<T>`, `&'a mut u32` for `u32`.
pub type Mut<'a, V> = <V as View<'a>>::Mut;

/// A value that is stored as one word that is not NULL.
///
/// Implemented for pointers to what is elsewhere: [`Box`], [`Pin`] of it, [`Arc`], [`Rc`], `&T`, `&'static mut T`, [`NonNull`]; and for what
/// is stored in place: numbers that are narrower than a word (up to 32 bits on 64-bit machines), those that are as wide and never zero,
/// `bool`, `char` and `()`.
///
/// What is stored in place beside a tag bit can be changed where it is, as in a `BTreeMap`:
///
/// ```
/// use maple_tree::MapleTree;
///
/// let mut counts: MapleTree<u64, u32> = MapleTree::from([(0..10, 1), (10..20, 5)]);
/// counts.values_mut().for_each(|n| *n += 1);
/// *counts.entry(15).or_insert(0)? += 10;
/// assert_eq!((counts.get(0), counts.get(10)), (Some(2), Some(16)));
/// # Ok::<(), maple_tree::InsertError<u32>>(())
/// ```
///
/// A `NonZeroUsize` or a `NonNull` takes all of its word: an entry that stands alone in a tree may have to move when it becomes another one. It
/// is exchanged by [`replace`](crate::MapleTree::replace), and the exclusive view of it is a shared reference.
///
/// # A type of one's own
///
/// Two `impl`s: what views are, and how they are made. Values may borrow, as this one:
///
/// ```
/// use std::ptr::NonNull;
/// use maple_tree::{MapleTree, Value, View};
///
/// struct Name<'n>(&'n &'n str);
///
/// impl<'a, 'n> View<'a> for Name<'n> {
///     type Ref = &'n str;
///     type Mut = &'n str;
/// }
///
/// // SAFETY: the word is a reference, which is not NULL; a copy of it is another value.
/// unsafe impl<'n> Value for Name<'n> {
///     const PLAIN: bool = true;
///
///     fn into_raw(self) -> NonNull<()> {
///         NonNull::from(self.0).cast()
///     }
///     unsafe fn from_raw(raw: NonNull<()>) -> Self {
///         // SAFETY: it came from `into_raw`.
///         Name(unsafe { raw.cast().as_ref() })
///     }
///     unsafe fn borrow<'a>(raw: NonNull<()>) -> &'n str
///     where
///         Self: 'a,
///     {
///         // SAFETY: as above.
///         unsafe { *raw.cast::<&'n str>().as_ref() }
///     }
///     unsafe fn borrow_mut<'a>(slot: NonNull<NonNull<()>>) -> &'n str
///     where
///         Self: 'a,
///     {
///         // SAFETY: as above; `slot` holds the word.
///         unsafe { Self::borrow(*slot.as_ref()) }
///     }
/// }
///
/// let names = vec!["text", "data"];
/// let mut map: MapleTree<u64, Name<'_>> = MapleTree::new();
/// assert!(map.insert_range(0..10, Name(&names[0])).is_ok());
/// assert!(map.insert_range(10..20, Name(&names[1])).is_ok());
/// assert_eq!(map.values().collect::<Vec<_>>(), ["text", "data"]);
/// ```
///
/// # Safety
///
/// * [`from_raw`](Value::from_raw) of what [`into_raw`](Value::into_raw) gave is the same value.
/// * Between the two, [`borrow`](Value::borrow) gives a view of it any number of times.
/// * All three work on any thread if `Self` is `Send` and `Sync` as far as its use there needs it.
/// * If a [`Mut`](View::Mut) changes the word in its slot, the new one is a word of a value, too, and its two lowest bits are what they were.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored in a maple tree as it is",
    label = "not one word wide, or has no bit to spare",
    note = "a tree holds one word for each entry: `Box<{Self}>` can be stored, and so can `Arc<{Self}>` and `&'static {Self}` if `{Self}` is sized",
    note = "stored in place: `bool`, `char`, `()`, numbers narrower than a pointer, `NonZero` ones as wide as a pointer (there is no room beside all 64 bits of a `u64`)",
    note = "pointers to `str`, slices and `dyn` objects are two words wide: box them once more, as `Box<Box<dyn Trait>>`",
    note = "instead of an `Option`, leave a hole where there is nothing"
)]
pub unsafe trait Value: Sized + for<'a> View<'a> {
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
    unsafe fn borrow<'a>(raw: NonNull<()>) -> Ref<'a, Self>
    where
        Self: 'a;

    /// An exclusive view of the value whose word is in `slot`.
    ///
    /// # Safety
    ///
    /// `slot` can be read and written for `'a`, and nobody else does meanwhile. The word in it came from [`into_raw`](Value::into_raw) of
    /// this type, and is not made into a value nor viewed in any other way for `'a`.
    unsafe fn borrow_mut<'a>(slot: NonNull<NonNull<()>>) -> Mut<'a, Self>
    where
        Self: 'a;
}

/// A value that can be made once more from a view of it: what `Clone` is for values that are at hand, with a failure instead of
/// an abort where there is no memory.
///
/// Splitting an entry takes one, and so does copying a map.
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be made once more from a view of it",
    note = "splitting an entry takes a second value, and so does copying a map; calls that end in `_splitting` or `_with` ask a closure for it instead",
    note = "a `Box<T>` is duplicated if `T: Clone`"
)]
pub trait Duplicate: Value {
    /// Another value, equal to the one that is viewed; `None` if there is no memory for it.
    fn duplicate(view: Ref<'_, Self>) -> Option<Self>;
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

impl<T: Clone> Duplicate for Pin<Box<T>> {
    /// As for `Box<T>`.
    fn duplicate(view: Pin<&T>) -> Option<Self> {
        Box::duplicate(view.get_ref()).map(Box::into_pin)
    }
}

impl<'a, T> View<'a> for Box<T> {
    type Ref = &'a T;
    type Mut = &'a mut T;
}

// SAFETY: a box is a unique, non-null pointer; the conversions are those of `Box`.
unsafe impl<T> Value for Box<T> {
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
    unsafe fn borrow_mut<'a>(slot: NonNull<NonNull<()>>) -> &'a mut T
    where
        Self: 'a,
    {
        // SAFETY: the caller promises that the box lives and is not otherwise used for `'a`.
        unsafe { slot.read().cast().as_mut() }
    }
}

impl<'a, T> View<'a> for Pin<Box<T>> {
    type Ref = Pin<&'a T>;
    type Mut = Pin<&'a mut T>;
}

// SAFETY: as for `Box`; what is pinned is not moved, as the tree moves the pointer only.
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

impl<T> Duplicate for &T {
    fn duplicate(view: Self) -> Option<Self> {
        Some(view)
    }
}

impl<'a, 'r, T> View<'a> for &'r T {
    type Ref = &'r T;
    type Mut = &'r T;
}

// SAFETY: a reference is a pointer that is not NULL and is valid for as long as its type is.
unsafe impl<'r, T> Value for &'r T {
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
    unsafe fn borrow<'a>(raw: NonNull<()>) -> &'r T
    where
        Self: 'a,
    {
        // SAFETY: as above.
        unsafe { raw.cast().as_ref() }
    }

    #[inline]
    unsafe fn borrow_mut<'a>(slot: NonNull<NonNull<()>>) -> &'r T
    where
        Self: 'a,
    {
        // SAFETY: as above.
        unsafe { slot.read().cast().as_ref() }
    }
}

impl<'a, T> View<'a> for &'static mut T {
    type Ref = &'a T;
    type Mut = &'a mut T;
}

// SAFETY: a reference is a pointer that is not NULL and, being `'static`, always valid; the tree has the only one.
unsafe impl<T> Value for &'static mut T {
    #[inline]
    fn into_raw(self) -> NonNull<()> {
        NonNull::from(self).cast()
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: the caller promises that it came from `into_raw`, and that this is its last use.
        unsafe { raw.cast().as_mut() }
    }

    #[inline]
    unsafe fn borrow<'a>(raw: NonNull<()>) -> &'a T
    where
        Self: 'a,
    {
        // SAFETY: the caller promises that it is only shared for `'a`.
        unsafe { raw.cast().as_ref() }
    }

    #[inline]
    unsafe fn borrow_mut<'a>(slot: NonNull<NonNull<()>>) -> &'a mut T
    where
        Self: 'a,
    {
        // SAFETY: the caller promises that it is not otherwise used for `'a`.
        unsafe { slot.read().cast().as_mut() }
    }
}

impl<T> Duplicate for NonNull<T> {
    fn duplicate(view: Self) -> Option<Self> {
        Some(view)
    }
}

impl<'a, T> View<'a> for NonNull<T> {
    type Ref = Self;
    type Mut = &'a Self;
}

// SAFETY: the word is the pointer itself, which is not NULL.
unsafe impl<T> Value for NonNull<T> {
    const PLAIN: bool = true;

    #[inline]
    fn into_raw(self) -> NonNull<()> {
        self.cast()
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        raw.cast()
    }

    #[inline]
    unsafe fn borrow<'a>(raw: NonNull<()>) -> Self
    where
        Self: 'a,
    {
        raw.cast()
    }

    #[inline]
    unsafe fn borrow_mut<'a>(slot: NonNull<NonNull<()>>) -> &'a Self
    where
        Self: 'a,
    {
        // SAFETY: the caller promises that the slot can be read for `'a`; it holds a pointer.
        unsafe { slot.cast().as_ref() }
    }
}

/// Numbers that take the whole word.
macro_rules! whole_word {
    ($($t:ty),*) => {$(
        const _: () = assert!(size_of::<$t>() == size_of::<usize>());

        impl Duplicate for $t {
            fn duplicate(view: Self) -> Option<Self> {
                Some(view)
            }
        }

        impl<'a> View<'a> for $t {
            type Ref = Self;
            type Mut = &'a Self;
        }

        // SAFETY: the word is the number itself, which is not 0.
        unsafe impl Value for $t {
            const PLAIN: bool = true;

            #[inline]
            fn into_raw(self) -> NonNull<()> {
                // SAFETY: the number is not 0.
                let word = unsafe { NonZeroUsize::new_unchecked(self.get() as usize) };
                NonNull::dangling().with_addr(word)
            }

            #[inline]
            unsafe fn from_raw(raw: NonNull<()>) -> Self {
                // SAFETY: the word is not 0.
                unsafe { Self::new_unchecked(raw.addr().get() as _) }
            }

            #[inline]
            unsafe fn borrow<'a>(raw: NonNull<()>) -> Self
            where
                Self: 'a,
            {
                // SAFETY: as above.
                unsafe { Self::new_unchecked(raw.addr().get() as _) }
            }

            #[inline]
            unsafe fn borrow_mut<'a>(slot: NonNull<NonNull<()>>) -> &'a Self
            where
                Self: 'a,
            {
                // SAFETY: the caller promises that the slot can be read for `'a`; it holds such a number, which is no pointer.
                unsafe { slot.cast().as_ref() }
            }
        }
    )*};
}

whole_word!(NonZeroUsize, NonZeroIsize);
#[cfg(target_pointer_width = "64")]
whole_word!(NonZeroU64, NonZeroI64);
#[cfg(target_pointer_width = "32")]
whole_word!(NonZeroU32, NonZeroI32);

/// What is narrower than a word: in its upper bytes, where it can be referred to; the lowest bit of the word is set. So the word is never 0, nor
/// is it ever taken for a node.
macro_rules! in_place {
    ($($t:ty as $bits:ty),*) => {$(
        const _: () = assert!(
            size_of::<$t>() < size_of::<usize>() && size_of::<$t>() == size_of::<$bits>()
        );

        impl Duplicate for $t {
            fn duplicate(view: Self) -> Option<Self> {
                Some(view)
            }
        }

        impl<'a> View<'a> for $t {
            type Ref = Self;
            type Mut = &'a mut Self;
        }

        // SAFETY: the word is the value shifted up, with the lowest bit set: there is room for that, because the type is narrower than a
        // word. Changing the value where it is leaves the lowest bits alone.
        unsafe impl Value for $t {
            const PLAIN: bool = true;

            #[inline]
            fn into_raw(self) -> NonNull<()> {
                // SAFETY: it has as many bytes, none of them padding.
                let bits = unsafe { (&raw const self).cast::<$bits>().read() };
                let word = (bits as usize) << (usize::BITS - <$bits>::BITS);
                NonNull::dangling().with_addr(NonZeroUsize::MIN | word)
            }

            #[inline]
            unsafe fn from_raw(raw: NonNull<()>) -> Self {
                let bits = (raw.addr().get() >> (usize::BITS - <$bits>::BITS)) as $bits;
                // SAFETY: these are the bits of a value (the caller's promise).
                unsafe { (&raw const bits).cast::<Self>().read() }
            }

            #[inline]
            unsafe fn borrow<'a>(raw: NonNull<()>) -> Self
            where
                Self: 'a,
            {
                // SAFETY: the caller's promise; the word is copied.
                unsafe { Self::from_raw(raw) }
            }

            #[inline]
            unsafe fn borrow_mut<'a>(slot: NonNull<NonNull<()>>) -> &'a mut Self
            where
                Self: 'a,
            {
                /// Where the upper bytes are.
                const AT: usize = if cfg!(target_endian = "little") {
                    size_of::<usize>() - size_of::<$t>()
                } else {
                    0
                };
                // SAFETY: within the word, aligned as its offset is a multiple of the size; nobody else uses the slot for `'a` (the
                // caller's promise). The word is no pointer, so that nothing is lost if some of its bytes are written.
                unsafe { slot.byte_add(AT).cast().as_mut() }
            }
        }
    )*};
}

in_place!(
    u8 as u8,
    i8 as u8,
    u16 as u16,
    i16 as u16,
    bool as u8,
    NonZeroU8 as u8,
    NonZeroI8 as u8,
    NonZeroU16 as u16,
    NonZeroI16 as u16
);
#[cfg(target_pointer_width = "64")]
in_place!(
    u32 as u32,
    i32 as u32,
    f32 as u32,
    char as u32,
    NonZeroU32 as u32,
    NonZeroI32 as u32
);

impl Duplicate for () {
    fn duplicate((): ()) -> Option<()> {
        Some(())
    }
}

impl<'a> View<'a> for () {
    type Ref = ();
    type Mut = &'a mut ();
}

// SAFETY: the word says that an entry is there, which is all that there is to say.
unsafe impl Value for () {
    const PLAIN: bool = true;

    #[inline]
    fn into_raw(self) -> NonNull<()> {
        NonNull::dangling().with_addr(NonZeroUsize::MIN)
    }

    #[inline]
    unsafe fn from_raw(_: NonNull<()>) {}

    #[inline]
    unsafe fn borrow<'a>(_: NonNull<()>)
    where
        Self: 'a,
    {
    }

    #[inline]
    unsafe fn borrow_mut<'a>(slot: NonNull<NonNull<()>>) -> &'a mut ()
    where
        Self: 'a,
    {
        // SAFETY: it has no bytes.
        unsafe { slot.cast().as_mut() }
    }
}
