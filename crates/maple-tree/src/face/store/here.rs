//! Writes that go on from a seat, and change its leaf alone.

use core::ptr::NonNull;

use crate::base::{Key, Shape, Value};
use crate::face::host::Host;
use crate::node::{NULL, Word};
use crate::write::Seat;

/// Makes a range, which starts in a slot, hold a word (NULL erases), in the leaf of the slot alone; tells whether that could be done. If not, nothing
/// has changed. Of an entry that is on both sides the upper part gets the word `twin`, which is NULL otherwise.
///
/// # Safety
///
/// The tree has not changed since `seat` was found.
#[inline(always)]
pub(crate) unsafe fn put_here<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    seat: &Seat<K, S>,
    (first, last): (K, K),
    (word, twin): (Word, Word),
) -> bool {
    let discard = |_, _, word| H::discard(word);
    // SAFETY: the caller's promise.
    let at = unsafe { seat.at() };
    let hole = at.found.word.is_null();
    // As elsewhere: these need less than to say what is left of the slots.
    if let Some(word) = NonNull::new(word) {
        if hole && last <= at.found.last && host.fill_hole(at, (first, last), word) {
            return true;
        }
    } else if at.is_entry(first, last) && host.vacate(at, true, discard) {
        return true;
    }
    host.store_here(seat, (first, last), (word, twin), NULL, discard)
}

/// Lets the entry at `key`, which is the first or the last one of a range, grow to it, in the leaf of a slot, which is that of an index of the range,
/// alone; tells whether that could be done. If not, nothing has changed.
///
/// # Safety
///
/// The tree has not changed since `seat` was found.
#[inline(always)]
pub(crate) unsafe fn grow_here<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    seat: &Seat<K, S>,
    key: K,
    (first, last): (K, K),
) -> bool {
    if key < seat.min || seat.max < key {
        return false;
    }
    // SAFETY: the caller's promise.
    let (place, mut found) = unsafe { (seat.place(), seat.found()) };
    if key < found.first && seat.slot() > 0 {
        found = place.slot(seat.slot() - 1);
    }
    if key < found.first || found.last < key {
        found = place.at(key);
    }
    if found.word.is_null() || found.first < first || last < found.last {
        return false;
    }
    let words = (found.word, NULL);
    host.store_here(seat, (first, last), words, found.word, |_, _, word| {
        H::discard(word);
    })
}
