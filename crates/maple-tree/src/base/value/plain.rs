//! Plain values: a copy of the word is another value.

use core::num::{NonZeroI8, NonZeroI16, NonZeroIsize, NonZeroU8, NonZeroU16, NonZeroUsize};
#[cfg(target_pointer_width = "64")]
use core::num::{NonZeroI32, NonZeroI64, NonZeroU32, NonZeroU64};
#[cfg(target_pointer_width = "32")]
use core::num::{NonZeroI32, NonZeroU32};
use core::ptr::NonNull;

use crate::base::value::{Duplicate, Mut, Ref, Value, View};

/// Implements `Value` for a plain type, whose shared view is the value itself. Takes the exclusive
/// view type; the rest is as in [`value`].
macro_rules! plain {
    (
        [$($generic:tt)*] $t:ty, $mutable:ty,
        $value:ident => $into:expr, $raw:ident => $from:expr, $slot:ident => $within:expr
    ) => {
        impl<$($generic)*> Duplicate for $t {
            fn duplicate(view: Self) -> Option<Self> {
                Some(view)
            }
        }

        value!(
            [$($generic)*] $t, true, Self, $mutable,
            $value => $into, $raw => $from,
            // SAFETY: the caller's promise; the word is copied.
            raw => unsafe { Self::from_raw(raw) }, $slot => $within
        );
    };
}

// A reference is a pointer that is not NULL and is valid for as long as its type is.
plain!(
    ['r, T] &'r T, &'r T,
    value => NonNull::from(value).cast(),
    // SAFETY: the caller promises that it came from `into_raw`.
    raw => unsafe { raw.cast().as_ref() },
    // SAFETY: as above.
    slot => unsafe { slot.read().cast().as_ref() }
);

// The word is the pointer itself, which is not NULL.
plain!(
    [T] NonNull<T>, &'a Self,
    value => value.cast(),
    raw => raw.cast(),
    // SAFETY: the caller promises that the slot can be read for `'a`; it holds a pointer.
    slot => unsafe { slot.cast().as_ref() }
);

// The word only says that an entry exists.
plain!(
    [] (), &'a mut (),
    _value => NonNull::dangling().with_addr(NonZeroUsize::MIN),
    _raw => (),
    // SAFETY: `()` has no bytes.
    slot => unsafe { slot.cast().as_mut() }
);

/// Numbers that take the whole word: it is the number itself, and not 0.
macro_rules! whole_word {
    ($($t:ty),*) => {$(
        const _: () = assert!(size_of::<$t>() == size_of::<usize>());

        plain!(
            [] $t, &'a Self,
            value => {
                // SAFETY: the number is not 0.
                let word = unsafe { NonZeroUsize::new_unchecked(value.get() as usize) };
                NonNull::dangling().with_addr(word)
            },
            // SAFETY: the word is not 0.
            raw => unsafe { Self::new_unchecked(raw.addr().get() as _) },
            // SAFETY: the caller promises that the slot can be read for `'a`. It holds such a
            // number, which is not a pointer.
            slot => unsafe { slot.cast().as_ref() }
        );
    )*};
}

whole_word!(NonZeroUsize, NonZeroIsize);
#[cfg(target_pointer_width = "64")]
whole_word!(NonZeroU64, NonZeroI64);
#[cfg(target_pointer_width = "32")]
whole_word!(NonZeroU32, NonZeroI32);

/// Types narrower than a word: the value is in the word's upper bytes, so that it has an address,
/// and the lowest bit is set. The word is therefore never 0, and is never mistaken for a node.
/// Changing the value in place leaves the lowest bits unchanged.
macro_rules! in_place {
    ($($bits:ty: [$($t:ty),*]),*) => {$($(
        const _: () = assert!(
            size_of::<$t>() < size_of::<usize>() && size_of::<$t>() == size_of::<$bits>()
        );

        plain!(
            [] $t, &'a mut Self,
            value => {
                // SAFETY: the type has as many bytes, none of them padding.
                let bits = unsafe { (&raw const value).cast::<$bits>().read() };
                let word = (bits as usize) << (usize::BITS - <$bits>::BITS);
                NonNull::dangling().with_addr(NonZeroUsize::MIN | word)
            },
            raw => {
                let bits = (raw.addr().get() >> (usize::BITS - <$bits>::BITS)) as $bits;
                // SAFETY: these are the bits of a value (the caller's promise).
                unsafe { (&raw const bits).cast::<Self>().read() }
            },
            slot => {
                /// The offset of the upper bytes.
                const AT: usize = if cfg!(target_endian = "little") {
                    size_of::<usize>() - size_of::<$t>()
                } else {
                    0
                };
                // SAFETY: within the word, and aligned, because its offset is a multiple of the
                // size. Nothing else uses the slot for `'a` (the caller's promise). The word is not
                // a pointer, so that writing some of its bytes loses nothing.
                unsafe { slot.byte_add(AT).cast().as_mut() }
            }
        );
    )*)*};
}

in_place!(
    u8: [u8, i8, bool, NonZeroU8, NonZeroI8],
    u16: [u16, i16, NonZeroU16, NonZeroI16]
);
#[cfg(target_pointer_width = "64")]
in_place!(u32: [u32, i32, f32, char, NonZeroU32, NonZeroI32]);
