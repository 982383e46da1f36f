//! System calls for thread libraries.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use samara_mm::Errno;
use syscalls::Sysno;

use super::{Call, Outcome, time, user};
use crate::arch::{Arch, Machine};
use crate::process::{Thread, find_thread, futex, scheduler, signals::ERESTARTSYS};

pub(super) fn dispatch(name: Sysno, call: &mut Call<'_>) -> Option<Outcome> {
    let [a, b, c, ..] = call.args;
    Some(match name {
        Sysno::futex => futex_call(call),
        Sysno::set_tid_address => {
            call.thread.clear_tid.store(a, Ordering::Relaxed);
            Ok(call.thread.tid.into())
        }
        Sysno::set_robust_list => {
            call.thread.robust_list.store(a, Ordering::Relaxed);
            if b == 24 { Ok(0) } else { Err(Errno::EINVAL) }
        }
        Sysno::get_robust_list => robust_list(call, a as i32, b, c),
        // Thread libraries work without restartable sequences.
        Sysno::rseq => Err(Errno::ENOSYS),
        Sysno::membarrier => Err(Errno::ENOSYS),
        Sysno::sched_getaffinity => affinity(call, a as i32, b, c),
        Sysno::sched_setaffinity => set_affinity(call, a as i32, b, c),
        Sysno::sched_getscheduler => Ok(0),
        Sysno::sched_setscheduler | Sysno::sched_setparam => Ok(0),
        Sysno::sched_getparam => user::write(&call.memory(), b, &0i32).map(|()| 0),
        Sysno::sched_get_priority_max | Sysno::sched_get_priority_min => Ok(0),
        Sysno::getcpu => {
            let (memory, here) = (call.memory(), Arch::processor() as u32);
            let written = user::write_if(&memory, a, &here);
            written.and_then(|()| user::write_if(&memory, b, &0u32)).map(|()| 0)
        }
        _ => return None,
    })
}

const FUTEX_PRIVATE: u32 = 128;
const FUTEX_CLOCK_REALTIME: u32 = 256;

fn futex_call(call: &Call<'_>) -> Outcome {
    let [word, operation, value, limit, other, bits] = call.args;
    let operation = operation as u32;
    let private = operation & FUTEX_PRIVATE != 0;
    let memory = call.memory();
    match operation & !(FUTEX_PRIVATE | FUTEX_CLOCK_REALTIME) {
        command @ (0 | 9) => {
            let deadline = match limit {
                0 => None,
                // `FUTEX_WAIT` has a relative timeout, `FUTEX_WAIT_BITSET` an absolute one.
                at if command == 0 => time::deadline_after(call, at)?,
                at => {
                    Some(time::absolute_deadline(call, at, operation & FUTEX_CLOCK_REALTIME != 0)?)
                }
            };
            let bits = if command == 0 { u32::MAX } else { bits as u32 };
            match futex::wait(call.thread, word, private, value as u32, bits, deadline) {
                Err(Errno::EINTR) if deadline.is_none() => Err(ERESTARTSYS),
                result => result.map(|()| 0),
            }
        }
        1 => futex::wake(&memory, word, private, value as u32, u32::MAX).map(i64::from),
        10 if bits as u32 == 0 => Err(Errno::EINVAL),
        10 => futex::wake(&memory, word, private, value as u32, bits as u32).map(i64::from),
        command @ (3 | 4) => {
            let expected = (command == 4).then_some(bits as u32);
            let (woken, moved) = (value as u32, limit as u32);
            futex::requeue(&memory, word, other, private, woken, moved, expected).map(i64::from)
        }
        5 => wake_op(call, private),
        _ => Err(Errno::ENOSYS),
    }
}

/// Performs `FUTEX_WAKE_OP`: changes the second word, wakes waiters on the first, and waiters on
/// the second if its old value passes the comparison.
fn wake_op(call: &Call<'_>, private: bool) -> Outcome {
    let [word, _, count, second_count, other, code] = call.args;
    let code = code as u32;
    let (operation, compare) = (code >> 28 & 7, code >> 24 & 15);
    let signed = |bits: u32| ((bits << 20) as i32) >> 20;
    let (mut argument, with) = (signed(code >> 12), signed(code));
    if code >> 31 != 0 {
        argument = 1i32.wrapping_shl(argument as u32);
    }
    let argument = argument as u32;
    let memory = call.memory();
    let change = |word: &core::sync::atomic::AtomicU32| match operation {
        0 => Ok(word.swap(argument, Ordering::SeqCst)),
        1 => Ok(word.fetch_add(argument, Ordering::SeqCst)),
        2 => Ok(word.fetch_or(argument, Ordering::SeqCst)),
        3 => Ok(word.fetch_and(!argument, Ordering::SeqCst)),
        4 => Ok(word.fetch_xor(argument, Ordering::SeqCst)),
        _ => Err(Errno::ENOSYS),
    };
    let before = memory.atomic_u32(other, change).map_err(|_| Errno::EFAULT)?? as i32;
    let mut woken = futex::wake(&memory, word, private, count as u32, u32::MAX)?;
    let holds = match compare {
        0 => before == with,
        1 => before != with,
        2 => before < with,
        3 => before <= with,
        4 => before > with,
        5 => before >= with,
        _ => return Err(Errno::ENOSYS),
    };
    if holds {
        woken += futex::wake(&memory, other, private, second_count as u32, u32::MAX)?;
    }
    Ok(woken.into())
}

fn robust_list(call: &Call<'_>, tid: i32, head: u64, len: u64) -> Outcome {
    let thread = named(call, tid)?;
    let memory = call.memory();
    user::write(&memory, head, &thread.robust_list.load(Ordering::Relaxed))?;
    user::write(&memory, len, &24u64)?;
    Ok(0)
}

/// Returns the thread with this number, or the caller for 0.
fn named(call: &Call<'_>, tid: i32) -> Result<Arc<Thread>, Errno> {
    if tid == 0 { Ok(call.thread.clone()) } else { find_thread(tid).ok_or(Errno::ESRCH) }
}

fn affinity(call: &Call<'_>, tid: i32, len: u64, to: u64) -> Outcome {
    if len < 8 || !len.is_multiple_of(8) {
        return Err(Errno::EINVAL);
    }
    let affinity = named(call, tid)?.affinity.load(Ordering::Relaxed);
    user::write(&call.memory(), to, &(affinity & scheduler::online()))?;
    Ok(8)
}

fn set_affinity(call: &Call<'_>, tid: i32, len: u64, from: u64) -> Outcome {
    let mut processors = [0; 8];
    let len = len.min(8) as usize;
    if call.memory().copy_out(from, &mut processors[..len]) != len {
        return Err(Errno::EFAULT);
    }
    let set = scheduler::set_affinity(&named(call, tid)?, u64::from_le_bytes(processors));
    if set { Ok(0) } else { Err(Errno::EINVAL) }
}
