//! What the environment may bring: memory, and RCU.

use core::alloc::Layout;
use core::ffi::c_void;
use core::mem;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use maple_tree::alloc::{Global, NodeAlloc};

use crate::maple_tree::abi::RcuHead;

type Alloc = unsafe extern "C" fn(*mut c_void, usize, usize, u32) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, usize);
type Bracket = unsafe extern "C" fn(*mut c_void);
/// What is called after a grace period.
pub(crate) type Callback = unsafe extern "C" fn(*mut RcuHead);
type CallRcu = unsafe extern "C" fn(*mut c_void, *mut RcuHead, Callback);

/// `struct maple_hooks`. A missing hook leaves the library's default. Those of memory belong together, and so do those of RCU.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MapleHooks {
    /// Handed to every hook.
    pub ctx: *mut c_void,
    /// Memory of a size and alignment, or NULL; the flags say whether it may block.
    pub alloc: Option<Alloc>,
    /// Takes memory back.
    pub free: Option<Free>,
    /// Starts a read-side section.
    pub read_lock: Option<Bracket>,
    /// Ends a read-side section.
    pub read_unlock: Option<Bracket>,
    /// Calls the function once every read-side section that runs now has ended. It is called under the lock of a tree.
    pub call_rcu: Option<CallRcu>,
}

/// The hooks in force, each an address or NULL.
struct Table {
    ctx: AtomicPtr<c_void>,
    alloc: AtomicPtr<()>,
    free: AtomicPtr<()>,
    read_lock: AtomicPtr<()>,
    read_unlock: AtomicPtr<()>,
    call_rcu: AtomicPtr<()>,
}

static TABLE: Table = Table {
    ctx: AtomicPtr::new(ptr::null_mut()),
    alloc: AtomicPtr::new(ptr::null_mut()),
    free: AtomicPtr::new(ptr::null_mut()),
    read_lock: AtomicPtr::new(ptr::null_mut()),
    read_unlock: AtomicPtr::new(ptr::null_mut()),
    call_rcu: AtomicPtr::new(ptr::null_mut()),
};

/// `maple_set_hooks`: sets all hooks; NULL brings the defaults back. Called once, before the first tree.
///
/// # Safety
///
/// `hooks` is NULL or valid. The hooks keep what the header says of them, from any thread. There is no tree with
/// nodes, and no other thread is in this library.
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
    let address = |hook: Option<*mut ()>| hook.unwrap_or(ptr::null_mut());
    TABLE.ctx.store(hooks.ctx, Ordering::Release);
    let set = |slot: &AtomicPtr<()>, hook| slot.store(address(hook), Ordering::Release);
    set(&TABLE.alloc, hooks.alloc.map(|f| f as *mut ()));
    set(&TABLE.free, hooks.free.map(|f| f as *mut ()));
    set(&TABLE.read_lock, hooks.read_lock.map(|f| f as *mut ()));
    set(&TABLE.read_unlock, hooks.read_unlock.map(|f| f as *mut ()));
    set(&TABLE.call_rcu, hooks.call_rcu.map(|f| f as *mut ()));
}

fn ctx() -> *mut c_void {
    TABLE.ctx.load(Ordering::Acquire)
}

fn hook(slot: &AtomicPtr<()>) -> Option<NonNull<()>> {
    NonNull::new(slot.load(Ordering::Acquire))
}

/// Calls the hook that starts a read-side section; `false` if there is none.
pub(crate) fn read_lock() -> bool {
    bracket(&TABLE.read_lock)
}

/// Calls the hook that ends a read-side section; `false` if there is none.
pub(crate) fn read_unlock() -> bool {
    bracket(&TABLE.read_unlock)
}

fn bracket(slot: &AtomicPtr<()>) -> bool {
    let Some(address) = hook(slot) else {
        return false;
    };
    // SAFETY: only `maple_set_hooks` fills the slot, with a function of this type, whose caller promised that it may be called.
    unsafe { mem::transmute::<NonNull<()>, Bracket>(address)(ctx()) };
    true
}

/// Whether the environment brings its own grace periods.
pub(crate) fn has_call_rcu() -> bool {
    hook(&TABLE.call_rcu).is_some()
}

/// Hands a callback to the environment's RCU; `false` if it has none.
pub(crate) fn call_rcu(head: *mut RcuHead, callback: Callback) -> bool {
    let Some(address) = hook(&TABLE.call_rcu) else {
        return false;
    };
    // SAFETY: as in `bracket`.
    unsafe { mem::transmute::<NonNull<()>, CallRcu>(address)(ctx(), head, callback) };
    true
}

/// Memory by the hooks, or by the global allocator, with these allocation flags.
#[derive(Clone, Copy)]
pub(crate) struct Gfp(pub(crate) u32);

// SAFETY: the hooks are an allocator by the promise of whoever set them; the global one is.
unsafe impl NodeAlloc for Gfp {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        let Some(address) = hook(&TABLE.alloc) else {
            return Global.allocate(layout);
        };
        // SAFETY: as in `bracket`.
        let block = unsafe {
            mem::transmute::<NonNull<()>, Alloc>(address)(
                ctx(),
                layout.size(),
                layout.align(),
                self.0,
            )
        };
        NonNull::new(block.cast())
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        let Some(address) = hook(&TABLE.free) else {
            // SAFETY: the caller's promise.
            return unsafe { Global.deallocate(block, layout) };
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
    }
}
