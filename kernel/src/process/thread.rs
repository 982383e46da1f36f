//! Processes and threads as data.

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

/// What threads have in common that were made by `CLONE_THREAD`.
pub struct Process {
    pub pid: i32,
    /// The process that waits for this one. `None` for the first.
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
    /// Signals to the process, which any of its threads may take.
    pub pending: Mutex<SigPending>,
    pub threads: Mutex<Vec<Arc<Thread>>>,
    pub children: Mutex<Vec<Arc<Process>>>,
    pub state: Mutex<State>,
    /// How often it was sent `SIGCONT` or `SIGKILL`.
    pub continue_count: AtomicU64,
    /// Threads of this process that wait for a child.
    pub child_changed: WaitQueue,
    /// Signal that the parent gets when this process ends; 0: none.
    pub exit_signal: AtomicI32,
    /// What `wait` returns is decided: other threads are on their way out.
    pub exiting: AtomicBool,
    /// The status that was decided.
    pub exit_status: Mutex<Option<i32>>,
    /// The status with which the last thread that ended by itself did so.
    pub last_status: AtomicI32,
    /// Threads that have not ended.
    pub live_threads: AtomicU32,
    pub limits: Mutex<Limits>,
    pub executable: Mutex<Option<Arc<Dentry>>>,
    /// What handlers return to that name nothing else; 0: nothing.
    pub signal_return: AtomicU64,
    /// Arguments, each with a zero byte.
    pub command_line: Mutex<Vec<u8>>,
    /// Waited for by the parent of a `vfork`: the memory is no longer its own.
    pub vfork_done: WaitQueue,
    pub is_vfork_done: AtomicBool,
    /// Nanoseconds on the processor of this process's children that were waited for.
    pub children_time: AtomicU64,
    pub time: AtomicU64,
    /// When the process began ([`Machine::now`]).
    pub start_time: u64,
    pub alarm: Mutex<Option<(u64, u64)>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Running,
    /// By this signal; `true` until the parent was told.
    Stopped(i32, bool),
    /// `true` until the parent was told.
    Continued(bool),
    /// With this status, as `wait` tells it.
    Ended(i32),
}

pub struct Thread {
    pub tid: i32,
    pub process: Arc<Process>,
    pub(super) context: UnsafeCell<Context>,
    /// One of [`scheduler`]'s states.
    pub(super) state: AtomicU8,
    /// The processor that runs the thread, or did so last.
    pub(super) processor: AtomicUsize,
    /// Processors that may run it, a bit for each.
    pub affinity: AtomicU64,
    pub signals: Mutex<ThreadSignals>,
    /// Where a zero is written when the thread ends, and a futex is woken (`set_tid_address(2)`).
    pub clear_tid: AtomicU64,
    /// Head of the list of robust futexes.
    pub robust_list: AtomicU64,
    pub name: Mutex<[u8; 16]>,
    /// The thread ends before its program would go on.
    pub(super) ending: AtomicBool,
    pub ended: AtomicBool,
    pub time: AtomicU64,
}

/// The signals of one thread.
pub struct ThreadSignals {
    pub mask: u64,
    /// The mask to return to after the handler that interrupts `sigsuspend` or its like.
    pub saved_mask: Option<u64>,
    pub pending: SigPending,
    /// `sigaltstack`: address, flags, size.
    pub altstack: (u64, i32, u64),
    /// Signals that the kernel itself has forced: they are delivered whatever the mask says.
    pub forced: VecDeque<SigInfo>,
}

// SAFETY: the context is used by the scheduler alone, on the processor that runs the thread or switches to it.
unsafe impl Send for Thread {}
// SAFETY: as above.
unsafe impl Sync for Thread {}

static THREADS: AtomicU64 = AtomicU64::new(0);
/// A machine has a thread for so many frames at most: stacks take an eighth of its memory, as by Linux' `/proc/sys/kernel/threads-max`.
const FRAMES_OF_A_THREAD: u64 = 128;

impl Drop for Thread {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Thread {
    /// # Errors
    /// `EAGAIN`: there are as many threads as there may be.
    pub fn check_limit() -> Result<(), Errno> {
        let most = managed_frames() / FRAMES_OF_A_THREAD;
        if THREADS.load(Ordering::Relaxed) < most { Ok(()) } else { Err(Errno::EAGAIN) }
    }

    /// A thread of a process, which starts with this frame when it is woken.
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

    /// Returns `true` if the thread runs, or would if the processor had nothing else to do.
    pub fn is_runnable(&self) -> bool {
        self.state.load(Ordering::Relaxed) == scheduler::RUNNABLE
    }

    /// Returns `true` if the thread, or its whole process, is to end.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed) || self.process.exiting.load(Ordering::Relaxed)
    }

    /// The processor's registers that are not in the frame. Only the thread itself calls this.
    pub fn with_context<R>(&self, change: impl FnOnce(&mut Context) -> R) -> R {
        debug_assert!(core::ptr::eq(self, &*current()));
        // SAFETY: the thread runs, so that the scheduler does not use it.
        change(unsafe { &mut *self.context.get() })
    }
}

/// `SS_DISABLE`.
pub const DISABLED: i32 = 2;

impl Process {
    /// A process without memory and threads, in a group and a session of its own.
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

    /// The memory of a process that runs.
    pub fn memory(&self) -> Arc<Memory> {
        let memory = self.memory.lock();
        memory.clone().unwrap_or_else(|| panic!("process {} has no memory", self.pid))
    }

    pub fn is_ended(&self) -> bool {
        matches!(*self.state.lock(), State::Ended(_))
    }
}

/// The thread that runs.
pub fn current() -> Arc<Thread> {
    scheduler::current().unwrap_or_else(|| panic!("no thread runs"))
}

/// The frame with which a program starts.
pub fn first_frame(pc: u64, sp: u64) -> Frame {
    use crate::arch::UserFrame;
    Frame::new(pc, sp)
}
