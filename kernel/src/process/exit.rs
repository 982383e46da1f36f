//! Exits of threads and processes, and waiting for children. Stops and continuations are here, too,
//! because parents wait for them in the same way.

use alloc::sync::{Arc, Weak};
use core::sync::atomic::Ordering;

use samara_mm::Errno;
use spin::Mutex;

use super::signals::{
    self, CLD_CONTINUED, CLD_EXITED, CLD_KILLED, CLD_STOPPED, SA_NOCLDSTOP, SA_NOCLDWAIT, SIGCHLD,
    SigInfo, WCONTINUED, WEXITED, WNOHANG, WNOWAIT, WSTOPPED,
};
use super::thread::{Process, State, Thread, current};
use super::wait::{self, WaitQueue};
use super::{futex, scheduler, table};
use crate::trace;

/// Protects the parent links and lists of children of all processes. A caller that looks at
/// children together with their states holds it, too.
pub(super) static TASKLIST: Mutex<()> = Mutex::new(());

/// The status of the first process, once it has ended. The idle loop then shuts the machine down.
static FIRST_STATUS: Mutex<Option<i32>> = Mutex::new(None);

/// Returns the status of the first process as `wait(2)` encodes it, once the process has ended.
pub fn exited_with() -> Option<i32> {
    *FIRST_STATUS.lock()
}

/// Sets the status of a process as `wait(2)` encodes it: a signal, or an exit code in the second
/// byte. An earlier status wins. All its threads exit on their way to the program.
pub fn exit_group(process: &Process, status: i32) {
    process.exit_status.lock().get_or_insert(status);
    if process.exiting.swap(true, Ordering::SeqCst) {
        return;
    }
    process.threads.lock().iter().for_each(scheduler::signal_wake_up);
}

/// Ends all other threads of the caller's process, and waits until they have exited. Returns
/// `false` if the process is exiting already.
pub(super) fn end_other_threads(thread: &Arc<Thread>) -> bool {
    let process = &thread.process;
    if process.exiting.swap(true, Ordering::SeqCst) {
        return false;
    }
    let others = process.threads.lock().clone();
    others.iter().filter(|other| !Arc::ptr_eq(other, thread)).for_each(scheduler::signal_wake_up);
    while process.live_threads.load(Ordering::SeqCst) > 1 {
        core::hint::spin_loop();
        scheduler::yield_now();
    }
    // `exit_group` may have been called during the wait.
    process.exiting.store(process.exit_status.lock().is_some(), Ordering::SeqCst);
    true
}

/// Makes the thread exit on its way to the program. If it is the last one, its process ends with
/// this status.
pub fn exit_thread(thread: &Thread, status: i32) {
    thread.ending.store(true, Ordering::Relaxed);
    scheduler::recheck_signals();
    thread.process.last_status.store(status, Ordering::Relaxed);
}

/// Ends the calling thread, and with the last thread its process.
pub(super) fn end_thread() -> ! {
    finish_thread();
    scheduler::exit()
}

fn finish_thread() {
    let thread = current();
    let process = thread.process.clone();
    futex::on_thread_exit(&thread);
    // Once the count falls, another thread may free the memory, so this processor must not have its
    // page tables loaded.
    scheduler::switch_mm(None);
    let last = process.live_threads.fetch_sub(1, Ordering::SeqCst) == 1;
    process.threads.lock().retain(|other| !Arc::ptr_eq(other, &thread) || last);
    thread.ended.store(true, Ordering::SeqCst);
    if last {
        let status =
            process.exit_status.lock().unwrap_or(process.last_status.load(Ordering::Relaxed));
        end_process(&process, status);
    }
}

fn end_process(process: &Arc<Process>, status: i32) {
    // Files are closed first, because a reader may wait at the other end of a pipe.
    let files = core::mem::replace(&mut *process.files.lock(), crate::fs::FdTable::empty());
    drop(files);
    release_memory(process);
    process.threads.lock().clear();
    *process.alarm.lock() = None;
    if process.pid == 1 {
        kill_all(process);
        *process.state.lock() = State::Ended(status);
        table::remove(process.pid);
        *FIRST_STATUS.lock() = Some(status);
        return scheduler::kick_first();
    }
    let _tasklist = TASKLIST.lock();
    reparent_children(process);
    let parent = process.parent.lock().upgrade();
    *process.state.lock() = State::Ended(status);
    let Some(parent) = parent else {
        return table::remove(process.pid);
    };
    let signal = process.exit_signal.load(Ordering::Relaxed);
    let action = parent.actions.lock().get(SIGCHLD);
    // A parent that ignores `SIGCHLD` does not wait for its children.
    let unwanted = signal == SIGCHLD && (action.handler == 1 || action.flags & SA_NOCLDWAIT != 0);
    if unwanted {
        reap(&parent, process);
    }
    if signal != 0 && !(unwanted && action.handler == 1) {
        let (code, value) = code_and_status(status);
        signals::send(&parent, &SigInfo { signal, ..SigInfo::child(code, process.pid, value) });
    }
    parent.child_changed.wake();
}

/// Drops a process's reference to its memory, and frees the memory with the last one. The processor
/// loads the kernel's page tables first.
// ANCHOR: release
pub(super) fn release_memory(process: &Process) {
    let memory = process.memory.lock().take();
    scheduler::switch_mm(None);
    if let Some(Ok(memory)) = memory.map(Arc::try_unwrap) {
        trace::gone(&memory, process.pid == 1 && process.live_threads.load(Ordering::SeqCst) == 0);
        // The only error is a lost write of a file's page, and files here exist in memory only.
        let _ = memory.exit();
    }
    complete_vfork(process);
}
// ANCHOR_END: release

/// Wakes the parent that waits in `vfork(2)`.
pub(super) fn complete_vfork(process: &Process) {
    process.is_vfork_done.store(true, Ordering::SeqCst);
    process.vfork_done.wake();
}

/// Makes the first process the parent of an ending process's children. The caller holds `TASKLIST`.
fn reparent_children(process: &Process) {
    let children = core::mem::take(&mut *process.children.lock());
    let Some(first) = table::find(1).filter(|first| first.pid != process.pid) else {
        return;
    };
    for child in children {
        *child.parent.lock() = Arc::downgrade(&first);
        first.children.lock().push(child.clone());
        if child.is_ended() {
            first.child_changed.wake();
            signals::send(&first, &SigInfo::child(CLD_EXITED, child.pid, 0));
        }
    }
}

/// Kills all other processes when the first one ends, and waits until they have ended.
fn kill_all(first: &Process) {
    loop {
        let others = table::processes();
        let mut left = false;
        for process in others.iter().filter(|process| process.pid != first.pid) {
            let _tasklist = TASKLIST.lock();
            *process.parent.lock() = Weak::new();
            process.children.lock().clear();
            if process.is_ended() {
                table::remove(process.pid);
            } else {
                left = true;
                signals::send(process, &SigInfo::kernel(signals::SIGKILL));
            }
        }
        if !left {
            return;
        }
        drop(others);
        // The killed threads run until they have exited.
        scheduler::yield_now();
    }
}

/// Removes a child that has been waited for, and adds its time to the parent's. The caller holds
/// `TASKLIST`.
fn reap(parent: &Process, child: &Process) {
    parent.children.lock().retain(|other| other.pid != child.pid);
    let time = child.time.load(Ordering::Relaxed) + child.children_time.load(Ordering::Relaxed);
    parent.children_time.fetch_add(time, Ordering::Relaxed);
    table::remove(child.pid);
}

/// A change of a child's state.
#[derive(Clone, Copy, Debug)]
pub struct ChildEvent {
    pub pid: i32,
    /// The status as `wait4(2)` returns it.
    pub status: i32,
    /// `si_code`; `value` is `si_status`.
    pub code: i32,
    pub value: i32,
    pub time: u64,
}

/// Waits until a child for which `wanted` returns `true` has changed its state in a way that
/// `options` select. With `WNOHANG`, returns `None` at once if no child has.
///
/// # Errors
///
/// `ECHILD` if there is no such child; `EINTR`.
pub fn wait_for_child(
    wanted: impl Fn(&Process) -> bool,
    options: u64,
) -> Result<Option<ChildEvent>, Errno> {
    let process = current().process.clone();
    let look = || {
        let _tasklist = TASKLIST.lock();
        let children = process.children.lock().clone();
        let mut any = false;
        for child in children.iter().filter(|child| wanted(child)) {
            any = true;
            if let Some(event) = event(child, options) {
                if options & WNOWAIT == 0 && child.is_ended() {
                    reap(&process, child);
                }
                return Some(Ok(Some(event)));
            }
        }
        match () {
            () if !any => Some(Err(Errno::ECHILD)),
            () if options & WNOHANG != 0 => Some(Ok(None)),
            () => None,
        }
    };
    wait::until(&[&process.child_changed], None, look)?
}

/// Returns `si_code` and `si_status` for a status.
fn code_and_status(status: i32) -> (i32, i32) {
    match status & 0x7f {
        0 => (CLD_EXITED, status >> 8),
        signal => (CLD_KILLED, signal),
    }
}

fn event(child: &Process, options: u64) -> Option<ChildEvent> {
    let mut state = child.state.lock();
    let keep = options & WNOWAIT != 0;
    let (status, code, value) = match *state {
        State::Ended(status) if options & WEXITED != 0 => {
            let (code, value) = code_and_status(status);
            (status, code, value)
        }
        State::Stopped(signal, true) if options & WSTOPPED != 0 => {
            *state = State::Stopped(signal, keep);
            (signal << 8 | 0x7f, CLD_STOPPED, signal)
        }
        State::Continued(true) if options & WCONTINUED != 0 => {
            *state = State::Continued(keep);
            (0xffff, CLD_CONTINUED, signals::SIGCONT)
        }
        _ => return None,
    };
    let time = child.time.load(Ordering::Relaxed);
    Some(ChildEvent { pid: child.pid, status, code, value, time })
}

static CONTINUED: WaitQueue = WaitQueue::new();

/// Stops a process, unless it has been continued or killed since `continues` was read. Its threads
/// wait on their way to the program.
///
/// [`signals`] first increments `continue_count` and then calls [`resume`]. Both functions take the
/// lock of the state. If `resume` comes second, it finds the process stopped; if this function
/// comes second, it finds the higher count.
pub(super) fn stop(process: &Arc<Process>, signal: i32, continues: u64) {
    let mut state = process.state.lock();
    if process.continue_count.load(Ordering::SeqCst) != continues {
        return;
    }
    *state = State::Stopped(signal, true);
    drop(state);
    process.threads.lock().iter().for_each(scheduler::signal_wake_up);
    notify_parent(process, CLD_STOPPED, signal);
}

/// Continues a process if it is stopped. With `is_told`, tells its parent.
pub(super) fn resume(process: &Arc<Process>, is_told: bool) {
    let mut state = process.state.lock();
    if !matches!(*state, State::Stopped(..)) {
        return;
    }
    *state = State::Continued(is_told);
    drop(state);
    CONTINUED.wake();
    process.threads.lock().iter().for_each(scheduler::signal_wake_up);
    if is_told {
        notify_parent(process, CLD_CONTINUED, signals::SIGCONT);
    }
}

fn notify_parent(process: &Process, code: i32, signal: i32) {
    let Some(parent) = process.parent.lock().upgrade() else {
        return;
    };
    if parent.actions.lock().get(SIGCHLD).flags & SA_NOCLDSTOP == 0 {
        signals::send(&parent, &SigInfo::child(code, process.pid, signal));
    }
    parent.child_changed.wake();
}

/// Waits while the thread's process is stopped.
pub(super) fn wait_while_stopped(thread: &Thread) {
    while signals::is_stopped(&thread.process) && !thread.process.exiting.load(Ordering::Relaxed) {
        let _ = wait::until(&[&CONTINUED], None, || {
            (!signals::is_stopped(&thread.process)).then_some(())
        });
        scheduler::yield_now();
    }
}

/// Returns `true` if the process's group is orphaned: no member has a parent in another group of
/// the same session.
pub(super) fn is_orphaned_group(process: &Process) -> bool {
    let group = process.pgid.load(Ordering::Relaxed);
    let session = process.sid.load(Ordering::Relaxed);
    let members = table::processes();
    let guarded = |member: &Arc<Process>| {
        let parent = member.parent.lock().upgrade();
        member.pgid.load(Ordering::Relaxed) == group
            && parent.is_some_and(|parent| {
                parent.pgid.load(Ordering::Relaxed) != group
                    && parent.sid.load(Ordering::Relaxed) == session
            })
    };
    !members.iter().any(guarded)
}
