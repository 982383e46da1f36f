//! System calls about signals.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use samara_mm::Errno;
use syscalls::Sysno;

use super::{Call, FRAME_REPLACED, Outcome, time, user};
use crate::arch::{Arch, Machine, UserFrame};
use crate::process::signals::{self, NSIG, SIGKILL, SIGSTOP, SigAction, SigInfo, UNMASKABLE};
use crate::process::wait;
use crate::process::{Thread, find, find_thread, scheduler};

pub(super) fn dispatch(name: Sysno, call: &mut Call<'_>) -> Option<Outcome> {
    let [a, b, c, d, _, _] = call.args;
    Some(match name {
        Sysno::rt_sigaction => action(call, a as i32, b, c, d),
        Sysno::rt_sigprocmask => mask(call, a, b, c, d),
        Sysno::rt_sigpending => {
            let set =
                call.thread.signals.lock().pending.set | call.thread.process.pending.lock().set;
            user::write(&call.memory(), a, &set).map(|()| 0)
        }
        Sysno::rt_sigsuspend => {
            user::read::<u64>(&call.memory(), a).and_then(|set| suspend(call, set))
        }
        Sysno::rt_sigtimedwait => timed_wait(call, a, b, c),
        Sysno::rt_sigreturn => {
            signals::sigreturn(call.thread, call.frame);
            Ok(FRAME_REPLACED)
        }
        Sysno::sigaltstack => alternate(call, a, b),
        Sysno::rt_sigqueueinfo => queue(call, None, a as i32, b as i32, c),
        Sysno::rt_tgsigqueueinfo => queue(call, Some(a as i32), b as i32, c as i32, d),
        Sysno::kill => kill(call, a as i32, b as i32),
        Sysno::tkill => to_thread(call, None, a as i32, b as i32),
        Sysno::tgkill => to_thread(call, Some(a as i32), b as i32, c as i32),
        _ => return None,
    })
}

fn checked(signal: i32) -> Result<i32, Errno> {
    if (0..=NSIG).contains(&signal) { Ok(signal) } else { Err(Errno::EINVAL) }
}

/// Performs `rt_sigaction(2)`. The structure has handler, flags, the restorer if the architecture
/// has one, and mask.
fn action(call: &Call<'_>, signal: i32, new: u64, old: u64, size: u64) -> Outcome {
    if size != 8 || checked(signal)? == 0 {
        return Err(Errno::EINVAL);
    }
    let memory = call.memory();
    let wanted = match (new, Arch::HAS_RESTORER) {
        (0, _) => None,
        (_, true) => Some(user::read::<[u64; 4]>(&memory, new)?),
        (_, false) => {
            let [handler, flags, mask] = user::read(&memory, new)?;
            Some([handler, flags, 0, mask])
        }
    };
    if wanted.is_some() && matches!(signal, SIGKILL | SIGSTOP) {
        return Err(Errno::EINVAL);
    }
    let actions = call.thread.process.actions.lock().clone();
    let before = actions.get(signal);
    if let Some([handler, flags, restorer, mask]) = wanted {
        actions.set(signal, SigAction { handler, flags, restorer, mask: mask & !UNMASKABLE });
    }
    let SigAction { handler, flags, restorer, mask } = before;
    if Arch::HAS_RESTORER {
        user::write_if(&memory, old, &[handler, flags, restorer, mask])?;
    } else {
        user::write_if(&memory, old, &[handler, flags, mask])?;
    }
    Ok(0)
}

fn mask(call: &Call<'_>, how: u64, new: u64, old: u64, size: u64) -> Outcome {
    if size != 8 {
        return Err(Errno::EINVAL);
    }
    let memory = call.memory();
    let set = if new == 0 { None } else { Some(user::read::<u64>(&memory, new)?) };
    let before = call.thread.signals.lock().mask;
    if let Some(set) = set {
        let mask = match how {
            0 => before | set,
            1 => before & !set,
            2 => set,
            _ => return Err(Errno::EINVAL),
        };
        call.thread.signals.lock().mask = mask & !UNMASKABLE;
        scheduler::recheck_signals();
    }
    user::write_if(&memory, old, &before)?;
    Ok(0)
}

/// Waits for a signal with another mask. The old mask is restored on the way to the program.
fn suspend(call: &Call<'_>, set: u64) -> Outcome {
    {
        let mut signals = call.thread.signals.lock();
        signals.saved_mask = Some(signals.mask);
        signals.mask = set & !UNMASKABLE;
    }
    let _ = wait::until::<()>(&[], None, || None);
    Err(Errno::EINTR)
}

/// Performs a call with the mask at this address. Without an address (0), the mask stays.
pub(super) fn with_mask(call: &Call<'_>, at: u64, perform: impl FnOnce() -> Outcome) -> Outcome {
    if at == 0 {
        return perform();
    }
    let set = user::read::<u64>(&call.memory(), at)?;
    let before = core::mem::replace(&mut call.thread.signals.lock().mask, set & !UNMASKABLE);
    let outcome = perform();
    scheduler::recheck_signals();
    let mut signals = call.thread.signals.lock();
    if outcome == Err(Errno::EINTR) {
        // The handler runs with the new mask. `deliver` restores the old one afterwards.
        signals.saved_mask = Some(before);
    } else {
        signals.mask = before;
    }
    outcome
}

fn timed_wait(call: &Call<'_>, set: u64, to: u64, limit: u64) -> Outcome {
    let memory = call.memory();
    let set = user::read::<u64>(&memory, set)? & !UNMASKABLE;
    let deadline = time::deadline_after(call, limit)?;
    let thread = call.thread;
    // The awaited signals are unmasked during the wait, so that they wake the thread.
    let before = thread.signals.lock().mask;
    thread.signals.lock().mask = before & !set;
    let look = || {
        let found = thread.signals.lock().pending.take(set);
        found.or_else(|| thread.process.pending.lock().take(set))
    };
    let result = wait::until(&[], deadline, look);
    thread.signals.lock().mask = before;
    let info = result.map_err(|ended| {
        if ended == wait::WaitError::TimedOut { Errno::EAGAIN } else { Errno::EINTR }
    })?;
    user::write_if(&memory, to, &info.bytes())?;
    Ok(info.signal.into())
}

/// Performs `sigaltstack(2)`. The structure has address, flags and size.
fn alternate(call: &Call<'_>, new: u64, old: u64) -> Outcome {
    const DISABLE: i32 = 2;
    const SMALLEST: u64 = linux_raw_sys::general::MINSIGSTKSZ as u64;
    let memory = call.memory();
    let wanted = if new == 0 { None } else { Some(user::read::<[u64; 3]>(&memory, new)?) };
    let before = call.thread.signals.lock().altstack;
    let on_it = signals::is_on_altstack(before, call.frame.sp());
    if let Some([base, flags, size]) = wanted {
        if on_it {
            return Err(Errno::EPERM);
        }
        call.thread.signals.lock().altstack = match flags as i32 {
            DISABLE => (0, DISABLE, 0),
            _ if size < SMALLEST => return Err(Errno::ENOMEM),
            0 | 1 => (base, 0, size),
            _ => return Err(Errno::EINVAL),
        };
    }
    let flags = if on_it { 1 } else { before.1 };
    user::write_if(&memory, old, &[before.0, flags as u64, before.2])?;
    Ok(0)
}

fn kill(call: &Call<'_>, pid: i32, signal: i32) -> Outcome {
    let signal = checked(signal)?;
    let own = &call.thread.process;
    let info = SigInfo::user(signal, own.pid);
    let found = match pid {
        0 => signals::send_to_group(own.pgid.load(Ordering::Relaxed), &info),
        -1 => {
            let others = crate::process::processes();
            let others = others.iter().filter(|other| other.pid != 1 && other.pid != own.pid);
            others.inspect(|other| signals::send(other, &info)).count() > 0
        }
        ..0 => signals::send_to_group(-pid, &info),
        _ => {
            signals::send(&find(pid).ok_or(Errno::ESRCH)?, &info);
            true
        }
    };
    if found { Ok(0) } else { Err(Errno::ESRCH) }
}

/// Sends a signal with the caller's `siginfo_t` to a process or one of its threads.
fn queue(call: &Call<'_>, process: Option<i32>, to: i32, signal: i32, info: u64) -> Outcome {
    let signal = checked(signal)?;
    let bytes: [u8; 128] = user::read(&call.memory(), info)?;
    let info = SigInfo { signal, ..SigInfo::of_bytes(&bytes) };
    // Only the kernel may send another process a signal as its own or as that of `kill(2)`.
    if info.code >= 0 && to != call.thread.process.pid {
        return Err(Errno::EPERM);
    }
    match process {
        None => signals::send(&find(to).ok_or(Errno::ESRCH)?, &info),
        pid => signals::send_to_thread(&thread_of(pid, to)?, &info),
    }
    Ok(0)
}

/// Returns the thread with this number. If `process` is given, the thread must belong to it.
fn thread_of(process: Option<i32>, tid: i32) -> Result<Arc<Thread>, Errno> {
    let thread = find_thread(tid);
    let thread = thread.filter(|thread| process.is_none_or(|pid| thread.process.pid == pid));
    thread.ok_or(Errno::ESRCH)
}

fn to_thread(call: &Call<'_>, process: Option<i32>, tid: i32, signal: i32) -> Outcome {
    let signal = checked(signal)?;
    if tid <= 0 {
        return Err(Errno::EINVAL);
    }
    let info = SigInfo::thread(signal, call.thread.process.pid);
    signals::send_to_thread(&thread_of(process, tid)?, &info);
    Ok(0)
}
