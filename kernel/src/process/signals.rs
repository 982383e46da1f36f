//! Signals: sent to a process or a thread, delivered on the way back to the program.

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
/// The highest number.
pub const LAST: i32 = 64;
/// From here on each signal that is sent is kept, also of one number.
const REAL_TIME: i32 = 32;

/// Signals of a process, or of a thread, that are kept. A further one is lost.
const MOST_PENDING: usize = 512;

const STOPS: u64 = bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU);
/// What cannot be caught, ignored or masked.
pub const UNMASKABLE: u64 = bit(SIGKILL) | bit(SIGSTOP);
/// Signals that do nothing unless they are caught.
const HARMLESS: u64 = bit(SIGCHLD) | bit(SIGCONT) | bit(SIGURG) | bit(SIGWINCH);

/// The program has given what a handler returns to; otherwise the word for it says nothing.
pub const SA_RESTORER: u64 = 0x0400_0000;

const SIG_DFL: u64 = 0;
const SIG_IGN: u64 = 1;

const SI_USER: i32 = 0;
const SI_KERNEL: i32 = 0x80;
const SI_TKILL: i32 = -6;

/// Results of calls that a signal interrupted, which no program sees.
pub const RESTART_ALWAYS: i64 = -512;
/// Restarted unless a handler runs that was set without `SA_RESTART`.
pub const RESTART: i64 = -513;

pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// What a handler gets as `siginfo_t`, without its padding.
#[derive(Clone, Copy, Debug, Default)]
pub struct Info {
    pub signal: i32,
    pub code: i32,
    /// The words from byte 16 on: sender's process and user, status or value; or an address.
    pub rest: [u64; 3],
}

impl Info {
    pub fn fault(signal: i32, code: i32, address: u64) -> Self {
        Info { signal, code, rest: [address, 0, 0] }
    }

    pub fn kernel(signal: i32) -> Self {
        Info { signal, code: SI_KERNEL, rest: [0; 3] }
    }

    pub fn user(signal: i32, sender: i32) -> Self {
        Info { signal, code: SI_USER, rest: [sender as u64, 0, 0] }
    }

    pub fn thread(signal: i32, sender: i32) -> Self {
        Info { signal, code: SI_TKILL, rest: [sender as u64, 0, 0] }
    }

    pub fn child(code: i32, child: i32, status: i32) -> Self {
        Info { signal: SIGCHLD, code, rest: [child as u32 as u64, status as u32 as u64, 0] }
    }

    pub fn of_bytes(bytes: &[u8; 128]) -> Self {
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
        let code = (word(8) & 0xffff_ffff) as i32;
        Info { signal: word(0) as i32, code, rest: [word(16), word(24), word(32)] }
    }

    /// As it lies in memory.
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

/// Signals that were sent and not delivered.
pub struct Pending {
    pub set: u64,
    infos: VecDeque<Info>,
}

impl Pending {
    pub const fn new() -> Self {
        Pending { set: 0, infos: VecDeque::new() }
    }

    fn add(&mut self, info: &Info) {
        if info.signal < REAL_TIME && self.set & bit(info.signal) != 0 {
            return;
        }
        if self.infos.len() < MOST_PENDING {
            self.set |= bit(info.signal);
            self.infos.push_back(*info);
        }
    }

    /// Takes the first signal of this set: the lowest number, and of one number the oldest.
    pub fn take(&mut self, wanted: u64) -> Option<Info> {
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

/// What a process does with a signal (`sigaction(2)`).
#[derive(Clone, Copy, Default)]
pub struct Action {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

/// The actions of all signals.
pub struct Actions(pub spin::Mutex<[Action; LAST as usize]>);

impl Actions {
    pub fn new() -> Self {
        Actions(spin::Mutex::new([Action::default(); LAST as usize]))
    }

    pub fn copy(&self) -> Self {
        Actions(spin::Mutex::new(*self.0.lock()))
    }

    pub fn get(&self, signal: i32) -> Action {
        self.0.lock()[signal as usize - 1]
    }

    pub fn set(&self, signal: i32, action: Action) {
        self.0.lock()[signal as usize - 1] = action;
    }

    /// What a new program inherits: what is ignored stays so, handlers are gone.
    pub fn reset(&self) {
        for action in self.0.lock().iter_mut() {
            let handler = if action.handler == SIG_IGN { SIG_IGN } else { SIG_DFL };
            *action = Action { handler, ..Action::default() };
        }
    }
}

/// Returns `true` if the process does nothing about a signal.
fn is_ignored(process: &Process, signal: i32) -> bool {
    let action = process.actions.lock().get(signal);
    action.handler == SIG_IGN || action.handler == SIG_DFL && bit(signal) & HARMLESS != 0
}

/// Sends a signal to a process; any of its threads may take it. Signal 0 does nothing.
pub fn send(process: &Arc<Process>, info: &Info) {
    if !arrives(process, info.signal) {
        return;
    }
    let threads = process.threads.lock().clone();
    let blocked_by_all =
        threads.iter().all(|thread| thread.signals.lock().mask & bit(info.signal) != 0);
    if is_ignored(process, info.signal) && !blocked_by_all {
        return;
    }
    process.pending.lock().add(info);
    threads.iter().for_each(scheduler::notify);
}

/// Sends a signal to one thread. Signal 0 does nothing.
pub fn send_to_thread(thread: &Arc<Thread>, info: &Info) {
    if !arrives(&thread.process, info.signal) {
        return;
    }
    let mut signals = thread.signals.lock();
    if is_ignored(&thread.process, info.signal) && signals.mask & bit(info.signal) == 0 {
        return;
    }
    signals.pending.add(info);
    drop(signals);
    scheduler::notify(thread);
}

/// What a signal does as soon as it is sent: one that continues ends the stop and what would stop, and the other way round.
fn arrives(process: &Arc<Process>, signal: i32) -> bool {
    if signal == 0 || process.is_ended() {
        return false;
    }
    let opposite = match signal {
        SIGCONT => STOPS,
        _ if bit(signal) & STOPS != 0 => bit(SIGCONT),
        _ => 0,
    };
    if opposite != 0 {
        process.pending.lock().discard(opposite);
        for thread in process.threads.lock().iter() {
            thread.signals.lock().pending.discard(opposite);
        }
    }
    if signal == SIGCONT || signal == SIGKILL {
        // After the stops were discarded: one that a thread has taken already is none any more.
        process.continues.fetch_add(1, Ordering::SeqCst);
        exit::resume(process, signal == SIGCONT);
    }
    true
}

/// Sends a signal to all processes of a group. Returns `false` if there are none.
pub fn send_to_group(group: i32, info: &Info) -> bool {
    let mut found = false;
    for process in table::processes() {
        if process.group.load(Ordering::Relaxed) == group && !process.is_ended() {
            found = true;
            send(&process, info);
        }
    }
    found
}

/// Forces a signal that the thread's own instruction caused: if it is masked or ignored, the process ends.
pub fn force(thread: &Arc<Thread>, info: &Info) {
    let mut signals = thread.signals.lock();
    let actions = thread.process.actions.lock().clone();
    let action = &mut actions.0.lock()[info.signal as usize - 1];
    if signals.mask & bit(info.signal) != 0 || action.handler == SIG_IGN {
        action.handler = SIG_DFL;
        signals.mask &= !bit(info.signal);
    }
    signals.forced.push_back(*info);
    scheduler::look();
}

/// Returns `true` if a thread that waits is to stop waiting.
pub(super) fn is_waited_for(thread: &Thread) -> bool {
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
fn next(thread: &Thread) -> Option<Info> {
    let mut signals = thread.signals.lock();
    if let Some(forced) = signals.forced.pop_front() {
        return Some(forced);
    }
    let open = !signals.mask;
    signals.pending.take(open).or_else(|| thread.process.pending.lock().take(open))
}

/// Delivers one signal, if there is one. Returns `true` if there may be more to do.
pub(super) fn deliver(thread: &Thread, frame: &mut Frame) -> bool {
    exit::wait_while_stopped(thread);
    if thread.is_ending() {
        return false;
    }
    let continues = thread.process.continues.load(Ordering::SeqCst);
    let Some(info) = next(thread) else {
        finish_call(frame, None);
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
            finish_call(frame, Some(action.flags));
            if action.flags & SA_RESETHAND != 0 {
                actions.0.lock()[info.signal as usize - 1].handler = SIG_DFL;
            }
            if !call_handler(thread, frame, &info, &action, handler) {
                // There is no room for the frame.
                exit_group(&thread.process, SIGSEGV);
            }
        }
    }
    true
}

/// What happens without a handler. `continues`: how often the process had been continued before the signal was taken.
fn default_action(thread: &Thread, info: &Info, continues: u64) {
    let signal = info.signal;
    match bit(signal) {
        set if set & HARMLESS != 0 => {}
        set if set & STOPS != 0 => {
            // A process group without a shell that would continue it does not stop.
            if signal == SIGSTOP || !exit::is_orphaned(&thread.process) {
                exit::stop(&thread.process, signal, continues);
            }
        }
        // No other process ends the first one; itself it ends as any does, so that the machine's status is that of its program.
        _ if thread.process.pid == 1 && info.code <= 0 && info.rest[0] as i32 != 1 => {}
        _ => exit_group(&thread.process, signal),
    }
}

/// The result of a call that was interrupted: restarted, or `EINTR`.
fn finish_call(frame: &mut Frame, handler_flags: Option<u64>) {
    match frame.result() {
        Some(RESTART_ALWAYS) if handler_flags.is_none() => frame.restart(),
        Some(RESTART) if handler_flags.is_none_or(|flags| flags & SA_RESTART != 0) => {
            frame.restart()
        }
        Some(RESTART | RESTART_ALWAYS) => frame.set_result(-i64::from(Errno::EINTR.0)),
        _ => {}
    }
}

/// Everything that a handler's frame on the stack keeps of the program it interrupts.
pub struct Interrupted {
    pub info: [u8; 128],
    pub mask: u64,
    pub alternate: (u64, i32, u64),
    pub handler: u64,
    /// What the handler returns to.
    pub restorer: u64,
    /// Where the stack is that the frame goes on.
    pub stack: u64,
    pub signal: i32,
}

/// Makes the frame run the handler. Returns `false` if its frame on the stack cannot be written.
fn call_handler(
    thread: &Thread,
    frame: &mut Frame,
    info: &Info,
    action: &Action,
    handler: u64,
) -> bool {
    let mut signals = thread.signals.lock();
    let mask = signals.saved_mask.take().unwrap_or(signals.mask);
    let (base, flags, size) = signals.alternate;
    let on_it = is_on_alternate(signals.alternate, frame.sp());
    let stack = if action.flags & SA_ONSTACK != 0 && size != 0 && !on_it {
        base + size
    } else {
        frame.red_zone()
    };
    let interrupted = Interrupted {
        info: info.bytes(),
        mask,
        alternate: (base, if on_it { 1 } else { flags }, size),
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

/// Returns `true` if a stack pointer lies in the alternate stack.
pub fn is_on_alternate((base, _, size): (u64, i32, u64), sp: u64) -> bool {
    size != 0 && sp > base && sp <= base + size
}

/// `rt_sigreturn(2)`: the program goes on where the handler interrupted it.
pub fn sigreturn(thread: &Arc<Thread>, frame: &mut Frame) {
    let memory = thread.process.memory();
    match arch::pop_signal(frame, &mut |at, bytes| oom::copy_out(&memory, at, bytes) == bytes.len())
    {
        Some((mask, alternate)) => {
            let mut signals = thread.signals.lock();
            signals.mask = mask & !UNMASKABLE;
            signals.alternate = (alternate.0, alternate.1 & !1, alternate.2);
        }
        None => force(thread, &Info::kernel(SIGSEGV)),
    }
}

/// Sends what `setitimer(2)` asked for.
pub(super) fn alarms(now: u64) {
    for process in table::processes() {
        let mut alarm = process.alarm.lock();
        if let Some((at, interval)) = *alarm
            && at <= now
        {
            *alarm = (interval > 0).then_some((now + interval, interval));
            drop(alarm);
            send(&process, &Info::kernel(SIGALRM));
        }
    }
}

/// Returns `true` for a process that is stopped.
pub fn is_stopped(process: &Process) -> bool {
    matches!(*process.state.lock(), State::Stopped(..))
}
