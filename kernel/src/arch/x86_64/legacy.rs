//! System calls that newer architectures lack, in terms of the calls that replaced them.

use syscalls::Sysno;

use samara_mm::Errno;

use crate::arch::{Arch, Machine};
use crate::fs::{Descriptor, wall_time};
use crate::process::{self, CloneArgs, wait};
use crate::syscalls::{Call, Outcome, files, paths, time, user};

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const SIGCHLD: i32 = 17;

/// Performs a call, or returns `None` if it is none of these.
pub(super) fn dispatch(name: Sysno, call: &mut Call<'_>) -> Option<Outcome> {
    let [a, b, c, ..] = call.args;
    let cwd = paths::cwd();
    const NO_FOLLOW: u64 = 0x100;
    Some(match name {
        Sysno::arch_prctl => match a {
            0x1002 => set_thread_pointer(call, b),
            0x1003 => thread_pointer(call, b),
            _ => Err(Errno::EINVAL),
        },
        Sysno::fork => clone(call, 0),
        Sysno::vfork => clone(call, CLONE_VM | CLONE_VFORK),
        Sysno::newfstatat => paths::stat_at(call, (a, 1), c, call.args[3]),
        Sysno::open => paths::open_at(call, (cwd, 0), b, c),
        Sysno::creat => paths::open_at(call, (cwd, 0), 0o1101, b),
        Sysno::stat => paths::stat_at(call, (cwd, 0), b, 0),
        Sysno::lstat => paths::stat_at(call, (cwd, 0), b, NO_FOLLOW),
        Sysno::access => paths::access_at(call, (cwd, 0), b, 0),
        Sysno::readlink => paths::read_link_at(call, (cwd, 0), b, c),
        Sysno::mkdir => paths::make_directory_at(call, (cwd, 0), b),
        Sysno::mknod => paths::make_node_at(call, (cwd, 0), b),
        Sysno::rmdir => paths::unlink_at(call, (cwd, 0), true),
        Sysno::unlink => paths::unlink_at(call, (cwd, 0), false),
        Sysno::symlink => paths::symbolic_link_at(call, 0, (cwd, 1)),
        Sysno::link => paths::link_at(call, (cwd, 0), (cwd, 1), false),
        Sysno::rename => paths::rename_at(call, (cwd, 0), (cwd, 1), 0),
        Sysno::renameat => paths::rename_at(call, (a, 1), (c, 3), 0),
        Sysno::chmod => paths::change_mode_at(call, (cwd, 0), b),
        Sysno::chown => paths::change_owner_at(call, (cwd, 0), b, c, 0),
        Sysno::lchown => paths::change_owner_at(call, (cwd, 0), b, c, NO_FOLLOW),
        Sysno::dup2 => dup2(call),
        Sysno::pipe => {
            call.args[1] = 0;
            files::pipe2(call)
        }
        Sysno::poll => files::poll_array(call, a, b, deadline_in(c)),
        Sysno::select => select_until(call),
        Sysno::pause => pause(),
        Sysno::alarm => alarm(call, a),
        Sysno::time => time(call, a),
        Sysno::getpgrp => {
            Ok(call.thread.process.pgid.load(core::sync::atomic::Ordering::Relaxed).into())
        }
        _ => return None,
    })
}

fn clone(call: &Call<'_>, flags: u64) -> Outcome {
    process::clone(
        call.thread,
        call.frame,
        &CloneArgs { flags, exit_signal: SIGCHLD, ..CloneArgs::default() },
    )
}

/// Sets the thread pointer, by `arch_prctl(2)`.
fn set_thread_pointer(call: &Call<'_>, at: u64) -> Outcome {
    if at >= Arch::TASK_SIZE {
        return Err(Errno::EPERM);
    }
    call.thread.with_context(|context| context.set_thread_pointer(at));
    Ok(0)
}

fn thread_pointer(call: &Call<'_>, to: u64) -> Outcome {
    let at = call.thread.with_context(|context| context.thread_pointer());
    user::write(&call.memory(), to, &at)?;
    Ok(0)
}

fn dup2(call: &Call<'_>) -> Outcome {
    let [from, to, ..] = call.args;
    let table = call.thread.process.files.lock().clone();
    let open = table.get(from)?;
    if from as u32 == to as u32 {
        return Ok(to as i64);
    }
    table.set(to as u32 as u64, Descriptor { open, close_on_exec: false })
}

/// Performs `select(2)`, whose timeout is a `timeval`.
fn select_until(call: &Call<'_>) -> Outcome {
    let at = call.args[4];
    let deadline = match at {
        0 => None,
        at => {
            let [seconds, microseconds] = user::read::<[u64; 2]>(&call.memory(), at)?;
            Some(
                Arch::now()
                    .saturating_add(seconds.saturating_mul(1_000_000_000))
                    .saturating_add(microseconds.saturating_mul(1000)),
            )
        }
    };
    files::select(call, deadline)
}

/// Performs `pause(2)`.
fn pause() -> Outcome {
    let _ = wait::until::<()>(&[], None, || None);
    Err(Errno::EINTR)
}

/// Performs `alarm(2)`. Returns the seconds that the earlier alarm had left.
fn alarm(call: &Call<'_>, seconds: u64) -> Outcome {
    let [.., left, rest] = time::timer_value(call);
    time::set_alarm(call, u64::from(seconds as u32) * 1_000_000_000, 0);
    Ok((left + u64::from(rest > 0)) as i64)
}

/// Performs `time(2)`.
fn time(call: &Call<'_>, to: u64) -> Outcome {
    let now = wall_time() / 1_000_000_000;
    user::write_if(&call.memory(), to, &now)?;
    Ok(now as i64)
}

/// Returns the deadline of a timeout in milliseconds, or `None` if it is negative.
fn deadline_in(milliseconds: u64) -> Option<u64> {
    let milliseconds = u64::try_from(milliseconds as i32).ok()?;
    Some(Arch::now().saturating_add(milliseconds * 1_000_000))
}
