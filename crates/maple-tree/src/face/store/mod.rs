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
use crate::write::SlotAt;

pub(crate) use place::{into_insert, is_free, joined, place, place_cyclic};
pub(crate) use planned::{Planned, Way};
pub(crate) use split::{Held, Refused, erase, store, store_splitting};
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
        Some(at) => !at.is_hole_around(last),
        None => !host.tree().load(first).is_null(),
    } {
        return Err(InsertError::Occupied(value));
    }
    let raw = value.into_raw();
    match at {
        Some(at) if host.fill_hole(at, (first, last), raw) => Ok(()),
        at => insert_at(host, at, (first, last), raw),
    }
    // SAFETY: made just now; a write that fails stores nothing.
    .map_err(|AllocError| InsertError::Alloc(unsafe { V::from_raw(raw) }))
}

/// Stores into the hole that a slot is. A call, which takes nothing from writes that take no node.
#[inline(never)]
fn insert_at<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    at: Option<SlotAt<K, S>>,
    range: (K, K),
    raw: NonNull<()>,
) -> Result<(), AllocError> {
    host.write_at(at, range, raw.as_ptr(), None, |_, _, _| {})
}
