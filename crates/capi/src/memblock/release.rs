//! Handing what is free to a page allocator, and what is freed later.

use core::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use samara_memblock::{Error, NodeId, PageAllocator};

use super::{Boot, PhysAddr, global, global_mut, initial, log, memblock_alloc, narrow};

/// `struct memblock_hooks`. Each of them may be missing.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemblockHooks {
    /// Handed to every hook.
    pub ctx: *mut c_void,
    /// Takes in page frames `start..end` of a node.
    pub free_pages: Option<unsafe extern "C" fn(*mut c_void, c_ulong, c_ulong, c_int)>,
    /// Gives page frames `start..end` back if all of them are free, and says whether it did.
    pub claim_pages: Option<unsafe extern "C" fn(*mut c_void, c_ulong, c_ulong) -> bool>,
    /// Is told the function, the size and the alignment of an allocation that failed. Does not return.
    pub panic: Option<unsafe extern "C" fn(*mut c_void, *const c_char, PhysAddr, PhysAddr)>,
}

impl MemblockHooks {
    const NONE: MemblockHooks = MemblockHooks {
        ctx: ptr::null_mut(),
        free_pages: None,
        claim_pages: None,
        panic: None,
    };

    /// Those in force.
    ///
    /// # Safety
    /// One call at a time.
    unsafe fn current() -> Self {
        let hooks = &raw const HOOKS;
        // SAFETY: nobody sets them meanwhile.
        unsafe { hooks.read() }
    }
}

impl PageAllocator for MemblockHooks {
    fn free_pages(&mut self, frames: Range<u64>) {
        self.free_node_pages(frames, NodeId::NONE);
    }

    fn free_node_pages(&mut self, frames: Range<u64>, nid: NodeId) {
        // Frames whose numbers exceed the machine's words are of no use to it.
        let (start, end) = (narrow(frames.start), narrow(frames.end));
        if let Some(hook) = self.free_pages
            && start < end
        {
            // SAFETY: whoever set the hook promised that it may be called so.
            unsafe { hook(self.ctx, start, end, nid.0) };
        }
    }

    fn claim_pages(&mut self, frames: Range<u64>) -> bool {
        let (start, end) = (narrow(frames.start), narrow(frames.end));
        match self.claim_pages {
            // SAFETY: whoever set the hook promised that it may be called so.
            Some(hook) if start < end => unsafe { hook(self.ctx, start, end) },
            // Nobody was given those.
            Some(_) => true,
            None => false,
        }
    }
}

static mut HOOKS: MemblockHooks = MemblockHooks::NONE;

/// Whether what is free has been handed over. Calls come one at a time; it is atomic only so that reading it needs no promise.
static DONE: AtomicBool = AtomicBool::new(false);

pub(super) fn done() -> bool {
    DONE.load(Ordering::Relaxed)
}

/// Reserves a range by `how`. After the hand-over the pages of it are claimed first.
///
/// # Safety
/// One call at a time; the fields of the global are as the header demands.
pub(super) unsafe fn reserve(
    base: u64,
    size: u64,
    how: impl FnOnce(&mut Boot) -> Result<(), Error>,
) -> Result<(), Error> {
    // SAFETY: the caller's duty. While hooks are called, the global is only looked at.
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

/// Frees a range, and says how many pages the page allocator has got: none before the hand-over.
///
/// # Safety
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

/// Sets all hooks; NULL takes them away.
///
/// # Safety
/// `hooks` is null or valid; the hooks keep what the header says of them; one call at a time, and none from a hook.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memblock_set_hooks(hooks: *const MemblockHooks) {
    // SAFETY: the caller's duty.
    unsafe {
        let hooks = hooks.as_ref().copied().unwrap_or(MemblockHooks::NONE);
        (&raw mut HOOKS).write(hooks);
    }
}

/// Hands all free page frames to the hook. How many they were.
///
/// # Safety
/// One call at a time; the fields of the global are as the header demands.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memblock_free_all() -> c_ulong {
    if DONE.swap(true, Ordering::Relaxed) {
        return 0;
    }
    // SAFETY: the caller's duty. While hooks are called, the global is only looked at.
    unsafe {
        global_mut().close();
        narrow(global().hand_out(&mut MemblockHooks::current()))
    }
}

/// Frees a range for the page allocator. How many page frames it has got.
///
/// # Safety
/// One call at a time; the fields of the global are as the header demands.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memblock_free_late(base: PhysAddr, size: PhysAddr) -> c_ulong {
    // What cannot be freed for want of room stays reserved.
    // SAFETY: the caller's duty.
    narrow(unsafe { free(base, size) }.unwrap_or(0))
}

/// Forgets everything. How many page frames of arrays the page allocator has got.
///
/// # Safety
/// One call at a time; the fields of the global are as the header demands.
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

/// Cleared memory. If there is none, the hook is told, or the program ends.
///
/// # Safety
/// `function` is null or a string; one call at a time; the fields of the global are as the header demands.
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
    // The hook may leave by a long jump: nothing here is in the middle of anything or has to be dropped.
    // SAFETY: the caller's duty, and that of whoever set the hook.
    unsafe {
        let hooks = MemblockHooks::current();
        if let Some(hook) = hooks.panic {
            hook(hooks.ctx, function, size, align);
        }
        abort_without_memory(function, size, align)
    }
}

/// # Safety
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
