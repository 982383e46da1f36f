//! Signals. They are sent to a process or a thread, and delivered on the way back to the program.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use linux_raw_sys::general;
use samara_mm::Errno;

use super::exit::{self, exit_group};
use super::thread::{Process, State, Thread};
use super::{Frame, oom, scheduler, table};
use crate::arch::{self, UserFrame};

macro_rules! constants {
    ($type:ty: $($name:ident)*) => { $(pub const $name: $type = general::$name as $type;)* };
}

constants!(i32: SIGINT SIGQUIT SIGKILL SIGBUS SIGSEGV SIGPIPE SIGALRM SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU);
constants!(i32: SIGURG SIGWINCH CLD_EXITED CLD_KILLED CLD_STOPPED CLD_CONTINUED);
constants!(u64: SA_NOCLDSTOP SA_NOCLDWAIT SA_ONSTACK SA_RESTART SA_NODEFER SA_RESETHAND);
constants!(u64: WNOHANG WSTOPPED WEXITED WCONTINUED WNOWAIT);
/// The highest signal number.
pub const NSIG: i32 = 64;
/// The lowest real-time signal. Real-time signals queue up; of any other signal, one at a time is
/// pending.
const SIGRTMIN: i32 = 32;

/// The most signals that a process or a thread has pending. Further ones are lost.
const MAX_PENDING: usize = 512;

const STOP_SIGNALS: u64 = bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU);
/// The signals that cannot be caught, ignored or masked.
pub const UNMASKABLE: u64 = bit(SIGKILL) | bit(SIGSTOP);
/// The signals whose default action is to do nothing.
const DEFAULT_IGNORED: u64 = bit(SIGCHLD) | bit(SIGCONT) | bit(SIGURG) | bit(SIGWINCH);

/// The program has set `restorer`, the address to which the handler returns.
pub const SA_RESTORER: u64 = 0x0400_0000;

const SIG_DFL: u64 = 0;
const SIG_IGN: u64 = 1;

const SI_USER: i32 = 0;
const SI_KERNEL: i32 = 0x80;
const SI_TKILL: i32 = -6;

/// The error of a call that a signal interrupted. No program sees it: the call is restarted, or
/// returns `EINTR` if a handler runs that was set without `SA_RESTART`.
pub const ERESTARTSYS: Errno = Errno(512);

pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// The part of `siginfo_t` that is not padding.
#[derive(Clone, Copy, Debug, Default)]
pub struct SigInfo {
    pub signal: i32,
    pub code: i32,
    /// The words from byte 16 on: the sender's process and user, and a status or value; or a
    /// fault's address.
    pub rest: [u64; 3],
}

impl SigInfo {
    pub fn fault(signal: i32, code: i32, address: u64) -> Self {
        SigInfo { signal, code, rest: [address, 0, 0] }
    }

    pub fn kernel(signal: i32) -> Self {
        SigInfo { signal, code: SI_KERNEL, rest: [0; 3] }
    }

    pub fn user(signal: i32, sender: i32) -> Self {
        SigInfo { signal, code: SI_USER, rest: [sender as u64, 0, 0] }
    }

    pub fn thread(signal: i32, sender: i32) -> Self {
        SigInfo { signal, code: SI_TKILL, rest: [sender as u64, 0, 0] }
    }

    pub fn child(code: i32, child: i32, status: i32) -> Self {
        SigInfo { signal: SIGCHLD, code, rest: [child as u32 as u64, status as u32 as u64, 0] }
    }

    pub fn of_bytes(bytes: &[u8; 128]) -> Self {
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
        let code = (word(8) & 0xffff_ffff) as i32;
        SigInfo { signal: word(0) as i32, code, rest: [word(16), word(24), word(32)] }
    }

    /// Returns the bytes of the `siginfo_t`.
    pub fn bytes(&self) -> [u8; 128] {
        let mut bytes = [0; 128];
        bytes[..4].copy_from_slice(&self.signal.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.code.to_le_bytes());
        for (i, word) in self.rest.iter().enumerate() {
            bytes[16 + 8 * i..24 + 8 * i].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// Signals that have been sent and not yet delivered.
pub struct SigPending {
    pub set: u64,
    infos: VecDeque<SigInfo>,
}

impl SigPending {
    pub const fn new() -> Self {
        SigPending { set: 0, infos: VecDeque::new() }
    }

    fn add(&mut self, info: &SigInfo) {
        if info.signal < SIGRTMIN && self.set & bit(info.signal) != 0 {
            return;
        }
        if self.infos.len() < MAX_PENDING {
            self.set |= bit(info.signal);
            self.infos.push_back(*info);
        }
    }

    /// Takes the first pending signal of a set: the one with the lowest number, and of these the
    /// oldest.
    pub fn take(&mut self, wanted: u64) -> Option<SigInfo> {
        let found = self.set & wanted;
        if found == 0 {
            return None;
        }
        let signal = found.trailing_zeros() as i32 + 1;
        let at = self.infos.iter().position(|info| info.signal == signal)?;
        let info = self.infos.remove(at)?;
        if !self.infos.iter().any(|other| other.signal == signal) {
            self.set &= !bit(signal);
        }
        Some(info)
    }

    fn discard(&mut self, signals: u64) {
        self.set &= !signals;
        self.infos.retain(|info| bit(info.signal) & signals == 0);
    }
}

/// The action of a process for a signal (`sigaction(2)`).
#[derive(Clone, Copy, Default)]
pub struct SigAction {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

/// The actions for all signals.
pub struct SigActions(pub spin::Mutex<[SigAction; NSIG as usize]>);

impl SigActions {
    pub fn new() -> Self {
        SigActions(spin::Mutex::new([SigAction::default(); NSIG as usize]))
    }

    pub fn copy(&self) -> Self {
        SigActions(spin::Mutex::new(*self.0.lock()))
    }

    pub fn get(&self, signal: i32) -> SigAction {
        self.0.lock()[signal as usize - 1]
    }

    pub fn set(&self, signal: i32, action: SigAction) {
        self.0.lock()[signal as usize - 1] = action;
    }

    /// Resets caught signals to their defaults for a new program. Ignored signals stay ignored.
    pub fn reset(&self) {
        for action in self.0.lock().iter_mut() {
            let handler = if action.handler == SIG_IGN { SIG_IGN } else { SIG_DFL };
            *action = SigAction { handler, ..SigAction::default() };
        }
    }
}

/// Returns `true` if the process ignores the signal, by its choice or by default.
fn is_ignored(process: &Process, signal: i32) -> bool {
    let action = process.actions.lock().get(signal);
    action.handler == SIG_IGN || action.handler == SIG_DFL && bit(signal) & DEFAULT_IGNORED != 0
}

/// Sends a signal to a process. Any of its threads may take it. Signal 0 does nothing.
pub fn send(process: &Arc<Process>, info: &SigInfo) {
    if !prepare_signal(process, info.signal) {
        return;
    }
    let threads = process.threads.lock().clone();
    let blocked_by_all =
        threads.iter().all(|thread| thread.signals.lock().mask & bit(info.signal) != 0);
    if is_ignored(process, info.signal) && !blocked_by_all {
        return;
    }
    process.pending.lock().add(info);
    threads.iter().for_each(scheduler::signal_wake_up);
}

/// Sends a signal to one thread. Signal 0 does nothing.
pub fn send_to_thread(thread: &Arc<Thread>, info: &SigInfo) {
    if !prepare_signal(&thread.process, info.signal) {
        return;
    }
    let mut signals = thread.signals.lock();
    if is_ignored(&thread.process, info.signal) && signals.mask & bit(info.signal) == 0 {
        return;
    }
    signals.pending.add(info);
    drop(signals);
    scheduler::signal_wake_up(thread);
}

/// Does what takes effect when a signal is sent, and returns `false` if the signal need not be
/// delivered.
///
/// `SIGCONT` and `SIGKILL` continue a stopped process. A `SIGCONT` discards pending stop signals,
/// and a stop signal discards a pending `SIGCONT`.
fn prepare_signal(process: &Arc<Process>, signal: i32) -> bool {
    if signal == 0 || process.is_ended() {
        return false;
    }
    let opposite = match signal {
        SIGCONT => STOP_SIGNALS,
        _ if bit(signal) & STOP_SIGNALS != 0 => bit(SIGCONT),
        _ => 0,
    };
    if opposite != 0 {
        process.pending.lock().discard(opposite);
        for thread in process.threads.lock().iter() {
            thread.signals.lock().pending.discard(opposite);
        }
    }
    if signal == SIGCONT || signal == SIGKILL {
        // Incremented after the stop signals were discarded, so that a stop signal that a thread
        // has taken already has no effect.
        process.continue_count.fetch_add(1, Ordering::SeqCst);
        exit::resume(process, signal == SIGCONT);
    }
    true
}

/// Sends a signal to all processes of a group. Returns `false` if the group is empty.
pub fn send_to_group(group: i32, info: &SigInfo) -> bool {
    let mut found = false;
    for process in table::processes() {
        if process.pgid.load(Ordering::Relaxed) == group && !process.is_ended() {
            found = true;
            send(&process, info);
        }
    }
    found
}

/// Sends a signal that the thread's own instruction caused. If the signal is masked or ignored, it
/// takes its default action.
pub fn force(thread: &Arc<Thread>, info: &SigInfo) {
    let mut signals = thread.signals.lock();
    let actions = thread.process.actions.lock().clone();
    let action = &mut actions.0.lock()[info.signal as usize - 1];
    if signals.mask & bit(info.signal) != 0 || action.handler == SIG_IGN {
        action.handler = SIG_DFL;
        signals.mask &= !bit(info.signal);
    }
    signals.forced.push_back(*info);
    scheduler::recheck_signals();
}

/// Returns `true` if the thread must stop waiting.
pub(super) fn has_pending(thread: &Thread) -> bool {
    if thread.process.exiting.load(Ordering::Relaxed) {
        return true;
    }
    let stopped = is_stopped(&thread.process);
    let signals = thread.signals.lock();
    let pending = signals.pending.set | thread.process.pending.lock().set;
    let open = if stopped { bit(SIGKILL) } else { !signals.mask };
    pending & open != 0 || !signals.forced.is_empty()
}

/// Takes the next signal that the thread does not mask.
fn next(thread: &Thread) -> Option<SigInfo> {
    let mut signals = thread.signals.lock();
    if let Some(forced) = signals.forced.pop_front() {
        return Some(forced);
    }
    let open = !signals.mask;
    signals.pending.take(open).or_else(|| thread.process.pending.lock().take(open))
}

/// Delivers one pending signal. Returns `true` if more signals may be pending.
pub(super) fn deliver(thread: &Thread, frame: &mut Frame) -> bool {
    exit::wait_while_stopped(thread);
    if thread.is_ending() {
        return false;
    }
    let continues = thread.process.continue_count.load(Ordering::SeqCst);
    let Some(info) = next(thread) else {
        finish_syscall(frame, None);
        let mut signals = thread.signals.lock();
        signals.mask = signals.saved_mask.take().unwrap_or(signals.mask);
        return false;
    };
    let actions = thread.process.actions.lock().clone();
    let action = actions.get(info.signal);
    match action.handler {
        SIG_IGN => {}
        SIG_DFL => default_action(thread, &info, continues),
        handler => {
            finish_syscall(frame, Some(action.flags));
            if action.flags & SA_RESETHAND != 0 {
                actions.0.lock()[info.signal as usize - 1].handler = SIG_DFL;
            }
            if !call_handler(thread, frame, &info, &action, handler) {
                // The handler's frame does not fit on the stack.
                exit_group(&thread.process, SIGSEGV);
            }
        }
    }
    true
}

/// Takes the default action for a signal. `continues` is the process's `continue_count` from before
/// the signal was taken.
fn default_action(thread: &Thread, info: &SigInfo, continues: u64) {
    let signal = info.signal;
    match bit(signal) {
        set if set & DEFAULT_IGNORED != 0 => {}
        set if set & STOP_SIGNALS != 0 => {
            // An orphaned group does not stop, because no shell would continue it.
            if signal == SIGSTOP || !exit::is_orphaned_group(&thread.process) {
                exit::stop(&thread.process, signal, continues);
            }
        }
        // Signals of other processes do not end the first process. Signals of its own do, so that
        // the machine ends with the program's status.
        _ if thread.process.pid == 1 && info.code <= 0 && info.rest[0] as i32 != 1 => {}
        _ => exit_group(&thread.process, signal),
    }
}

/// Restarts a call that a signal interrupted, or makes it return `EINTR`.
fn finish_syscall(frame: &mut Frame, handler_flags: Option<u64>) {
    if frame.result() != Some(-i64::from(ERESTARTSYS.0)) {
        return;
    }
    if handler_flags.is_none_or(|flags| flags & SA_RESTART != 0) {
        frame.restart();
    } else {
        frame.set_result(-i64::from(Errno::EINTR.0));
    }
}

/// The state of an interrupted program that the signal frame on its stack saves, and the data of
/// the handler.
pub struct SigContext {
    pub info: [u8; 128],
    pub mask: u64,
    pub altstack: (u64, i32, u64),
    pub handler: u64,
    /// The address to which the handler returns.
    pub restorer: u64,
    /// The stack pointer below which the frame is written.
    pub stack: u64,
    pub signal: i32,
}

/// Makes the frame run the handler. Returns `false` if the signal frame cannot be written.
fn call_handler(
    thread: &Thread,
    frame: &mut Frame,
    info: &SigInfo,
    action: &SigAction,
    handler: u64,
) -> bool {
    let mut signals = thread.signals.lock();
    let mask = signals.saved_mask.take().unwrap_or(signals.mask);
    let (base, flags, size) = signals.altstack;
    let on_it = is_on_altstack(signals.altstack, frame.sp());
    let stack = if action.flags & SA_ONSTACK != 0 && size != 0 && !on_it {
        base + size
    } else {
        frame.red_zone()
    };
    let interrupted = SigContext {
        info: info.bytes(),
        mask,
        altstack: (base, if on_it { 1 } else { flags }, size),
        handler,
        restorer: match action.restorer {
            given if action.flags & SA_RESTORER != 0 && given != 0 => given,
            _ => thread.process.signal_return.load(Ordering::Relaxed),
        },
        stack,
        signal: info.signal,
    };
    signals.mask |= action.mask & !UNMASKABLE;
    if action.flags & SA_NODEFER == 0 {
        signals.mask |= bit(info.signal);
    }
    drop(signals);
    let memory = thread.process.memory();
    arch::push_signal(frame, &interrupted, &mut |at, bytes| {
        oom::copy_in(&memory, at, bytes) == bytes.len()
    })
}

/// Returns `true` if the stack pointer lies in the alternate stack.
pub fn is_on_altstack((base, _, size): (u64, i32, u64), sp: u64) -> bool {
    size != 0 && sp > base && sp <= base + size
}

/// Performs `rt_sigreturn(2)`: restores the state that the handler interrupted.
pub fn sigreturn(thread: &Arc<Thread>, frame: &mut Frame) {
    let memory = thread.process.memory();
    match arch::pop_signal(frame, &mut |at, bytes| oom::copy_out(&memory, at, bytes) == bytes.len())
    {
        Some((mask, alternate)) => {
            let mut signals = thread.signals.lock();
            signals.mask = mask & !UNMASKABLE;
            signals.altstack = (alternate.0, alternate.1 & !1, alternate.2);
        }
        None => force(thread, &SigInfo::kernel(SIGSEGV)),
    }
}

/// Sends `SIGALRM` for each timer of `setitimer(2)` that has expired.
pub(super) fn expire_alarms(now: u64) {
    for process in table::processes() {
        let mut alarm = process.alarm.lock();
        if let Some((at, interval)) = *alarm
            && at <= now
        {
            *alarm = (interval > 0).then_some((now + interval, interval));
            drop(alarm);
            send(&process, &SigInfo::kernel(SIGALRM));
        }
    }
}

/// Returns `true` if the process is stopped.
pub fn is_stopped(process: &Process) -> bool {
    matches!(*process.state.lock(), State::Stopped(..))
}
