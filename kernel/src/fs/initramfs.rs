//! The initial files: cpio archives of the format `newc`.

use alloc::sync::Arc;
use alloc::vec::Vec;

use samara_mm::Errno;

use super::decompress;
use super::device::{self, Device};
use super::inode::{Inode, Kind, S_IFMT};
use super::path::{self, Dentry, root};
use crate::log;

/// The header of an entry: 13 numbers of eight hexadecimal digits after the magic.
struct Header {
    mode: u32,
    size: usize,
    device: (u32, u32),
    name: usize,
    number: u64,
    links: u32,
}

const HEADER: usize = 110;

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER)?;
        if !matches!(&bytes[..6], b"070701" | b"070702") {
            return None;
        }
        let field = |i: usize| {
            let digits = core::str::from_utf8(&bytes[6 + 8 * i..14 + 8 * i]).ok()?;
            u32::from_str_radix(digits, 16).ok()
        };
        Some(Header {
            number: field(0)?.into(),
            mode: field(1)?,
            links: field(4)?,
            size: field(6)? as usize,
            device: (field(9)?, field(10)?),
            name: field(11)? as usize,
        })
    }
}

/// Creates the files of one archive, or of several archives in a row.
///
/// # Errors
///
/// `EINVAL` if an archive is truncated or has another format; `ENOMEM`.
pub fn unpack(archive: &[u8]) -> Result<(), Errno> {
    match decompress::unpacked(archive)? {
        Some(archive) => make_all(&archive)?,
        None => make_all(archive)?,
    }
    add_missing()
}

fn make_all(mut archive: &[u8]) -> Result<(), Errno> {
    let mut linked: Vec<(u64, Arc<Inode>)> = Vec::new();
    while let Some(start) = archive.iter().position(|&byte| byte != 0) {
        archive = &archive[start..];
        let header = Header::read(archive).ok_or(Errno::EINVAL)?;
        let content = (HEADER + header.name).next_multiple_of(4);
        let end = content.checked_add(header.size).ok_or(Errno::EINVAL)?;
        let name = archive
            .get(HEADER..HEADER + header.name)
            .and_then(|name| name.strip_suffix(b"\0"))
            .ok_or(Errno::EINVAL)?;
        let bytes = archive.get(content..end).ok_or(Errno::EINVAL)?;
        if name == b"TRAILER!!!" {
            linked.clear();
        } else if let Err(error) = make(name, &header, bytes, &mut linked) {
            log!("initial files: {}: {error}", name.escape_ascii());
        }
        archive = archive.get(end.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(())
}

/// Creates what programs expect and the archive may lack: devices and `/proc`.
fn add_missing() -> Result<(), Errno> {
    let is_empty = |inode: &Arc<Inode>| inode.names().is_ok_and(|names| names.is_empty());
    match root().inode.lookup(b"dev") {
        Err(_) => drop(path::create(&root(), b"dev", device::directory()?)?),
        Ok(inode) if is_empty(&inode) => {
            path::mount(&path::find(&root(), b"/dev", true)?, b"devtmpfs")?;
        }
        Ok(_) => {}
    }
    if root().inode.lookup(b"proc").is_err() {
        path::create(&root(), b"proc", Inode::directory(0o555))?;
    }
    path::mount(&path::find(&root(), b"/proc", true)?, b"proc")?;
    Ok(())
}

fn make(
    name: &[u8],
    header: &Header,
    bytes: &[u8],
    linked: &mut Vec<(u64, Arc<Inode>)>,
) -> Result<(), Errno> {
    let name = name.strip_prefix(b"./").unwrap_or(name);
    if name.is_empty() || name == b"." {
        return Ok(());
    }
    let (parent, last) = path::find_parent(&root(), name)?;
    let known = linked
        .iter()
        .find(|(number, _)| header.links > 1 && *number == header.number)
        .map(|(_, inode)| inode.clone());
    let is_known = known.is_some();
    let inode = match (header.mode & S_IFMT) >> 12 {
        _ if is_known => known.ok_or(Errno::EINVAL)?,
        4 => Inode::directory(header.mode),
        8 => Inode::regular(header.mode)?,
        10 => Inode::symlink(bytes.to_vec()),
        1 => Inode::new(Kind::Pipe(Arc::default()), header.mode),
        2 => device::inode(match header.device {
            (1, 5) => Device::Zero,
            (1, 7) => Device::Full,
            (1, 8 | 9) => Device::Random,
            (5, 0 | 1) => Device::Console(super::console::get()),
            _ => Device::Null,
        }),
        _ => return Err(Errno::EINVAL),
    };
    // A file with several names has its content at any one of them.
    if let (Kind::Regular(regular), false) = (&inode.kind, bytes.is_empty()) {
        regular.write(Some(0), bytes)?;
    }
    if is_known {
        inode.nlink.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    } else if header.links > 1 && inode.is_regular() {
        linked.push((header.number, inode.clone()));
    }
    match path::create(&parent, last, inode.clone()) {
        // The directory exists already.
        Err(Errno::EEXIST) if inode.is_directory() => Ok(()),
        result => result.map(|_: Arc<Dentry>| ()),
    }
}
