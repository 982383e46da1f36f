//! A file, with its cached pages on each machine.

use alloc::boxed::Box;
use core::any::Any;
use core::fmt;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::errno::Errno;
use crate::heap::boxed::try_box;
use crate::object::Object;
use crate::process::file::cache::Cache;
use crate::process::file::source::PageSource;
use crate::process::file::writeback::Writeback;
use crate::process::machine::Machine;
use crate::process::platform::Platform;
use crate::vma::{Backing, Vma};

/// A file as machines know it: the source of its pages, and the cached pages.
///
/// It is the [`object`](crate::File::object) of each [`File`](crate::File) that opens it. All opens
/// of one file hold clones of one object, because the object decides which files are the same.
///
/// Its pages stay cached until the last open and the last mapping are gone. Then dirty pages are
/// written to the source. Pages that the source refuses are lost, and
/// [`Process::exit`](crate::process::Process::exit) returns the error. [`Machine::sync_file`]
/// returns it before. A store may be lost if it happens while another thread of the program unmaps
/// the last mapping.
///
/// ```
/// use samara_mm::process::{Inode, PAGE_BYTES, PageSource};
/// use samara_mm::Errno;
///
/// /// A file of ones without end.
/// struct Ones;
///
/// impl PageSource for Ones {
///     fn read_page(&self, _: u64, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno> {
///         into.fill(1);
///         Ok(())
///     }
///     fn write_page(&self, _: u64, _: &[u8; PAGE_BYTES]) -> Result<(), Errno> {
///         Err(Errno::EIO)
///     }
///     fn punch(&self, _: u64, _: u64) -> Result<(), Errno> {
///         Err(Errno::EOPNOTSUPP)
///     }
///     fn size(&self) -> u64 {
///         u64::MAX
///     }
/// }
///
/// let object = Inode::object(Ones)?;
/// assert!(object.get::<Inode>().is_some());
/// # Ok::<(), Errno>(())
/// ```
pub struct Inode {
    source: Box<dyn PageSource>,
    /// A list with one entry for each machine that maps the file. It only grows, until the file is
    /// dropped.
    caches: AtomicPtr<Node>,
}

struct Node {
    machine: u64,
    cache: Box<dyn ErasedCache>,
    next: *mut Node,
}

/// The cache of some machine.
pub(super) trait ErasedCache: Any + Send + Sync {
    /// Writes dirty pages back, and frees all pages.
    fn release(&mut self, source: &dyn PageSource, written: &mut Writeback);
}

// SAFETY: the file owns the list. Caches and the source may be sent and shared.
unsafe impl Send for Inode {}
// SAFETY: as above. The list's head is an atomic, and entries of the list do not change.
unsafe impl Sync for Inode {}

impl Inode {
    /// Creates a file with this content, as the object for [`File::object`](crate::File::object).
    ///
    /// # Errors
    /// `ENOMEM`. The source is dropped.
    pub fn object(source: impl PageSource + 'static) -> Result<Object, Errno> {
        Object::try_new(Inode {
            source: try_box(source)?,
            caches: AtomicPtr::new(ptr::null_mut()),
        })
    }

    /// Returns the source of the pages.
    pub fn source(&self) -> &dyn PageSource {
        &*self.source
    }

    /// Returns the file that a VMA maps.
    pub(crate) fn of(vma: &Vma) -> Option<&Inode> {
        Self::mapped(vma)?.get()
    }

    fn mapped(vma: &Vma) -> Option<&Object> {
        match &vma.backing {
            Backing::File(file) => Some(&file.object),
            Backing::SharedAnonymous(shared) => Some(shared.object()),
            Backing::Shm { segment, .. } => Some(&segment.file.object),
            Backing::Special(special) => Some(special.object()),
            Backing::Anonymous => None,
        }
    }

    /// Returns the file's cache on a machine, if it has one.
    pub(crate) fn known<P: Platform>(&self, machine: &Machine<P>) -> Option<&Cache<P>> {
        // Acquire: pairs with the release in `cache`, after the entry was written.
        self.find(self.caches.load(Ordering::Acquire), machine)
    }

    fn find<P: Platform>(&self, mut node: *mut Node, machine: &Machine<P>) -> Option<&Cache<P>> {
        // SAFETY: entries of the list live as long as the file, and do not change.
        while let Some(entry) = unsafe { node.as_ref() } {
            if entry.machine == machine.number() {
                let cache: &dyn Any = &*entry.cache;
                return cache.downcast_ref();
            }
            node = entry.next;
        }
        None
    }

    /// Returns the file's cache on a machine, and creates it at the first call.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn cache<P: Platform>(&self, machine: &Machine<P>) -> Result<&Cache<P>, Errno> {
        if let Some(cache) = self.known(machine) {
            return Ok(cache);
        }
        let cache: Box<dyn ErasedCache> = try_box(Cache::new(machine.clone()))?;
        let node = Box::into_raw(try_box(Node {
            machine: machine.number(),
            cache,
            next: ptr::null_mut(),
        })?);
        let mut head = self.caches.load(Ordering::Acquire);
        loop {
            if let Some(cache) = self.find(head, machine) {
                // Another thread was first.
                // SAFETY: the entry is known only here.
                drop(unsafe { Box::from_raw(node) });
                return Ok(cache);
            }
            // SAFETY: as above.
            unsafe { (*node).next = head };
            // Release: the entry is written before it can be found. Acquire: as above.
            match self
                .caches
                .compare_exchange(head, node, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return self.find(node, machine).ok_or(Errno::ENOMEM),
                Err(now) => head = now,
            }
        }
    }
}

impl Inode {
    /// Returns a handle of the file that a VMA maps.
    pub(crate) fn handle(vma: &Vma) -> Option<Object> {
        Self::mapped(vma)?.handle::<Inode>()
    }

    /// Drops a handle of a file. The last handle releases the file.
    ///
    /// # Errors
    /// The first error of the source for a page that is lost.
    pub(crate) fn close(file: Object) -> Result<(), Errno> {
        file.let_go(Inode::release).unwrap_or(Ok(()))
    }

    /// Writes dirty pages back and frees all pages. A second call does nothing.
    fn release(&mut self) -> Result<(), Errno> {
        let mut written = Writeback::new();
        let first = core::mem::replace(self.caches.get_mut(), ptr::null_mut());
        let mut next = NonNull::new(first);
        while let Some(node) = next {
            // SAFETY: `cache` made it from a box, and it is taken out once.
            let mut node = unsafe { Box::from_raw(node.as_ptr()) };
            next = NonNull::new(node.next);
            node.cache.release(&*self.source, &mut written);
        }
        written.end()
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        // No caller is left to receive an error.
        let _ = self.release();
    }
}

impl fmt::Debug for Inode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inode").finish_non_exhaustive()
    }
}

/// Returns `true` if a VMA maps shared memory, which is never written to a file.
pub(crate) fn is_memory(vma: &Vma) -> bool {
    Inode::of(vma).is_some_and(|inode| inode.source().is_memory())
}
