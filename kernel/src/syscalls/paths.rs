//! System calls on paths.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use linux_raw_sys::general::{O_DIRECTORY, O_NOFOLLOW, stat, statfs, statx};
use samara_mm::Errno;
use syscalls::Sysno;

use super::{Call, Outcome, files, user};
use crate::fs::{
    self, Dentry, Inode, Kind, O_ACCMODE, O_CLOEXEC, O_CREAT, O_EXCL, O_NONBLOCK, O_PATH, O_RDONLY,
    O_TRUNC, O_WRONLY, OpenFile,
};
use crate::process::{signals::ERESTARTSYS, wait};

/// A directory's file descriptor, and the index of the argument with the path relative to it.
pub type At = (u64, usize);

const AT_FDCWD: i32 = -100;
const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
const AT_REMOVEDIR: u64 = 0x200;
const AT_SYMLINK_FOLLOW: u64 = 0x400;
const AT_EMPTY_PATH: u64 = 0x1000;

pub(super) fn dispatch(name: Sysno, call: &mut Call<'_>) -> Option<Outcome> {
    let [a, b, c, d, e, _] = call.args;
    Some(match name {
        Sysno::openat => open_at(call, (a, 1), c, d),
        Sysno::statx => stat_extended(call, a, c, e),
        Sysno::faccessat => access_at(call, (a, 1), c, 0),
        Sysno::faccessat2 => access_at(call, (a, 1), c, d),
        Sysno::readlinkat => read_link_at(call, (a, 1), c, d),
        Sysno::mkdirat => make_directory_at(call, (a, 1), c),
        Sysno::mknodat => make_node_at(call, (a, 1), c),
        Sysno::unlinkat => unlink_at(call, (a, 1), c & AT_REMOVEDIR != 0),
        Sysno::symlinkat => symbolic_link_at(call, 0, (b, 2)),
        Sysno::linkat => link_at(call, (a, 1), (c, 3), e & AT_SYMLINK_FOLLOW != 0),
        Sysno::renameat2 => rename_at(call, (a, 1), (c, 3), e),
        Sysno::fchmod => {
            files::open(call, a).map(|open| open.inode().set_mode(b as u32)).map(|()| 0)
        }
        Sysno::fchmodat => change_mode_at(call, (a, 1), c),
        Sysno::fchown => {
            files::open(call, a).map(|open| change_owner(open.inode(), b, c)).map(|()| 0)
        }
        Sysno::fchownat => change_owner_at(call, (a, 1), c, d, e),
        Sysno::utimensat => set_times(call, a, b, c, d),
        Sysno::truncate => truncate(call, b),
        Sysno::getcwd => working_directory(call, a, b),
        Sysno::chdir => change_directory(call),
        Sysno::fchdir => change_to(call, a),
        Sysno::umask => {
            Ok(call.thread.process.umask.swap(a as u32 & 0o777, Ordering::Relaxed).into())
        }
        Sysno::mount => mount(call),
        Sysno::umount2 => call
            .path(0)
            .and_then(|path| at(call, cwd(), &path, true))
            .and_then(|dentry| fs::unmount(&dentry))
            .map(|()| 0),
        Sysno::chroot => Err(Errno::EPERM),
        Sysno::statfs => call
            .path(0)
            .and_then(|path| at(call, cwd(), &path, true))
            .and_then(|_| file_system(call, b)),
        Sysno::fstatfs => files::open(call, a).and_then(|_| file_system(call, b)),
        _ => return None,
    })
}

/// Returns `AT_FDCWD` as an argument.
pub fn cwd() -> u64 {
    AT_FDCWD as u64
}

/// Returns the directory in which a relative path begins.
fn base(call: &Call<'_>, directory: u64, path: &[u8]) -> Result<Arc<Dentry>, Errno> {
    if path.starts_with(b"/") || directory as i32 == AT_FDCWD {
        return Ok(call.thread.process.cwd.lock().clone());
    }
    let open = files::open(call, directory)?;
    if open.inode().is_directory() { Ok(open.dentry.clone()) } else { Err(Errno::ENOTDIR) }
}

fn at(call: &Call<'_>, directory: u64, path: &[u8], follow: bool) -> Result<Arc<Dentry>, Errno> {
    fs::find(&base(call, directory, path)?, path, follow)
}

/// Returns the file of a path, or that of the descriptor for an empty path with `AT_EMPTY_PATH`.
fn at_or_open(call: &Call<'_>, file: At, flags: u64) -> Result<Arc<Dentry>, Errno> {
    if call.args[file.1] == 0 && flags & AT_EMPTY_PATH != 0 {
        return files::open(call, file.0).map(|open| open.dentry.clone());
    }
    let path = call.path(file.1)?;
    if path.is_empty() && flags & AT_EMPTY_PATH != 0 {
        if file.0 as i32 == AT_FDCWD {
            return Ok(call.thread.process.cwd.lock().clone());
        }
        return files::open(call, file.0).map(|open| open.dentry.clone());
    }
    at(call, file.0, &path, flags & AT_SYMLINK_NOFOLLOW == 0)
}

fn parent_at<'p>(
    call: &Call<'_>,
    directory: u64,
    path: &'p [u8],
) -> Result<(Arc<Dentry>, &'p [u8]), Errno> {
    fs::find_parent(&base(call, directory, path)?, path)
}

/// Returns the permissions of a new file.
fn new_mode(call: &Call<'_>, mode: u64) -> u32 {
    mode as u32 & 0o7777 & !call.thread.process.umask.load(Ordering::Relaxed)
}

pub fn open_at(call: &Call<'_>, file: At, flags: u64, mode: u64) -> Outcome {
    let path = call.path(file.1)?;
    let flags = flags as u32;
    let follow = flags & O_NOFOLLOW == 0 && flags & (O_CREAT | O_EXCL) != O_CREAT | O_EXCL;
    let found = at(call, file.0, &path, follow);
    let dentry = match found {
        Ok(_) if flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL => return Err(Errno::EEXIST),
        Ok(dentry) => dentry,
        Err(Errno::ENOENT) if flags & O_CREAT != 0 && !path.ends_with(b"/") => {
            let (parent, name) = parent_at(call, file.0, &path)?;
            if parent.inode.lookup(name).is_ok() {
                // The name is a dangling symbolic link.
                return Err(Errno::ENOENT);
            }
            fs::create(&parent, name, Inode::regular(new_mode(call, mode))?)?
        }
        Err(error) => return Err(error),
    };
    let inode = &dentry.inode;
    let writes = flags & O_ACCMODE != O_RDONLY || flags & O_TRUNC != 0;
    match &inode.kind {
        Kind::Directory(_) if flags & O_PATH == 0 && (writes || flags & O_CREAT != 0) => {
            return Err(Errno::EISDIR);
        }
        Kind::Directory(_) => {}
        _ if flags & O_DIRECTORY != 0 => return Err(Errno::ENOTDIR),
        Kind::Symlink(_) | Kind::MagicLink(..) if flags & O_PATH == 0 => return Err(Errno::ELOOP),
        Kind::Regular(regular) if flags & O_TRUNC != 0 && flags & O_PATH == 0 => {
            regular.truncate(0)?;
            inode.touch();
        }
        Kind::Pipe(pipe)
            if flags & O_ACCMODE == O_WRONLY
                && flags & O_NONBLOCK != 0
                && pipe.count(false) == 0 =>
        {
            return Err(Errno::ENXIO);
        }
        _ => {}
    }
    let open = OpenFile::new(dentry.clone(), flags & !(O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC))?;
    wait_for_other_side(&open)?;
    call.descriptor(open, flags & O_CLOEXEC != 0)
}

/// Waits until a FIFO that was opened by its name has a reader or a writer at its other side.
fn wait_for_other_side(open: &OpenFile) -> Result<(), Errno> {
    let Kind::Pipe(pipe) = &open.inode().kind else {
        return Ok(());
    };
    if open.is_nonblocking() || open.has(O_PATH) || open.is_readable() && open.is_writable() {
        return Ok(());
    }
    let for_writers = open.is_readable();
    let has_come = || pipe.opens(for_writers) != open.peer_opens;
    let is_there = || (pipe.count(for_writers) > 0 || has_come()).then_some(());
    wait::until(&[pipe.queue()], None, is_there).map_err(|_| ERESTARTSYS)
}

/// Returns the properties of a file in the architecture's `struct stat`.
pub fn stat_of(inode: &Inode) -> stat {
    // SAFETY: integers, for which zero is a valid value.
    let mut to: stat = unsafe { core::mem::zeroed() };
    to.st_dev = 2;
    to.st_ino = inode.ino as _;
    to.st_nlink = inode.nlink() as _;
    to.st_mode = inode.mode() as _;
    to.st_uid = inode.uid.load(Ordering::Relaxed);
    to.st_gid = inode.gid.load(Ordering::Relaxed);
    to.st_rdev = inode.rdev() as _;
    to.st_size = inode.size() as _;
    to.st_blksize = 4096;
    to.st_blocks = inode.size().div_ceil(512) as _;
    let modified = inode.mtime.load(Ordering::Relaxed);
    let (seconds, rest) = (modified / 1_000_000_000, modified % 1_000_000_000);
    (to.st_atime, to.st_mtime, to.st_ctime) = (seconds as _, seconds as _, seconds as _);
    (to.st_atime_nsec, to.st_mtime_nsec, to.st_ctime_nsec) = (rest as _, rest as _, rest as _);
    to
}

pub fn stat_at(call: &Call<'_>, file: At, to: u64, flags: u64) -> Outcome {
    let dentry = at_or_open(call, file, flags)?;
    user::write(&call.memory(), to, &stat_of(&dentry.inode))?;
    Ok(0)
}

fn stat_extended(call: &Call<'_>, directory: u64, flags: u64, to: u64) -> Outcome {
    let dentry = at_or_open(call, (directory, 1), flags)?;
    let from = stat_of(&dentry.inode);
    // SAFETY: integers, for which zero is a valid value.
    let mut all: statx = unsafe { core::mem::zeroed() };
    all.stx_mask = 0x7ff;
    all.stx_blksize = 4096;
    all.stx_nlink = from.st_nlink as _;
    all.stx_uid = from.st_uid;
    all.stx_gid = from.st_gid;
    all.stx_mode = from.st_mode as u16;
    all.stx_ino = from.st_ino;
    all.stx_size = from.st_size as _;
    all.stx_blocks = from.st_blocks as _;
    all.stx_rdev_major = (from.st_rdev >> 8) as u32;
    all.stx_rdev_minor = (from.st_rdev & 0xff) as u32;
    all.stx_dev_minor = 2;
    for time in [&mut all.stx_atime, &mut all.stx_mtime, &mut all.stx_ctime] {
        time.tv_sec = from.st_mtime as _;
        time.tv_nsec = from.st_mtime_nsec as _;
    }
    user::write(&call.memory(), to, &all)?;
    Ok(0)
}

pub fn access_at(call: &Call<'_>, file: At, wanted: u64, flags: u64) -> Outcome {
    let dentry = at_or_open(call, file, flags)?;
    // The only user is root: it may read and write everything, and execute a file that anyone may
    // execute.
    let executable = dentry.inode.is_directory() || dentry.inode.mode() & 0o111 != 0;
    if wanted & 1 != 0 && !executable { Err(Errno::EACCES) } else { Ok(0) }
}

pub fn read_link_at(call: &Call<'_>, file: At, to: u64, len: u64) -> Outcome {
    let path = call.path(file.1)?;
    let dentry = if path.is_empty() {
        files::open(call, file.0)?.dentry.clone()
    } else {
        at(call, file.0, &path, false)?
    };
    let (Kind::Symlink(target) | Kind::MagicLink(target, _)) = &dentry.inode.kind else {
        return Err(Errno::EINVAL);
    };
    if len as i64 <= 0 {
        return Err(Errno::EINVAL);
    }
    let len = target.len().min(len as usize);
    user::copy_to(&call.memory(), to, &target[..len])?;
    Ok(len as i64)
}

pub fn make_directory_at(call: &Call<'_>, file: At, mode: u64) -> Outcome {
    let path = call.path(file.1)?;
    let (parent, name) = parent_at(call, file.0, &path)?;
    fs::create(&parent, name, Inode::directory(new_mode(call, mode))).map(|_| 0)
}

pub fn make_node_at(call: &Call<'_>, file: At, mode: u64) -> Outcome {
    let path = call.path(file.1)?;
    let (parent, name) = parent_at(call, file.0, &path)?;
    let inode = match (mode as u32 & 0o170_000) >> 12 {
        0 | 8 => Inode::regular(new_mode(call, mode))?,
        1 => Inode::new(Kind::Pipe(Arc::default()), new_mode(call, mode)),
        _ => return Err(Errno::EPERM),
    };
    fs::create(&parent, name, inode).map(|_| 0)
}

pub fn unlink_at(call: &Call<'_>, file: At, is_directory: bool) -> Outcome {
    let path = call.path(file.1)?;
    let (parent, name) = parent_at(call, file.0, &path).map_err(|error| match error {
        Errno::EEXIST => Errno::EBUSY,
        error => error,
    })?;
    fs::remove(&parent, name, is_directory).map(|()| 0)
}

pub fn symbolic_link_at(call: &Call<'_>, target: usize, file: At) -> Outcome {
    let (target, path) = (call.path(target)?, call.path(file.1)?);
    if target.is_empty() {
        return Err(Errno::ENOENT);
    }
    let (parent, name) = parent_at(call, file.0, &path)?;
    fs::create(&parent, name, Inode::symlink(target)).map(|_| 0)
}

pub fn link_at(call: &Call<'_>, from: At, to: At, follow: bool) -> Outcome {
    let (old, new) = (call.path(from.1)?, call.path(to.1)?);
    let dentry = at(call, from.0, &old, follow)?;
    if dentry.inode.is_directory() {
        return Err(Errno::EPERM);
    }
    let (parent, name) = parent_at(call, to.0, &new)?;
    fs::create(&parent, name, dentry.inode.clone())?;
    dentry.inode.nlink.fetch_add(1, Ordering::Relaxed);
    Ok(0)
}

pub fn rename_at(call: &Call<'_>, from: At, to: At, flags: u64) -> Outcome {
    const NOREPLACE: u64 = 1;
    if flags & !NOREPLACE != 0 {
        return Err(Errno::EINVAL);
    }
    let (old, new) = (call.path(from.1)?, call.path(to.1)?);
    let busy = |error| {
        if error == Errno::EEXIST { Errno::EBUSY } else { error }
    };
    let (from, old) = parent_at(call, from.0, &old).map_err(busy)?;
    let (to, new) = parent_at(call, to.0, &new).map_err(busy)?;
    fs::rename(&from, old, &to, new, flags & NOREPLACE == 0).map(|()| 0)
}

pub fn change_mode_at(call: &Call<'_>, file: At, mode: u64) -> Outcome {
    let path = call.path(file.1)?;
    at(call, file.0, &path, true)?.inode.set_mode(mode as u32);
    Ok(0)
}

fn change_owner(inode: &Inode, owner: u64, group: u64) {
    for (field, new) in [(&inode.uid, owner as u32), (&inode.gid, group as u32)] {
        if new != u32::MAX {
            field.store(new, Ordering::Relaxed);
        }
    }
}

pub fn change_owner_at(call: &Call<'_>, file: At, owner: u64, group: u64, flags: u64) -> Outcome {
    change_owner(&at_or_open(call, file, flags)?.inode, owner, group);
    Ok(0)
}

fn set_times(call: &Call<'_>, directory: u64, path: u64, times: u64, flags: u64) -> Outcome {
    const NOW: u64 = 0x3fff_ffff;
    const OMIT: u64 = 0x3fff_fffe;
    let dentry = if path == 0 {
        files::open(call, directory)?.dentry.clone()
    } else {
        at_or_open(call, (directory, 1), flags)?
    };
    let [.., seconds, rest] =
        if times == 0 { [0, 0, 0, NOW] } else { user::read::<[u64; 4]>(&call.memory(), times)? };
    match rest {
        NOW => dentry.inode.touch(),
        OMIT => {}
        rest => dentry
            .inode
            .mtime
            .store(seconds.wrapping_mul(1_000_000_000).wrapping_add(rest), Ordering::Relaxed),
    }
    Ok(0)
}

fn truncate(call: &Call<'_>, size: u64) -> Outcome {
    let path = call.path(0)?;
    match &at(call, cwd(), &path, true)?.inode.kind {
        Kind::Regular(regular) => regular.truncate(size).map(|()| 0),
        Kind::Directory(_) => Err(Errno::EISDIR),
        _ => Err(Errno::EINVAL),
    }
}

fn working_directory(call: &Call<'_>, to: u64, len: u64) -> Outcome {
    let mut path: Vec<u8> = call.thread.process.cwd.lock().path();
    path.push(0);
    if path.len() as u64 > len {
        return Err(Errno::ERANGE);
    }
    user::copy_to(&call.memory(), to, &path)?;
    Ok(path.len() as i64)
}

fn change_directory(call: &Call<'_>) -> Outcome {
    let path = call.path(0)?;
    enter(call, at(call, cwd(), &path, true)?)
}

fn change_to(call: &Call<'_>, descriptor: u64) -> Outcome {
    enter(call, files::open(call, descriptor)?.dentry.clone())
}

fn enter(call: &Call<'_>, dentry: Arc<Dentry>) -> Outcome {
    if !dentry.inode.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    *call.thread.process.cwd.lock() = dentry;
    Ok(0)
}

fn mount(call: &Call<'_>) -> Outcome {
    let dentry = call.path(1).and_then(|path| at(call, cwd(), &path, true))?;
    let kind = call.path(2)?;
    fs::mount(&dentry, &kind).map(|()| 0)
}

fn file_system(call: &Call<'_>, to: u64) -> Outcome {
    const TMPFS: i64 = 0x0102_1994;
    let (free, total) = (crate::memory::free_frames(), crate::memory::managed_frames());
    // SAFETY: integers, for which zero is a valid value.
    let mut all: statfs = unsafe { core::mem::zeroed() };
    all.f_type = TMPFS as _;
    all.f_bsize = 4096;
    all.f_blocks = total as _;
    all.f_bfree = free as _;
    all.f_bavail = free as _;
    all.f_namelen = 255;
    user::write(&call.memory(), to, &all)?;
    Ok(0)
}
