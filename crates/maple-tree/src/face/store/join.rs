//! Stores that make one entry with the neighbours that are the same.

use core::ops::RangeInclusive;

use crate::base::{InsertError, Key, Ref, Shape, StoreError, Value};
use crate::face::host::Host;
use crate::face::look_ups::view;
use crate::face::store::split::{Held, never, store_held};
use crate::node::{RawTree, Word};

/// Stores over what is there, and over the neighbours that touch the range and are the same: one entry is made of all, by one write.
/// Gives its range.
pub(crate) fn store_coalescing<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    value: V,
    same: impl FnMut(Ref<'_, V>, Ref<'_, V>) -> bool,
    taken: impl FnMut(K, K, Word),
) -> Result<RangeInclusive<K>, StoreError<V>> {
    store_coalescing_splitting(host, range, value, same, never, taken)
}

/// As [`store_coalescing`], into a hole.
pub(crate) fn insert_coalescing<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    value: V,
    same: impl FnMut(Ref<'_, V>, Ref<'_, V>) -> bool,
    taken: impl FnMut(K, K, Word),
) -> Result<RangeInclusive<K>, InsertError<V>> {
    let Some(hole) = range else {
        return Err(InsertError::EmptyRange(value));
    };
    if !is_free(host.tree(), hole) {
        return Err(InsertError::Occupied(value));
    }
    store_coalescing(host, range, value, same, taken).map_err(into_insert)
}

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

/// The range that [`store_coalescing`] would store at, for a face that has to see to it first; and the value back.
pub(crate) fn joined<K: Key, V: Value, S: Shape>(
    tree: &RawTree<K, S>,
    range: (K, K),
    value: V,
    same: impl FnMut(Ref<'_, V>, Ref<'_, V>) -> bool,
) -> ((K, K), V) {
    let held = Held::<V>::new(value);
    let range = coalesced(tree, range, &held, same);
    (range, held.into_value())
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
