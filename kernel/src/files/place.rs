//! Paths: which file a name leads to, and changes of names.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use samara_mm::Errno;
use spin::{Mutex, Once};

use super::device;
use super::node::{Kind, Node};
use super::{process_files, regular};

/// A file by the way that led to it.
pub struct Place {
    pub node: Arc<Node>,
    name: Vec<u8>,
    /// `None` for the root, and for what has no name.
    parent: Option<Arc<Place>>,
}

/// Links that one path may follow.
const LINKS: u32 = 40;
const LONGEST_NAME: usize = 255;
const LONGEST_PATH: usize = 4095;

static ROOT: Once<Arc<Place>> = Once::new();
/// Directories that others are mounted on.
static MOUNTS: Mutex<Vec<(Arc<Node>, Arc<Node>)>> = Mutex::new(Vec::new());

/// The directory in which absolute paths begin.
pub fn root() -> Arc<Place> {
    let make = || Arc::new(Place { node: Node::directory(0o755), name: Vec::new(), parent: None });
    ROOT.call_once(make).clone()
}

impl Place {
    /// A file that has no name.
    pub fn nameless(node: Arc<Node>, name: Vec<u8>) -> Arc<Self> {
        Arc::new(Place { node, name, parent: None })
    }

    /// The path from the root.
    pub fn path(&self) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = self;
        while let Some(parent) = &at.parent {
            names.push(&at.name);
            at = parent;
        }
        if names.is_empty() && !self.name.is_empty() {
            return self.name.clone();
        }
        if names.is_empty() {
            return b"/".to_vec();
        }
        let mut path = Vec::new();
        for name in names.into_iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        path
    }

    fn child(self: &Arc<Self>, name: &[u8]) -> Result<Arc<Place>, Errno> {
        let node = self.node.lookup(name)?;
        let node = mounted(&node).unwrap_or(node);
        Ok(Arc::new(Place { node, name: name.to_vec(), parent: Some(self.clone()) }))
    }
}

fn mounted(node: &Arc<Node>) -> Option<Arc<Node>> {
    let mounts = MOUNTS.lock();
    mounts.iter().rev().find(|(below, _)| Arc::ptr_eq(below, node)).map(|(_, above)| above.clone())
}

/// Finds the file that a path names. The last name's link is followed if `follow` is set, or if a slash comes after it.
///
/// # Errors
/// `ENOENT`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`.
pub fn find(start: &Arc<Place>, path: &[u8], follow: bool) -> Result<Arc<Place>, Errno> {
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let found = walk(start.clone(), path, follow || path.ends_with(b"/"), &mut 0)?;
    if path.ends_with(b"/") && !found.node.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    Ok(found)
}

fn walk(
    start: Arc<Place>,
    path: &[u8],
    follow: bool,
    links: &mut u32,
) -> Result<Arc<Place>, Errno> {
    if path.len() > LONGEST_PATH {
        return Err(Errno::ENAMETOOLONG);
    }
    let mut at = if path.starts_with(b"/") { root() } else { start };
    let mut names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).peekable();
    while let Some(name) = names.next() {
        if !at.node.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        match name {
            b"." => continue,
            b".." => {
                at = at.parent.clone().unwrap_or(at);
                continue;
            }
            _ if name.len() > LONGEST_NAME => return Err(Errno::ENAMETOOLONG),
            _ => {}
        }
        let next = at.child(name)?;
        let is_last = names.peek().is_none();
        at = match &next.node.kind {
            Kind::Link(_) | Kind::Magic(..) if is_last && !follow => next,
            Kind::Magic(_, target) => target.clone(),
            Kind::Link(target) => {
                *links += 1;
                if *links > LINKS {
                    return Err(Errno::ELOOP);
                }
                walk(at, target, true, links)?
            }
            _ => next,
        };
    }
    Ok(at)
}

/// Finds the directory in which a path's last name lies, or would lie, and the name.
///
/// # Errors
/// As [`find`]; `EEXIST` or `EINVAL` cannot be told apart here: a path without a last name is `ENOENT`.
pub fn find_parent<'p>(
    start: &Arc<Place>,
    path: &'p [u8],
) -> Result<(Arc<Place>, &'p [u8]), Errno> {
    let trimmed =
        path.iter().rposition(|&byte| byte != b'/').map_or(&path[..0], |last| &path[..=last]);
    let at = trimmed.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let (before, name) = trimmed.split_at(at);
    if name.is_empty() {
        return Err(if path.is_empty() { Errno::ENOENT } else { Errno::EEXIST });
    }
    if name.len() > LONGEST_NAME {
        return Err(Errno::ENAMETOOLONG);
    }
    let parent = if before.is_empty() { start.clone() } else { find(start, before, true)? };
    if !parent.node.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    Ok((parent, name))
}

/// Gives a file a name.
///
/// # Errors
/// `EEXIST`, `EPERM`, `ENOTDIR`, `ENOSPC`, and `ENOENT` in a directory that was removed.
pub fn create(parent: &Arc<Place>, name: &[u8], node: Arc<Node>) -> Result<Arc<Place>, Errno> {
    if matches!(name, b"." | b"..") {
        return Err(Errno::EEXIST);
    }
    let mut entries = parent.node.entries()?.lock();
    if entries.contains_key(name) {
        return Err(Errno::EEXIST);
    }
    if parent.node.links.load(Ordering::Relaxed) == 0 {
        return Err(Errno::ENOENT);
    }
    regular::room()?;
    entries.insert(name.to_vec(), node.clone());
    parent.node.touch();
    Ok(Arc::new(Place { node, name: name.to_vec(), parent: Some(parent.clone()) }))
}

/// Takes a name away: of a directory, if `directory` is set, else of anything else.
///
/// # Errors
/// `ENOENT`, `ENOTDIR`, `EISDIR`, `ENOTEMPTY`, `EINVAL`, `EPERM`, `EBUSY`.
pub fn remove(parent: &Arc<Place>, name: &[u8], directory: bool) -> Result<(), Errno> {
    match name {
        b"." => return Err(Errno::EINVAL),
        b".." => return Err(Errno::ENOTEMPTY),
        _ => {}
    }
    let mut entries = parent.node.entries()?.lock();
    let node = entries.get(name).ok_or(Errno::ENOENT)?;
    match (directory, node.is_directory()) {
        (true, false) => return Err(Errno::ENOTDIR),
        (false, true) => return Err(Errno::EISDIR),
        (true, true) if mounted(node).is_some() => return Err(Errno::EBUSY),
        (true, true) if !node.entries()?.lock().is_empty() => return Err(Errno::ENOTEMPTY),
        _ => {}
    }
    node.links.fetch_sub(1, Ordering::Relaxed);
    let gone = entries.remove(name);
    parent.node.touch();
    drop(entries);
    drop(gone);
    Ok(())
}

/// Gives a file another name, in place of the one that has it now.
///
/// # Errors
/// Those of `rename(2)`.
pub fn rename(
    from: &Arc<Place>,
    old: &[u8],
    to: &Arc<Place>,
    new: &[u8],
    replace: bool,
) -> Result<(), Errno> {
    let node = from.node.lookup(old)?;
    // Nothing moves into itself.
    let mut above = Some(to);
    while let Some(place) = above {
        if Arc::ptr_eq(&place.node, &node) {
            return Err(Errno::EINVAL);
        }
        above = place.parent.as_ref();
    }
    if let Ok(there) = to.node.lookup(new) {
        match (node.is_directory(), there.is_directory()) {
            _ if !replace => return Err(Errno::EEXIST),
            _ if Arc::ptr_eq(&node, &there) => return Ok(()),
            (true, false) => return Err(Errno::ENOTDIR),
            (false, true) => return Err(Errno::EISDIR),
            (_, is_directory) => remove(to, new, is_directory)?,
        }
    }
    to.node.entries()?;
    from.node.entries()?.lock().remove(old);
    to.node.entries()?.lock().insert(new.to_vec(), node);
    from.node.touch();
    to.node.touch();
    Ok(())
}

/// Mounts `/proc`, devices or an empty directory.
///
/// # Errors
/// `ENOENT`, `ENOTDIR`; `ENODEV` for other kinds.
pub fn mount(at: &Arc<Place>, kind: &[u8]) -> Result<(), Errno> {
    if !at.node.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    let node = match kind {
        b"proc" => process_files::root(),
        b"devtmpfs" => device::directory()?,
        b"tmpfs" | b"ramfs" => Node::directory(0o1777),
        _ => return Err(Errno::ENODEV),
    };
    MOUNTS.lock().push((at.node.clone(), node));
    Ok(())
}

/// Takes the last mount of a directory away.
///
/// # Errors
/// `EINVAL` if nothing is mounted there.
pub fn unmount(at: &Arc<Place>) -> Result<(), Errno> {
    let mut mounts = MOUNTS.lock();
    let last =
        mounts.iter().rposition(|(_, above)| Arc::ptr_eq(above, &at.node)).ok_or(Errno::EINVAL)?;
    mounts.remove(last);
    Ok(())
}

/// Gives up all files: at the end of the machine.
pub fn drop_all() {
    MOUNTS.lock().clear();
    if let Ok(entries) = root().node.entries() {
        entries.lock().clear();
    }
}
