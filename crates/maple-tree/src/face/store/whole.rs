//! Writes to a whole entry: it is removed, gets another value, or grows.

use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::alloc::AllocError;
use crate::base::{Key, Shape, Value};
use crate::face::host::Host;
use crate::face::store::in_place;
use crate::node::{NULL, Word};
use crate::read::Found;
use crate::write::SlotAt;

/// The range and the word of an entry that is no longer in a tree.
type Removed<K> = (RangeInclusive<K>, NonNull<()>);

/// Removes the whole entry at `key`; gives its range and its word, which the host has not discarded.
pub(crate) fn remove<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    key: K,
) -> Result<Option<Removed<K>>, AllocError> {
    let quickly = |host: &mut H, at: SlotAt<K, S>| {
        let range = (at.found.first, at.found.last);
        let done = host.try_store(at, range, NULL, None, |_, _, _| {});
        done.transpose()
    };
    let found = match host.tree().slot_at(key) {
        Some(at) if at.found.word.is_null() => return Ok(None),
        // What it was is known here: coming back through memory, in larger pieces than it was stored in, it would wait for all that the
        // write has stored.
        Some(at) if host.vacate(at, false, |_, _, _| {}) || quickly(host, at)?.is_some() => {
            at.found
        }
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

/// As [`remove`], by a plan. Gives the entry.
#[cold]
fn remove_planned<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    key: K,
) -> Result<Option<Found<K>>, AllocError> {
    let Some((found, plan)) = host.tree().plan_exchange(key, NULL) else {
        return Ok(None);
    };
    host.carry_out(plan, None, |_, _, _| {})?;
    Ok(Some(found))
}

/// Exchanges the word of the entry at `key` for that of a value; gives the old one, which the host has not discarded. On failure the
/// word is used up: the error has the value.
pub(crate) fn replace<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    key: K,
    new: NonNull<()>,
) -> Result<NonNull<()>, V> {
    // The word that is there, and whether the new one has taken its place.
    let done = match host.tree().slot_at(key) {
        Some(at) => NonNull::new(at.found.word).map(|old| {
            host.exchange(at, new, |_, _, _| {});
            (old, Ok(()))
        }),
        None => host
            .tree()
            .plan_exchange(key, new.as_ptr())
            .and_then(|(found, plan)| Some((NonNull::new(found.word)?, plan)))
            .map(|(old, plan)| (old, host.carry_out(plan, None, |_, _, _| {}))),
    };
    match done {
        Some((old, Ok(()))) => Ok(old),
        // SAFETY: made just now, and not stored.
        None | Some((_, Err(AllocError))) => Err(unsafe { V::from_raw(new) }),
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
    let quick = at.and_then(|at| {
        host.try_store(at, (first, last), found.word, Some(found.first), &mut taken)
    });
    if let Some(done) = quick {
        return done.map(|()| true);
    }
    let plan = host.tree().plan_store(first, last, found.word);
    host.carry_out(plan, Some(found.first), taken)?;
    Ok(true)
}
