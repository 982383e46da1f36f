//! A traced thread, and what its call under way will need when it returns.

use samara_linux::Tid;
use samara_mm::Call;

use crate::trace::decode::{Bounds, Filling};
use crate::trace::entry::Entry;
use crate::trace::seeding::Standing;
use crate::trace::space::Registering;

/// The state of a thread's call under way that is needed when it returns.
#[derive(Debug)]
pub(super) enum Doing {
    Perform(Call),
    /// A userfaultfd is told what to watch: the one that the descriptor stood for at the entry.
    Watch {
        call: Call,
        entry: Entry,
    },
    Fork,
    /// A clone that shares the address space, or of a thread that is not followed: holds no order.
    Thread,
    /// The process whose limits to take anew, and the address space that it uses: holds the order of that one.
    Limits {
        target: Tid,
        index: usize,
    },
    /// A userfaultfd is told what to watch in the address space `index`, which is not the caller's: holds the order of that one.
    Elsewhere {
        told: Told,
        index: usize,
    },
    /// Holds no order: a userfaultfd will have been made.
    WatcherMade,
    /// Keeps no order: the caller's settings must be read again.
    Settings,
    /// Holds no order: to be counted if it is refused.
    Tracing,
    /// Was passed over, and holds no order: the thread has nothing left but four calls.
    Strict,
    /// Keeps no order either: a filter decides about calls that the tracer does not see.
    Listener,
    /// The address of the ring will be at `pointer`.
    RingSetUp {
        pointer: u64,
        narrow: bool,
    },
    RingDestroyed(Call),
    /// Holds no order: a ring of `io_uring` will have been made.
    UringSetUp {
        params: u64,
    },
    /// Holds no order: rings will have numbers, or have them no more.
    UringRegister(Registering),
    /// Holds no order, since it may wait for other threads: advice was submitted.
    UringEnter,
    Filled(Filling),
    Moved {
        to: u64,
        from: u64,
    },
    Bounds(Bounds),
    /// Its arguments lie below an area that grows, and could not be read yet.
    Unread(Entry),
    /// Its descriptor was no userfaultfd, or not ready, and may be one when the kernel looks.
    Unmade(Entry),
    Unmodelled {
        name: &'static str,
        changes_map: bool,
    },
}

/// A request to a userfaultfd of another address space.
#[derive(Debug)]
pub(super) enum Told {
    Perform(Call),
    /// A request that the engine cannot follow.
    Unmodelled(&'static str),
}

#[derive(Debug)]
pub(super) enum State {
    Running,
    /// Stopped at the entry of a call, until others' are done.
    Held,
    InCall(Doing),
    /// Has reported itself, but not yet the thread that made it.
    Unannounced,
    /// Announced, but has not reported itself yet.
    Expected,
}

#[derive(Debug)]
pub(super) struct Task {
    pub(super) process: Tid,
    /// Index into the spaces; `None` if it is not followed, or has left its address space.
    pub(super) space: Option<usize>,
    pub(super) state: State,
    /// The address of its call's result, if the call does not return it.
    pub(super) result_at: Option<u64>,
    /// Its clone asked for a child that is not traced: the changed argument must be restored.
    pub(super) untraced: bool,
    /// The flags that its `clone3` was called with, if its last call was one.
    pub(super) clone_flags: Option<u64>,
    /// The settings that the kernel uses for its calls, or `None` if they may have changed.
    pub(super) standing: Option<Standing>,
    /// It has left itself `read`, `write`, `exit` and `rt_sigreturn`, as of `SECCOMP_SET_MODE_STRICT`.
    pub(super) strict: bool,
    /// It was made to end, having called something else.
    pub(super) ends: bool,
    /// A filter may let its calls pass unseen: no address space that it uses is followed.
    pub(super) unseen: bool,
}

impl Task {
    pub(super) fn new(process: Tid, state: State) -> Self {
        Self {
            process,
            space: None,
            state,
            result_at: None,
            untraced: false,
            clone_flags: None,
            standing: None,
            strict: false,
            ends: false,
            unseen: false,
        }
    }
}
