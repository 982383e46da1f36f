//! `mm_file_…`: opens, the inodes behind them, and the open that serves the pages.
//!
//! An *open* is the object to which C code has a pointer, and which areas keep alive. An *inode* is
//! what its opens share: the engine keeps the pages with it. The oldest open of an inode that has
//! not been released serves the pages.
//!
//! # References
//!
//! ```text
//! C code ──► open ◄── File (its number, its rights) ◄── areas
//!                       │ object
//!                       ▼
//!                     inode: cached pages ──► Server ──► opens that can serve
//! ```
//!
//! The caller's references are one reference to the `File`. When the last reference to an open's
//! `File` is dropped, the open stops serving and is released. The inode's last open is an
//! exception: it serves until the inode has written its dirty pages back.

use core::ffi::{CStr, c_uint, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use samara_mm::heap::{Counted, Weak};
use samara_mm::process::{HostLock, Inode as Pages, PageSource};
use samara_mm::{Errno, File, FileId, FileKind, Object};

use crate::mm::abi::{
    MM_FILE_APPEND, MM_FILE_FUSE, MM_FILE_NOEXEC, MM_FILE_PLACED, MM_FILE_READ, MM_FILE_SHMEM,
    MM_FILE_STACKED, MM_FILE_UNALIGNED, MM_FILE_WRITE, MmFileInfo, MmFileOps,
};
use crate::mm::code;

/// A mutex whose waiters need no memory.
type Mutex<T> = lock_api::Mutex<HostLock, T>;

/// `struct mm_file`.
#[derive(Debug)]
pub struct MmFile {
    /// The caller's references.
    own: Mutex<Own>,
    file: OnceLock<Weak<File>>,
    /// The description that shared mappings of an append-only file that is open for writing get: it
    /// permits none.
    refusing: Option<Counted<File>>,
}

/// The caller's references, which are one reference to the file.
#[derive(Debug, Default)]
struct Own {
    references: usize,
    file: Option<Counted<File>>,
}

impl MmFile {
    /// Returns the file of the areas, as long as the caller or an area keeps it alive.
    pub(crate) fn file(&self) -> Option<Counted<File>> {
        self.file.get()?.upgrade()
    }

    /// Takes one of the caller's references.
    pub(crate) fn take(&self) -> Option<Counted<File>> {
        let mut own = self.own.lock();
        if own.references > 1 {
            own.references -= 1;
            return own.file.clone();
        }
        own.references = 0;
        own.file.take()
    }

    /// Adds one to the caller's references.
    fn get(&self) {
        let file = self.file();
        let mut own = self.own.lock();
        own.references += 1;
        if own.file.is_none() {
            own.file = file;
        }
    }

    /// Returns the file that a mapping with these flags gets.
    pub(crate) fn for_mapping(&self, shared: bool) -> Option<Counted<File>> {
        match &self.refusing {
            Some(refusing) if shared => Some(refusing.clone()),
            _ => self.file(),
        }
    }
}

/// Returns the open that an area's file belongs to.
pub(crate) fn open_of(file: &File) -> *mut MmFile {
    let open = file
        .object
        .get::<OpenObject>()
        .map(|kept| core::ptr::from_ref::<MmFile>(&kept.open));
    open.unwrap_or(core::ptr::null()).cast_mut()
}

/// The caller's functions for an open. Dropping them releases it.
#[derive(Debug)]
struct Ops {
    ops: MmFileOps,
    ctx: *mut c_void,
    /// `true` if the caller has been told that the open succeeded. Otherwise nothing must be
    /// released.
    taken: AtomicBool,
}

// SAFETY: the header permits any thread to call any function, so that the caller's functions must
// tolerate that, too. The context is only passed on.
unsafe impl Send for Ops {}
// SAFETY: as above.
unsafe impl Sync for Ops {}

impl Drop for Ops {
    fn drop(&mut self) {
        if let Some(release) = self.ops.release
            && *self.taken.get_mut()
        {
            // SAFETY: the caller's function and context, once.
            unsafe { release(self.ctx) };
        }
    }
}

/// The pages of an inode, served through the oldest of its opens.
#[derive(Debug, Default)]
struct Server {
    /// Never empty once the first open was added. The oldest is the first.
    opens: Mutex<Vec<Counted<Ops>>>,
}

impl Server {
    /// Returns the oldest open. Its functions are called without a lock. If it is released
    /// concurrently, that takes effect only after the call.
    fn oldest(&self) -> Option<Counted<Ops>> {
        self.opens.lock().first().cloned()
    }

    /// Reserves memory for one more open.
    fn reserve_slot(&self) -> Result<(), Errno> {
        let room = self.opens.lock().try_reserve(1);
        room.map_err(|_| Errno::ENOMEM)
    }

    /// Removes an open, which no longer serves, unless it is the last.
    fn leave(&self, ops: &Counted<Ops>) {
        let mut opens = self.opens.lock();
        let gone = match opens
            .iter()
            .position(|other| core::ptr::eq::<Ops>(&**other, &**ops))
        {
            Some(at) if opens.len() > 1 => Some(opens.remove(at)),
            _ => None,
        };
        drop(opens);
        drop(gone);
    }
}

/// The engine's access to the server. The inode owns it, and drops it when its dirty pages have
/// been written.
struct Source {
    server: Counted<Server>,
    /// As the first open specified.
    memory: bool,
}

/// Converts the return value of a caller's function.
fn answer(number: i32) -> Result<(), Errno> {
    match number {
        0 => Ok(()),
        number => Err(Errno(number.saturating_neg().max(1))),
    }
}

impl PageSource for Source {
    fn read_page(&self, pgoff: u64, page: &mut [u8; 4096]) -> Result<(), Errno> {
        let Some(ops) = self.server.oldest() else {
            return Err(Errno::EIO);
        };
        let Some(read) = ops.ops.read_page else {
            page.fill(0);
            return Ok(());
        };
        // SAFETY: the caller's function and context, and a page to write to.
        answer(unsafe { read(ops.ctx, pgoff, page.as_mut_ptr().cast()) })
    }

    fn write_page(&self, pgoff: u64, page: &[u8; 4096]) -> Result<(), Errno> {
        let Some(ops) = self.server.oldest() else {
            return Err(Errno::EIO);
        };
        let Some(write) = ops.ops.write_page else {
            return Ok(());
        };
        // SAFETY: the caller's function and context, and a page to read.
        answer(unsafe { write(ops.ctx, pgoff, page.as_ptr().cast()) })
    }

    fn punch(&self, start: u64, end: u64) -> Result<(), Errno> {
        const ZEROES: [u8; 4096] = [0; 4096];
        let Some(ops) = self.server.oldest() else {
            return Err(Errno::EIO);
        };
        if let Some(punch) = ops.ops.punch {
            // SAFETY: the caller's function and context.
            return answer(unsafe { punch(ops.ctx, start, end) });
        }
        let Some(write) = ops.ops.write_page else {
            return Ok(());
        };
        // Pages entirely beyond the end need no zeroing.
        let end = end.min(self.size());
        for pgoff in start >> 12..end.div_ceil(4096) {
            // SAFETY: as above.
            answer(unsafe { write(ops.ctx, pgoff, ZEROES.as_ptr().cast()) })?;
        }
        Ok(())
    }

    fn size(&self) -> u64 {
        match self.server.oldest() {
            Some(ops) => match ops.ops.size {
                // SAFETY: the caller's function and context.
                Some(size) => unsafe { size(ops.ctx) },
                None => u64::MAX,
            },
            None => 0,
        }
    }

    fn is_memory(&self) -> bool {
        self.memory
    }
}

/// The data that is dropped with the last reference to an open's `File`.
struct OpenObject {
    id: FileId,
    ops: Counted<Ops>,
    server: Counted<Server>,
    open: Counted<MmFile>,
}

impl Drop for OpenObject {
    fn drop(&mut self) {
        let mut inodes = inodes(self.id).lock();
        // Another inode with this number may exist by now, without this open.
        let found = inodes
            .iter()
            .position(|inode| core::ptr::eq::<Server>(&*inode.server, &*self.server));
        let mut last = None;
        if let Some(at) = found {
            inodes[at].opens -= 1;
            if inodes[at].opens == 0 {
                last = Some(inodes.swap_remove(at));
            }
        }
        drop(inodes);
        if last.is_none() {
            self.server.leave(&self.ops);
        }
        // `last` is dropped after the lock, since the inode itself may be dropped now, and write.
    }
}

/// An inode with opens.
struct Inode {
    id: FileId,
    object: Object,
    server: Counted<Server>,
    opens: usize,
}

/// The number of lists of open inodes, by number. They stay short even if a program has tens of
/// thousands of files open.
const LISTS: usize = 1024;

/// All inodes with opens.
static INODES: [Mutex<Vec<Inode>>; LISTS] = [const { Mutex::new(Vec::new()) }; LISTS];

/// Returns the list of an inode.
fn inodes(id: FileId) -> &'static Mutex<Vec<Inode>> {
    // Numbers of one device are often consecutive, or multiples of a power of two.
    let device = u64::from(id.major) << 32 | u64::from(id.minor);
    let mixed = (id.inode ^ device.rotate_left(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &INODES[(mixed >> 54) as usize]
}

/// Adds an open to those of its inode. After a failure it has been removed again.
fn enter(
    id: FileId,
    memory: bool,
    ops: Counted<Ops>,
    open: &Counted<MmFile>,
) -> Result<Object, Errno> {
    let mut inodes = inodes(id).lock();
    let at = match inodes.iter().position(|inode| inode.id == id) {
        Some(at) => {
            inodes[at].server.reserve_slot()?;
            at
        }
        None => {
            inodes.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            let server = Counted::try_new(Server::default())?;
            server.reserve_slot()?;
            inodes.push(Inode {
                id,
                object: Pages::object(Source {
                    server: server.clone(),
                    memory,
                })?,
                server,
                opens: 0,
            });
            inodes.len() - 1
        }
    };
    let inode = &mut inodes[at];
    let (first, server) = (inode.object.clone(), inode.server.clone());
    inode.opens += 1;
    server.opens.lock().push(ops.clone());
    drop(inodes);
    let open = open.clone();
    first.with(OpenObject {
        id,
        ops,
        server,
        open,
    })
}

/// Converts a C string, with a replacement character for invalid UTF-8.
///
/// # Errors
///
/// `ENOMEM`.
fn text(bytes: &CStr) -> Result<Box<str>, Errno> {
    const REPLACEMENT: &str = "\u{fffd}";
    let pieces = || {
        bytes.to_bytes().utf8_chunks().flat_map(|chunk| {
            let replacement = Some(REPLACEMENT).filter(|_| !chunk.invalid().is_empty());
            [Some(chunk.valid()), replacement].into_iter().flatten()
        })
    };
    let mut text = String::new();
    text.try_reserve_exact(pieces().map(str::len).sum())
        .map_err(|_| Errno::ENOMEM)?;
    text.extend(pieces());
    Ok(text.into_boxed_str())
}

/// Returns the kind of a file with these flags.
fn kind(flags: c_uint) -> Result<FileKind, Errno> {
    const ALL: c_uint =
        MM_FILE_SHMEM | MM_FILE_UNALIGNED | MM_FILE_STACKED | MM_FILE_FUSE | MM_FILE_PLACED;
    match flags & ALL {
        0 => Ok(FileKind::Regular),
        MM_FILE_SHMEM => Ok(FileKind::Shmem),
        MM_FILE_UNALIGNED => Ok(FileKind::Unaligned),
        MM_FILE_STACKED => Ok(FileKind::Stacked),
        MM_FILE_FUSE => Ok(FileKind::Fuse),
        MM_FILE_PLACED => Ok(FileKind::Placed),
        _ => Err(Errno::EINVAL),
    }
}

fn open(info: &MmFileInfo, ops: MmFileOps, ctx: *mut c_void) -> Result<Counted<MmFile>, Errno> {
    let name = if info.name.is_null() {
        c""
    } else {
        // SAFETY: a string, as the header demands.
        unsafe { CStr::from_ptr(info.name) }
    };
    let id = FileId {
        major: info.major,
        minor: info.minor,
        inode: info.inode,
    };
    let has = |flag: c_uint| info.flags & flag != 0;
    let kind = kind(info.flags)?;
    let file = |object: Object, readable: bool| {
        Counted::try_new(File {
            readable,
            writable: has(MM_FILE_WRITE),
            noexec: has(MM_FILE_NOEXEC),
            kind,
            object,
            ..File::opened(id, text(name)?)
        })
    };
    let append_only = has(MM_FILE_APPEND) && has(MM_FILE_WRITE);
    let refusing = append_only.then(|| file(Object::none(), false));
    let made = Counted::try_new(MmFile {
        own: Mutex::new(Own::default()),
        file: OnceLock::new(),
        refusing: refusing.transpose()?,
    })?;
    let ops = Counted::try_new(Ops {
        ops,
        ctx,
        taken: AtomicBool::new(false),
    })?;
    let object = enter(id, has(MM_FILE_SHMEM), ops.clone(), &made)?;
    let described = file(object, has(MM_FILE_READ))?;
    // No other thread has it yet, so that it is not set.
    let _ = made.file.set(described.downgrade());
    *made.own.lock() = Own {
        references: 1,
        file: Some(described),
    };
    // Relaxed: the caller passes the pointer to other threads by its own synchronisation.
    ops.taken.store(true, Ordering::Relaxed);
    Ok(made)
}

/// Creates an open file description.
///
/// # Safety
///
/// `info` points to the structure, with a name that is a string or NULL. `ops` is NULL or points to
/// functions that behave as the header says. `file` points to a pointer.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_file_open(
    info: *const MmFileInfo,
    ops: *const MmFileOps,
    ctx: *mut c_void,
    file: *mut *mut MmFile,
) -> i32 {
    const NONE: MmFileOps = MmFileOps {
        read_page: None,
        write_page: None,
        punch: None,
        size: None,
        release: None,
    };
    // SAFETY: the caller's duties.
    let (info, ops) = unsafe { (info.as_ref(), ops.as_ref().copied().unwrap_or(NONE)) };
    let Some(info) = info.filter(|_| !file.is_null()) else {
        return code(Errno::EINVAL);
    };
    match open(info, ops, ctx) {
        Ok(made) => {
            // SAFETY: the caller's duty. The reference in `own` is the caller's. The pointer is
            // valid as long as a `File` exists.
            unsafe { file.write(core::ptr::from_ref::<MmFile>(&made).cast_mut()) };
            0
        }
        Err(error) => code(error),
    }
}

/// Takes another reference to a file, which must be dropped like the first.
///
/// # Safety
///
/// `file` is NULL, or came from [`mm_file_open`], and the caller has a reference or an area has the
/// file.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_file_get(file: *mut MmFile) -> *mut MmFile {
    // SAFETY: the caller's duty.
    if let Some(file) = unsafe { file.as_ref() } {
        file.get();
    }
    file
}

/// Drops one of the caller's references to a file. Mappings keep the file alive.
///
/// # Safety
///
/// `file` is NULL, or came from [`mm_file_open`] and is not used afterwards, except as an argument
/// of a backend's functions.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_file_put(file: *mut MmFile) {
    if !file.is_null() {
        // SAFETY: it is valid until its last `File` is dropped, and that happens at the end of this
        // statement at the earliest.
        let own = unsafe { (*file).take() };
        drop(own);
    }
}
