//! What the faces' writes have in common: from values to words, through plan, reserve and apply, and back if that fails.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::alloc::AllocError;
use crate::base::{EraseError, InsertError, Key, Ref, Shape, StoreError, Value};
use crate::face::host::Host;
use crate::face::look_ups::view;
use crate::node::{NULL, RawTree, Word};
use crate::read::{Found, Want};
use crate::write::{Seat, SlotAt};

/// The value that a word stands for, back from a write that was not made.
///
/// # Safety
///
/// `raw` came from `V::into_raw`, and was not stored.
unsafe fn back<V: Value>(raw: NonNull<()>) -> V {
    // SAFETY: the caller's promise.
    unsafe { V::from_raw(raw) }
}

/// Stores into a hole.
pub(crate) fn insert<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    value: V,
) -> Result<(), InsertError<V>> {
    insert_raw(host, range, value.into_raw())
}

/// Stores the word of a value into a hole. On failure the word is used up: the error has the value.
pub(crate) fn insert_raw<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    raw: NonNull<()>,
) -> Result<(), InsertError<V>> {
    let Some((first, last)) = range else {
        // SAFETY: the caller has just made the word, and it is not stored.
        return Err(InsertError::EmptyRange(unsafe { back(raw) }));
    };
    let Some(at) = host.tree().slot_at(first) else {
        if !host.tree().load(first).is_null() {
            // SAFETY: as above.
            return Err(InsertError::Occupied(unsafe { back(raw) }));
        }
        return insert_planned(host, (first, last), raw);
    };
    if !at.found.word.is_null() || last > at.found.last {
        // SAFETY: as above.
        return Err(InsertError::Occupied(unsafe { back(raw) }));
    }
    if host.fill_hole(at, (first, last), raw) {
        return Ok(());
    }
    insert_at(host, at, (first, last), raw)
}

/// As [`insert_raw`], into the hole that a slot is.
#[inline(never)]
fn insert_at<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    at: SlotAt<K, S>,
    range: (K, K),
    raw: NonNull<()>,
) -> Result<(), InsertError<V>> {
    match host.tree().try_fill_at(at, range, raw.as_ptr()) {
        Some(quick) => host
            .carry_out_fill(quick)
            // SAFETY: the caller has just made the word; a write that fails stores nothing.
            .map_err(|AllocError| InsertError::Alloc(unsafe { back(raw) })),
        None => insert_planned(host, range, raw),
    }
}

/// As [`insert_raw`], into a hole, by a plan.
#[cold]
fn insert_planned<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    (first, last): (K, K),
    raw: NonNull<()>,
) -> Result<(), InsertError<V>> {
    let plan = host.tree().plan_store(first, last, raw.as_ptr());
    host.carry_out(plan, |_, _, _| {})
        // SAFETY: the caller has just made the word; a write that fails stores nothing.
        .map_err(|AllocError| InsertError::Alloc(unsafe { back(raw) }))
}

/// Which of the gaps that are large enough.
#[derive(Clone, Copy)]
pub(crate) enum Lowest {
    Lowest,
    Highest,
}

/// Makes an error that gives a value back.
type Refuse<V> = fn(V) -> InsertError<V>;

/// A gap of `size` indices within `bounds`, as a range; or why there is none, by what takes the value.
fn place<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &H,
    bounds: Option<(K, K)>,
    size: K::Size,
    which: Lowest,
) -> Result<(K, K), Refuse<V>> {
    let bounds = bounds.ok_or(InsertError::EmptyRange as Refuse<V>)?;
    let want = Want::new(bounds, size).ok_or(InsertError::EmptyRange as Refuse<V>)?;
    let found = match which {
        Lowest::Lowest => host.tree().gap_up(&want),
        Lowest::Highest => host.tree().gap_down(&want),
    };
    let first = found.ok_or(InsertError::Occupied as Refuse<V>)?;
    Ok((first, want.last(first)))
}

/// As [`allocate`], with neighbours that touch the range and are the same joined to it. Gives the range, and that of the entry that is made
/// of all.
pub(crate) fn allocate_coalescing<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    bounds: Option<(K, K)>,
    size: K::Size,
    which: Lowest,
    value: V,
    same: impl FnMut(Ref<'_, V>, Ref<'_, V>) -> bool,
    taken: impl FnMut(K, K, Word),
) -> Result<(K, RangeInclusive<K>), InsertError<V>> {
    match place(host, bounds, size, which) {
        Ok(range) => {
            let whole = insert_coalescing(host, Some(range), value, same, taken)?;
            Ok((range.0, whole))
        }
        Err(refuse) => Err(refuse(value)),
    }
}

/// Stores into a gap of `size` indices within `bounds`, and gives its first index.
pub(crate) fn allocate<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    bounds: Option<(K, K)>,
    size: K::Size,
    which: Lowest,
    value: V,
) -> Result<K, InsertError<V>> {
    match place(host, bounds, size, which) {
        Ok(range) => {
            insert(host, Some(range), value)?;
            Ok(range.0)
        }
        Err(refuse) => Err(refuse(value)),
    }
}

/// Stores at the lowest free index at or after `next` within `bounds`, else at the lowest before it; sets `next` to the index
/// after. Gives the index, and whether the search started over.
pub(crate) fn allocate_cyclic<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    bounds: Option<(K, K)>,
    next: &mut K,
    value: V,
) -> Result<(K, bool), InsertError<V>> {
    let Some((lo, hi)) = bounds else {
        return Err(InsertError::EmptyRange(value));
    };
    let from = (*next).max(lo);
    let ahead = (from <= hi)
        .then(|| Want::new((from, hi), K::ONE.number()))
        .flatten()
        .and_then(|want| host.tree().gap_up(&want));
    let (key, wrapped) = match ahead {
        Some(key) => (key, false),
        None => {
            let again = Want::new((lo, hi), K::ONE.number());
            let Some(key) = again.and_then(|want| host.tree().gap_up(&want)) else {
                return Err(InsertError::Occupied(value));
            };
            (key, true)
        }
    };
    insert(host, Some((key, key)), value)?;
    *next = key.successor().unwrap_or(K::MIN);
    Ok((key, wrapped))
}

/// Stores over what is there.
pub(crate) fn store<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    value: V,
    taken: impl FnMut(K, K, Word),
) -> Result<(), StoreError<V>> {
    let Some(range) = range else {
        return Err(StoreError::EmptyRange(value));
    };
    store_raw(host, range, value.into_raw(), taken)
}

/// Stores the word of a value over what is there. On failure the word is used up: the error has the value.
fn store_raw<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    (first, last): (K, K),
    raw: NonNull<()>,
    taken: impl FnMut(K, K, Word),
) -> Result<(), StoreError<V>> {
    let Some(at) = host.tree().slot_at(first) else {
        return store_planned(host, (first, last), raw, taken);
    };
    if at.is_entry(first, last) {
        let quick = RawTree::exchange_at(at, raw.as_ptr());
        return host
            .carry_out_quick(quick, taken)
            // SAFETY: the caller has just made the word; a write that fails stores nothing.
            .map_err(|AllocError| StoreError::Alloc(unsafe { back(raw) }));
    }
    store_at(host, at, (first, last), raw, taken)
}

/// As [`store_raw`]; the range starts in a slot.
#[inline(never)]
fn store_at<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    at: SlotAt<K, S>,
    range: (K, K),
    raw: NonNull<()>,
    mut taken: impl FnMut(K, K, Word),
) -> Result<(), StoreError<V>> {
    if at.found.word.is_null() && range.1 <= at.found.last {
        if host.fill_hole(at, range, raw) {
            return Ok(());
        }
        if let Some(quick) = host.tree().try_fill_at(at, range, raw.as_ptr()) {
            return host
                .carry_out_fill(quick)
                // SAFETY: the caller has just made the word; a write that fails stores nothing.
                .map_err(|AllocError| StoreError::Alloc(unsafe { back(raw) }));
        }
    }
    if !at.is_within(range.0, range.1)
        && in_place(host, &at, range, (raw.as_ptr(), NULL), &mut taken)
    {
        return Ok(());
    }
    match host.tree().try_store_at(at, range, raw.as_ptr()) {
        Some(quick) => host
            .carry_out_quick(quick, taken)
            // SAFETY: the caller has just made the word; a write that fails stores nothing.
            .map_err(|AllocError| StoreError::Alloc(unsafe { back(raw) })),
        None => store_planned(host, range, raw, taken),
    }
}

/// As [`store_raw`], by a plan.
#[cold]
fn store_planned<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    (first, last): (K, K),
    raw: NonNull<()>,
    taken: impl FnMut(K, K, Word),
) -> Result<(), StoreError<V>> {
    let plan = host.tree().plan_store(first, last, raw.as_ptr());
    if plan.splits {
        // SAFETY: the caller has just made the word, and it is not stored.
        return Err(StoreError::Splits(unsafe { back(raw) }));
    }
    host.carry_out(plan, taken)
        // SAFETY: as above; a write that fails stores nothing.
        .map_err(|AllocError| StoreError::Alloc(unsafe { back(raw) }))
}

/// Stores over what is there, and over the neighbours that touch the range and are the same: one entry is made of all, by one write.
/// Gives its range.
pub(crate) fn store_coalescing<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    value: V,
    same: impl FnMut(Ref<'_, V>, Ref<'_, V>) -> bool,
    taken: impl FnMut(K, K, Word),
) -> Result<RangeInclusive<K>, StoreError<V>> {
    let Some(range) = range else {
        return Err(StoreError::EmptyRange(value));
    };
    let held = Held::<V>::new(value);
    let (first, last) = coalesced(host.tree(), range, &held, same);
    store_raw(host, (first, last), held.into_raw(), taken)?;
    Ok(first..=last)
}

/// As [`store_coalescing`], into a hole.
pub(crate) fn insert_coalescing<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    value: V,
    same: impl FnMut(Ref<'_, V>, Ref<'_, V>) -> bool,
    taken: impl FnMut(K, K, Word),
) -> Result<RangeInclusive<K>, InsertError<V>> {
    let Some((first, last)) = range else {
        return Err(InsertError::EmptyRange(value));
    };
    let hole = host.tree().lookup(first);
    if !hole.word.is_null() || hole.last < last {
        return Err(InsertError::Occupied(value));
    }
    store_coalescing(host, range, value, same, taken).map_err(|error| match error {
        StoreError::Alloc(value) => InsertError::Alloc(value),
        // Neighbours are taken in whole, so that none is split.
        StoreError::Splits(value) => InsertError::Occupied(value),
        StoreError::EmptyRange(value) => InsertError::EmptyRange(value),
    })
}

/// The word of a value that is looked at before it is stored, by a closure that may panic.
struct Held<V: Value> {
    raw: NonNull<()>,
    marker: PhantomData<V>,
}

impl<V: Value> Held<V> {
    fn new(value: V) -> Self {
        Self {
            raw: value.into_raw(),
            marker: PhantomData,
        }
    }

    fn view(&self) -> Ref<'_, V> {
        // SAFETY: the word is that of a value which this owns, and `self` is borrowed.
        unsafe { V::borrow(self.raw) }
    }

    fn into_raw(self) -> NonNull<()> {
        ManuallyDrop::new(self).raw
    }

    fn into_value(self) -> V {
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

/// The range, and whole entries that touch it, or reach into it from outside, and are the same as `value`.
fn coalesced<K: Key, V: Value, S: Shape>(
    tree: &RawTree<K, S>,
    (first, last): (K, K),
    value: &Held<V>,
    mut same: impl FnMut(Ref<'_, V>, Ref<'_, V>) -> bool,
) -> (K, K) {
    let mut same_at = |key: Option<K>| {
        let found = tree.lookup(key?);
        // SAFETY: words in the tree are values, and the tree is not changed meanwhile.
        let there = unsafe { view::<V>(found.word) }?;
        same(there, value.view()).then_some(found)
    };
    let before = same_at(first.predecessor());
    let after = same_at(last.successor());
    (
        before.map_or(first, |found| found.first),
        after.map_or(last, |found| found.last),
    )
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

/// As [`store_splitting`], over the neighbours that touch the range and are the same, too, as [`store_coalescing`] does. Gives the range of the
/// entry that is made of all.
pub(crate) fn store_coalescing_splitting<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    value: V,
    same: impl FnMut(Ref<'_, V>, Ref<'_, V>) -> bool,
    split: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    taken: impl FnMut(K, K, Word),
) -> Result<RangeInclusive<K>, StoreError<V>> {
    let Some(range) = range else {
        return Err(StoreError::EmptyRange(value));
    };
    let held = Held::<V>::new(value);
    let (first, last) = coalesced(host.tree(), range, &held, same);
    store_held(host, (first, last), held, split, taken)?;
    Ok(first..=last)
}

/// Stores a value over what is there; an entry that would be on both sides is split by a closure.
fn store_held<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
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

/// Makes a hole.
pub(crate) fn erase<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    mut taken: impl FnMut(K, K, Word),
) -> Result<(), EraseError> {
    let (first, last) = range.ok_or(EraseError::EmptyRange)?;
    let at = host.tree().slot_at(first);
    if let Some(at) = at
        && (at.is_entry(first, last) && host.vacate(at, false, &mut taken)
            || !at.is_within(first, last)
                && in_place(host, &at, (first, last), (NULL, NULL), &mut taken))
    {
        return Ok(());
    }
    let quick = at.and_then(|at| host.tree().try_store_at(at, (first, last), NULL));
    let done = if let Some(quick) = quick {
        host.carry_out_quick(quick, taken)
    } else {
        let plan = host.tree().plan_store(first, last, NULL);
        if plan.splits {
            return Err(EraseError::Splits);
        }
        host.carry_out(plan, taken)
    };
    done.map_err(|AllocError| EraseError::Alloc)
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

/// The range and the word of an entry that is no longer in a tree.
type Removed<K> = (RangeInclusive<K>, NonNull<()>);

/// Removes the whole entry at `key`; gives its range and its word, which the host has not discarded.
pub(crate) fn remove<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    key: K,
) -> Result<Option<Removed<K>>, AllocError> {
    let found = match host.tree().slot_at(key) {
        Some(at) if at.found.word.is_null() => return Ok(None),
        // What it was is known here: coming back through memory, in larger pieces than it was stored in, it would wait for all that the
        // write has stored.
        Some(at) if host.vacate(at, false, |_, _, _| {}) || remove_at(host, at)? => at.found,
        _ => match remove_planned(host, key)? {
            Some(found) => found,
            None => return Ok(None),
        },
    };
    let Some(raw) = NonNull::new(found.word) else {
        return Ok(None);
    };
    Ok(Some((found.first..=found.last, raw)))
}

/// As [`remove`], of the entry that a slot is, where more than the slot changes. `Ok(false)` if that takes a plan. In line, so that
/// what was found need not go through memory either.
#[inline(always)]
fn remove_at<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    at: SlotAt<K, S>,
) -> Result<bool, AllocError> {
    let range = (at.found.first, at.found.last);
    let Some(quick) = host.tree().try_store_at(at, range, NULL) else {
        return Ok(false);
    };
    host.carry_out_quick(quick, |_, _, _| {})?;
    Ok(true)
}

/// As [`remove`], by a plan. Gives the entry.
#[cold]
fn remove_planned<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    key: K,
) -> Result<Option<Found<K>>, AllocError> {
    let Some((found, plan)) = host.tree().plan_exchange(key, NULL) else {
        return Ok(None);
    };
    host.carry_out(plan, |_, _, _| {})?;
    Ok(Some(found))
}

/// Exchanges the value of the entry at `key`; gives the old word, which the host has not discarded.
pub(crate) fn replace<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    key: K,
    value: V,
) -> Result<NonNull<()>, V> {
    replace_raw(host, key, value.into_raw())
}

/// Exchanges the word of the entry at `key` for that of a value; gives the old one, which the host has not discarded. On failure the
/// word is used up: the error has the value.
pub(crate) fn replace_raw<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    key: K,
    new: NonNull<()>,
) -> Result<NonNull<()>, V> {
    // The word that is there, and whether the new one has taken its place.
    let done = match host.tree().slot_at(key) {
        Some(at) => NonNull::new(at.found.word).map(|old| {
            let quick = RawTree::exchange_at(at, new.as_ptr());
            (old, host.carry_out_quick(quick, |_, _, _| {}))
        }),
        None => host
            .tree()
            .plan_exchange(key, new.as_ptr())
            .and_then(|(found, plan)| Some((NonNull::new(found.word)?, plan)))
            .map(|(old, plan)| (old, host.carry_out(plan, |_, _, _| {}))),
    };
    match done {
        Some((old, Ok(()))) => Ok(old),
        // SAFETY: made just now, and not stored.
        None | Some((_, Err(AllocError))) => Err(unsafe { back(new) }),
    }
}

/// Lets the entry at `key` grow over others. `Ok(false)` if there is none, or it would not grow.
pub(crate) fn grow<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    key: K,
    range: Option<(K, K)>,
    mut taken: impl FnMut(K, K, Word),
) -> Result<bool, AllocError> {
    let Some((first, last)) = range else {
        return Ok(false);
    };
    let at = host.tree().slot_at(first);
    // Mostly the leaf in which the range begins holds the entry, too.
    let found = match at {
        Some(at) if first <= key && key <= at.spot.place.max => at.spot.place.at(key),
        _ => host.tree().lookup(key),
    };
    if found.word.is_null() || found.first < first || last < found.last {
        return Ok(false);
    }
    if let Some(at) = at
        && in_place(
            host,
            &at,
            (first, last),
            (found.word, found.word),
            &mut taken,
        )
    {
        return Ok(true);
    }
    let quick = at.and_then(|at| host.tree().try_store_at(at, (first, last), found.word));
    if let Some(quick) = quick {
        host.carry_out_quick_keeping(quick, found.first, taken)?;
        return Ok(true);
    }
    let plan = host.tree().plan_store(first, last, found.word);
    host.carry_out_keeping(plan, found.first, taken)?;
    Ok(true)
}

/// Makes a range, which starts in a slot, hold a word (NULL erases), where nobody reads, in the leaf of the slot, or in that and the next one; tells whether
/// that could be done. If not, nothing has changed. It is not within an entry. For `kept` see [`Host::store_here`].
#[inline(always)]
fn in_place<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    at: &SlotAt<K, S>,
    range: (K, K),
    (word, kept): (Word, Word),
    mut taken: impl FnMut(K, K, Word),
) -> bool {
    if host.tree().in_rcu() {
        return false;
    }
    let seat = Seat::of(at);
    if range.1 <= seat.max {
        host.store_here(&seat, range, (word, NULL), kept, &mut taken)
    } else {
        host.store_spanning(&seat, range, word, kept, &mut taken)
    }
}

/// Makes a range, which starts in a slot, hold a word (NULL erases), in the leaf of the slot alone; tells whether that could be done. If not, nothing
/// has changed. Of an entry that is on both sides the upper part gets the word `twin`, which is NULL otherwise.
///
/// # Safety
///
/// The tree has not changed since `seat` was found.
#[inline(always)]
pub(crate) unsafe fn put_here<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    seat: &Seat<K, S>,
    (first, last): (K, K),
    (word, twin): (Word, Word),
) -> bool {
    let discard = |_, _, word| H::discard(word);
    // SAFETY: the caller's promise.
    let at = unsafe { seat.at() };
    let hole = at.found.word.is_null();
    // As elsewhere: these need less than to say what is left of the slots.
    if let Some(word) = NonNull::new(word) {
        if hole && last <= at.found.last && host.fill_hole(at, (first, last), word) {
            return true;
        }
    } else if at.is_entry(first, last) && host.vacate(at, true, discard) {
        return true;
    }
    host.store_here(seat, (first, last), (word, twin), NULL, discard)
}

/// Lets the entry at `key`, which is the first or the last one of a range, grow to it, in the leaf of a slot, which is that of an index of the range,
/// alone; tells whether that could be done. If not, nothing has changed.
///
/// # Safety
///
/// The tree has not changed since `seat` was found.
#[inline(always)]
pub(crate) unsafe fn grow_here<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    seat: &Seat<K, S>,
    key: K,
    (first, last): (K, K),
) -> bool {
    if key < seat.min || seat.max < key {
        return false;
    }
    // SAFETY: the caller's promise.
    let (place, mut found) = unsafe { (seat.place(), seat.found()) };
    if key < found.first && seat.slot() > 0 {
        found = place.slot(seat.slot() - 1);
    }
    if key < found.first || found.last < key {
        found = place.at(key);
    }
    if found.word.is_null() || found.first < first || last < found.last {
        return false;
    }
    let words = (found.word, NULL);
    host.store_here(seat, (first, last), words, found.word, |_, _, word| {
        H::discard(word);
    })
}
