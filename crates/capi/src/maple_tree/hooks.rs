//! The environment's hooks: memory and RCU.

use core::alloc::Layout;
use core::ffi::c_void;
use core::mem;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::maple_tree::abi::RcuHead;

type Alloc = unsafe extern "C" fn(*mut c_void, usize, usize, u32) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, usize);
type AllocBulk =
    unsafe extern "C" fn(*mut c_void, usize, usize, u32, usize, *mut *mut c_void) -> usize;
type FreeBulk = unsafe extern "C" fn(*mut c_void, usize, usize, usize, *mut *mut c_void);
type Bracket = unsafe extern "C" fn(*mut c_void);
/// A function that is called after a grace period.
pub(crate) type Callback = unsafe extern "C" fn(*mut RcuHead);
type CallRcu = unsafe extern "C" fn(*mut c_void, *mut RcuHead, Callback);

/// `struct maple_hooks`. A missing hook leaves the library's default. The hooks of memory belong
/// together: one without the other counts as none. The same holds for those of RCU.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MapleHooks {
    /// Passed to every hook.
    pub ctx: *mut c_void,
    /// Allocates memory of a size and alignment, or returns NULL. The flags say if it may block.
    pub alloc: Option<Alloc>,
    /// Frees memory.
    pub free: Option<Free>,
    /// Starts a read-side section.
    pub read_lock: Option<Bracket>,
    /// Ends a read-side section.
    pub read_unlock: Option<Bracket>,
    /// Calls the function once every current read-side section has ended. The hook is called under
    /// the lock of a tree.
    pub call_rcu: Option<CallRcu>,
}

/// `struct maple_bulk_hooks`: many pieces of memory at once. A structure of its own, so that
/// programs with the other one need not be recompiled.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MapleBulkHooks {
    /// Passed to both hooks.
    pub ctx: *mut c_void,
    /// Allocates up to a number of pieces of a size and alignment into an array, and returns how
    /// many. The library requests the rest from `alloc` of [`MapleHooks`].
    pub alloc_bulk: Option<AllocBulk>,
    /// Frees the pieces in an array, which came from either hook.
    pub free_bulk: Option<FreeBulk>,
}

/// The current hooks, each an address or NULL.
struct Table {
    ctx: AtomicPtr<c_void>,
    alloc: AtomicPtr<()>,
    free: AtomicPtr<()>,
    read_lock: AtomicPtr<()>,
    read_unlock: AtomicPtr<()>,
    call_rcu: AtomicPtr<()>,
    bulk_ctx: AtomicPtr<c_void>,
    alloc_bulk: AtomicPtr<()>,
    free_bulk: AtomicPtr<()>,
}

static TABLE: Table = Table {
    ctx: AtomicPtr::new(ptr::null_mut()),
    alloc: AtomicPtr::new(ptr::null_mut()),
    free: AtomicPtr::new(ptr::null_mut()),
    read_lock: AtomicPtr::new(ptr::null_mut()),
    read_unlock: AtomicPtr::new(ptr::null_mut()),
    call_rcu: AtomicPtr::new(ptr::null_mut()),
    bulk_ctx: AtomicPtr::new(ptr::null_mut()),
    alloc_bulk: AtomicPtr::new(ptr::null_mut()),
    free_bulk: AtomicPtr::new(ptr::null_mut()),
};

/// `maple_set_hooks`: sets all hooks and removes the bulk hooks. NULL restores the defaults. Called
/// once, before the first tree.
///
/// # Safety
///
/// `hooks` is NULL or valid. The hooks behave as the header says, on any thread. There is no tree
/// with nodes, and no other thread is in this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn maple_set_hooks(hooks: *const MapleHooks) {
    const NONE: MapleHooks = MapleHooks {
        ctx: ptr::null_mut(),
        alloc: None,
        free: None,
        read_lock: None,
        read_unlock: None,
        call_rcu: None,
    };
    // SAFETY: the caller's promise.
    let hooks = unsafe { hooks.as_ref() }.unwrap_or(&NONE);
    TABLE.ctx.store(hooks.ctx, Ordering::Release);
    // Memory must be freed by its allocator: one hook without the other counts as none.
    let memory = hooks.alloc.zip(hooks.free);
    set(&TABLE.alloc, memory.map(|(alloc, _)| alloc as *mut ()));
    set(&TABLE.free, memory.map(|(_, free)| free as *mut ()));
    set(&TABLE.read_lock, hooks.read_lock.map(|f| f as *mut ()));
    set(&TABLE.read_unlock, hooks.read_unlock.map(|f| f as *mut ()));
    set(&TABLE.call_rcu, hooks.call_rcu.map(|f| f as *mut ()));
    // SAFETY: the caller's promise.
    unsafe { maple_set_bulk_hooks(ptr::null()) };
}

/// `maple_set_bulk_hooks`: sets the hooks for many pieces of memory at once. With NULL or a missing
/// hook, pieces are allocated or freed one by one. Called after [`maple_set_hooks`], before the
/// first tree. It has an effect only with memory hooks there.
///
/// # Safety
///
/// As for [`maple_set_hooks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn maple_set_bulk_hooks(hooks: *const MapleBulkHooks) {
    const NONE: MapleBulkHooks = MapleBulkHooks {
        ctx: ptr::null_mut(),
        alloc_bulk: None,
        free_bulk: None,
    };
    // SAFETY: the caller's promise.
    let hooks = unsafe { hooks.as_ref() }.unwrap_or(&NONE);
    let hooks = if has_alloc() { hooks } else { &NONE };
    TABLE.bulk_ctx.store(hooks.ctx, Ordering::Release);
    set(&TABLE.alloc_bulk, hooks.alloc_bulk.map(|f| f as *mut ()));
    set(&TABLE.free_bulk, hooks.free_bulk.map(|f| f as *mut ()));
}

fn set(slot: &AtomicPtr<()>, hook: Option<*mut ()>) {
    slot.store(hook.unwrap_or(ptr::null_mut()), Ordering::Release);
}

fn ctx() -> *mut c_void {
    TABLE.ctx.load(Ordering::Acquire)
}

fn hook(slot: &AtomicPtr<()>) -> Option<NonNull<()>> {
    NonNull::new(slot.load(Ordering::Acquire))
}

/// Calls the hook that starts a read-side section. Returns `false` if there is none.
pub(crate) fn read_lock() -> bool {
    bracket(&TABLE.read_lock)
}

/// Calls the hook that ends a read-side section. Returns `false` if there is none.
pub(crate) fn read_unlock() -> bool {
    bracket(&TABLE.read_unlock)
}

fn bracket(slot: &AtomicPtr<()>) -> bool {
    let Some(address) = hook(slot) else {
        return false;
    };
    // SAFETY: only `maple_set_hooks` fills the slot, with a function of this type, and its caller
    // promised that the function may be called.
    unsafe { mem::transmute::<NonNull<()>, Bracket>(address)(ctx()) };
    true
}

/// Returns `true` if the environment has its own grace periods.
pub(crate) fn has_call_rcu() -> bool {
    hook(&TABLE.call_rcu).is_some()
}

/// Passes a callback to the environment's RCU. Returns `false` if it has none.
pub(crate) fn call_rcu(head: *mut RcuHead, callback: Callback) -> bool {
    let Some(address) = hook(&TABLE.call_rcu) else {
        return false;
    };
    // SAFETY: as in `bracket`.
    unsafe { mem::transmute::<NonNull<()>, CallRcu>(address)(ctx(), head, callback) };
    true
}

/// Returns `true` if the environment provides memory.
#[inline]
pub(crate) fn has_alloc() -> bool {
    hook(&TABLE.alloc).is_some()
}

/// Requests memory from the hook. Returns `None` if there is no hook.
#[inline]
pub(crate) fn alloc(layout: Layout, flags: u32) -> Option<*mut u8> {
    let address = hook(&TABLE.alloc)?;
    // SAFETY: as in `bracket`.
    let block = unsafe {
        mem::transmute::<NonNull<()>, Alloc>(address)(ctx(), layout.size(), layout.align(), flags)
    };
    Some(block.cast())
}

/// Frees memory by the hook. Returns `false` if there is none.
///
/// # Safety
///
/// The memory came from the hooks with this layout, if there are any, and nothing uses it any more.
#[inline]
pub(crate) unsafe fn free(block: NonNull<u8>, layout: Layout) -> bool {
    let Some(address) = hook(&TABLE.free) else {
        return false;
    };
    // SAFETY: as in `bracket`, and the caller's promise.
    unsafe {
        mem::transmute::<NonNull<()>, Free>(address)(
            ctx(),
            block.as_ptr().cast(),
            layout.size(),
            layout.align(),
        );
    }
    true
}

/// Returns `true` if there is a hook that allocates many pieces of memory.
pub(crate) fn has_alloc_bulk() -> bool {
    hook(&TABLE.alloc_bulk).is_some()
}

/// Requests many pieces of memory from the hook. Returns how many it has put at the beginning of
/// `blocks`, or 0 if there is no hook.
pub(crate) fn alloc_bulk(layout: Layout, flags: u32, blocks: &mut [*mut c_void]) -> usize {
    let Some(address) = hook(&TABLE.alloc_bulk) else {
        return 0;
    };
    // SAFETY: as in `bracket`, and the array is valid.
    let got = unsafe {
        mem::transmute::<NonNull<()>, AllocBulk>(address)(
            TABLE.bulk_ctx.load(Ordering::Acquire),
            layout.size(),
            layout.align(),
            flags,
            blocks.len(),
            blocks.as_mut_ptr(),
        )
    };
    got.min(blocks.len())
}

/// Returns `true` if there is a hook that frees many pieces of memory.
pub(crate) fn has_free_bulk() -> bool {
    hook(&TABLE.free_bulk).is_some()
}

/// Frees many pieces of memory by the hook. Returns `false` if there is none.
///
/// # Safety
///
/// As for [`free`], for each piece.
pub(crate) unsafe fn free_bulk(blocks: &mut [*mut c_void], layout: Layout) -> bool {
    let Some(address) = hook(&TABLE.free_bulk) else {
        return false;
    };
    // SAFETY: as in `bracket`, and the caller's promise.
    unsafe {
        mem::transmute::<NonNull<()>, FreeBulk>(address)(
            TABLE.bulk_ctx.load(Ordering::Acquire),
            layout.size(),
            layout.align(),
            blocks.len(),
            blocks.as_mut_ptr(),
        );
    }
    true
}
