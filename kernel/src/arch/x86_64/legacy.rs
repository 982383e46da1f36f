//! Calls that later architectures do without, as those that took their place.

use syscalls::Sysno;

use samara_mm::Errno;

use crate::process::{self, Clone};
use crate::syscalls::{Call, Outcome, files, paths, signals, threads, time};

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const SIGCHLD: i32 = 17;

/// `None`: no such call.
pub(super) fn dispatch(name: Sysno, call: &mut Call<'_>) -> Option<Outcome> {
    let [a, b, c, ..] = call.args;
    let cwd = paths::cwd();
    const NO_FOLLOW: u64 = 0x100;
    Some(match name {
        Sysno::arch_prctl => match a {
            0x1002 => threads::set_thread_pointer(call, b),
            0x1003 => threads::thread_pointer(call, b),
            _ => Err(Errno::EINVAL),
        },
        Sysno::fork => clone(call, 0),
        Sysno::vfork => clone(call, CLONE_VM | CLONE_VFORK),
        Sysno::open => paths::open_at(call, cwd, 0, b, c),
        Sysno::creat => paths::open_at(call, cwd, 0, 0o1101, b),
        Sysno::stat => paths::stat_at(call, cwd, 0, b, 0),
        Sysno::lstat => paths::stat_at(call, cwd, 0, b, NO_FOLLOW),
        Sysno::access => paths::access_at(call, cwd, 0, b, 0),
        Sysno::readlink => paths::read_link_at(call, cwd, 0, b, c),
        Sysno::mkdir => paths::make_directory_at(call, cwd, 0, b),
        Sysno::mknod => paths::make_node_at(call, cwd, 0, b),
        Sysno::rmdir => paths::unlink_at(call, cwd, 0, true),
        Sysno::unlink => paths::unlink_at(call, cwd, 0, false),
        Sysno::symlink => paths::symbolic_link_at(call, 0, cwd, 1),
        Sysno::link => paths::link_at(call, (cwd, 0), (cwd, 1), false),
        Sysno::rename => paths::rename_at(call, (cwd, 0), (cwd, 1), 0),
        Sysno::renameat => paths::rename_at(call, (a, 1), (c, 3), 0),
        Sysno::chmod => paths::change_mode_at(call, cwd, 0, b),
        Sysno::chown => paths::change_owner_at(call, cwd, 0, b, c, 0),
        Sysno::lchown => paths::change_owner_at(call, cwd, 0, b, c, NO_FOLLOW),
        Sysno::dup2 => files::dup2(call),
        Sysno::pipe => {
            call.args[1] = 0;
            files::pipe2(call)
        }
        Sysno::poll => files::poll_array(call, a, b, time::deadline_in(c)),
        Sysno::select => files::select_until(call),
        Sysno::pause => signals::pause(),
        Sysno::alarm => time::alarm(call, a),
        Sysno::time => time::time(call, a),
        Sysno::getpgrp => {
            Ok(call.thread.process.group.load(core::sync::atomic::Ordering::Relaxed).into())
        }
        _ => return None,
    })
}

fn clone(call: &Call<'_>, flags: u64) -> Outcome {
    process::clone(
        call.thread,
        call.frame,
        &Clone { flags, exit_signal: SIGCHLD, ..Clone::default() },
    )
}
