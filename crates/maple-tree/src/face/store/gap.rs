//! Stores where a search for a gap says.

use core::ops::RangeInclusive;

use crate::base::{InsertError, Key, Ref, Shape, Value};
use crate::face::host::Host;
use crate::face::store::{insert, insert_coalescing};
use crate::node::Word;
use crate::read::Want;

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
