//! The functions that the page calls. There is one tree, and a page has one thread.

use std::cell::RefCell;

use crate::Play;

thread_local! {
    static PLAY: RefCell<Play> = RefCell::new(Play::default());
}

/// Begins anew.
#[unsafe(no_mangle)]
pub extern "C" fn begin(slots: u32, gaps: u32) {
    PLAY.with_borrow_mut(|play| *play = Play::new(slots, gaps != 0));
}

/// Stores a value.
#[unsafe(no_mangle)]
pub extern "C" fn store(first: u64, last: u64, value: u32) {
    PLAY.with_borrow_mut(|play| play.store(first, last, value as u16));
}

/// Erases a range.
#[unsafe(no_mangle)]
pub extern "C" fn erase(first: u64, last: u64) {
    PLAY.with_borrow_mut(|play| play.erase(first, last));
}

/// Looks an index up.
#[unsafe(no_mangle)]
pub extern "C" fn get(key: u64) {
    PLAY.with_borrow_mut(|play| play.get(key));
}

/// Searches for a gap.
#[unsafe(no_mangle)]
pub extern "C" fn gap(low: u64, high: u64, size: u64, highest: u32) {
    PLAY.with_borrow_mut(|play| play.gap(low, high, size, highest != 0));
}

/// Returns the address of the answer, which is valid until the next call.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> *const u8 {
    PLAY.with_borrow(|play| play.said().as_ptr())
}

/// Returns the answer's length in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn answer_length() -> usize {
    PLAY.with_borrow(|play| play.said().len())
}
