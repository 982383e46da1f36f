//! Which processes a thread performs an atomic operation on: [`Process::atomic_u32`](super::Process::atomic_u32) holds the lock of a page table meanwhile, so
//! that a call on the same process from within the operation would wait for itself. So would a call within [`SoftTlb::run`](super::SoftTlb::run), whose
//! invalidation waits for the end of that run: it counts as such an operation, except while it handles a miss.
//!
//! A process notes that there has ever been such an operation; until then, calls and faults look at nothing else. Operations of one thread are a list, innermost
//! first, whose entries lie on its stack. Without the feature `hosted` threads cannot be told apart, and nothing is found out.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::errno::Errno;

/// Whether there may be a thread within an atomic operation on a process.
pub(crate) struct AtomicOps(AtomicBool);

impl AtomicOps {
    pub(super) const fn new() -> Self {
        AtomicOps(AtomicBool::new(false))
    }

    /// Returns `EDEADLK` if this thread performs an atomic operation on this process.
    #[inline(always)]
    pub(crate) fn check(&self) -> Result<(), Errno> {
        // Relaxed: what this thread has set, it sees.
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

    /// Runs an atomic operation on the process, which is on the machine with this number.
    #[inline]
    pub(super) fn within<R>(&self, machine: u64, op: impl FnOnce(&Operation) -> R) -> R {
        #[cfg(feature = "hosted")]
        self.0.store(true, Ordering::Relaxed);
        Operation::run(self, machine, op)
    }
}

/// Returns `EDEADLK` if this thread performs an atomic operation on any process of the machine with this number.
#[cfg(feature = "hosted")]
pub(super) fn check_machine(machine: u64) -> Result<(), Errno> {
    match hosted::any(|one| one.machine == machine) {
        true => Err(Errno::EDEADLK),
        false => Ok(()),
    }
}

/// The same.
#[cfg(not(feature = "hosted"))]
pub(super) fn check_machine(_: u64) -> Result<(), Errno> {
    Ok(())
}

/// An operation under way, of threads that cannot be told apart.
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

    /// An atomic operation under way.
    pub(in crate::process) struct Operation {
        pub(super) process: *const AtomicOps,
        pub(super) machine: u64,
        /// The thread is outside of it for the moment.
        left: Cell<bool>,
        outer: *const Operation,
    }

    /// Takes the innermost operation off the list, also when it panics.
    struct Leave(*const Operation);

    impl Drop for Leave {
        fn drop(&mut self) {
            INNERMOST.set(self.0);
        }
    }

    /// Goes on with an operation that was left, also after a panic.
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

        /// Does what is allowed only outside of the operation, which goes on afterwards.
        pub(in crate::process) fn outside<R>(&self, work: impl FnOnce() -> R) -> R {
            self.left.set(true);
            let _resume = Resume(self);
            work()
        }
    }

    /// Returns `true` if one of this thread's operations is so.
    pub(super) fn any(is: impl Fn(&Operation) -> bool) -> bool {
        let mut next = INNERMOST.get();
        // SAFETY: an entry lies in a frame of this thread's stack that is there until it has been taken off the list, and only its cell is changed.
        while let Some(operation) = unsafe { next.as_ref() } {
            if !operation.left.get() && is(operation) {
                return true;
            }
            next = operation.outer;
        }
        false
    }
}
