//! The values that a tree can hold, which are one pointer wide.
//!
//! | value | stored as | [`Ref`] | [`Mut`] |
//! |---|---|---|---|
//! | `Box<T>`, `&'static mut T` | its pointer | `&T` | `&mut T` |
//! | `Pin<Box<T>>` | its pointer | `Pin<&T>` | `Pin<&mut T>` |
//! | `Arc<T>`, `Rc<T>` | its pointer | [`ArcRef`], [`RcRef`]: an `&Arc<T>`, an `&Rc<T>` | the same |
//! | `&T` | its pointer | `&T` | the same |
//! | `NonNull<T>`, `NonZeroUsize`, `NonZeroIsize` (and those of the same width) | the word itself | a copy | a shared reference: see below |
//! | numbers narrower than a word, `bool`, `char`, `()` | in place, with a tag bit | a copy | `&mut` of the value in the node |

/// Implements `Value` for a type. The arguments: [`PLAIN`](Value::PLAIN), the two view types, the
/// word of a value, the value of a word, the view of a word, and the exclusive view of a slot. A
/// comment at each use states why its word is not NULL and represents the value.
macro_rules! value {
    (
        [$($generic:tt)*] $t:ty, $plain:literal, $view:ty, $mutable:ty,
        $value:ident => $into:expr, $raw:ident => $from:expr,
        $word:ident => $shown:expr, $slot:ident => $within:expr
    ) => {
        impl<'a, $($generic)*> View<'a> for $t {
            type Ref = $view;
            type Mut = $mutable;
        }

        // SAFETY: see the comment at the use.
        // For pointers to unsized types, the compiler should name what can be stored, rather than
        // report an unknown size.
        #[diagnostic::do_not_recommend]
        unsafe impl<$($generic)*> Value for $t {
            const PLAIN: bool = $plain;

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
            unsafe fn borrow<'a>($word: NonNull<()>) -> Ref<'a, Self>
            where
                Self: 'a,
            {
                $shown
            }

            #[inline]
            unsafe fn borrow_mut<'a>($slot: NonNull<NonNull<()>>) -> Mut<'a, Self>
            where
                Self: 'a,
            {
                $within
            }
        }
    };
}
mod plain;
mod pointers;

use core::ptr::NonNull;

pub use pointers::{ArcRef, RcRef};

/// The views of a value, for each lifetime `'a` that a view may have.
///
/// It is a separate trait, with a parameter `B` that no user names, so that values may borrow.
/// `&'a Self` states that no view outlives the value, where "for every `'a`" would otherwise require
/// values that live for ever. [`Value`] shows an implementation for a custom type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored in a maple tree as it is",
    label = "not one word wide, or has no bit to spare",
    note = "a tree holds one word for each entry: `Box<{Self}>` can be stored, and so can `Arc<{Self}>` and `&'static {Self}` if `{Self}` is sized",
    note = "stored in place: `bool`, `char`, `()`, numbers narrower than a pointer, `NonZero` ones as wide as a pointer (all 64 bits of a `u64` are in use)",
    note = "pointers to `str`, slices and `dyn` objects are two words wide: box them once more, as `Box<Box<dyn Trait>>`",
    note = "instead of an `Option`, leave a hole where there is nothing"
)]
pub trait View<'a, B = &'a Self> {
    /// A shared view of a stored value: for example `&'a T` for `Box<T>`.
    type Ref;
    /// An exclusive view of a stored value: for example `&'a mut T` for `Box<T>`.
    type Mut;
}

/// A shared view of a stored value: `&'a T` for `Box<T>`, `&T` for `&T`, `u32` for `u32`. For
/// `Arc<T>` and `Rc<T>` it is [`ArcRef`] and [`RcRef`]: they dereference to the pointer, and their
/// `clone` adds a reference.
pub type Ref<'a, V> = <V as View<'a>>::Ref;

/// An exclusive view of a stored value: `&'a mut T` for `Box<T>`, `&'a mut u32` for `u32`.
pub type Mut<'a, V> = <V as View<'a>>::Mut;

/// A value that is stored as one word that is not NULL.
///
/// Implemented for pointers: [`Box`](std_alloc::boxed::Box), [`Pin`](core::pin::Pin) of it,
/// [`Arc`](std_alloc::sync::Arc), [`Rc`](std_alloc::rc::Rc), `&T`, `&'static mut T`, [`NonNull`].
/// Also implemented for types that are stored in place: numbers narrower than a word (up to 32 bits
/// on 64-bit machines), those of a word's width that are never zero, `bool`, `char` and `()`.
///
/// A value that is stored in place with a tag bit can be changed in place, as in a `BTreeMap`:
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
/// A `NonZeroUsize` or a `NonNull` takes the whole word: a lone entry of a tree may have to move
/// when its value changes. [`replace`](crate::MapleTree::replace) exchanges it, and the exclusive
/// view of it is a shared reference.
///
/// # Custom types
///
/// A custom type takes two `impl`s: the view types, and the conversions. Values may borrow, as this
/// one does:
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
/// * [`from_raw`](Value::from_raw) of what [`into_raw`](Value::into_raw) returned is the same
///   value.
/// * Between the two, [`borrow`](Value::borrow) may be called any number of times, and returns a
///   view of it.
/// * All three work on any thread that `Self`'s `Send` and `Sync` implementations permit.
/// * If a [`Mut`](View::Mut) changes the word in its slot, the new word is that of a value, too,
///   and its two lowest bits are unchanged.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored in a maple tree as it is",
    label = "not one word wide, or has no bit to spare",
    note = "a tree holds one word for each entry: `Box<{Self}>` can be stored, and so can `Arc<{Self}>` and `&'static {Self}` if `{Self}` is sized",
    note = "stored in place: `bool`, `char`, `()`, numbers narrower than a pointer, `NonZero` ones as wide as a pointer (all 64 bits of a `u64` are in use)",
    note = "pointers to `str`, slices and `dyn` objects are two words wide: box them once more, as `Box<Box<dyn Trait>>`",
    note = "instead of an `Option`, leave a hole where there is nothing"
)]
pub unsafe trait Value: Sized + for<'a> View<'a> {
    /// `true` if the word is the whole value: a copy of it is another value, and dropping one does
    /// nothing. Maps of such values are duplicated without visiting them.
    ///
    /// The safety of this trait includes that this is only `true` if [`from_raw`](Value::from_raw)
    /// may be called any number of times with the same word.
    const PLAIN: bool = false;

    /// Converts the value to its word, which then owns the value.
    fn into_raw(self) -> NonNull<()>;

    /// Converts a word back to its value.
    ///
    /// # Safety
    ///
    /// `raw` came from [`into_raw`](Value::into_raw) of this type, and this is its only use from
    /// now on: no view is left.
    unsafe fn from_raw(raw: NonNull<()>) -> Self;

    /// Returns a view of the value.
    ///
    /// # Safety
    ///
    /// `raw` came from [`into_raw`](Value::into_raw) of this type. During `'a`, it is neither
    /// converted to a value nor viewed exclusively.
    unsafe fn borrow<'a>(raw: NonNull<()>) -> Ref<'a, Self>
    where
        Self: 'a;

    /// Returns an exclusive view of the value whose word is in `slot`.
    ///
    /// # Safety
    ///
    /// `slot` can be read and written for `'a`, and nothing else accesses it. Its word came from
    /// [`into_raw`](Value::into_raw) of this type. During `'a`, it is neither converted to a value
    /// nor viewed in any other way.
    unsafe fn borrow_mut<'a>(slot: NonNull<NonNull<()>>) -> Mut<'a, Self>
    where
        Self: 'a;
}

/// A value that can be duplicated from a view of it. This is `Clone` for stored values, with an
/// error instead of an abort if there is no memory.
///
/// Splitting an entry requires it, and so does copying a map.
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be made once more from a view of it",
    note = "splitting an entry takes a second value, and so does copying a map; calls that end in `_splitting` or `_with` ask a closure for it instead",
    note = "a `Box<T>` is duplicated if `T: Clone`"
)]
pub trait Duplicate: Value {
    /// Returns another value, equal to the viewed one, or `None` if there is no memory for it.
    fn duplicate(view: Ref<'_, Self>) -> Option<Self>;
}
