//! Whether anything else runs on a memory: for the counts that can only be compared while everything rests.

use core::sync::atomic::{AtomicU64, Ordering};

const STRIPES: usize = 16;

/// Calls that have come in and gone out, in counters that threads hardly share.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    stripes: [Stripe; STRIPES],
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe {
    came: AtomicU64,
    went: AtomicU64,
}

/// A call under way.
#[derive(Debug)]
pub(crate) struct Inside<'a>(&'a Stripe);

impl Gate {
    /// A call comes in.
    #[inline]
    pub(crate) fn enter(&self) -> Inside<'_> {
        std::thread_local! {
            static MARK: u8 = const { 0 };
        }
        // Where a thread's own variables lie tells threads apart.
        let mark = MARK
            .try_with(|mark| core::ptr::from_ref(mark).addr())
            .unwrap_or(0);
        let stripe = &self.stripes[(mark >> 6).wrapping_mul(0x9e37_79b9) >> 16 & (STRIPES - 1)];
        // Acquire and release: whoever counts the rest sees what those who went had done.
        stripe.came.fetch_add(1, Ordering::AcqRel);
        Inside(stripe)
    }

    /// How many have come in all, if nobody but the caller is inside.
    pub(crate) fn alone(&self) -> Option<u64> {
        let sum = |of: fn(&Stripe) -> &AtomicU64| -> u64 {
            self.stripes
                .iter()
                .map(|stripe| of(stripe).load(Ordering::SeqCst))
                .sum()
        };
        // Those who went first: one who comes in meanwhile is counted among those who came.
        let went = sum(|stripe| &stripe.went);
        let came = sum(|stripe| &stripe.came);
        (came == went + 1).then_some(came)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.went.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alone_only_when_nobody_else_is_inside() {
        let gate = Gate::default();
        assert_eq!(gate.alone(), None);
        let me = gate.enter();
        assert_eq!(gate.alone(), Some(1));
        let other = gate.enter();
        assert_eq!(gate.alone(), None);
        drop(other);
        assert_eq!(gate.alone(), Some(2));
        drop(me);
        assert_eq!(gate.alone(), None);
    }
}
