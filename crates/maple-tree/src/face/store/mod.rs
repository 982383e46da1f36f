//! What the faces' writes have in common: from values to words, through plan, reserve and apply, and back if that fails.
//!
//! | module | writes |
//! |---|---|
//! | this one | a hole that becomes an entry |
//! | [`mod@place`] | where a search for a gap says; over a range and the neighbours that are the same |
//! | [`planned`] | all, for whoever keeps nodes |
//! | [`split`] | a range, over what is there; it may lie within an entry |
//! | [`whole`] | an entry: removed, exchanged, grown |

mod place;
mod planned;
mod split;
mod whole;

use core::ptr::NonNull;

use crate::alloc::AllocError;
use crate::base::{InsertError, Key, Shape, Value};
use crate::face::host::Host;
use crate::node::{NULL, Word};
use crate::write::{Seat, SlotAt};

pub(crate) use place::{into_insert, is_free, joined, place, place_cyclic};
pub(crate) use planned::{Planned, Way};
pub(crate) use split::{Held, erase, erase_splitting, store, store_splitting};
pub(crate) use whole::{grow, remove, replace};

/// Stores into a hole.
pub(crate) fn insert<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    value: V,
) -> Result<(), InsertError<V>> {
    let Some((first, last)) = range else {
        return Err(InsertError::EmptyRange(value));
    };
    let at = host.tree().slot_at(first);
    if match &at {
        Some(at) => !at.found.word.is_null() || last > at.found.last,
        None => !host.tree().load(first).is_null(),
    } {
        return Err(InsertError::Occupied(value));
    }
    let raw = value.into_raw();
    match at {
        Some(at) if host.fill_hole(at, (first, last), raw) => Ok(()),
        Some(at) => insert_at(host, at, (first, last), raw),
        None => insert_planned(host, (first, last), raw),
    }
    // SAFETY: made just now; a write that fails stores nothing.
    .map_err(|AllocError| InsertError::Alloc(unsafe { V::from_raw(raw) }))
}

/// Stores into the hole that a slot is.
#[inline(never)]
fn insert_at<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    at: SlotAt<K, S>,
    range: (K, K),
    raw: NonNull<()>,
) -> Result<(), AllocError> {
    host.try_fill(at, range, raw)
        .unwrap_or_else(|| insert_planned(host, range, raw))
}

/// Stores into a hole, by a plan.
#[cold]
fn insert_planned<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    (first, last): (K, K),
    raw: NonNull<()>,
) -> Result<(), AllocError> {
    let plan = host.tree().plan_store(first, last, raw.as_ptr());
    host.carry_out(plan, None, |_, _, _| {})
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
