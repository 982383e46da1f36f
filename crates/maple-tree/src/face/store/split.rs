//! Writes to a range that may lie within an entry, of which the part above gets a value that a closure makes.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::alloc::AllocError;
use crate::base::{EraseError, Key, Ref, Shape, StoreError, Value};
use crate::face::host::Host;
use crate::face::look_ups::view;
use crate::face::store::in_place;
use crate::node::{NULL, Word};
use crate::write::Seat;

/// The word of a value that is looked at before it is stored, by a closure that may panic.
pub(super) struct Held<V: Value> {
    raw: NonNull<()>,
    marker: PhantomData<V>,
}

impl<V: Value> Held<V> {
    pub(super) fn new(value: V) -> Self {
        Self {
            raw: value.into_raw(),
            marker: PhantomData,
        }
    }

    pub(super) fn view(&self) -> Ref<'_, V> {
        // SAFETY: the word is that of a value which this owns, and `self` is borrowed.
        unsafe { V::borrow(self.raw) }
    }

    pub(super) fn into_raw(self) -> NonNull<()> {
        ManuallyDrop::new(self).raw
    }

    pub(super) fn into_value(self) -> V {
        // SAFETY: the word is that of a value which this owned until now.
        unsafe { V::from_raw(self.into_raw()) }
    }
}

/// What [`splitting`] puts at its range.
trait New {
    /// The word to be stored.
    fn word(&self) -> Word;
}

/// Nothing.
struct Hole;

impl New for Hole {
    fn word(&self) -> Word {
        NULL
    }
}

/// A value.
struct Stored<V: Value>(Held<V>);

impl<V: Value> New for Stored<V> {
    fn word(&self) -> Word {
        self.0.raw.as_ptr()
    }
}

impl<V: Value> Drop for Held<V> {
    fn drop(&mut self) {
        // SAFETY: the word is that of a value which this owns.
        drop(unsafe { V::from_raw(self.raw) });
    }
}

/// Stores over what is there; an entry that would be on both sides is split by a closure.
pub(crate) fn store_splitting<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    value: V,
    split: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    taken: impl FnMut(K, K, Word),
) -> Result<(), StoreError<V>> {
    let Some(range) = range else {
        return Err(StoreError::EmptyRange(value));
    };
    store_held(host, range, Held::new(value), split, taken)
}

/// Stores a value over what is there; an entry that would be on both sides is split by a closure.
pub(super) fn store_held<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: (K, K),
    held: Held<V>,
    split: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    taken: impl FnMut(K, K, Word),
) -> Result<(), StoreError<V>> {
    splitting(host, range, Stored(held), split, taken).map_err(|(refused, Stored(held))| {
        match refused {
            Refused::Splits => StoreError::Splits(held.into_value()),
            Refused::Alloc => StoreError::Alloc(held.into_value()),
        }
    })
}

/// Makes a hole; an entry that would be on both sides is split by a closure.
pub(crate) fn erase_splitting<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    split: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    taken: impl FnMut(K, K, Word),
) -> Result<(), EraseError> {
    let range = range.ok_or(EraseError::EmptyRange)?;
    splitting(host, range, Hole, split, taken).map_err(|(refused, Hole)| match refused {
        Refused::Splits => EraseError::Splits,
        Refused::Alloc => EraseError::Alloc,
    })
}

/// Why a write changed nothing.
enum Refused {
    /// The closure did not make a value for the upper part of an entry.
    Splits,
    Alloc,
}

fn splitting<K: Key, V: Value, S: Shape, H: Host<K, V, S>, N: New>(
    host: &mut H,
    (first, last): (K, K),
    mut new: N,
    split: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    mut taken: impl FnMut(K, K, Word),
) -> Result<(), (Refused, N)> {
    let word = new.word();
    let at = host.tree().slot_at(first);
    if let Some(at) = at {
        // As `insert` and `remove`, which need less than to say what is left of the slots.
        if at.found.word.is_null() && last <= at.found.last {
            if let Some(word) = NonNull::new(word)
                && host.fill_hole(at, (first, last), word)
            {
                let _ = ManuallyDrop::new(new);
                return Ok(());
            }
        } else {
            // It is the tree's from the write on, also if that panics: then it has been made.
            let given = ManuallyDrop::new(new);
            if word.is_null() && at.is_entry(first, last) && host.vacate(at, false, &mut taken)
                || !at.is_within(first, last)
                    && in_place(host, &at, (first, last), (word, NULL), &mut taken)
            {
                return Ok(());
            }
            new = ManuallyDrop::into_inner(given);
        }
    }
    let within = at.filter(|at| at.is_within(first, last));
    let quick = match within {
        Some(_) => None,
        None => at.and_then(|at| host.tree().try_store_at(at, (first, last), word)),
    };
    if let Some(quick) = quick {
        // As above.
        let new = ManuallyDrop::new(new);
        return host
            .carry_out_quick(quick, taken)
            .map_err(|AllocError| (Refused::Alloc, ManuallyDrop::into_inner(new)));
    }
    if let Some(at) = within
        && at.has_room_for_two()
    {
        let range = last.wrapping_add(K::ONE)..=at.found.last;
        // SAFETY: the word is in the tree, which is not changed while the closure has the view.
        let value = unsafe { view::<V>(at.found.word) };
        let Some(twin) = value.and_then(|value| split(range, value)) else {
            return Err((Refused::Splits, new));
        };
        let twin = Held::<V>::new(twin);
        let above = twin.raw;
        // As above.
        let both = ManuallyDrop::new((new, twin));
        if host.store_here(
            &Seat::of(&at),
            (first, last),
            (word, above.as_ptr()),
            NULL,
            taken,
        ) {
            return Ok(());
        }
        let quick = host.tree().split_at(at, (first, last), word);
        return host.carry_out_split(quick, above).map_err(|AllocError| {
            let (new, twin) = ManuallyDrop::into_inner(both);
            drop(twin);
            (Refused::Alloc, new)
        });
    }
    let mut plan = host.tree().plan_store(first, last, word);
    let mut twin = None;
    if plan.splits
        && let Some(above) = plan.items.last_mut()
    {
        let range = last.wrapping_add(K::ONE)..=above.last;
        // SAFETY: the word is in the tree, which is not changed while the closure has the view.
        let value = unsafe { view::<V>(above.word) };
        let Some(made) = value.and_then(|value| split(range, value)) else {
            return Err((Refused::Splits, new));
        };
        let made = Held::new(made);
        above.word = made.raw.as_ptr();
        twin = Some(made);
    }
    // As above.
    let both = ManuallyDrop::new((new, twin));
    host.carry_out(plan, taken).map_err(|AllocError| {
        let (new, twin) = ManuallyDrop::into_inner(both);
        drop(twin);
        (Refused::Alloc, new)
    })
}
