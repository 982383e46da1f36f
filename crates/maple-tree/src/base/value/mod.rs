//! Values of a tree, which are one pointer wide.
//!
//! | value | stored as | [`Ref`] | [`Mut`] |
//! |---|---|---|---|
//! | `Box<T>`, `&'static mut T` | its pointer | `&T` | `&mut T` |
//! | `Pin<Box<T>>` | its pointer | `Pin<&T>` | `Pin<&mut T>` |
//! | `Arc<T>`, `Rc<T>` | its pointer | [`ArcRef`], [`RcRef`]: an `&Arc<T>`, an `&Rc<T>` | the same |
//! | `&T` | its pointer | `&T` | the same |
//! | `NonNull<T>`, `NonZeroUsize`, `NonZeroIsize` (and those of the same width) | the word itself | a copy | a shared reference: see below |
//! | numbers narrower than a word, `bool`, `char`, `()` | in place, beside a tag bit | a copy | `&mut` of what is in the node |

/// Implements [`Value`] for a type: the constant [`PLAIN`](Value::PLAIN), both views of the value,
/// its word, the value of a word, and the views of a word and of a slot. Each use explains why the
/// word is not NULL and stands for the value.
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

        // SAFETY: explained at each use. For a pointer to an unsized type, the compiler should
        // report what can be stored, and not that the size is unknown.
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
/// It is a separate trait, and has a parameter `B` that no caller names, so that values may borrow:
/// `&'a Self` says that no view outlives the value. "For every `'a`" would require values that live
/// for ever. [`Value`] shows how to implement it for a type of your own.
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

/// A shared view of a stored value: `&'a T` for `Box<T>`, `&T` for `&T`, [`ArcRef`] and [`RcRef`] for `Arc<T>` and `Rc<T>` (they dereference to the
/// pointer, and their `clone` is one more of it), `u32` for `u32`.
pub type Ref<'a, V> = <V as View<'a>>::Ref;

/// An exclusive view of a stored value: `&'a mut T` for `Box<T>`, `&'a mut u32` for `u32`.
pub type Mut<'a, V> = <V as View<'a>>::Mut;

/// A value that is stored as one word that is not NULL.
///
/// Implemented for pointers: [`Box`](std_alloc::boxed::Box), [`Pin`](core::pin::Pin) of it,
/// [`Arc`](std_alloc::sync::Arc), [`Rc`](std_alloc::rc::Rc), `&T`, `&'static mut T`, [`NonNull`].
/// Also for types that are stored in place: numbers narrower than a word (up to 32 bits on 64-bit
/// machines), non-zero numbers of a word's width, `bool`, `char` and `()`.
///
/// A value that is stored in place next to a tag bit can be changed in the map, as in a `BTreeMap`:
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
    /// `slot` can be read and written for `'a`, and no other code does so. The word in it came from
    /// [`into_raw`](Value::into_raw) of this type, and for `'a` it is neither made into a value nor
    /// viewed in any other way.
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
