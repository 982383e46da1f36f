//! Callbacks that run when readers have left.

use alloc::boxed::Box;

use crate::try_box_uninit;

/// A callback that runs when readers have left.
pub(crate) type Callback = Box<dyn FnOnce() + Send>;

/// Moves a closure into a box of its own. Returns it as the error if there is no memory.
pub(crate) fn boxed<F: FnOnce() + Send + 'static>(free: F) -> Result<Callback, F> {
    let Some(uninit) = try_box_uninit::<F>() else {
        return Err(free);
    };
    let boxed: Box<F> = Box::write(uninit, free);
    Ok(boxed)
}

/// Calls all callbacks, and then `last`. If one panics, the others run while the panic unwinds.
pub(crate) fn run_all(retired: impl Iterator<Item = Callback>, last: impl FnOnce()) {
    let mut rest = Rest(retired, Some(last));
    rest.run();
}

struct Rest<I: Iterator<Item = Callback>, F: FnOnce()>(I, Option<F>);

impl<I: Iterator<Item = Callback>, F: FnOnce()> Rest<I, F> {
    fn run(&mut self) {
        self.0.by_ref().for_each(|free| free());
        if let Some(last) = self.1.take() {
            last();
        }
    }
}

impl<I: Iterator<Item = Callback>, F: FnOnce()> Drop for Rest<I, F> {
    fn drop(&mut self) {
        self.run();
    }
}
