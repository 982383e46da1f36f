//! What the faces' writes have in common: from values to words, through plan, reserve and apply, and back if that fails.

use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::error::{EraseError, InsertError, StoreError};
use crate::gap::Want;
use crate::key::Key;
use crate::look::view;
use crate::node::{NULL, Word};
use crate::reserve::AllocError;
use crate::shape::Shape;
use crate::store::plan::Plan;
use crate::tree::RawTree;
use crate::value::Value;

/// A tree of values that its holder alone may write.
pub(crate) trait Host<K: Key, V: Value, S: Shape> {
    /// The tree. Its words are values of `V`.
    fn tree(&self) -> &RawTree<K, S>;

    /// Reserves what a plan needs and carries it out. The words of entries that it removed go to `taken`, if they are
    /// [owned](Host::discard) with the duty to drop them.
    fn carry_out(
        &mut self,
        plan: Plan<K, S>,
        taken: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError>;

    /// As [`carry_out`](Host::carry_out), for an entry that is stored over itself: the one that began at `kept` stays.
    fn carry_out_keeping(
        &mut self,
        plan: Plan<K, S>,
        kept: K,
        taken: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError>;

    /// What to do with a removed word that nobody wants: drop the value, or nothing, if it is retired.
    fn discard(word: Word);
}

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
    let Some((first, last)) = range else {
        return Err(InsertError::EmptyRange(value));
    };
    let raw = value.into_raw();
    let Some(plan) = host.tree().plan_insert(first, last, raw.as_ptr()) else {
        // SAFETY: made just now, and not stored.
        return Err(InsertError::Occupied(unsafe { back(raw) }));
    };
    // SAFETY: made just now; a write that fails stores nothing.
    host.carry_out(plan, |_, _, _| {})
        .map_err(|_| InsertError::Alloc(unsafe { back(raw) }))
}

/// Which of the gaps that are large enough.
#[derive(Clone, Copy)]
pub(crate) enum Lowest {
    Lowest,
    Highest,
}

/// Stores into a gap of `size` indices within `bounds`, and gives its first index.
pub(crate) fn allocate<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    bounds: Option<(K, K)>,
    size: K,
    which: Lowest,
    value: V,
) -> Result<K, InsertError<V>> {
    let Some(bounds) = bounds else {
        return Err(InsertError::EmptyRange(value));
    };
    let Some(want) = Want::new(bounds, size, K::ONE, K::MIN) else {
        return Err(InsertError::EmptyRange(value));
    };
    let found = match which {
        Lowest::Lowest => host.tree().gap_up(&want),
        Lowest::Highest => host.tree().gap_down(&want),
    };
    let Some(first) = found else {
        return Err(InsertError::Occupied(value));
    };
    insert(
        host,
        Some((first, first.wrapping_add(size.wrapping_sub(K::ONE)))),
        value,
    )?;
    Ok(first)
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
        .then(|| Want::new((from, hi), K::ONE, K::ONE, K::MIN))
        .flatten()
        .and_then(|want| host.tree().gap_up(&want));
    let (key, wrapped) = match ahead {
        Some(key) => (key, false),
        None => {
            let again = Want::new((lo, hi), K::ONE, K::ONE, K::MIN);
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
    let Some((first, last)) = range else {
        return Err(StoreError::EmptyRange(value));
    };
    let raw = value.into_raw();
    let plan = host.tree().plan_store(first, last, raw.as_ptr());
    if plan.splits {
        // SAFETY: made just now, and not stored.
        return Err(StoreError::Splits(unsafe { back(raw) }));
    }
    // SAFETY: made just now; a write that fails stores nothing.
    host.carry_out(plan, taken)
        .map_err(|_| StoreError::Alloc(unsafe { back(raw) }))
}

/// Stores over what is there; an entry that would be on both sides is split by a closure.
pub(crate) fn store_splitting<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    value: V,
    split: impl FnOnce(RangeInclusive<K>, V::Ref<'_>) -> Option<V>,
) -> Result<(), StoreError<V>> {
    let raw = value.into_raw();
    splitting(host, range, raw.as_ptr(), split).map_err(|error| {
        // SAFETY: made just now; a write that fails stores nothing.
        let value = unsafe { back(raw) };
        match error {
            EraseError::Splits => StoreError::Splits(value),
            EraseError::Alloc => StoreError::Alloc(value),
            EraseError::EmptyRange => StoreError::EmptyRange(value),
        }
    })
}

/// Makes a hole.
pub(crate) fn erase<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    taken: impl FnMut(K, K, Word),
) -> Result<(), EraseError> {
    let (first, last) = range.ok_or(EraseError::EmptyRange)?;
    let plan = host.tree().plan_store(first, last, NULL);
    if plan.splits {
        return Err(EraseError::Splits);
    }
    host.carry_out(plan, taken)
        .map_err(|AllocError| EraseError::Alloc)
}

/// Makes a hole; an entry that would be on both sides is split by a closure.
pub(crate) fn erase_splitting<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    split: impl FnOnce(RangeInclusive<K>, V::Ref<'_>) -> Option<V>,
) -> Result<(), EraseError> {
    splitting(host, range, NULL, split)
}

fn splitting<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    word: Word,
    split: impl FnOnce(RangeInclusive<K>, V::Ref<'_>) -> Option<V>,
) -> Result<(), EraseError> {
    let (first, last) = range.ok_or(EraseError::EmptyRange)?;
    let mut plan = host.tree().plan_store(first, last, word);
    let mut twin = None;
    if plan.splits
        && let Some(above) = plan.items.last_mut()
    {
        let range = last.wrapping_add(K::ONE)..=above.last;
        // SAFETY: the word is in the tree, which is not changed while the closure has the view.
        let value = unsafe { view::<V>(above.word) };
        let made = value
            .and_then(|value| split(range, value))
            .ok_or(EraseError::Splits)?;
        let raw = made.into_raw();
        above.word = raw.as_ptr();
        twin = Some(raw);
    }
    host.carry_out(plan, |_, _, word| H::discard(word))
        .map_err(|AllocError| {
            if let Some(raw) = twin {
                // SAFETY: made above; a write that fails stores nothing.
                drop(unsafe { back::<V>(raw) });
            }
            EraseError::Alloc
        })
}

/// The range and the word of an entry that is no longer in a tree.
type Removed<K> = (RangeInclusive<K>, NonNull<()>);

/// Removes the whole entry at `key`; gives its range and its word, which the host has not discarded.
pub(crate) fn remove<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    key: K,
) -> Result<Option<Removed<K>>, AllocError> {
    let Some((found, plan)) = host.tree().plan_exchange(key, NULL) else {
        return Ok(None);
    };
    host.carry_out(plan, |_, _, _| {})?;
    let Some(raw) = NonNull::new(found.word) else {
        return Ok(None);
    };
    Ok(Some((found.first..=found.last, raw)))
}

/// Exchanges the value of the entry at `key`; gives the old word, which the host has not discarded.
pub(crate) fn replace<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    key: K,
    value: V,
) -> Result<NonNull<()>, V> {
    let new = value.into_raw();
    let exchange = host.tree().plan_exchange(key, new.as_ptr());
    let Some((old, plan)) =
        exchange.and_then(|(found, plan)| Some((NonNull::new(found.word)?, plan)))
    else {
        // SAFETY: made just now, and not stored.
        return Err(unsafe { back(new) });
    };
    match host.carry_out(plan, |_, _, _| {}) {
        Ok(()) => Ok(old),
        // SAFETY: made just now; a write that fails stores nothing.
        Err(AllocError) => Err(unsafe { back(new) }),
    }
}

/// Lets the entry at `key` grow over others. `Ok(false)` if there is none, or it would not grow.
pub(crate) fn grow<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    key: K,
    range: Option<(K, K)>,
    taken: impl FnMut(K, K, Word),
) -> Result<bool, AllocError> {
    let found = host.tree().lookup(key);
    let Some((first, last)) = range else {
        return Ok(false);
    };
    if found.word.is_null() || found.first < first || last < found.last {
        return Ok(false);
    }
    let plan = host.tree().plan_store(first, last, found.word);
    host.carry_out_keeping(plan, found.first, taken)?;
    Ok(true)
}
