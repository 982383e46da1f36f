//! Release of free memory to a page allocator, and of memory that is freed later.

use core::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use samara_memblock::{Error, NodeId, PageAllocator};

use super::{Boot, PhysAddr, global, global_mut, initial, log, memblock_alloc, narrow};

/// `struct memblock_hooks`. Any of them may be missing.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemblockHooks {
    /// Passed to every hook.
    pub ctx: *mut c_void,
    /// Receives page frames `start..end` of a node.
    pub free_pages: Option<unsafe extern "C" fn(*mut c_void, c_ulong, c_ulong, c_int)>,
    /// Gives page frames `start..end` back if all of them are free. Returns true if it did.
    pub claim_pages: Option<unsafe extern "C" fn(*mut c_void, c_ulong, c_ulong) -> bool>,
    /// Gets the function, the size and the alignment of an allocation that failed. Does not return.
    pub panic: Option<unsafe extern "C" fn(*mut c_void, *const c_char, PhysAddr, PhysAddr)>,
}

impl MemblockHooks {
    const NONE: MemblockHooks = MemblockHooks {
        ctx: ptr::null_mut(),
        free_pages: None,
        claim_pages: None,
        panic: None,
    };

    /// Returns the current hooks.
    ///
    /// # Safety
    ///
    /// One call at a time.
    unsafe fn current() -> Self {
        let hooks = &raw const HOOKS;
        // SAFETY: no thread sets them concurrently.
        unsafe { hooks.read() }
    }
}

impl PageAllocator for MemblockHooks {
    fn free_pages(&mut self, frames: Range<u64>) {
        self.free_node_pages(frames, NodeId::NONE);
    }

    fn free_node_pages(&mut self, frames: Range<u64>, nid: NodeId) {
        // A machine cannot use frames whose numbers exceed its words.
        let (start, end) = (narrow(frames.start), narrow(frames.end));
        if let Some(hook) = self.free_pages
            && start < end
        {
            // SAFETY: the caller that set the hook promised that it may be called like this.
            unsafe { hook(self.ctx, start, end, nid.0) };
        }
    }

    fn claim_pages(&mut self, frames: Range<u64>) -> bool {
        let (start, end) = (narrow(frames.start), narrow(frames.end));
        match self.claim_pages {
            // SAFETY: the caller that set the hook promised that it may be called like this.
            Some(hook) if start < end => unsafe { hook(self.ctx, start, end) },
            // These frames were not handed out.
            Some(_) => true,
            None => false,
        }
    }
}

static mut HOOKS: MemblockHooks = MemblockHooks::NONE;

/// `true` after the release. Calls come one at a time. It is atomic only so that reading it is
/// safe.
static DONE: AtomicBool = AtomicBool::new(false);

pub(super) fn done() -> bool {
    DONE.load(Ordering::Relaxed)
}

/// Reserves a range by `how`. After the release, its pages are claimed first.
///
/// # Safety
///
/// One call at a time. The fields of the global are as the header demands.
pub(super) unsafe fn reserve(
    base: u64,
    size: u64,
    how: impl FnOnce(&mut Boot) -> Result<(), Error>,
) -> Result<(), Error> {
    // SAFETY: the caller's duty. While hooks are called, the global is only read.
    unsafe {
        if !done() {
            return how(global_mut());
        }
        let mut pages = MemblockHooks::current();
        global().claim(base, size, &mut pages)?;
        let reserved = how(global_mut());
        if reserved.is_err() {
            global().hand_back(base, size, &mut pages);
        }
        reserved
    }
}

/// Frees a range, and returns the number of pages that the page allocator received: none before the
/// release.
///
/// # Safety
///
/// As for [`reserve`].
pub(super) unsafe fn free(base: u64, size: u64) -> Result<u64, Error> {
    // SAFETY: as in `reserve`.
    unsafe {
        let mut count = 0;
        if done() {
            count = global().hand_out_freed(base, size, &mut MemblockHooks::current())?;
        }
        global_mut().free(base, size)?;
        Ok(count)
    }
}

/// Sets all hooks. NULL removes them.
///
/// # Safety
///
/// `hooks` is null or valid. The hooks behave as the header says. One call at a time, and none from
/// a hook.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memblock_set_hooks(hooks: *const MemblockHooks) {
    // SAFETY: the caller's duty.
    unsafe {
        let hooks = hooks.as_ref().copied().unwrap_or(MemblockHooks::NONE);
        (&raw mut HOOKS).write(hooks);
    }
}

/// Passes all free page frames to the hook, and returns their number.
///
/// # Safety
///
/// One call at a time. The fields of the global are as the header demands.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memblock_free_all() -> c_ulong {
    if DONE.swap(true, Ordering::Relaxed) {
        return 0;
    }
    // SAFETY: the caller's duty. While hooks are called, the global is only read.
    unsafe {
        global_mut().close();
        narrow(global().hand_out(&mut MemblockHooks::current()))
    }
}

/// Frees a range to the page allocator, and returns the number of page frames that it received.
///
/// # Safety
///
/// One call at a time. The fields of the global are as the header demands.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memblock_free_late(base: PhysAddr, size: PhysAddr) -> c_ulong {
    // A range that cannot be freed for lack of capacity stays reserved.
    //
    // SAFETY: the caller's duty.
    narrow(unsafe { free(base, size) }.unwrap_or(0))
}

/// Resets everything, and returns the number of page frames of arrays that the page allocator
/// received.
///
/// # Safety
///
/// One call at a time. The fields of the global are as the header demands.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memblock_discard() -> c_ulong {
    // SAFETY: the caller's duty.
    let arrays = unsafe {
        let arrays = global_mut().dismantle();
        *global_mut() = initial();
        arrays
    };
    if !DONE.swap(false, Ordering::Relaxed) {
        return 0;
    }
    // SAFETY: the caller's duty.
    let mut pages = unsafe { MemblockHooks::current() };
    let mut count = 0;
    for frames in arrays {
        count += frames.end - frames.start;
        pages.free_node_pages(frames.start..frames.end, frames.nid);
    }
    narrow(count)
}

/// Allocates cleared memory. If there is none, calls the hook, or aborts.
///
/// # Safety
///
/// `function` is null or a string. One call at a time. The fields of the global are as the header
/// demands.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __memblock_alloc_or_panic(
    size: PhysAddr,
    align: PhysAddr,
    function: *const c_char,
) -> *mut c_void {
    // SAFETY: the caller's duty.
    let memory = unsafe { memblock_alloc(size, align) };
    if !memory.is_null() {
        return memory;
    }
    // The hook may leave by a long jump. Nothing here is incomplete or must be dropped.
    //
    // SAFETY: the caller's duty, and that of the caller that set the hook.
    unsafe {
        let hooks = MemblockHooks::current();
        if let Some(hook) = hooks.panic {
            hook(hooks.ctx, function, size, align);
        }
        abort_without_memory(function, size, align)
    }
}

/// Prints the failed request and aborts.
///
/// # Safety
///
/// `function` is null or a string.
unsafe fn abort_without_memory(function: *const c_char, size: u64, align: u64) -> ! {
    let function = if function.is_null() {
        c"memblock_alloc_or_panic"
    } else {
        // SAFETY: the caller's duty.
        unsafe { CStr::from_ptr(function) }
    };
    log(format_args!(
        "{}: could not allocate {size} bytes at a multiple of {align}\n",
        function.to_string_lossy()
    ));
    std::process::abort()
}
