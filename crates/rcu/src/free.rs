//! What is to be called when readers have left.

use alloc::boxed::Box;

use crate::room;

/// What is called when readers have left.
pub(crate) type Free = Box<dyn FnOnce() + Send>;

/// A closure in a box of its own; back if there is no memory.
pub(crate) fn boxed<F: FnOnce() + Send + 'static>(free: F) -> Result<Free, F> {
    let Some(room) = room::<F>() else {
        return Err(free);
    };
    let boxed: Box<F> = Box::write(room, free);
    Ok(boxed)
}

/// Calls all, and then `last`; if one panics, the others while the panic unwinds.
pub(crate) fn call(retired: impl Iterator<Item = Free>, last: impl FnOnce()) {
    let mut rest = Rest(retired, Some(last));
    rest.go_on();
}

struct Rest<I: Iterator<Item = Free>, F: FnOnce()>(I, Option<F>);

impl<I: Iterator<Item = Free>, F: FnOnce()> Rest<I, F> {
    fn go_on(&mut self) {
        self.0.by_ref().for_each(|free| free());
        if let Some(last) = self.1.take() {
            last();
        }
    }
}

impl<I: Iterator<Item = Free>, F: FnOnce()> Drop for Rest<I, F> {
    fn drop(&mut self) {
        self.go_on();
    }
}
