//! Writes to a range, over what is there. It may lie within an entry, of which the part above gets a value that a closure makes.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::alloc::AllocError;
use crate::api::{Host, view};
use crate::base::{EraseError, Key, Offset, Ref, Shape, StoreError, Value};
use crate::node::{NULL, Word};
use crate::write::{Hint, Quick, SlotAt};

/// The word of a value that is looked at before it is stored, by a closure that may panic.
pub(crate) struct Held<V: Value> {
    raw: NonNull<()>,
    marker: PhantomData<V>,
}

// SAFETY: it stands for a value, which may be sent.
unsafe impl<V: Value + Send> Send for Held<V> {}

impl<V: Value> Held<V> {
    pub(crate) fn new(value: V) -> Self {
        Self::of(value.into_raw())
    }

    /// Wraps a word that was made of a value, and that no other code uses.
    #[inline(always)]
    pub(crate) fn of(raw: NonNull<()>) -> Self {
        let marker = PhantomData;
        Self { raw, marker }
    }

    pub(super) fn view(&self) -> Ref<'_, V> {
        // SAFETY: the word is that of a value which this owns, and `self` is borrowed.
        unsafe { V::borrow(self.raw) }
    }

    fn into_raw(self) -> NonNull<()> {
        ManuallyDrop::new(self).raw
    }

    pub(super) fn into_value(self) -> V {
        // SAFETY: the word is that of a value which this owned until now.
        unsafe { V::from_raw(self.into_raw()) }
    }
}

/// The contents that [`splitting`] stores at its range.
trait New {
    /// Returns the word to be stored.
    fn word(&self) -> Word;
}

/// A hole.
impl New for () {
    fn word(&self) -> Word {
        NULL
    }
}

/// A value, which this goes on owning.
impl<V: Value> New for Held<V> {
    fn word(&self) -> Word {
        self.raw.as_ptr()
    }
}

impl<V: Value> Drop for Held<V> {
    fn drop(&mut self) {
        // SAFETY: the word is that of a value which this owns.
        drop(unsafe { V::from_raw(self.raw) });
    }
}

/// Stores over what is there, but not within an entry.
#[inline]
pub(crate) fn store<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    value: V,
    taken: impl FnMut(K, K, Word),
) -> Result<(), StoreError<V>> {
    let Some((first, last)) = range else {
        return Err(StoreError::EmptyRange(value));
    };
    let new = Held::new(value);
    let Some(at) = host.tree().slot_at(first) else {
        return planned(host, (first, last), new, |_, _| None, taken).map_err(given_back);
    };
    if at.is_entry(first, last) {
        host.exchange(at, new.into_raw(), taken);
        return Ok(());
    }
    store_at(host, at, (first, last), new, taken)
}

/// As [`store`], where more than a word changes. A call, which takes nothing from writes that change no more.
#[inline(never)]
fn store_at<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    at: SlotAt<K, S>,
    range: (K, K),
    new: Held<V>,
    taken: impl FnMut(K, K, Word),
) -> Result<(), StoreError<V>> {
    splitting_at(host, at, range, new, |_, _| None, taken).map_err(given_back)
}

/// Stores over what is there; an entry that would be on both sides is split by a closure.
pub(crate) fn store_splitting<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    value: V,
    split: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    taken: impl FnMut(K, K, Word),
) -> Result<(), StoreError<V>> {
    splitting(host, range, Held::new(value), split, taken).map_err(given_back)
}

/// Makes a hole; an entry that would be on both sides is split by a closure.
pub(crate) fn erase<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    split: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    taken: impl FnMut(K, K, Word),
) -> Result<(), EraseError> {
    splitting(host, range, (), split, taken).map_err(|(refused, ())| refused)
}

/// Why a store changed nothing, with the value that was to be stored.
fn given_back<V: Value>((refused, held): (EraseError, Held<V>)) -> StoreError<V> {
    not_stored(refused, held.into_value())
}

/// As [`given_back`].
pub(crate) fn not_stored<V>(refused: EraseError, value: V) -> StoreError<V> {
    match refused {
        EraseError::Splits => StoreError::Splits(value),
        EraseError::Alloc => StoreError::Alloc(value),
        EraseError::EmptyRange => StoreError::EmptyRange(value),
    }
}

/// Makes a range hold what is new, over what is there.
fn splitting<K: Key, V: Value, S: Shape, H: Host<K, V, S>, N: New>(
    host: &mut H,
    range: Option<(K, K)>,
    new: N,
    split: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    taken: impl FnMut(K, K, Word),
) -> Result<(), (EraseError, N)> {
    let Some(range) = range else {
        return Err((EraseError::EmptyRange, new));
    };
    match host.tree().slot_at(range.0) {
        Some(at) => splitting_at(host, at, range, new, split, taken),
        None => planned(host, range, new, split, taken),
    }
}

/// As [`splitting`]; the range starts in a slot.
#[inline(always)]
fn splitting_at<K: Key, V: Value, S: Shape, H: Host<K, V, S>, N: New>(
    host: &mut H,
    at: SlotAt<K, S>,
    (first, last): (K, K),
    new: N,
    split: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    mut taken: impl FnMut(K, K, Word),
) -> Result<(), (EraseError, N)> {
    // It is the tree's from the write on, also if that panics: then it has been made.
    let given = ManuallyDrop::new(new);
    let word = given.word();
    // These need less than to say what is left of the slots.
    if at.is_entry(first, last) {
        match NonNull::new(word) {
            Some(word) => {
                host.exchange(at, word, taken);
                return Ok(());
            }
            None if host.vacate(at, false, &mut taken) => return Ok(()),
            None => {}
        }
    }
    let within = at.is_within(first, last);
    let hint = Hint::of(&at);
    if at.is_hole_around(last)
        && let Some(word) = NonNull::new(word)
    {
        if host.fill_hole(at, (first, last), word) {
            return Ok(());
        }
    } else if !within
        && host.store_here_apart(&hint, (first, last), (word, NULL), None, true, &mut taken)
    {
        return Ok(());
    }
    if H::OWNS_NODES && !within {
        return host
            .write_apart(Some(at), (first, last), word, None, taken)
            .map_err(|AllocError| (EraseError::Alloc, ManuallyDrop::into_inner(given)));
    }
    let new = ManuallyDrop::into_inner(given);
    if !within || !at.has_room_for_two() {
        return planned(host, (first, last), new, split, taken);
    }
    let range = last.wrapping_add(K::ONE)..=at.found.last;
    // SAFETY: the word is in the tree, which is not changed while the closure has the view.
    let value = unsafe { view::<V>(at.found.word) };
    let Some(twin) = value.and_then(|value| split(range, value)) else {
        return Err((EraseError::Splits, new));
    };
    let twin = Held::<V>::new(twin);
    let above = twin.raw;
    // As above.
    let both = ManuallyDrop::new((new, twin));
    let words = (word, above.as_ptr());
    if host.store_here_apart(&hint, (first, last), words, None, false, taken) {
        return Ok(());
    }
    let quick = at.split((first, last), word);
    split_beside(host, quick, above.as_ptr()).map_err(|AllocError| {
        let (new, twin) = ManuallyDrop::into_inner(both);
        drop(twin);
        (EraseError::Alloc, new)
    })
}

/// Splits an entry where that takes a node. Few writes are such: a call, which takes no stack from the others.
#[inline(never)]
fn split_beside<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    quick: Quick<K, S>,
    twin: Word,
) -> Result<(), AllocError> {
    host.carry_out_quick(&quick, twin, None, |_, _, _| {})
}

/// As [`splitting`], by a plan.
#[cold]
fn planned<K: Key, V: Value, S: Shape, H: Host<K, V, S>, N: New>(
    host: &mut H,
    (first, last): (K, K),
    new: N,
    split: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    taken: impl FnMut(K, K, Word),
) -> Result<(), (EraseError, N)> {
    let mut plan = host.tree().plan_store(first, last, new.word());
    let mut twin = None;
    if plan.splits
        && let Some(above) = plan.items.last_mut()
    {
        let range = last.wrapping_add(K::ONE)..=above.last;
        // SAFETY: the word is in the tree, which is not changed while the closure has the view.
        let value = unsafe { view::<V>(above.word) };
        let Some(made) = value.and_then(|value| split(range, value)) else {
            return Err((EraseError::Splits, new));
        };
        let made = Held::new(made);
        above.word = made.word();
        twin = Some(made);
    }
    if let Err(AllocError) = host.prepare(&mut plan) {
        return Err((EraseError::Alloc, new));
    }
    // As in `splitting`.
    let both = ManuallyDrop::new((new, twin));
    host.carry_out(&mut plan, None, taken)
        .map_err(|AllocError| {
            let (new, twin) = ManuallyDrop::into_inner(both);
            drop(twin);
            (EraseError::Alloc, new)
        })
}
