//! A file, with its pages on each machine.

use alloc::boxed::Box;
use core::any::Any;
use core::fmt;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::errno::Errno;
use crate::heap::boxed::try_box;
use crate::pages::Object;
use crate::process::file::cache::Cache;
use crate::process::file::source::PageSource;
use crate::process::file::writeback::Writeback;
use crate::process::machine::Machine;
use crate::process::platform::Platform;
use crate::space::vma::{Backing, Vma};

/// A file as machines know it: where its pages come from, and those that are in memory.
///
/// It is kept as the [`object`](crate::File::object) of each [`File`](crate::File) that opens it; all that open one file carry clones of one object,
/// since that decides what is one file. Its pages stay in memory until the last open and the last mapping have gone; those that programs have
/// written go back to the source then; what the source does not take is lost, which [`Process::exit`](crate::process::Process::exit) tells, and
/// [`Machine::sync_file`] before. What a program stores while another thread of its unmaps the last mapping may not be among that.
///
/// ```
/// use samara_mm::process::{Inode, PAGE_BYTES, PageSource};
/// use samara_mm::Errno;
///
/// /// Endless ones.
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
    /// A list that only grows, as long as this lives: one entry for each machine that maps the file.
    caches: AtomicPtr<Node>,
}

struct Node {
    machine: u64,
    cache: Box<dyn ErasedCache>,
    next: *mut Node,
}

/// The cache of some machine.
pub(super) trait ErasedCache: Any + Send + Sync {
    /// Writes back what is to be, and gives all pages up.
    fn release(&mut self, source: &dyn PageSource, written: &mut Writeback);
}

// SAFETY: the list is owned; caches and the source go from thread to thread and are used by several.
unsafe impl Send for Inode {}
// SAFETY: as above; the list's head is an atomic, and what is in the list does not change.
unsafe impl Sync for Inode {}

impl Inode {
    /// A file with this content, as the object for [`File::object`](crate::File::object).
    ///
    /// # Errors
    /// `ENOMEM`; the source is dropped.
    pub fn object(source: impl PageSource + 'static) -> Result<Object, Errno> {
        Object::try_new(Inode {
            source: try_box(source)?,
            caches: AtomicPtr::new(ptr::null_mut()),
        })
    }

    /// Where its pages come from.
    pub fn source(&self) -> &dyn PageSource {
        &*self.source
    }

    /// What an area maps.
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

    /// Its pages on a machine, if there may be any.
    pub(crate) fn known<P: Platform>(&self, machine: &Machine<P>) -> Option<&Cache<P>> {
        // Acquire: what the list's entries hold was written before they were put in.
        self.find(self.caches.load(Ordering::Acquire), machine)
    }

    fn find<P: Platform>(&self, mut node: *mut Node, machine: &Machine<P>) -> Option<&Cache<P>> {
        // SAFETY: entries of the list live as long as this does, and do not change.
        while let Some(entry) = unsafe { node.as_ref() } {
            if entry.machine == machine.number() {
                let cache: &dyn Any = &*entry.cache;
                return cache.downcast_ref();
            }
            node = entry.next;
        }
        None
    }

    /// Its pages on a machine.
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
                // Another was faster.
                // SAFETY: nobody else knows the entry.
                drop(unsafe { Box::from_raw(node) });
                return Ok(cache);
            }
            // SAFETY: as above.
            unsafe { (*node).next = head };
            // Release: the entry's content comes before it can be found. Acquire: as above.
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
    /// A handle of what an area maps, if that is a file.
    pub(crate) fn handle(vma: &Vma) -> Option<Object> {
        Self::mapped(vma)?.handle::<Inode>()
    }

    /// Lets a handle of a file go, and with the last one the file.
    ///
    /// # Errors
    /// The first of the source's for a page that is lost.
    pub(crate) fn close(file: Object) -> Result<(), Errno> {
        file.let_go(Inode::release).unwrap_or(Ok(()))
    }

    /// Writes dirty pages back and frees all pages. A second call does nothing.
    fn release(&mut self) -> Result<(), Errno> {
        let mut written = Writeback::new();
        let first = core::mem::replace(self.caches.get_mut(), ptr::null_mut());
        let mut next = NonNull::new(first);
        while let Some(node) = next {
            // SAFETY: made from a box by `cache`, and taken out once.
            let mut node = unsafe { Box::from_raw(node.as_ptr()) };
            next = NonNull::new(node.next);
            node.cache.release(&*self.source, &mut written);
        }
        written.end()
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        // Nobody is left to be told of an error.
        let _ = self.release();
    }
}

impl fmt::Debug for Inode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inode").finish_non_exhaustive()
    }
}

/// Whether an area maps shared memory, of which nothing is ever written to a file.
pub(crate) fn is_memory(vma: &Vma) -> bool {
    Inode::of(vma).is_some_and(|inode| inode.source().is_memory())
}
