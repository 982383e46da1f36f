//! Translates a descriptor number of a traced program to the [`File`] that the engine knows.
//!
//! The file is looked up at the entry of `mmap`, because another thread may close the descriptor
//! during the call. Reading the descriptor costs two system calls. Everything else is remembered by
//! identity.
//!
//! # Which open file
//! Areas of one file merge only if they were mapped through the same open file description (see
//! `opened`).

mod kind;
mod length;
mod mounts;

use std::collections::HashMap;
use std::ffi::CStr;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use samara_conformance::counted::counted;
use samara_conformance::replica::may_be_sealed;
use samara_linux::Tid;
use samara_mm::{
    Counted, DriverFlags, File, FileArg, FileId, FileKind, KernelVersion, Object, VmFlags,
};

use super::opened::Opened;
use super::segments::Segments;
use mounts::Served;

pub(super) use kind::{kind_and_length, kind_of_mapped, seals_of_mapped};

/// The properties that two look-ups of one open file description share.
#[derive(Debug, PartialEq, Eq, Hash, Clone)]
struct Key {
    device: u64,
    inode: u64,
    /// Size and change times are left out: only the properties that `mmap` checks count.
    readable: bool,
    writable: bool,
    name: Box<[u8]>,
}

/// Files seen so far, over all traced processes.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// Indices into `list`.
    known: HashMap<Key, Vec<usize>>,
    list: Vec<Known>,
    /// Indices of files of which a descriptor is held.
    held: Vec<usize>,
    /// The last number given to an open file description.
    pub(crate) descriptions: u64,
    /// System V segments.
    pub(crate) segments: Segments,
    /// The last look-up: the thread, its descriptor, and the index in `list`.
    last: Option<(Tid, i32, usize)>,
    path: Vec<u8>,
    served: Served,
    /// The map shows the underlying file that an overlay maps. Another file takes its place when
    /// the overlay's file is first written.
    shows_stacked: bool,
}

/// One open file description, or several successive ones of the same file.
#[derive(Debug)]
struct Known {
    /// The file as it was seen last, and its earlier states, which areas may still have.
    file: Counted<File>,
    former: Vec<Counted<File>>,
    opened: Opened,
    /// The kernel's map has shown this file under the same device and inode.
    confirmed: bool,
}

impl Known {
    /// Returns `true` if no engine has an area of it, and no current call names it.
    fn is_idle(&mut self) -> bool {
        let idle = |file: &Counted<File>| file.is_alone();
        self.former.retain(|file| !idle(file));
        self.former.is_empty() && idle(&self.file)
    }

    fn set(&mut self, file: Counted<File>) {
        let before = std::mem::replace(&mut self.file, file);
        self.former.push(before);
    }
}

fn is_shared(flags: u64) -> bool {
    const TYPE: u64 = libc::MAP_TYPE as u64;
    const SHARED: [u64; 2] = [libc::MAP_SHARED as u64, libc::MAP_SHARED_VALIDATE as u64];
    SHARED.contains(&(flags & TYPE))
}

/// The flag to ask for a file's cached state, without asking the process that serves its file
/// system. That process may wait for this program.
const AS_KNOWN: i32 = libc::AT_STATX_DONT_SYNC;

/// Returns the device, the inode, the length, the type and the permissions. The other fields are
/// not set.
fn stat(path: &CStr, follow: bool) -> io::Result<libc::stat64> {
    let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    stat_at(libc::AT_FDCWD, path, flags)
}

/// Returns the same for the file behind a descriptor.
fn stat_of(file: BorrowedFd<'_>) -> io::Result<libc::stat64> {
    stat_at(file.as_raw_fd(), c"", libc::AT_EMPTY_PATH)
}

fn stat_at(folder: RawFd, path: &CStr, flags: i32) -> io::Result<libc::stat64> {
    // SAFETY: all zeros is a valid value of these structs of integers.
    let (mut stat, mut told): (libc::stat64, libc::statx) = unsafe { std::mem::zeroed() };
    let flags = flags | AS_KNOWN;
    let asked = libc::STATX_TYPE | libc::STATX_MODE | libc::STATX_INO | libc::STATX_SIZE;
    // SAFETY: `path` ends with a zero byte, and `told` is a valid place for the answer.
    if unsafe { libc::statx(folder, path.as_ptr(), flags, asked, &mut told) } != 0 {
        return Err(io::Error::last_os_error());
    }
    stat.st_dev = libc::makedev(told.stx_dev_major, told.stx_dev_minor);
    stat.st_rdev = libc::makedev(told.stx_rdev_major, told.stx_rdev_minor);
    stat.st_ino = told.stx_ino;
    stat.st_mode = told.stx_mode.into();
    stat.st_size = i64::try_from(told.stx_size).unwrap_or(i64::MAX);
    Ok(stat)
}

impl Files {
    /// Creates an empty table. Linux 6.12 was seen to show files of overlays as `fstat` does, 6.1
    /// was not.
    pub(crate) fn seen_by(kernel: KernelVersion) -> Self {
        Self {
            shows_stacked: kernel < KernelVersion::new(6, 12),
            ..Self::default()
        }
    }

    /// Returns the descriptor argument of an `mmap` with these `flags`, which must not be
    /// anonymous.
    pub(crate) fn resolve(&mut self, tid: Tid, descriptor: i32, flags: u64) -> FileArg {
        if descriptor < 0 {
            return FileArg::Bad;
        }
        let mut text = std::mem::take(&mut self.path);
        text.clear();
        let _ = write!(text, "/proc/{tid}/fd/{descriptor}\0");
        let file = match CStr::from_bytes_with_nul(&text) {
            Ok(path) => match self.same_again(tid, descriptor) {
                Some(index) => self.looked_at(index),
                None => self.resolve_link(tid, descriptor, path),
            },
            Err(_) => FileArg::Bad,
        };
        let file = match (file, CStr::from_bytes_with_nul(&text)) {
            // The kernel refuses to share an append-only file with a writer, as if the file could
            // not be read.
            (FileArg::File(file), Ok(path))
                if file.writable && is_shared(flags) && kind::is_append_only(path) =>
            {
                FileArg::File(counted(File {
                    readable: false,
                    ..(*file).clone()
                }))
            }
            (file, _) => file,
        };
        self.path = text;
        file
    }

    /// Returns the file of the last look-up, if the same descriptor still stands for it. Libraries
    /// are mapped in pieces. A file in memory may have new seals, so it is not taken from there.
    fn same_again(&self, tid: Tid, descriptor: i32) -> Option<usize> {
        let (_, _, index) = self
            .last
            .filter(|last| (last.0, last.1) == (tid, descriptor))?;
        let known = &self.list[index];
        let same = !may_be_sealed(known.file.kind) && known.opened.is_surely(tid, descriptor);
        same.then_some(index)
    }

    /// Returns a file of the list. The permission to execute is read each time, because a remount
    /// may change it.
    fn looked_at(&mut self, index: usize) -> FileArg {
        let known = &mut self.list[index];
        if let Some(noexec) = known.opened.is_noexec_now()
            && noexec != known.file.noexec
        {
            let file = File {
                noexec,
                ..(*known.file).clone()
            };
            known.set(counted(file));
        }
        FileArg::File(known.file.clone())
    }

    fn resolve_link(&mut self, tid: Tid, descriptor: i32, path: &CStr) -> FileArg {
        // The link's permission bits say how the file was opened. With O_PATH it is neither
        // readable nor writable.
        let Ok(link) = stat(path, false) else {
            return FileArg::Bad;
        };
        let readable = link.st_mode & 0o400 != 0;
        let writable = link.st_mode & 0o200 != 0;
        if !readable && !writable && kind::opened_as_path(tid, descriptor) {
            return FileArg::Bad;
        }
        let Ok(object) = stat(path, true) else {
            return FileArg::Bad;
        };
        let Some(name) = link_target(path) else {
            return FileArg::Bad;
        };
        let key = Key {
            device: object.st_dev,
            inode: object.st_ino,
            readable,
            writable,
            name,
        };
        let index = self.opened(tid, descriptor, &key, path, &object);
        self.last = Some((tid, descriptor, index));
        let known = &mut self.list[index];
        // Seals of a memfd may be added at any time, so they are read again.
        if may_be_sealed(known.file.kind) {
            let seals = kind::seals(path, &key.name);
            if seals != known.file.seals {
                let file = File {
                    seals,
                    ..(*known.file).clone()
                };
                known.set(counted(file));
            }
        }
        self.looked_at(index)
    }

    /// Returns the index in the list of the open file description behind a descriptor.
    fn opened(
        &mut self,
        tid: Tid,
        descriptor: i32,
        key: &Key,
        path: &CStr,
        object: &libc::stat64,
    ) -> usize {
        let (mut free, mut numbered) = (None, None);
        for &index in self.known.get(key).into_iter().flatten() {
            let known = &mut self.list[index];
            match known.opened.is(tid, descriptor) {
                Some(true) => return index,
                Some(false) => {}
                // No area has the former file, so the entry may stand for this one.
                None if known.is_idle() => free = Some(index),
                None if known.opened.number() == descriptor => numbered = Some(index),
                None => {}
            }
        }
        // The number continues to stand for the file even if there is room by now: a held
        // descriptor would be a different file.
        if let Some(index) = numbered {
            return index;
        }
        let served = self.served.holds_file(tid, object);
        let room = self.held.len() < Opened::MOST;
        let opened = Opened::of(tid, descriptor, room, served);
        let held = opened.is_held();
        let index = match free {
            Some(index) => {
                self.list[index].opened = opened;
                index
            }
            None => {
                let (kind, noexec) = match served {
                    true => (FileKind::Fuse, false),
                    false => kind::of_descriptor((tid, descriptor), path, &key.name, object),
                };
                let noexec = noexec || opened.is_noexec(tid, descriptor);
                self.add(key, object, kind, noexec, opened)
            }
        };
        if held {
            self.held.push(index);
        }
        index
    }

    /// Adds an open file description to the list, and returns its index.
    fn add(
        &mut self,
        key: &Key,
        object: &libc::stat64,
        kind: FileKind,
        noexec: bool,
        opened: Opened,
    ) -> usize {
        self.descriptions += 1;
        self.list.push(Known {
            file: counted(File {
                description: NonZeroU64::new(self.descriptions),
                id: FileId {
                    major: libc::major(object.st_dev),
                    minor: libc::minor(object.st_dev),
                    inode: object.st_ino,
                },
                name: printed_name(&key.name),
                readable: key.readable,
                writable: key.writable,
                noexec,
                kind,
                seals: 0,
                driver: DriverFlags::default(),
                object: Object::none(),
            }),
            former: Vec::new(),
            opened,
            confirmed: false,
        });
        let index = self.list.len() - 1;
        self.known.entry(key.clone()).or_default().push(index);
        index
    }

    /// Closes the held descriptors of files that are not mapped any more.
    pub(crate) fn release(&mut self) {
        let list = &mut self.list;
        self.held.retain(|&index| {
            let mapped = !list[index].is_idle();
            if !mapped {
                list[index].opened.release();
            }
            mapped
        });
    }

    /// Returns `true` if no kernel map has been seen yet that shows `file` under the identity that
    /// `fstat` gave. (Some file systems show another device in the map.)
    pub(crate) fn unconfirmed(&mut self, file: &Counted<File>) -> bool {
        self.list
            .iter()
            .rev()
            .any(|known| !known.confirmed && Counted::ptr_eq(&known.file, file))
    }

    /// Notes the identity and the name that the kernel's map shows for `file`, and returns the file
    /// with them.
    pub(crate) fn confirm(
        &mut self,
        file: &Counted<File>,
        id: FileId,
        name: Option<&[u8]>,
    ) -> Counted<File> {
        let changed = File {
            id,
            name: name.map_or_else(
                || file.name.clone(),
                |name| String::from_utf8_lossy(name).into(),
            ),
            ..(**file).clone()
        };
        self.replace(file, changed, true)
    }

    /// Returns the same file with the flags that its driver gave to an area.
    pub(crate) fn driven(&mut self, file: &Counted<File>, flags: VmFlags) -> Counted<File> {
        let changed = File {
            driver: driver(flags),
            ..(**file).clone()
        };
        self.replace(file, changed, false)
    }

    fn replace(&mut self, file: &Counted<File>, changed: File, confirmed: bool) -> Counted<File> {
        let known = self
            .list
            .iter_mut()
            .rev()
            .find(|known| Counted::ptr_eq(&known.file, file));
        let Some(known) = known else {
            return file.clone();
        };
        known.confirmed |= confirmed && !(self.shows_stacked && file.kind == FileKind::Stacked);
        if *known.file != changed {
            known.set(counted(changed));
        }
        known.file.clone()
    }
}

/// Returns the driver's decisions about an area with these flags.
pub(crate) fn driver(flags: VmFlags) -> DriverFlags {
    const ADDED: VmFlags = VmFlags::SPECIAL
        .union(VmFlags::DONTCOPY)
        .union(VmFlags::DONTDUMP)
        .union(VmFlags::LOCKED)
        .union(VmFlags::WIPEONFORK)
        .union(VmFlags::HUGEPAGE)
        .union(VmFlags::NOHUGEPAGE);
    DriverFlags {
        adds: flags & ADDED,
        removes: VmFlags::MAY_ALL - flags,
    }
}

/// Returns the target of a link in `/proc`. It is empty for a path that is too long for the kernel
/// to report.
fn link_target(path: &CStr) -> Option<Box<[u8]>> {
    let mut name = vec![0; 512];
    loop {
        // SAFETY: `path` ends with a zero byte. The buffer and its length belong together.
        let length = unsafe { libc::readlink(path.as_ptr(), name.as_mut_ptr().cast(), name.len()) };
        let Ok(length) = usize::try_from(length) else {
            let error = io::Error::last_os_error().raw_os_error();
            return (error == Some(libc::ENAMETOOLONG)).then(Box::default);
        };
        if length < name.len() {
            name.truncate(length);
            return Some(name.into());
        }
        name.resize(name.len() * 2, 0);
    }
}

/// Returns the name as `/proc/PID/maps` prints it, with newlines escaped.
fn printed_name(name: &[u8]) -> Box<str> {
    String::from_utf8_lossy(name)
        .replace('\n', "\\012")
        .into_boxed_str()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PRIVATE: u64 = libc::MAP_PRIVATE as u64;

    fn own() -> Tid {
        std::process::id() as Tid
    }

    fn resolved(file: &fs::File) -> Counted<File> {
        match Files::default().resolve(own(), file.as_raw_fd(), PRIVATE) {
            FileArg::File(file) => file,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn regular_files_have_their_access_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        fs::write(&path, "x").unwrap();
        let read = resolved(&fs::File::open(&path).unwrap());
        assert!(read.readable && !read.writable);
        let write = resolved(&fs::OpenOptions::new().append(true).open(&path).unwrap());
        assert!(!write.readable && write.writable);
        assert_eq!(read.id, write.id);
        assert_eq!(&*read.name, path.to_str().unwrap());
        let open = fs::File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(resolved(&open).name.ends_with("data (deleted)"));
    }

    #[test]
    fn a_reused_descriptor_number_is_resolved_again() {
        let folder = tempfile::tempdir().unwrap();
        let made = |name: &str| {
            let path = folder.path().join(name);
            fs::write(&path, name).unwrap();
            fs::File::open(path).unwrap()
        };
        let name = |file: FileArg| match file {
            FileArg::File(file) => file.name.rsplit('/').next().unwrap().to_owned(),
            other => format!("{other:?}"),
        };
        let mut files = Files::default();
        let (one, other) = (made("one"), made("other"));
        // The number is so high that no other test gets it when it is free.
        // SAFETY: the call makes a descriptor of this test's own.
        let number = unsafe { libc::fcntl(one.as_raw_fd(), libc::F_DUPFD, 700) };
        let first = files.resolve(own(), number, PRIVATE);
        assert_eq!(files.resolve(own(), number, PRIVATE), first);
        assert_eq!(name(first), "one");
        // SAFETY: another file of this test takes the place of the first one.
        unsafe { libc::dup2(other.as_raw_fd(), number) };
        assert_eq!(name(files.resolve(own(), number, PRIVATE)), "other");
        // SAFETY: the descriptor belongs to this test.
        unsafe { libc::close(number) };
        assert_eq!(files.resolve(own(), number, PRIVATE), FileArg::Bad);
    }

    #[test]
    fn unmappable_files_are_recognised() {
        assert_eq!(Files::default().resolve(own(), -1, PRIVATE), FileArg::Bad);
        assert_eq!(Files::default().resolve(own(), 9999, PRIVATE), FileArg::Bad);
        assert_eq!(
            resolved(&fs::File::open("/").unwrap()).kind,
            FileKind::Unmappable
        );
        assert_eq!(
            resolved(&fs::File::open("/dev/zero").unwrap()).kind,
            FileKind::DevZero
        );
        assert_eq!(
            resolved(&fs::File::open("/dev/null").unwrap()).kind,
            FileKind::Device
        );
        // SAFETY: the call opens a path with constant arguments.
        let path_only = unsafe { libc::open(c"/bin/sh".as_ptr(), libc::O_PATH) };
        assert_eq!(
            Files::default().resolve(own(), path_only, PRIVATE),
            FileArg::Bad
        );
        // SAFETY: the descriptor was opened above.
        unsafe { libc::close(path_only) };
    }

    #[test]
    fn a_memfd_shows_its_seals() {
        // SAFETY: the calls make a memfd and seal it. It is closed below.
        let descriptor = unsafe {
            let descriptor = libc::memfd_create(c"sealed".as_ptr(), libc::MFD_ALLOW_SEALING);
            libc::fcntl(descriptor, libc::F_ADD_SEALS, libc::F_SEAL_WRITE);
            descriptor
        };
        let FileArg::File(file) = Files::default().resolve(own(), descriptor, PRIVATE) else {
            panic!("not open");
        };
        assert_eq!(file.kind, FileKind::Shmem);
        assert_eq!(file.seals, libc::F_SEAL_WRITE as u32);
        assert_eq!(&*file.name, "/memfd:sealed (deleted)");
        // SAFETY: the descriptor was opened above.
        unsafe { libc::close(descriptor) };
    }
}
