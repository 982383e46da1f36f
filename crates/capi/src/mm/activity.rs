//! Whether anything else runs on a memory: for the counts that can only be compared while everything rests.

use core::sync::atomic::{AtomicU64, Ordering};

const SHARDS: usize = 16;

/// Calls that have come in and gone out, in counters that threads hardly share.
#[derive(Debug, Default)]
pub(crate) struct CallCounter {
    shards: [Shard; SHARDS],
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    entered: AtomicU64,
    left: AtomicU64,
}

/// A call under way.
#[derive(Debug)]
pub(crate) struct CallGuard<'a>(&'a Shard);

impl CallCounter {
    /// A call comes in.
    #[inline]
    pub(crate) fn enter(&self) -> CallGuard<'_> {
        std::thread_local! {
            static MARK: u8 = const { 0 };
        }
        // Where a thread's own variables lie tells threads apart.
        let mark = MARK
            .try_with(|mark| core::ptr::from_ref(mark).addr())
            .unwrap_or(0);
        let shard = &self.shards[(mark >> 6).wrapping_mul(0x9e37_79b9) >> 16 & (SHARDS - 1)];
        // Acquire and release: whoever counts the rest sees what those who left had done.
        shard.entered.fetch_add(1, Ordering::AcqRel);
        CallGuard(shard)
    }

    /// How many have come in all, if nobody but the caller is inside.
    pub(crate) fn sole_call(&self) -> Option<u64> {
        let sum = |of: fn(&Shard) -> &AtomicU64| -> u64 {
            self.shards
                .iter()
                .map(|shard| of(shard).load(Ordering::SeqCst))
                .sum()
        };
        // Those who left first: one who comes in meanwhile is counted among those who entered.
        let left = sum(|shard| &shard.left);
        let entered = sum(|shard| &shard.entered);
        (entered == left + 1).then_some(entered)
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.left.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sole_call_only_while_no_other_is_inside() {
        let counter = CallCounter::default();
        assert_eq!(counter.sole_call(), None);
        let me = counter.enter();
        assert_eq!(counter.sole_call(), Some(1));
        let other = counter.enter();
        assert_eq!(counter.sole_call(), None);
        drop(other);
        assert_eq!(counter.sole_call(), Some(2));
        drop(me);
        assert_eq!(counter.sole_call(), None);
    }
}
