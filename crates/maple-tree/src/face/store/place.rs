//! Where a value is stored: where a search for a gap says, and together with the neighbours that are the same.

use core::ops::RangeInclusive;

use crate::base::{InsertError, Key, Offset, Ref, Shape, StoreError, Value};
use crate::face::look_ups::view;
use crate::face::store::split::Held;
use crate::node::RawTree;
use crate::read::Want;

/// Whether nothing is within a range.
pub(crate) fn is_free<K: Key, S: Shape>(tree: &RawTree<K, S>, (first, last): (K, K)) -> bool {
    let found = tree.lookup(first);
    found.word.is_null() && last <= found.last
}

/// Why a store into a hole, and over whole neighbours, was not made.
pub(crate) fn into_insert<V>(error: StoreError<V>) -> InsertError<V> {
    match error {
        StoreError::Alloc(value) => InsertError::Alloc(value),
        // Neighbours are taken in whole, so that none is split.
        StoreError::Splits(value) => InsertError::Occupied(value),
        StoreError::EmptyRange(value) => InsertError::EmptyRange(value),
    }
}

/// A range, and whole entries that touch it, or reach into it from outside, and are the same as `value`: stored there, it makes one entry of all. And the value back.
pub(crate) fn joined<K: Key, V: Value, S: Shape>(
    tree: &RawTree<K, S>,
    range: Option<(K, K)>,
    value: V,
    mut same: impl FnMut(Ref<'_, V>, Ref<'_, V>) -> bool,
) -> Result<(RangeInclusive<K>, V), StoreError<V>> {
    let Some((first, last)) = range else {
        return Err(StoreError::EmptyRange(value));
    };
    let held = Held::<V>::new(value);
    let mut same_at = |key: Option<K>| {
        let found = tree.lookup(key?);
        // SAFETY: words in the tree are values, and the tree is not changed meanwhile.
        let there = unsafe { view::<V>(found.word) }?;
        same(there, held.view()).then_some(found)
    };
    let before = same_at(first.predecessor());
    let after = same_at(last.successor());
    let first = before.map_or(first, |found| found.first);
    let last = after.map_or(last, |found| found.last);
    Ok((first..=last, held.into_value()))
}

/// The gap of `size` indices within `bounds` that `search` finds, as a range, and the value back that is to be stored there.
pub(crate) fn place<K: Key, V>(
    bounds: Option<(K, K)>,
    size: K::Size,
    value: V,
    search: impl FnOnce(&Want<K>) -> Option<K>,
) -> Result<((K, K), V), InsertError<V>> {
    let Some(want) = bounds.and_then(|bounds| Want::new(bounds, size)) else {
        return Err(InsertError::EmptyRange(value));
    };
    match search(&want) {
        Some(first) => Ok(((first, want.last(first)), value)),
        None => Err(InsertError::Occupied(value)),
    }
}

/// The lowest free index at or after `next` within `bounds`, else the lowest before it. Gives the index, whether the search started over, and the value back
/// that is to be stored there; `search` finds the lowest.
pub(crate) fn place_cyclic<K: Key, V>(
    bounds: Option<(K, K)>,
    next: K,
    value: V,
    search: impl Fn(&Want<K>) -> Option<K>,
) -> Result<((K, bool), V), InsertError<V>> {
    let Some((lo, hi)) = bounds else {
        return Err(InsertError::EmptyRange(value));
    };
    let free = |lo, hi| search(&Want::new((lo, hi), K::ONE.number())?);
    let from = next.max(lo);
    if let Some(key) = (from <= hi).then(|| free(from, hi)).flatten() {
        return Ok(((key, false), value));
    }
    match free(lo, hi) {
        Some(key) => Ok(((key, true), value)),
        None => Err(InsertError::Occupied(value)),
    }
}
