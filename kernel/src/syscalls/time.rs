//! System calls about clocks, sleeping and timers.

use core::sync::atomic::Ordering;

use samara_mm::Errno;
use syscalls::Sysno;

use super::{Call, Outcome, user};
use crate::arch::{Arch, Machine};
use crate::fs::wall_time;
use crate::process::wait::{self, WaitError};

pub(super) fn dispatch(name: Sysno, call: &mut Call<'_>) -> Option<Outcome> {
    let [a, b, c, d, ..] = call.args;
    Some(match name {
        Sysno::clock_gettime => read_clock(call, a).and_then(|now| write_time(call, b, now)),
        Sysno::clock_getres => {
            read_clock(call, a).and_then(|_| if b == 0 { Ok(0) } else { write_time(call, b, 1) })
        }
        Sysno::gettimeofday => time_of_day(call, a, b),
        Sysno::nanosleep => sleep(call, 1, false, a, b),
        Sysno::clock_nanosleep => sleep(call, a, b & 1 != 0, c, d),
        Sysno::setitimer => set_timer(call, a, b, c),
        Sysno::getitimer => get_timer(call, a, b),
        _ => return None,
    })
}

const CLOCK_REALTIME: u64 = 0;

fn read_clock(call: &Call<'_>, clock: u64) -> Result<u64, Errno> {
    match clock {
        CLOCK_REALTIME | 5 | 11 => Ok(wall_time()),
        1 | 4 | 6 | 7 => Ok(Arch::now()),
        2 => Ok(call.thread.process.time.load(Ordering::Relaxed)),
        3 => Ok(call.thread.time.load(Ordering::Relaxed)),
        _ => Err(Errno::EINVAL),
    }
}

fn write_time(call: &Call<'_>, to: u64, nanoseconds: u64) -> Outcome {
    user::write(&call.memory(), to, &[nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000])?;
    Ok(0)
}

fn time_of_day(call: &Call<'_>, to: u64, zone: u64) -> Outcome {
    let now = wall_time();
    let memory = call.memory();
    user::write_if(&memory, to, &[now / 1_000_000_000, now / 1000 % 1_000_000])?;
    user::write_if(&memory, zone, &0u64)?;
    Ok(0)
}

/// Reads a `timespec`, in nanoseconds.
fn read_time(call: &Call<'_>, at: u64) -> Result<u64, Errno> {
    let [seconds, rest] = user::read::<[u64; 2]>(&call.memory(), at)?;
    if rest >= 1_000_000_000 || (seconds as i64) < 0 {
        return Err(Errno::EINVAL);
    }
    Ok(seconds.saturating_mul(1_000_000_000).saturating_add(rest))
}

/// Returns the deadline of a relative timeout, or `None` if the address is null.
pub(super) fn deadline_after(call: &Call<'_>, at: u64) -> Result<Option<u64>, Errno> {
    if at == 0 {
        return Ok(None);
    }
    Ok(Some(Arch::now().saturating_add(read_time(call, at)?)))
}

/// Returns the deadline of an absolute timeout as a time of [`Machine::now`]. `real` selects
/// `CLOCK_REALTIME`.
pub(super) fn absolute_deadline(call: &Call<'_>, at: u64, real: bool) -> Result<u64, Errno> {
    let at = read_time(call, at)?;
    Ok(if real { at.saturating_sub(wall_time() - Arch::now()) } else { at })
}

fn sleep(call: &Call<'_>, clock: u64, is_absolute: bool, at: u64, left: u64) -> Outcome {
    read_clock(call, clock)?;
    let deadline = if is_absolute {
        absolute_deadline(call, at, clock == CLOCK_REALTIME)?
    } else {
        Arch::now().saturating_add(read_time(call, at)?)
    };
    match wait::until::<()>(&[], Some(deadline), || None) {
        Err(WaitError::Interrupted) => {
            if !is_absolute && left != 0 {
                write_time(call, left, deadline.saturating_sub(Arch::now()))?;
            }
            Err(Errno::EINTR)
        }
        _ => Ok(0),
    }
}

/// Returns the `struct itimerval` of the process's timer: interval, then the time until it expires,
/// each in seconds and microseconds.
pub fn timer_value(call: &Call<'_>) -> [u64; 4] {
    let (next, interval) = call
        .thread
        .process
        .alarm
        .lock()
        .map_or((0, 0), |(at, interval)| (at.saturating_sub(Arch::now()).max(1000), interval));
    let part = |nanoseconds: u64| [nanoseconds / 1_000_000_000, nanoseconds / 1000 % 1_000_000];
    let ([a, b], [c, d]) = (part(interval), part(next));
    [a, b, c, d]
}

fn set_timer(call: &Call<'_>, which: u64, new: u64, old: u64) -> Outcome {
    if which != 0 {
        return Err(if which < 3 { Errno::ENOSYS } else { Errno::EINVAL });
    }
    let memory = call.memory();
    let [interval, interval_rest, next, next_rest] = user::read::<[u64; 4]>(&memory, new)?;
    let whole = |seconds: u64, microseconds: u64| {
        seconds.saturating_mul(1_000_000_000).saturating_add(microseconds.saturating_mul(1000))
    };
    let before = timer_value(call);
    set_alarm(call, whole(next, next_rest), whole(interval, interval_rest));
    user::write_if(&memory, old, &before)?;
    Ok(0)
}

pub fn set_alarm(call: &Call<'_>, next: u64, interval: u64) {
    *call.thread.process.alarm.lock() =
        (next > 0).then(|| (Arch::now().saturating_add(next), interval));
}

fn get_timer(call: &Call<'_>, which: u64, to: u64) -> Outcome {
    if which != 0 {
        return Err(Errno::EINVAL);
    }
    user::write(&call.memory(), to, &timer_value(call))?;
    Ok(0)
}
