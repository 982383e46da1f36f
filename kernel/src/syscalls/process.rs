//! System calls about processes: creation, exit, groups, limits.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use samara_mm::Errno;
use syscalls::Sysno;

use super::{Call, FRAME_REPLACED, Outcome, user};
use crate::arch::{Arch, Machine};
use crate::fs::{Dentry, O_RDONLY, OpenFile, pid_dir};
use crate::memory::heap;
use crate::process::{
    self, ChildEvent, CloneArgs, Process, execute, exit_group, exit_thread, wait_for_child,
};
use crate::trace;

pub(super) fn dispatch(name: Sysno, call: &mut Call<'_>) -> Option<Outcome> {
    let [a, b, c, d, ..] = call.args;
    let process = &call.thread.process;
    Some(match name {
        Sysno::clone => clone(call),
        Sysno::clone3 => clone3(call),
        Sysno::execve => exec(call, 0, b, c),
        Sysno::exit => {
            exit_thread(call.thread, (a as i32 & 0xff) << 8);
            Ok(0)
        }
        Sysno::exit_group => {
            exit_group(process, (a as i32 & 0xff) << 8);
            Ok(0)
        }
        Sysno::wait4 => wait4(call, a as i32, b, c, d),
        Sysno::waitid => waitid(call, a, b as i32, c, d),
        Sysno::pidfd_open => named(call, a as i32).and_then(|process| {
            let inode = pid_dir(&process);
            let open =
                OpenFile::new(Dentry::unnamed(inode, b"anon_inode:[pidfd]".to_vec()), O_RDONLY)?;
            call.descriptor(open, true)
        }),
        Sysno::getpid => Ok(process.pid.into()),
        Sysno::gettid => Ok(call.thread.tid.into()),
        Sysno::getppid => Ok(process.parent.lock().upgrade().map_or(0, |parent| parent.pid).into()),
        // Root is the only user.
        Sysno::getuid | Sysno::geteuid | Sysno::getgid | Sysno::getegid => Ok(0),
        Sysno::setuid | Sysno::setgid | Sysno::setreuid | Sysno::setregid => Ok(0),
        Sysno::setresuid | Sysno::setresgid | Sysno::setgroups | Sysno::getgroups => Ok(0),
        Sysno::getresuid | Sysno::getresgid => {
            [a, b, c].iter().try_for_each(|&to| user::write(&call.memory(), to, &0u32)).map(|()| 0)
        }
        Sysno::getpgid => named(call, a as i32).map(|it| it.pgid.load(Ordering::Relaxed).into()),
        Sysno::getsid => named(call, a as i32).map(|it| it.sid.load(Ordering::Relaxed).into()),
        Sysno::setpgid => set_group(call, a as i32, b as i32),
        Sysno::setsid => set_session(call),
        Sysno::prlimit64 => limit(call, a as i32, b, c, d),
        Sysno::getrusage => usage(call, a as i32, b),
        Sysno::times => times(call, a),
        Sysno::sched_yield => {
            process::scheduler::yield_now();
            Ok(0)
        }
        Sysno::getpriority => Ok(20),
        Sysno::setpriority | Sysno::ioprio_set => Ok(0),
        Sysno::prctl => control(call, a, b),
        _ => return None,
    })
}

fn clone(call: &Call<'_>) -> Outcome {
    let [flags, stack, parent_tid, child_tid, thread_pointer] = Arch::clone_arguments(call.args);
    let (flags, exit_signal) = (flags & !0xff, flags as i32 & 0xff);
    let clone = CloneArgs { flags, exit_signal, stack, thread_pointer, parent_tid, child_tid };
    process::clone(call.thread, call.frame, &clone)
}

fn clone3(call: &Call<'_>) -> Outcome {
    let [at, size, ..] = call.args;
    if size < 64 {
        return Err(Errno::EINVAL);
    }
    let [flags, _, child_tid, parent_tid, exit_signal, stack, stack_size, thread_pointer] =
        user::read::<[u64; 8]>(&call.memory(), at)?;
    let known = 0xffff_ff00 & !u64::from(linux_raw_sys::general::CLONE_DETACHED);
    if flags & !known != 0 || (stack == 0) != (stack_size == 0) {
        return Err(Errno::EINVAL);
    }
    let stack = stack.checked_add(stack_size).ok_or(Errno::EINVAL)?;
    let exit_signal = exit_signal as i32;
    let clone = CloneArgs { flags, exit_signal, stack, thread_pointer, parent_tid, child_tid };
    process::clone(call.thread, call.frame, &clone)
}

/// Returns the strings to which an array of pointers points.
fn strings(call: &Call<'_>, mut at: u64) -> Result<Vec<Vec<u8>>, Errno> {
    const LONGEST: usize = 128 << 10;
    let memory = call.memory();
    let mut all = Vec::new();
    while at != 0 {
        match user::read::<u64>(&memory, at)? {
            0 => break,
            _ if heap::check_reserve().is_err() => return Err(Errno::ENOMEM),
            text => all.push(user::string(&memory, text, LONGEST, Errno::E2BIG)?),
        }
        at += 8;
    }
    Ok(all)
}

fn exec(call: &mut Call<'_>, path: usize, arguments: u64, environment: u64) -> Outcome {
    let path = call.path(path)?;
    let (arguments, environment) = (strings(call, arguments)?, strings(call, environment)?);
    let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
    let environment: Vec<&[u8]> = environment.iter().map(Vec::as_slice).collect();
    *call.frame = execute(call.thread, &path, &arguments, &environment)?;
    Ok(FRAME_REPLACED)
}

fn wait4(call: &Call<'_>, pid: i32, to: u64, options: u64, usage_at: u64) -> Outcome {
    if options & !(1 | 2 | 8 | 0xe000_0000) != 0 {
        return Err(Errno::EINVAL);
    }
    let own = call.thread.process.pgid.load(Ordering::Relaxed);
    let wanted = |child: &Process| match pid {
        -1 => true,
        0 => child.pgid.load(Ordering::Relaxed) == own,
        ..-1 => child.pgid.load(Ordering::Relaxed) == -pid,
        _ => child.pid == pid,
    };
    let event = wait_for_child(wanted, options | 4).map_err(restarts)?;
    let Some(ChildEvent { pid, status, time, .. }) = event else {
        return Ok(0);
    };
    let memory = call.memory();
    user::write_if(&memory, to, &status)?;
    if usage_at != 0 {
        user::write(&memory, usage_at, &usage_of(time))?;
    }
    Ok(pid.into())
}

fn restarts(error: Errno) -> Errno {
    if error == Errno::EINTR { process::signals::ERESTARTSYS } else { error }
}

fn waitid(call: &Call<'_>, kind: u64, id: i32, to: u64, options: u64) -> Outcome {
    if options & (2 | 4 | 8) == 0 || kind > 2 {
        return Err(Errno::EINVAL);
    }
    let wanted = |child: &Process| match kind {
        0 => true,
        1 => child.pid == id,
        _ => child.pgid.load(Ordering::Relaxed) == id,
    };
    let event = wait_for_child(wanted, options).map_err(restarts)?;
    if to != 0 {
        let info = event.map_or([0; 128], |event| {
            process::signals::SigInfo::child(event.code, event.pid, event.value).bytes()
        });
        user::write(&call.memory(), to, &info)?;
    }
    Ok(0)
}

/// Returns the process with this number, or the caller's for 0.
fn named(call: &Call<'_>, pid: i32) -> Result<Arc<Process>, Errno> {
    if pid == 0 { Ok(call.thread.process.clone()) } else { process::find(pid).ok_or(Errno::ESRCH) }
}

fn set_group(call: &Call<'_>, pid: i32, group: i32) -> Outcome {
    let process = named(call, pid)?;
    let group = if group == 0 { process.pid } else { group };
    if group < 0 {
        return Err(Errno::EINVAL);
    }
    if process.sid.load(Ordering::Relaxed) == process.pid {
        return Err(Errno::EPERM);
    }
    process.pgid.store(group, Ordering::Relaxed);
    Ok(0)
}

fn set_session(call: &Call<'_>) -> Outcome {
    let process = &call.thread.process;
    if process.pgid.load(Ordering::Relaxed) == process.pid {
        return Err(Errno::EPERM);
    }
    process.sid.store(process.pid, Ordering::Relaxed);
    process.pgid.store(process.pid, Ordering::Relaxed);
    Ok(process.pid.into())
}

fn limit(call: &Call<'_>, pid: i32, resource: u64, new: u64, old: u64) -> Outcome {
    let process = named(call, pid)?;
    let memory = call.memory();
    let mut limits = process.limits.lock();
    let field = match resource {
        2 => Some(&mut limits.data),
        3 => Some(&mut limits.stack),
        8 => Some(&mut limits.memlock),
        9 => Some(&mut limits.address_space),
        0..16 => None,
        _ => return Err(Errno::EINVAL),
    };
    let fixed = match resource {
        7 => 1024,
        4 => 0,
        _ => u64::MAX,
    };
    let before = field.as_deref().copied().unwrap_or(fixed);
    let wanted = if new == 0 { None } else { Some(user::read::<[u64; 2]>(&memory, new)?) };
    if let Some([soft, hard]) = wanted {
        if soft > hard {
            return Err(Errno::EINVAL);
        }
        if let Some(field) = field {
            *field = soft;
        }
        let limits = *limits;
        if let Some(memory) = &*process.memory.lock() {
            trace::set_limits(memory, limits);
        }
    }
    drop(limits);
    let hard = if resource == 7 { 1024 } else { u64::MAX };
    user::write_if(&memory, old, &[before, hard])?;
    Ok(0)
}

fn usage_of(nanoseconds: u64) -> linux_raw_sys::general::rusage {
    // SAFETY: integers, for which zero is a valid value.
    let mut usage: linux_raw_sys::general::rusage = unsafe { core::mem::zeroed() };
    usage.ru_utime.tv_sec = (nanoseconds / 1_000_000_000) as _;
    usage.ru_utime.tv_usec = (nanoseconds / 1000 % 1_000_000) as _;
    usage
}

fn usage(call: &Call<'_>, who: i32, to: u64) -> Outcome {
    let process = &call.thread.process;
    let time = match who {
        0 => process.time.load(Ordering::Relaxed),
        1 => call.thread.time.load(Ordering::Relaxed),
        -1 => process.children_time.load(Ordering::Relaxed),
        _ => return Err(Errno::EINVAL),
    };
    user::write(&call.memory(), to, &usage_of(time))?;
    Ok(0)
}

fn times(call: &Call<'_>, to: u64) -> Outcome {
    let ticks = |nanoseconds: u64| nanoseconds / 10_000_000;
    let process = &call.thread.process;
    let own = ticks(process.time.load(Ordering::Relaxed));
    let children = ticks(process.children_time.load(Ordering::Relaxed));
    user::write_if(&call.memory(), to, &[own, 0, children, 0])?;
    Ok(ticks(Arch::now()) as i64)
}

fn control(call: &Call<'_>, what: u64, argument: u64) -> Outcome {
    const PR_SET_NAME: u64 = 15;
    const PR_GET_NAME: u64 = 16;
    match what {
        PR_SET_NAME => {
            let mut name = [0; 16];
            let memory = call.memory();
            let done = process::oom::copy_out(&memory, argument, &mut name[..15]);
            let len = name[..done].iter().position(|&byte| byte == 0).unwrap_or(done);
            name[len..].fill(0);
            *call.thread.name.lock() = name;
            Ok(0)
        }
        PR_GET_NAME => user::write(&call.memory(), argument, &*call.thread.name.lock()).map(|()| 0),
        _ => Err(Errno::EINVAL),
    }
}
