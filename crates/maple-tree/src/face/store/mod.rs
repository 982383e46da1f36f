//! What the faces' writes have in common: from values to words, through plan, reserve and apply, and back if that fails.
//!
//! | module | writes |
//! |---|---|
//! | this one | a hole that becomes an entry |
//! | [`gap`] | where a search for a gap says |
//! | [`join`] | a range and the neighbours that are the same |
//! | [`split`] | a range, over what is there; it may lie within an entry |
//! | [`whole`] | an entry: removed, exchanged, grown |
//! | [`here`] | from a seat, in its leaf alone |

mod gap;
mod here;
mod join;
mod split;
mod whole;

use core::ptr::NonNull;

use crate::alloc::AllocError;
use crate::base::{InsertError, Key, Shape, Value};
use crate::face::host::Host;
use crate::node::{NULL, Word};
use crate::write::{Seat, SlotAt};

pub(crate) use gap::{place, place_cyclic};
pub(crate) use here::{grow_here, put_here};
pub(crate) use join::{into_insert, is_free, joined};
pub(crate) use split::{Held, erase, erase_splitting, store, store_splitting};
pub(crate) use whole::{grow, remove, replace, replace_raw};

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
    if H::OWNS_NODES
        && let Some(quick) = host.tree().try_fill_at(at, range, raw.as_ptr())
    {
        return host
            .carry_out_fill(quick)
            // SAFETY: the caller has just made the word; a write that fails stores nothing.
            .map_err(|AllocError| InsertError::Alloc(unsafe { back(raw) }));
    }
    insert_planned(host, range, raw)
}

/// As [`insert_raw`], into a hole, by a plan.
#[cold]
fn insert_planned<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    (first, last): (K, K),
    raw: NonNull<()>,
) -> Result<(), InsertError<V>> {
    let plan = host.tree().plan_store(first, last, raw.as_ptr());
    host.carry_out(plan, None, |_, _, _| {})
        // SAFETY: the caller has just made the word; a write that fails stores nothing.
        .map_err(|AllocError| InsertError::Alloc(unsafe { back(raw) }))
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
