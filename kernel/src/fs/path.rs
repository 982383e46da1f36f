//! Paths: directory entries, path lookup, mounts, and changes of names.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use samara_mm::Errno;
use spin::{Mutex, Once};

use super::device;
use super::inode::{Inode, Kind};
use super::{procfs, regular};

/// A directory entry: an inode, and the path that led to it.
pub struct Dentry {
    pub inode: Arc<Inode>,
    name: Vec<u8>,
    /// `None` for the root and for files without a name.
    parent: Option<Arc<Dentry>>,
}

/// The most symbolic links that one lookup follows.
const MAX_LINKS: u32 = 40;
const NAME_MAX: usize = 255;
const MAX_PATH: usize = 4095;

static ROOT: Once<Arc<Dentry>> = Once::new();
/// The mounts: each pair has the directory that is mounted on, and the root that is mounted there.
static MOUNTS: Mutex<Vec<(Arc<Inode>, Arc<Inode>)>> = Mutex::new(Vec::new());

/// Returns the root directory.
pub fn root() -> Arc<Dentry> {
    ROOT.call_once(|| Dentry::unnamed(Inode::directory(0o755), Vec::new())).clone()
}

impl Dentry {
    /// Creates an entry for a file without a path. `name` is shown in its place.
    pub fn unnamed(inode: Arc<Inode>, name: Vec<u8>) -> Arc<Self> {
        Arc::new(Dentry { inode, name, parent: None })
    }

    /// Returns the path from the root.
    pub fn path(&self) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = self;
        while let Some(parent) = &at.parent {
            names.push(&at.name);
            at = parent;
        }
        if names.is_empty() {
            return if self.name.is_empty() { b"/".to_vec() } else { self.name.clone() };
        }
        let mut path = Vec::new();
        for name in names.into_iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        path
    }

    fn child(self: &Arc<Self>, name: &[u8]) -> Result<Arc<Dentry>, Errno> {
        let inode = self.inode.lookup(name)?;
        let inode = mounted(&inode).unwrap_or(inode);
        Ok(Arc::new(Dentry { inode, name: name.to_vec(), parent: Some(self.clone()) }))
    }
}

fn mounted(inode: &Arc<Inode>) -> Option<Arc<Inode>> {
    let mounts = MOUNTS.lock();
    mounts.iter().rev().find(|(below, _)| Arc::ptr_eq(below, inode)).map(|(_, above)| above.clone())
}

/// Looks up a path. Follows a symbolic link in the last component if `follow` is set or the path
/// ends with a slash.
///
/// # Errors
///
/// `ENOENT`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`.
pub fn find(start: &Arc<Dentry>, path: &[u8], follow: bool) -> Result<Arc<Dentry>, Errno> {
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let found = walk(start.clone(), path, follow || path.ends_with(b"/"), &mut 0)?;
    if path.ends_with(b"/") && !found.inode.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    Ok(found)
}

fn walk(
    start: Arc<Dentry>,
    path: &[u8],
    follow: bool,
    links: &mut u32,
) -> Result<Arc<Dentry>, Errno> {
    if path.len() > MAX_PATH {
        return Err(Errno::ENAMETOOLONG);
    }
    let mut at = if path.starts_with(b"/") { root() } else { start };
    let mut names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).peekable();
    while let Some(name) = names.next() {
        if !at.inode.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        match name {
            b"." => continue,
            b".." => {
                at = at.parent.clone().unwrap_or(at);
                continue;
            }
            _ if name.len() > NAME_MAX => return Err(Errno::ENAMETOOLONG),
            _ => {}
        }
        let next = at.child(name)?;
        let is_last = names.peek().is_none();
        at = match &next.inode.kind {
            Kind::Symlink(_) | Kind::MagicLink(..) if is_last && !follow => next,
            Kind::MagicLink(_, target) => target.clone(),
            Kind::Symlink(target) => {
                *links += 1;
                if *links > MAX_LINKS {
                    return Err(Errno::ELOOP);
                }
                walk(at, target, true, links)?
            }
            _ => next,
        };
    }
    Ok(at)
}

/// Looks up the directory of a path's last component. Returns it with the component, which need not
/// exist.
///
/// # Errors
///
/// As for [`find`]. `EEXIST` for a path of slashes only, which has no last component.
pub fn find_parent<'p>(
    start: &Arc<Dentry>,
    path: &'p [u8],
) -> Result<(Arc<Dentry>, &'p [u8]), Errno> {
    let trimmed =
        path.iter().rposition(|&byte| byte != b'/').map_or(&path[..0], |last| &path[..=last]);
    let at = trimmed.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let (before, name) = trimmed.split_at(at);
    if name.is_empty() {
        return Err(if path.is_empty() { Errno::ENOENT } else { Errno::EEXIST });
    }
    if name.len() > NAME_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    let parent = if before.is_empty() { start.clone() } else { find(start, before, true)? };
    if !parent.inode.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    Ok((parent, name))
}

/// Adds a name for an inode to a directory.
///
/// # Errors
///
/// `EEXIST`, `EPERM`, `ENOTDIR`, `ENOSPC`, and `ENOENT` in a directory that was removed.
pub fn create(parent: &Arc<Dentry>, name: &[u8], inode: Arc<Inode>) -> Result<Arc<Dentry>, Errno> {
    if matches!(name, b"." | b"..") {
        return Err(Errno::EEXIST);
    }
    let mut entries = parent.inode.entries()?.lock();
    if entries.contains_key(name) {
        return Err(Errno::EEXIST);
    }
    if parent.inode.nlink.load(Ordering::Relaxed) == 0 {
        return Err(Errno::ENOENT);
    }
    regular::check_space()?;
    entries.insert(name.to_vec(), inode.clone());
    parent.inode.touch();
    Ok(Arc::new(Dentry { inode, name: name.to_vec(), parent: Some(parent.clone()) }))
}

/// Removes the name of a directory, if `directory` is set, or that of another file.
///
/// # Errors
///
/// `ENOENT`, `ENOTDIR`, `EISDIR`, `ENOTEMPTY`, `EINVAL`, `EPERM`, `EBUSY`.
pub fn remove(parent: &Arc<Dentry>, name: &[u8], directory: bool) -> Result<(), Errno> {
    match name {
        b"." => return Err(Errno::EINVAL),
        b".." => return Err(Errno::ENOTEMPTY),
        _ => {}
    }
    let mut entries = parent.inode.entries()?.lock();
    let inode = entries.get(name).ok_or(Errno::ENOENT)?;
    match (directory, inode.is_directory()) {
        (true, false) => return Err(Errno::ENOTDIR),
        (false, true) => return Err(Errno::EISDIR),
        (true, true) if mounted(inode).is_some() => return Err(Errno::EBUSY),
        (true, true) if !inode.entries()?.lock().is_empty() => return Err(Errno::ENOTEMPTY),
        _ => {}
    }
    inode.nlink.fetch_sub(1, Ordering::Relaxed);
    let gone = entries.remove(name);
    parent.inode.touch();
    drop(entries);
    drop(gone);
    Ok(())
}

/// Renames a file. With `replace`, the file that has the new name loses it.
///
/// # Errors
///
/// Those of `rename(2)`.
pub fn rename(
    from: &Arc<Dentry>,
    old: &[u8],
    to: &Arc<Dentry>,
    new: &[u8],
    replace: bool,
) -> Result<(), Errno> {
    let inode = from.inode.lookup(old)?;
    // A directory cannot move into itself or one of its descendants.
    let mut above = Some(to);
    while let Some(dentry) = above {
        if Arc::ptr_eq(&dentry.inode, &inode) {
            return Err(Errno::EINVAL);
        }
        above = dentry.parent.as_ref();
    }
    if let Ok(there) = to.inode.lookup(new) {
        match (inode.is_directory(), there.is_directory()) {
            _ if !replace => return Err(Errno::EEXIST),
            _ if Arc::ptr_eq(&inode, &there) => return Ok(()),
            (true, false) => return Err(Errno::ENOTDIR),
            (false, true) => return Err(Errno::EISDIR),
            (_, is_directory) => remove(to, new, is_directory)?,
        }
    }
    to.inode.entries()?;
    from.inode.entries()?.lock().remove(old);
    to.inode.entries()?.lock().insert(new.to_vec(), inode);
    from.inode.touch();
    to.inode.touch();
    Ok(())
}

/// Mounts `/proc`, the devices, or an empty directory.
///
/// # Errors
///
/// `ENOENT`, `ENOTDIR`; `ENODEV` for other file systems.
pub fn mount(at: &Arc<Dentry>, kind: &[u8]) -> Result<(), Errno> {
    if !at.inode.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    let inode = match kind {
        b"proc" => procfs::root(),
        b"devtmpfs" => device::directory()?,
        b"tmpfs" | b"ramfs" => Inode::directory(0o1777),
        _ => return Err(Errno::ENODEV),
    };
    MOUNTS.lock().push((at.inode.clone(), inode));
    Ok(())
}

/// Unmounts the file system whose root is `at`.
///
/// # Errors
///
/// `EINVAL` if `at` is not the root of a mount.
pub fn unmount(at: &Arc<Dentry>) -> Result<(), Errno> {
    let mut mounts = MOUNTS.lock();
    let last =
        mounts.iter().rposition(|(_, above)| Arc::ptr_eq(above, &at.inode)).ok_or(Errno::EINVAL)?;
    mounts.remove(last);
    Ok(())
}

/// Drops all files, when the machine shuts down.
pub fn drop_all() {
    MOUNTS.lock().clear();
    if let Ok(entries) = root().inode.entries() {
        entries.lock().clear();
    }
}
