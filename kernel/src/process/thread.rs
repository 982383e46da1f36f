//! The data of processes and threads.

use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

use samara_mm::{Errno, Limits};
use spin::Mutex;

use super::signals::{SigActions, SigInfo, SigPending};
use super::wait::WaitQueue;
use super::{Frame, scheduler};
use crate::arch::{Arch, Context, Machine};
use crate::fs::{Dentry, FdTable};
use crate::memory::{Memory, managed_frames};

/// A process: what threads share that `CLONE_THREAD` created.
pub struct Process {
    pub pid: i32,
    /// The process that waits for this one. Empty for the first process.
    pub parent: Mutex<Weak<Process>>,
    pub pgid: AtomicI32,
    pub sid: AtomicI32,
    /// `None` once the process has exited.
    pub memory: Mutex<Option<Arc<Memory>>>,
    pub files: Mutex<Arc<FdTable>>,
    /// The working directory.
    pub cwd: Mutex<Arc<Dentry>>,
    pub umask: AtomicU32,
    pub actions: Mutex<Arc<SigActions>>,
    /// Signals for the process, which any of its threads may take.
    pub pending: Mutex<SigPending>,
    pub threads: Mutex<Vec<Arc<Thread>>>,
    pub children: Mutex<Vec<Arc<Process>>>,
    pub state: Mutex<State>,
    /// The number of `SIGCONT` and `SIGKILL` signals sent to the process.
    pub continue_count: AtomicU64,
    /// The threads of this process that wait for a child.
    pub child_changed: WaitQueue,
    /// The signal for the parent when this process ends, or 0 for none.
    pub exit_signal: AtomicI32,
    /// `true` if the process exits, or if all threads but the one in `execve(2)` must exit.
    pub exiting: AtomicBool,
    /// The status of the process, once `exit_group` has set it.
    pub exit_status: Mutex<Option<i32>>,
    /// The status of the latest thread that called `exit(2)`.
    pub last_status: AtomicI32,
    /// The number of threads that have not exited.
    pub live_threads: AtomicU32,
    pub limits: Mutex<Limits>,
    pub executable: Mutex<Option<Arc<Dentry>>>,
    /// The address to which handlers return without `SA_RESTORER`, or 0.
    pub signal_return: AtomicU64,
    /// The arguments, each followed by a zero byte.
    pub command_line: Mutex<Vec<u8>>,
    /// The parent of a `vfork(2)` waits here until this process no longer uses its memory.
    pub vfork_done: WaitQueue,
    pub is_vfork_done: AtomicBool,
    /// Nanoseconds of processor time of the children that were waited for.
    pub children_time: AtomicU64,
    pub time: AtomicU64,
    /// The time at which the process was created ([`Machine::now`]).
    pub start_time: u64,
    pub alarm: Mutex<Option<(u64, u64)>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Running,
    /// Stopped by this signal. The flag is `true` until the parent has been told.
    Stopped(i32, bool),
    /// The flag is `true` until the parent has been told.
    Continued(bool),
    /// A zombie with this status, as `wait(2)` encodes it.
    Ended(i32),
}

pub struct Thread {
    pub tid: i32,
    pub process: Arc<Process>,
    pub(super) context: UnsafeCell<Context>,
    /// One of [`scheduler`]'s states.
    pub(super) state: AtomicU8,
    /// The processor that runs the thread, or ran it last.
    pub(super) processor: AtomicUsize,
    /// The processors that may run the thread, one bit each.
    pub affinity: AtomicU64,
    pub signals: Mutex<ThreadSignals>,
    /// The word that is cleared, and woken as a futex, when the thread exits
    /// (`set_tid_address(2)`).
    pub clear_tid: AtomicU64,
    /// The head of the robust list, or 0.
    pub robust_list: AtomicU64,
    pub name: Mutex<[u8; 16]>,
    /// `true` if the thread exits on its way to the program.
    pub(super) ending: AtomicBool,
    pub ended: AtomicBool,
    pub time: AtomicU64,
}

/// The signals of one thread.
pub struct ThreadSignals {
    pub mask: u64,
    /// The mask to restore after the handler that interrupts `sigsuspend(2)` or a similar call.
    pub saved_mask: Option<u64>,
    pub pending: SigPending,
    /// The alternate stack of `sigaltstack(2)`: address, flags, size.
    pub altstack: (u64, i32, u64),
    /// Signals that the thread's own instructions caused. They are delivered whatever the mask
    /// says.
    pub forced: VecDeque<SigInfo>,
}

// SAFETY: only the scheduler and the running thread use the context, on the processor that runs the
// thread or switches to it.
unsafe impl Send for Thread {}
// SAFETY: as above.
unsafe impl Sync for Thread {}

static THREADS: AtomicU64 = AtomicU64::new(0);
/// The machine has at most one thread for this many frames. Stacks then take at most an eighth of
/// its memory, as with Linux's `/proc/sys/kernel/threads-max`.
const FRAMES_OF_A_THREAD: u64 = 128;

impl Drop for Thread {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Thread {
    /// Checks that the machine may have one more thread.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if it may not.
    pub fn check_limit() -> Result<(), Errno> {
        let most = managed_frames() / FRAMES_OF_A_THREAD;
        if THREADS.load(Ordering::Relaxed) < most { Ok(()) } else { Err(Errno::EAGAIN) }
    }

    /// Creates a thread that waits. [`scheduler::wake`] starts it.
    pub fn new(tid: i32, process: &Arc<Process>, context: Context, mask: u64) -> Arc<Self> {
        THREADS.fetch_add(1, Ordering::Relaxed);
        Arc::new(Thread {
            tid,
            process: process.clone(),
            context: UnsafeCell::new(context),
            state: AtomicU8::new(scheduler::BLOCKED),
            processor: AtomicUsize::new(Arch::processor()),
            affinity: AtomicU64::new(u64::MAX),
            signals: Mutex::new(ThreadSignals {
                mask,
                saved_mask: None,
                pending: SigPending::new(),
                altstack: (0, DISABLED, 0),
                forced: VecDeque::new(),
            }),
            clear_tid: AtomicU64::new(0),
            robust_list: AtomicU64::new(0),
            name: Mutex::new([0; 16]),
            ending: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            time: AtomicU64::new(0),
        })
    }

    /// Returns `true` if the thread runs or waits only for a processor.
    pub fn is_runnable(&self) -> bool {
        self.state.load(Ordering::Relaxed) == scheduler::RUNNABLE
    }

    /// Returns `true` if the thread or its whole process is exiting.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed) || self.process.exiting.load(Ordering::Relaxed)
    }

    /// Calls `change` with the registers that are not in the frame. Only the thread itself may call
    /// this.
    pub fn with_context<R>(&self, change: impl FnOnce(&mut Context) -> R) -> R {
        debug_assert!(core::ptr::eq(self, &*current()));
        // SAFETY: the thread runs, so the scheduler does not use its context.
        change(unsafe { &mut *self.context.get() })
    }
}

/// `SS_DISABLE`.
pub const DISABLED: i32 = 2;

impl Process {
    /// Creates a process without memory and threads, in a group and a session of its own.
    pub fn new(pid: i32, files: Arc<FdTable>, directory: Arc<Dentry>) -> Self {
        Process {
            pid,
            parent: Mutex::default(),
            pgid: AtomicI32::new(pid),
            sid: AtomicI32::new(pid),
            memory: Mutex::default(),
            files: Mutex::new(files),
            cwd: Mutex::new(directory),
            umask: AtomicU32::new(0o022),
            actions: Mutex::new(Arc::new(SigActions::new())),
            pending: Mutex::new(SigPending::new()),
            threads: Mutex::default(),
            children: Mutex::default(),
            state: Mutex::new(State::Running),
            child_changed: WaitQueue::new(),
            exit_signal: AtomicI32::default(),
            exiting: AtomicBool::default(),
            exit_status: Mutex::default(),
            last_status: AtomicI32::default(),
            live_threads: AtomicU32::default(),
            limits: Mutex::default(),
            executable: Mutex::default(),
            signal_return: AtomicU64::new(0),
            command_line: Mutex::default(),
            vfork_done: WaitQueue::new(),
            is_vfork_done: AtomicBool::default(),
            continue_count: AtomicU64::default(),
            children_time: AtomicU64::default(),
            time: AtomicU64::default(),
            start_time: Arch::now(),
            alarm: Mutex::default(),
        }
    }

    /// Returns the memory of a running process.
    ///
    /// # Panics
    ///
    /// Panics if the process has exited.
    pub fn memory(&self) -> Arc<Memory> {
        let memory = self.memory.lock();
        memory.clone().unwrap_or_else(|| panic!("process {} has no memory", self.pid))
    }

    pub fn is_ended(&self) -> bool {
        matches!(*self.state.lock(), State::Ended(_))
    }
}

/// Returns the running thread.
///
/// # Panics
///
/// Panics in the idle loop, where no thread runs.
pub fn current() -> Arc<Thread> {
    scheduler::current().unwrap_or_else(|| panic!("no thread runs"))
}

/// Returns the frame with which a program starts.
pub fn first_frame(pc: u64, sp: u64) -> Frame {
    use crate::arch::UserFrame;
    Frame::new(pc, sp)
}
