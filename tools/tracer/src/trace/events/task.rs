//! A traced thread, and the state that its current call needs at the return.

use samara_linux::Tid;
use samara_mm::Call;

use crate::trace::decode::{Bounds, Filling};
use crate::trace::entry::Entry;
use crate::trace::seeding::Standing;
use crate::trace::space::Registering;

/// The state that a thread's current call needs at its return.
#[derive(Debug)]
pub(super) enum Doing {
    Perform(Call),
    /// Registers or unregisters a range with a userfaultfd: the one behind the descriptor at the
    /// entry.
    Watch {
        call: Call,
        entry: Entry,
    },
    Fork,
    /// A clone that shares the address space, or by a thread that is not followed. It holds no
    /// order.
    Thread,
    /// A change of limits. `target` is the process whose limits must be read again, `index` its
    /// address space, whose order the call holds.
    Limits {
        target: Tid,
        index: usize,
    },
    /// A request to a userfaultfd of the address space `index`, which is not the caller's. The call
    /// holds that space's order.
    Elsewhere {
        told: Told,
        index: usize,
    },
    /// Makes a userfaultfd. It holds no order.
    WatcherMade,
    /// Changes the caller's permissions, which must be read again. It holds no order.
    Settings,
    /// Asks for a tracer, and is counted if it is refused. It holds no order.
    Tracing,
    /// Was skipped, because the tracer imitates strict mode for this thread. It holds no order.
    Strict,
    /// Installs a filter whose listener decides about calls that the tracer does not see. It holds
    /// no order.
    Listener,
    /// The address of the ring will be at `pointer`.
    RingSetUp {
        pointer: u64,
        narrow: bool,
    },
    RingDestroyed(Call),
    /// Makes a ring of `io_uring`. It holds no order.
    UringSetUp {
        params: u64,
    },
    /// Assigns or removes numbers of rings. It holds no order.
    UringRegister(Registering),
    /// Submits advice. It holds no order, because it may wait for other threads.
    UringEnter,
    Filled(Filling),
    Moved {
        to: u64,
        from: u64,
    },
    Bounds(Bounds),
    /// Its arguments lie below an area that grows, and cannot be read yet.
    Unread(Entry),
    /// Its descriptor was no userfaultfd, or one that is not ready, but may be a ready one when the
    /// kernel looks.
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
    /// Stopped at the entry of a call, until its turn comes.
    Held,
    InCall(Doing),
    /// Its first stop has come, but not its maker's event.
    Unannounced,
    /// Its maker's event has come, but not its first stop.
    Expected,
}

#[derive(Debug)]
pub(super) struct Task {
    pub(super) process: Tid,
    /// The index into the spaces. `None` if the thread is not followed, or has left its address
    /// space.
    pub(super) space: Option<usize>,
    pub(super) state: State,
    /// The address of its call's result, if the call does not return it.
    pub(super) result_at: Option<u64>,
    /// The flag `CLONE_UNTRACED` of its clone was removed, and must be restored.
    pub(super) untraced: bool,
    /// The flags of its `clone3`, if its last call was one.
    pub(super) clone_flags: Option<u64>,
    /// The thread's state that the kernel checks in calls. `None` if it may have changed.
    pub(super) standing: Option<Standing>,
    /// The thread is in strict mode, with only `read`, `write`, `exit` and `rt_sigreturn`.
    pub(super) strict: bool,
    /// The thread was made to end, because it made another call.
    pub(super) ends: bool,
    /// A filter may hide its calls, so no address space that it uses is followed.
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
