//! Read-side sections that the caller opens and closes, for walks with `mas_…`.

use core::cell::RefCell;
use core::mem::ManuallyDrop;

use crate::maple_tree::rcu::ReadSide;

/// The open sections of a thread: their depth, and the read side that they share.
///
/// It needs no cleanup when the thread ends, so that it can be used until the end. A thread that
/// ends inside a section stays a reader.
struct Open {
    depth: usize,
    section: Option<ManuallyDrop<ReadSide>>,
}

std::thread_local! {
    static OPEN: RefCell<Open> = const { RefCell::new(Open { depth: 0, section: None }) };
}

/// `maple_read_lock`: starts a read-side section of this thread. No node that it finds is freed
/// before the section ends. Sections may be nested. Never waits, and takes no lock.
#[unsafe(no_mangle)]
pub extern "C" fn maple_read_lock() {
    OPEN.with_borrow_mut(|open| {
        open.depth += 1;
        if open.depth == 1 {
            open.section = Some(ManuallyDrop::new(ReadSide::enter()));
        }
    });
}

/// `maple_read_unlock`: ends the section that [`maple_read_lock`] started. Does nothing if there is
/// none.
#[unsafe(no_mangle)]
pub extern "C" fn maple_read_unlock() {
    let section = OPEN.with_borrow_mut(|open| {
        open.depth = open.depth.saturating_sub(1);
        if open.depth == 0 {
            open.section.take()
        } else {
            None
        }
    });
    // Outside of the borrow, since nodes may be freed now, by hooks that call back here.
    section.map(ManuallyDrop::into_inner);
}
