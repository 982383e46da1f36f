//! System calls on file descriptors: read, write, duplicate, poll.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use linux_raw_sys::general::{O_LARGEFILE, pollfd};
use samara_mm::Errno;
use syscalls::Sysno;

use super::{Call, Outcome, paths, terminal, time, user};
use crate::arch::{Arch, Machine};
use crate::fs::{
    Dentry, Descriptor, Inode, Kind, O_APPEND, O_CLOEXEC, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY,
    OpenFile, Transfer,
};
use crate::process::oom;
use crate::process::signals::{self, ERESTARTSYS, SIGPIPE, SigInfo};
use crate::process::wait::{self, WaitError, WaitQueue};

pub(super) fn dispatch(name: Sysno, call: &mut Call<'_>) -> Option<Outcome> {
    let [a, b, c, d, ..] = call.args;
    let call = &*call;
    let on = |perform: &dyn Fn(&OpenFile) -> Outcome| open(call, a).and_then(|open| perform(&open));
    let parts = || user::iovecs(&call.memory(), b, c);
    Some(match name {
        Sysno::read => on(&|open| read(call, open, None, &[(b, c)])),
        Sysno::write => on(&|open| write(call, open, None, &[(b, c)])),
        Sysno::pread64 => on(&|open| read(call, open, Some(offset(d)?), &[(b, c)])),
        Sysno::pwrite64 => on(&|open| write(call, open, Some(offset(d)?), &[(b, c)])),
        Sysno::readv => on(&|open| read(call, open, None, &parts()?)),
        Sysno::writev => on(&|open| write(call, open, None, &parts()?)),
        Sysno::preadv => on(&|open| read(call, open, Some(offset(d)?), &parts()?)),
        Sysno::pwritev => on(&|open| write(call, open, Some(offset(d)?), &parts()?)),
        Sysno::sendfile => sendfile(call),
        Sysno::copy_file_range => copy_file_range(call),
        Sysno::lseek => on(&|open| open.seek(b as i64, c).map(|at| at as i64)),
        Sysno::close => call.thread.process.files.lock().clone().close(a).map(|()| 0),
        Sysno::close_range => close_range(call),
        Sysno::dup => add(call, a, 0, false),
        Sysno::dup3 => dup3(call),
        Sysno::fcntl => fcntl(call),
        Sysno::ioctl => on(&|open| terminal::ioctl(call, open)),
        Sysno::pipe2 => pipe2(call),
        Sysno::fstat => {
            on(&|open| user::write(&call.memory(), b, &paths::stat_of(open.inode())).map(|()| 0))
        }
        Sysno::ftruncate => on(&|open| ftruncate(open, b)),
        Sysno::fallocate => on(&|open| fallocate(open, b, c, d)),
        Sysno::fsync | Sysno::fdatasync | Sysno::syncfs => on(&|_| Ok(0)),
        Sysno::flock | Sysno::fadvise64 => on(&|_| Ok(0)),
        Sysno::sync => Ok(0),
        Sysno::getdents64 => getdents(call),
        Sysno::memfd_create => memfd_create(call),
        Sysno::ppoll => ppoll(call),
        Sysno::pselect6 => pselect(call),
        _ => return None,
    })
}

pub(super) fn open(call: &Call<'_>, descriptor: u64) -> Result<Arc<OpenFile>, Errno> {
    call.thread.process.files.lock().get(descriptor)
}

impl Call<'_> {
    /// Adds a file descriptor for an open file, with the lowest free number.
    pub(super) fn descriptor(&self, open: Arc<OpenFile>, close_on_exec: bool) -> Outcome {
        let table = self.thread.process.files.lock().clone();
        table.add(Descriptor { open, close_on_exec }, 0)
    }
}

fn offset(value: u64) -> Result<u64, Errno> {
    if value as i64 >= 0 { Ok(value) } else { Err(Errno::EINVAL) }
}

/// Waits until `transfer` reads or writes, unless the open file is nonblocking.
fn transfer(
    open: &OpenFile,
    mut transfer: impl FnMut() -> Result<Transfer, Errno>,
) -> Result<usize, Errno> {
    let mut look = || match transfer() {
        Ok(Transfer::WouldBlock) => None,
        Ok(Transfer::Done(done)) => Some(Ok(done)),
        Err(error) => Some(Err(error)),
    };
    if open.is_nonblocking() {
        return look().unwrap_or(Err(Errno::EAGAIN));
    }
    let queues: Vec<&WaitQueue> = open.queue().into_iter().collect();
    match wait::until(&queues, None, look) {
        Ok(result) => result,
        Err(_) => Err(ERESTARTSYS),
    }
}

fn read(call: &Call<'_>, open: &OpenFile, at: Option<u64>, parts: &[(u64, u64)]) -> Outcome {
    // Checked first, so that a bad address fails even if the read would wait or find nothing.
    let outside =
        |&(to, len): &(u64, u64)| to.checked_add(len).is_none_or(|end| end > Arch::TASK_SIZE);
    if parts.iter().any(outside) {
        return Err(Errno::EFAULT);
    }
    let memory = call.memory();
    let mut done = 0u64;
    for &(to, len) in parts {
        let mut left = len;
        while left > 0 {
            let mut bytes = user::buffer(left)?;
            // Only the first bytes are waited for.
            let from = at.map(|at| at + done);
            let result = if done > 0 && open.queue().is_some() {
                if !open.is_ready(false) {
                    return Ok(done as i64);
                }
                open.read(from, &mut bytes).map(|transfer| match transfer {
                    Transfer::Done(done) => done,
                    Transfer::WouldBlock => 0,
                })
            } else {
                transfer(open, || open.read(from, &mut bytes))
            };
            let count = match result {
                Ok(count) => count,
                Err(_) if done > 0 => return Ok(done as i64),
                Err(error) => return Err(error),
            };
            let copied = oom::copy_in(&memory, to + (len - left), &bytes[..count]);
            done += copied as u64;
            left -= copied as u64;
            if copied < count {
                return if done > 0 { Ok(done as i64) } else { Err(Errno::EFAULT) };
            }
            if count < bytes.len() {
                return Ok(done as i64);
            }
        }
    }
    if parts.iter().all(|&(_, len)| len == 0) && !open.is_readable() {
        return Err(Errno::EBADF);
    }
    Ok(done as i64)
}

fn write(call: &Call<'_>, open: &OpenFile, at: Option<u64>, parts: &[(u64, u64)]) -> Outcome {
    let memory = call.memory();
    let mut done = 0u64;
    let failed = |done: u64, error: Errno| {
        if error == Errno::EPIPE {
            signals::send_to_thread(call.thread, &SigInfo::user(SIGPIPE, call.thread.process.pid));
        }
        if done > 0 { Ok(done as i64) } else { Err(error) }
    };
    if !open.is_writable() {
        return Err(Errno::EBADF);
    }
    for &(from, len) in parts {
        let mut left = len;
        while left > 0 {
            let mut bytes = user::buffer(left)?;
            let there = oom::copy_out(&memory, from + (len - left), &mut bytes);
            if there == 0 {
                return failed(done, Errno::EFAULT);
            }
            let mut written = 0;
            while written < there {
                let rest = &bytes[written..there];
                let to = at.map(|at| at + done);
                match transfer(open, || open.write(to, rest)) {
                    Ok(count) => {
                        written += count;
                        done += count as u64;
                        left -= count as u64;
                    }
                    Err(error) => return failed(done, error),
                }
            }
            if there < bytes.len() {
                return Ok(done as i64);
            }
        }
    }
    Ok(done as i64)
}

/// Copies between two open files. Returns the number of bytes.
fn copy(
    from: &OpenFile,
    mut from_at: Option<u64>,
    to: &OpenFile,
    mut to_at: Option<u64>,
    len: u64,
) -> Result<u64, Errno> {
    let mut done = 0;
    while done < len {
        let mut bytes = user::buffer(len - done)?;
        let count = transfer(from, || from.read(from_at, &mut bytes))?;
        if count == 0 {
            break;
        }
        let mut written = 0;
        while written < count {
            let part = transfer(to, || to.write(to_at, &bytes[written..count]))?;
            written += part;
            to_at = to_at.map(|at| at + part as u64);
        }
        from_at = from_at.map(|at| at + count as u64);
        done += count as u64;
        if from.queue().is_some() {
            break;
        }
    }
    Ok(done)
}

fn sendfile(call: &Call<'_>) -> Outcome {
    let [to, from, at, count, ..] = call.args;
    let (to, from) = (open(call, to)?, open(call, from)?);
    let memory = call.memory();
    let start = if at == 0 { None } else { Some(user::read::<u64>(&memory, at)?) };
    let done = copy(&from, start, &to, None, count)?;
    if let Some(start) = start {
        user::write(&memory, at, &(start + done))?;
    }
    Ok(done as i64)
}

fn copy_file_range(call: &Call<'_>) -> Outcome {
    let [from, from_at, to, to_at, len, flags] = call.args;
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let (from, to) = (open(call, from)?, open(call, to)?);
    let memory = call.memory();
    let start = |at: u64| {
        if at == 0 { Ok(None) } else { user::read::<u64>(&memory, at).map(Some) }
    };
    let (from_start, to_start) = (start(from_at)?, start(to_at)?);
    if !from.inode().is_regular() || !to.inode().is_regular() {
        return Err(Errno::EINVAL);
    }
    let done = copy(&from, from_start, &to, to_start, len)?;
    for (at, start) in [(from_at, from_start), (to_at, to_start)] {
        if let Some(start) = start {
            user::write(&memory, at, &(start + done))?;
        }
    }
    Ok(done as i64)
}

/// Duplicates a file descriptor as the lowest free number from `lowest` on.
fn add(call: &Call<'_>, descriptor: u64, lowest: u64, close_on_exec: bool) -> Outcome {
    let table = call.thread.process.files.lock().clone();
    let open = table.get(descriptor)?;
    let lowest = usize::try_from(lowest).unwrap_or(usize::MAX);
    table.add(Descriptor { open, close_on_exec }, lowest)
}

fn dup3(call: &Call<'_>) -> Outcome {
    let [from, to, flags, ..] = call.args;
    if from as u32 == to as u32 || flags & !u64::from(O_CLOEXEC) != 0 {
        return Err(Errno::EINVAL);
    }
    let table = call.thread.process.files.lock().clone();
    let open = table.get(from)?;
    let close_on_exec = flags & u64::from(O_CLOEXEC) != 0;
    table.set(to as u32 as u64, Descriptor { open, close_on_exec })
}

fn close_range(call: &Call<'_>) -> Outcome {
    let [first, last, flags, ..] = call.args;
    let (first, last) = (first as u32, last as u32);
    if first > last {
        return Err(Errno::EINVAL);
    }
    let table = call.thread.process.files.lock().clone();
    for (number, _) in table.all() {
        if (first..=last).contains(&(number as u32)) {
            match flags & 4 {
                0 => table.close(number as u64)?,
                _ => table.set_close_on_exec(number as u64, true)?,
            }
        }
    }
    Ok(0)
}

fn fcntl(call: &Call<'_>) -> Outcome {
    let [descriptor, command, argument, ..] = call.args;
    let table = call.thread.process.files.lock().clone();
    let Descriptor { open, close_on_exec } = table.descriptor(descriptor)?;
    match command {
        0 => add(call, descriptor, argument, false),
        1030 => add(call, descriptor, argument, true),
        1 => Ok(close_on_exec.into()),
        2 => table.set_close_on_exec(descriptor, argument & 1 != 0).map(|()| 0),
        3 => Ok((open.flags.load(Ordering::Relaxed) & !O_CLOEXEC | O_LARGEFILE).into()),
        4 => {
            let changeable = O_APPEND | O_NONBLOCK;
            let kept = open.flags.load(Ordering::Relaxed) & !changeable;
            open.flags.store(kept | argument as u32 & changeable, Ordering::Relaxed);
            Ok(0)
        }
        // `F_GETLK` finds no lock, and setting one succeeds: record locks are not implemented.
        5 => user::read::<u16>(&call.memory(), argument)
            .and_then(|_| user::write(&call.memory(), argument, &2u16))
            .map(|()| 0),
        6 | 7 => Ok(0),
        // `F_GETPIPE_SZ` and `F_SETPIPE_SZ`.
        1031 | 1032 if matches!(open.inode().kind, Kind::Pipe(_)) => Ok(65_536),
        _ => Err(Errno::EINVAL),
    }
}

pub fn pipe2(call: &Call<'_>) -> Outcome {
    let [to, flags, ..] = call.args;
    let flags = flags as u32;
    if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let inode = Inode::new(Kind::Pipe(Arc::default()), 0o600);
    let name = alloc::format!("pipe:[{}]", inode.ino).into_bytes();
    let dentry = Dentry::unnamed(inode, name);
    let table = call.thread.process.files.lock().clone();
    let close_on_exec = flags & O_CLOEXEC != 0;
    let kept = flags & O_NONBLOCK;
    let reader = OpenFile::new(dentry.clone(), O_RDONLY | kept)?;
    let writer = OpenFile::new(dentry, O_WRONLY | kept)?;
    let first = table.add(Descriptor { open: reader, close_on_exec }, 0)?;
    let second = table.add(Descriptor { open: writer, close_on_exec }, 0).inspect_err(|_| {
        let _ = table.close(first as u64);
    })?;
    let numbers = (first as u64) | (second as u64) << 32;
    if let Err(error) = user::write(&call.memory(), to, &numbers) {
        let _ = (table.close(first as u64), table.close(second as u64));
        return Err(error);
    }
    Ok(0)
}

fn ftruncate(open: &OpenFile, size: u64) -> Outcome {
    match &open.inode().kind {
        Kind::Regular(regular) if open.is_writable() => regular.truncate(size).map(|()| 0),
        _ => Err(Errno::EINVAL),
    }
}

fn fallocate(open: &OpenFile, mode: u64, start: u64, len: u64) -> Outcome {
    const KEEP_SIZE: u64 = 1;
    const PUNCH_HOLE: u64 = 2 | KEEP_SIZE;
    let Kind::Regular(regular) = &open.inode().kind else {
        return Err(Errno::ENODEV);
    };
    if !open.is_writable() {
        return Err(Errno::EBADF);
    }
    let end = start.checked_add(len).filter(|_| len > 0).ok_or(Errno::EINVAL)?;
    match mode {
        0 if end > regular.size() => regular.truncate(end).map(|()| 0),
        0 | KEEP_SIZE => Ok(0),
        PUNCH_HOLE => regular.punch(start, end).map(|()| 0),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

fn getdents(call: &Call<'_>) -> Outcome {
    let [descriptor, to, len, ..] = call.args;
    let open = open(call, descriptor)?;
    let mut bytes = Vec::new();
    let most = usize::try_from(len).unwrap_or(user::MAX_CHUNK).min(user::MAX_CHUNK);
    let mut too_small = false;
    open.read_dir(|name, inode, next| {
        let size = (19 + name.len() + 1).next_multiple_of(8);
        if bytes.len() + size > most {
            too_small = bytes.is_empty();
            return false;
        }
        let start = bytes.len();
        bytes.extend_from_slice(&inode.ino.to_le_bytes());
        bytes.extend_from_slice(&next.to_le_bytes());
        bytes.extend_from_slice(&(size as u16).to_le_bytes());
        bytes.push((inode.mode() >> 12) as u8);
        bytes.extend_from_slice(name);
        bytes.resize(start + size, 0);
        true
    })?;
    if too_small {
        return Err(Errno::EINVAL);
    }
    user::copy_to(&call.memory(), to, &bytes)?;
    Ok(bytes.len() as i64)
}

fn memfd_create(call: &Call<'_>) -> Outcome {
    let [_, flags, ..] = call.args;
    if flags & !3 != 0 {
        return Err(Errno::EINVAL);
    }
    let mut name = b"/memfd:".to_vec();
    name.extend_from_slice(&user::string(&call.memory(), call.args[0], 250, Errno::EINVAL)?);
    let inode = Inode::regular(0o777)?;
    inode.nlink.store(0, Ordering::Relaxed);
    let open = OpenFile::new(Dentry::unnamed(inode, name), O_RDWR)?;
    call.descriptor(open, flags & 1 != 0)
}

const POLLIN: i16 = 1;
const POLLOUT: i16 = 4;
const POLLERR: i16 = 8;
const POLLHUP: i16 = 16;
const POLLNVAL: i16 = 32;

/// Returns the events of `poll(2)` that are ready.
fn ready(open: &OpenFile, events: i16) -> i16 {
    let mut ready = 0;
    if events & POLLIN != 0
        && open.is_readable()
        && open.is_ready(false)
        && !(open.is_hung_up() && is_drained(open))
    {
        ready |= POLLIN;
    }
    if events & POLLOUT != 0 && open.is_writable() && open.is_ready(true) {
        ready |= POLLOUT;
    }
    if open.is_hung_up() {
        ready |= if open.is_writable() { POLLERR } else { POLLHUP };
    }
    ready
}

fn is_drained(open: &OpenFile) -> bool {
    matches!(&open.inode().kind, Kind::Pipe(pipe) if pipe.len() == 0)
}

/// Waits until an event is ready. Sets `revents` of each element, and returns the number of
/// elements with an event.
pub(super) fn poll(
    call: &Call<'_>,
    polled: &mut [pollfd],
    deadline: Option<u64>,
) -> Result<i64, Errno> {
    let table = call.thread.process.files.lock().clone();
    let opens: Vec<Option<Arc<OpenFile>>> = polled
        .iter()
        .map(|one| if one.fd < 0 { None } else { table.get(one.fd as u64).ok() })
        .collect();
    let queues: Vec<&WaitQueue> = opens.iter().flatten().filter_map(|open| open.queue()).collect();
    let look = || {
        let mut count = 0;
        for (one, open) in polled.iter_mut().zip(&opens) {
            one.revents = match open {
                Some(open) => ready(open, one.events),
                None if one.fd < 0 => 0,
                None => POLLNVAL,
            };
            count += i64::from(one.revents != 0);
        }
        (count > 0).then_some(count)
    };
    match wait::until(&queues, deadline, look) {
        Ok(count) => Ok(count),
        Err(WaitError::TimedOut) => Ok(0),
        Err(WaitError::Interrupted) => Err(Errno::EINTR),
    }
}

/// Reads an array of `pollfd`, polls, and writes the array back.
pub fn poll_array(call: &Call<'_>, at: u64, count: u64, deadline: Option<u64>) -> Outcome {
    if count > 1024 {
        return Err(Errno::EINVAL);
    }
    let memory = call.memory();
    let mut polled = Vec::new();
    for i in 0..count {
        polled.push(user::read::<pollfd>(&memory, at + 8 * i)?);
    }
    let result = poll(call, &mut polled, deadline)?;
    for (i, one) in polled.iter().enumerate() {
        user::write(&memory, at + 8 * i as u64, one)?;
    }
    Ok(result)
}

fn ppoll(call: &Call<'_>) -> Outcome {
    let [at, count, limit, mask, ..] = call.args;
    let deadline = time::deadline_after(call, limit)?;
    super::signals::with_mask(call, mask, || poll_array(call, at, count, deadline))
}

fn pselect(call: &Call<'_>) -> Outcome {
    let [.., limit, mask] = call.args;
    let deadline = time::deadline_after(call, limit)?;
    let mask = if mask == 0 { 0 } else { user::read::<u64>(&call.memory(), mask)? };
    super::signals::with_mask(call, mask, || select(call, deadline))
}

/// Performs `select(2)` on sets of bits.
pub fn select(call: &Call<'_>, deadline: Option<u64>) -> Outcome {
    let [count, read, write, except, ..] = call.args;
    let count = count.min(1024);
    let memory = call.memory();
    let bytes = (count.div_ceil(64) * 8) as usize;
    let load = |at: u64| -> Result<[u8; 128], Errno> {
        let mut set = [0; 128];
        if at != 0 {
            user::copy_from(&memory, at, &mut set[..bytes])?;
        }
        Ok(set)
    };
    let mut sets = [load(read)?, load(write)?, load(except)?];
    let has = |set: &[u8; 128], i: u64| set[i as usize / 8] & 1 << (i % 8) != 0;
    let mut polled = Vec::new();
    for i in 0..count {
        let events =
            (i16::from(has(&sets[0], i)) * POLLIN) | (i16::from(has(&sets[1], i)) * POLLOUT);
        if events != 0 || has(&sets[2], i) {
            call.thread.process.files.lock().get(i)?;
            polled.push(pollfd { fd: i as i32, events, revents: 0 });
        }
    }
    poll(call, &mut polled, deadline)?;
    sets = [[0; 128]; 3];
    let mut found = 0;
    for one in &polled {
        let (at, bit) = (one.fd as usize / 8, 1 << (one.fd % 8));
        if one.events & POLLIN != 0 && one.revents & (POLLIN | POLLHUP | POLLERR) != 0 {
            sets[0][at] |= bit;
            found += 1;
        }
        if one.events & POLLOUT != 0 && one.revents & (POLLOUT | POLLERR) != 0 {
            sets[1][at] |= bit;
            found += 1;
        }
    }
    for (set, at) in sets.iter().zip([read, write, except]) {
        if at != 0 {
            user::copy_to(&memory, at, &set[..bytes])?;
        }
    }
    Ok(found)
}
