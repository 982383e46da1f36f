//! Detection of other calls on a memory, for counts that can be compared only while no other call
//! runs.

use core::sync::atomic::{AtomicU64, Ordering};

const SHARDS: usize = 16;

/// A counter of the calls that have entered and left, in shards that threads rarely share.
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

/// A running call.
#[derive(Debug)]
pub(crate) struct CallGuard<'a>(&'a Shard);

impl CallCounter {
    /// Records that a call has entered.
    #[inline]
    pub(crate) fn enter(&self) -> CallGuard<'_> {
        std::thread_local! {
            static MARK: u8 = const { 0 };
        }
        // The address of a thread-local variable distinguishes threads.
        let mark = MARK
            .try_with(|mark| core::ptr::from_ref(mark).addr())
            .unwrap_or(0);
        let shard = &self.shards[(mark >> 6).wrapping_mul(0x9e37_79b9) >> 16 & (SHARDS - 1)];
        // Acquire and release: the thread that compares the counts sees what the calls that left
        // had done.
        shard.entered.fetch_add(1, Ordering::AcqRel);
        CallGuard(shard)
    }

    /// Returns the number of all calls that have entered, if no call but the caller's is running.
    pub(crate) fn sole_call(&self) -> Option<u64> {
        let sum = |of: fn(&Shard) -> &AtomicU64| -> u64 {
            self.shards
                .iter()
                .map(|shard| of(shard).load(Ordering::SeqCst))
                .sum()
        };
        // Left first: a call that enters in between is counted among those that entered.
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
