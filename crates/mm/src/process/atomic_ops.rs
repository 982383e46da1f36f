//! Detection of calls that would wait for themselves (`EDEADLK`).
//!
//! [`Process::atomic_u32`](super::Process::atomic_u32) holds the lock of a page table during the
//! operation. A call on the same process from within the operation would wait for itself. So would
//! a call within [`SoftTlb::run`](super::SoftTlb::run), since its invalidation waits for the end of
//! that run. A run counts as such an operation, except while it handles a miss.
//!
//! A process notes if there ever was such an operation. Until then, calls and faults test one flag.
//! The operations of a thread form a list, innermost first, with its entries on the thread's stack.
//! Without the feature `hosted`, threads cannot be told apart, and nothing is detected.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::errno::Errno;

/// `true` if a thread may be within an atomic operation on a process. Never reset.
pub(crate) struct AtomicOps(AtomicBool);

impl AtomicOps {
    pub(super) const fn new() -> Self {
        AtomicOps(AtomicBool::new(false))
    }

    /// Returns `EDEADLK` if this thread performs an atomic operation on this process.
    #[inline(always)]
    pub(crate) fn check(&self) -> Result<(), Errno> {
        // Relaxed: a thread sees its own store.
        match self.0.load(Ordering::Relaxed) && self.is_inside() {
            true => Err(Errno::EDEADLK),
            false => Ok(()),
        }
    }

    #[cfg(feature = "hosted")]
    #[cold]
    #[inline(never)]
    fn is_inside(&self) -> bool {
        hosted::any(|one| core::ptr::eq(one.process, self))
    }

    #[cfg(not(feature = "hosted"))]
    fn is_inside(&self) -> bool {
        false
    }

    /// Runs an atomic operation on the process. `machine` is the number of its machine.
    #[inline]
    pub(super) fn within<R>(&self, machine: u64, op: impl FnOnce(&Operation) -> R) -> R {
        #[cfg(feature = "hosted")]
        self.0.store(true, Ordering::Relaxed);
        Operation::run(self, machine, op)
    }
}

/// Returns `EDEADLK` if this thread performs an atomic operation on any process of the machine with
/// this number.
#[cfg(feature = "hosted")]
pub(super) fn check_machine(machine: u64) -> Result<(), Errno> {
    match hosted::any(|one| one.machine == machine) {
        true => Err(Errno::EDEADLK),
        false => Ok(()),
    }
}

/// Returns `Ok`: threads cannot be told apart.
#[cfg(not(feature = "hosted"))]
pub(super) fn check_machine(_: u64) -> Result<(), Errno> {
    Ok(())
}

/// A running operation, without the feature `hosted`.
#[cfg(not(feature = "hosted"))]
pub(super) struct Operation(());

#[cfg(not(feature = "hosted"))]
impl Operation {
    fn run<R>(_: &AtomicOps, _: u64, op: impl FnOnce(&Self) -> R) -> R {
        op(&Operation(()))
    }

    pub(super) fn outside<R>(&self, work: impl FnOnce() -> R) -> R {
        work()
    }
}

#[cfg(feature = "hosted")]
pub(super) use hosted::Operation;

#[cfg(feature = "hosted")]
mod hosted {
    use core::cell::Cell;
    use core::ptr;

    use super::AtomicOps;

    std::thread_local! {
        static INNERMOST: Cell<*const Operation> = const { Cell::new(ptr::null()) };
    }

    /// A running atomic operation.
    pub(in crate::process) struct Operation {
        pub(super) process: *const AtomicOps,
        pub(super) machine: u64,
        /// `true` while the thread does something that is allowed only outside of the operation.
        left: Cell<bool>,
        outer: *const Operation,
    }

    /// Removes the innermost operation from the list, also on a panic.
    struct Leave(*const Operation);

    impl Drop for Leave {
        fn drop(&mut self) {
            INNERMOST.set(self.0);
        }
    }

    /// Returns to an operation that was left, also on a panic.
    struct Resume<'a>(&'a Operation);

    impl Drop for Resume<'_> {
        fn drop(&mut self) {
            self.0.left.set(false);
        }
    }

    impl Operation {
        pub(super) fn run<R>(
            process: &AtomicOps,
            machine: u64,
            op: impl FnOnce(&Operation) -> R,
        ) -> R {
            let outer = INNERMOST.get();
            let operation = Operation {
                process,
                machine,
                left: Cell::new(false),
                outer,
            };
            INNERMOST.set(&raw const operation);
            let _leave = Leave(outer);
            op(&operation)
        }

        /// Leaves the operation, does `work`, and returns to the operation.
        pub(in crate::process) fn outside<R>(&self, work: impl FnOnce() -> R) -> R {
            self.left.set(true);
            let _resume = Resume(self);
            work()
        }
    }

    /// Returns `true` if `is` holds for one of this thread's operations.
    pub(super) fn any(is: impl Fn(&Operation) -> bool) -> bool {
        let mut next = INNERMOST.get();
        // SAFETY: an entry lies in a stack frame of this thread that lives until the entry is
        // removed from the list, and only its cell changes.
        while let Some(operation) = unsafe { next.as_ref() } {
            if !operation.left.get() && is(operation) {
                return true;
            }
            next = operation.outer;
        }
        false
    }
}
