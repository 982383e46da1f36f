//! Writes to a whole entry: it is removed, gets another value, or grows.

use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::alloc::AllocError;
use crate::base::{Key, Shape, Value};
use crate::face::host::Host;
use crate::node::{NULL, Word};
use crate::read::Found;
use crate::write::Seat;

/// The range and the word of an entry that is no longer in a tree.
type Removed<K> = (RangeInclusive<K>, NonNull<()>);

/// Removes the whole entry at `key`; gives its range and its word, which the host has not discarded.
pub(crate) fn remove<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    key: K,
) -> Result<Option<Removed<K>>, AllocError> {
    let at = host.tree().slot_at(key);
    // What it was is known here: coming back through memory, in larger pieces than it was stored in, it would wait for all that the write has stored.
    let Found { first, last, word } = at.map_or_else(|| host.tree().lookup(key), |at| at.found);
    let Some(raw) = NonNull::new(word) else {
        return Ok(None);
    };
    if !at.is_some_and(|at| host.vacate(at, false, |_, _, _| {})) {
        host.write_at(at, (first, last), NULL, None, |_, _, _| {})?;
    }
    Ok(Some((first..=last, raw)))
}

/// Exchanges the word of the entry at `key` for that of a value; gives the old one, which the host has not discarded. An error has the value.
pub(crate) fn replace<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    key: K,
    new: NonNull<()>,
) -> Result<NonNull<()>, V> {
    let done = match host.tree().slot_at(key) {
        Some(at) => NonNull::new(at.found.word).inspect(|_| host.exchange(at, new, |_, _, _| {})),
        None => {
            let Found { first, last, word } = host.tree().lookup(key);
            NonNull::new(word).filter(|_| {
                let done = host.write_at(None, (first, last), new.as_ptr(), None, |_, _, _| {});
                done.is_ok()
            })
        }
    };
    // SAFETY: made just now, and not stored.
    done.ok_or_else(|| unsafe { V::from_raw(new) })
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
    let (range, words) = ((first, last), (found.word, NULL));
    if let Some(at) = at
        && host.store_here(&Seat::of(&at), range, words, found.word, true, &mut taken)
    {
        return Ok(true);
    }
    host.write_at(at, range, found.word, Some(found.first), taken)?;
    Ok(true)
}
