//! In-place initialisation of large values. A value that is made elsewhere is copied at each step
//! of its way: out of the function that makes it, out of its `Result`, into the structure that it
//! is a part of, and onto the heap.

/// Writes a structure field by field to a place, `&mut MaybeUninit` of it. Fields without a value have been written before. The compiler tells which
/// have been left out. A value must not return from the function: what is there already would never be dropped.
macro_rules! fill {
    ($place:expr, $type:ident $(<$of:ident>)? { $($field:ident $(: $value:expr)?),* $(,)? }) => {{
        let place: *mut $type $(<$of>)? = $place.as_mut_ptr();
        let _all = |whole: &$type $(<$of>)?| {
            let $type { $($field: _),* } = whole;
        };
        $($(
            let value = $value;
            // SAFETY: a field of a place that is borrowed exclusively.
            unsafe { (&raw mut (*place).$field).write(value) };
        )?)*
    }};
}

pub(crate) use fill;
