//! Where a search for a gap says that a value may be stored.

use crate::base::{InsertError, Key};
use crate::read::Want;

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
