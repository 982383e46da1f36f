//! Values that cannot always be made once more.

use std::panic::resume_unwind;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use maple_tree::{Duplicate, Value, View};

use crate::history::{Mint, Token};

/// The result of duplicating a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// There is no memory.
    Refused,
    Panics,
}

/// The number of values that can still be duplicated, and what happens after these.
pub(super) struct Fuel {
    left: AtomicUsize,
    panics: AtomicUsize,
}

impl Fuel {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(usize::MAX),
            panics: AtomicUsize::new(0),
        })
    }

    pub(super) fn allow(&self, left: usize, end: End) {
        self.left.store(left, Ordering::Relaxed);
        self.panics
            .store(usize::from(end == End::Panics), Ordering::Relaxed);
    }

    fn take(&self) -> Option<()> {
        match self.left.load(Ordering::Relaxed) {
            usize::MAX => {}
            // Without the hook, which ends a fuzz target.
            0 if self.panics.load(Ordering::Relaxed) == 1 => resume_unwind(Box::new(())),
            0 => return None,
            n => self.left.store(n - 1, Ordering::Relaxed),
        }
        Some(())
    }
}

/// A token that cannot always be made once more.
pub(super) struct Frail {
    pub(super) token: Token,
    pub(super) fuel: Arc<Fuel>,
    pub(super) mint: Mint,
}

pub(super) struct Held(pub(super) Box<Frail>);

impl<'a> View<'a> for Held {
    type Ref = &'a Frail;
    type Mut = &'a mut Frail;
}

// SAFETY: everything is left to the box.
unsafe impl Value for Held {
    fn into_raw(self) -> NonNull<()> {
        self.0.into_raw()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: the caller's promise is passed on.
        Self(unsafe { <Box<Frail> as Value>::from_raw(raw) })
    }

    unsafe fn borrow<'a>(raw: NonNull<()>) -> &'a Frail {
        // SAFETY: the caller's promise is passed on.
        unsafe { <Box<Frail> as Value>::borrow(raw) }
    }

    unsafe fn borrow_mut<'a>(slot: NonNull<NonNull<()>>) -> &'a mut Frail {
        // SAFETY: the caller's promise is passed on.
        unsafe { <Box<Frail> as Value>::borrow_mut(slot) }
    }
}

impl Duplicate for Held {
    fn duplicate(view: &Frail) -> Option<Self> {
        view.fuel.take()?;
        Some(view.twin())
    }
}

impl Frail {
    pub(super) fn twin(&self) -> Held {
        Held(Box::new(Self {
            token: self.mint.copy(self.token.number),
            fuel: self.fuel.clone(),
            mint: self.mint.again(),
        }))
    }
}
