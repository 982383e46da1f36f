//! Creation of threads and processes: `clone(2)`, `fork(2)` and `vfork(2)`.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use linux_raw_sys::general::{
    CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID, CLONE_FILES, CLONE_PARENT, CLONE_PARENT_SETTID,
    CLONE_SETTLS, CLONE_SIGHAND, CLONE_THREAD, CLONE_VFORK, CLONE_VM,
};
use samara_mm::Errno;
use samara_mm::process::ForkMode;
use spin::Mutex;

use super::thread::{Process, Thread};
use super::wait;
use super::{Frame, exit, oom, scheduler, table};
use crate::arch::{Context, UserFrame};
use crate::memory::{Memory, heap};
use crate::trace;

/// The arguments of `clone3(2)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloneArgs {
    pub flags: u64,
    pub exit_signal: i32,
    /// The child's stack pointer, or 0 for the caller's.
    pub stack: u64,
    pub thread_pointer: u64,
    pub parent_tid: u64,
    pub child_tid: u64,
}

/// Creates a thread or a process that returns 0 from the caller's call. Returns its number.
///
/// With `CLONE_VFORK`, returns only after the child has exited or executed a program.
///
/// # Errors
///
/// Those of `clone(2)`.
pub fn clone(caller: &Arc<Thread>, frame: &Frame, args: &CloneArgs) -> Result<i64, Errno> {
    let has = |flag: u32| args.flags & u64::from(flag) != 0;
    let needs = |flag: u32, other: u32| !has(flag) || has(other);
    if !needs(CLONE_THREAD, CLONE_SIGHAND) || !needs(CLONE_SIGHAND, CLONE_VM) {
        return Err(Errno::EINVAL);
    }
    Thread::check_limit()?;
    let tid = table::new_pid();
    let process =
        if has(CLONE_THREAD) { caller.process.clone() } else { new_process(caller, tid, args)? };
    let mut child_frame = frame.clone();
    child_frame.set_result(0);
    if args.stack != 0 {
        child_frame.set_sp(args.stack);
    }
    let own = caller.with_context(|context| context.thread_pointer());
    let thread_pointer = if has(CLONE_SETTLS) { args.thread_pointer } else { own };
    let mask = caller.signals.lock().mask;
    let child = Thread::new(tid, &process, Context::new(child_frame, thread_pointer, true), mask);
    *child.name.lock() = *caller.name.lock();
    if has(CLONE_CHILD_CLEARTID) {
        child.clear_tid.store(args.child_tid, Ordering::Relaxed);
    }
    if !has(CLONE_VM) || has(CLONE_VFORK) {
        // A thread that shares the memory starts without an alternate stack.
        child.signals.lock().altstack = caller.signals.lock().altstack;
    }
    let number = tid.to_le_bytes();
    if has(CLONE_PARENT_SETTID) {
        oom::copy_in(&caller.process.memory(), args.parent_tid, &number);
    }
    if has(CLONE_CHILD_SETTID) {
        oom::copy_in(&process.memory(), args.child_tid, &number);
    }
    process.live_threads.fetch_add(1, Ordering::SeqCst);
    process.threads.lock().push(child.clone());
    if has(CLONE_THREAD) {
        process.memory().expect_threads();
    } else {
        let _tasklist = exit::TASKLIST.lock();
        table::insert(&process);
        let parent = if has(CLONE_PARENT) {
            caller.process.parent.lock().upgrade()
        } else {
            Some(caller.process.clone())
        };
        if let Some(parent) = parent {
            *process.parent.lock() = Arc::downgrade(&parent);
            parent.children.lock().push(process.clone());
        }
    }
    scheduler::wake(&child);
    if has(CLONE_VFORK) {
        // The child runs on the caller's stack until it has other memory, so not even a signal ends
        // this wait.
        while wait::until(&[&process.vfork_done], None, || {
            process.is_vfork_done.load(Ordering::SeqCst).then_some(())
        })
        .is_err()
        {
            scheduler::yield_now();
        }
    }
    Ok(tid.into())
}

/// The mode of all forks if [`set_fork_mode`] has set one. Otherwise the size of the process
/// decides.
static FORK: Mutex<Option<ForkMode>> = Mutex::new(None);
/// A process of up to this many pages copies its page tables at a fork. Both sides soon write to
/// most pages of a small process, and each shared table would cost a fault and a copy.
const FEW_PAGES: u64 = 4096;

/// Makes all forks copy page tables, or share them, whatever the size of the process.
pub fn set_fork_mode(mode: ForkMode) {
    *FORK.lock() = Some(mode);
}

fn fork_mode(memory: &Memory) -> ForkMode {
    let few = || memory.with_space(|space| space.page_counts().total) <= FEW_PAGES;
    FORK.lock().unwrap_or_else(|| if few() { ForkMode::Copy } else { ForkMode::Share })
}

fn new_process(caller: &Arc<Thread>, pid: i32, args: &CloneArgs) -> Result<Arc<Process>, Errno> {
    let has = |flag: u32| args.flags & u64::from(flag) != 0;
    let parent = &caller.process;
    let memory = parent.memory();
    // ANCHOR: fork
    let memory = if has(CLONE_VM) {
        memory
    } else {
        let child = Arc::new(memory.fork(fork_mode(&memory))?);
        trace::forked(&memory, &child);
        child
    };
    // ANCHOR_END: fork
    heap::check_reserve()?;
    let files = parent.files.lock().clone();
    let files = if has(CLONE_FILES) { files } else { files.copy() };
    let actions = parent.actions.lock().clone();
    let actions = if has(CLONE_SIGHAND) { actions } else { Arc::new(actions.copy()) };
    // `CLONE_FS` is ignored between processes: the child gets copies of the working directory and
    // the umask. Threads share them as parts of their process.
    Ok(Arc::new(Process {
        pgid: AtomicI32::new(parent.pgid.load(Ordering::Relaxed)),
        sid: AtomicI32::new(parent.sid.load(Ordering::Relaxed)),
        memory: Mutex::new(Some(memory)),
        umask: AtomicU32::new(parent.umask.load(Ordering::Relaxed)),
        actions: Mutex::new(actions),
        exit_signal: AtomicI32::new(args.exit_signal),
        limits: Mutex::new(*parent.limits.lock()),
        signal_return: AtomicU64::new(parent.signal_return.load(Ordering::Relaxed)),
        executable: Mutex::new(parent.executable.lock().clone()),
        command_line: Mutex::new(parent.command_line.lock().clone()),
        ..Process::new(pid, files, parent.cwd.lock().clone())
    }))
}
