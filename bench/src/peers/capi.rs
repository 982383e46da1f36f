//! The C interface as C programs use it: through pointers to its functions, so that nothing of them is built into a loop, and with a state that
//! is kept from call to call. Not a [`RangeMap`](super::RangeMap), whose maps may be moved.
//!
//! A *hooked* program has hooks that are a list of free nodes, and the other one none. Hooks are the whole process's: set those of a subject by
//! [`set_hooks`] before it does anything, and drop it before the next one's.

use std::alloc::{Layout, alloc};
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_ulong, c_void};
use std::hint::black_box;
use std::ptr::{null, null_mut, without_provenance_mut};

use samara::maple_tree::{
    __mt_destroy, MaState, MapleHooks, MapleTree, Status, maple_set_hooks, mas_empty_area,
    mas_empty_area_rev, mas_find, mas_set_range, mas_store, mas_store_gfp, mtree_dup,
};

use super::Item;

const ALLOC_RANGE: u32 = 0x01;
const GFP_KERNEL: u32 = 0xcc0;
/// Bytes of a node, to which it is aligned.
const NODE: usize = 256;

/// The functions, by addresses that the compiler does not know.
struct Functions {
    dup: unsafe extern "C" fn(*mut MapleTree, *mut MapleTree, u32) -> c_int,
    destroy: unsafe extern "C" fn(*mut MapleTree),
    set_range: unsafe extern "C" fn(*mut MaState, c_ulong, c_ulong),
    find: unsafe extern "C" fn(*mut MaState, c_ulong) -> *mut c_void,
    store: unsafe extern "C" fn(*mut MaState, *mut c_void) -> *mut c_void,
    store_gfp: unsafe extern "C" fn(*mut MaState, *mut c_void, u32) -> c_int,
    empty_area: unsafe extern "C" fn(*mut MaState, c_ulong, c_ulong, c_ulong) -> c_int,
    empty_area_rev: unsafe extern "C" fn(*mut MaState, c_ulong, c_ulong, c_ulong) -> c_int,
}

impl Functions {
    fn new() -> Self {
        black_box(Self {
            dup: mtree_dup,
            destroy: __mt_destroy,
            set_range: mas_set_range,
            find: mas_find,
            store: mas_store,
            store_gfp: mas_store_gfp,
            empty_area: mas_empty_area,
            empty_area_rev: mas_empty_area_rev,
        })
    }
}

/// A tree that keeps the sizes of holes. It is not moved while there is an entry.
pub struct Capi {
    functions: Functions,
    tree: UnsafeCell<MapleTree>,
}

impl Default for Capi {
    fn default() -> Self {
        Self {
            functions: Functions::new(),
            tree: UnsafeCell::new(MapleTree::new(ALLOC_RANGE)),
        }
    }
}

impl Drop for Capi {
    fn drop(&mut self) {
        self.destroy();
    }
}

/// An entry with a value: never NULL, never reserved.
fn entry(value: u32) -> *mut c_void {
    without_provenance_mut((value as usize + 0x1000) << 4)
}

fn value(entry: *mut c_void) -> u32 {
    ((entry.addr() >> 4) - 0x1000) as u32
}

// SAFETY of all calls below: the tree and the states are valid, and this thread alone uses them.
impl Capi {
    /// `MA_STATE(mas, tree, 0, 0)`.
    fn state(&self) -> MaState {
        MaState {
            tree: self.tree.get(),
            index: 0,
            last: 0,
            node: null_mut(),
            min: 0,
            max: usize::MAX,
            alloc: null_mut(),
            status: Status::START,
            depth: 0,
            offset: 0,
            mas_flags: 0,
            end: 0,
            store_type: 0,
        }
    }

    /// Stores each by `mas_store_gfp`, with one state.
    pub fn fill(&mut self, items: &[Item]) {
        let mut mas = self.state();
        for &(first, end, value) in items {
            // SAFETY: as above.
            let error = unsafe {
                (self.functions.set_range)(&mut mas, first, end - 1);
                (self.functions.store_gfp)(&mut mas, entry(value), GFP_KERNEL)
            };
            assert_eq!(error, 0);
        }
    }

    /// Replaces the value of each, which are stored exactly so, by `mas_store`, with one state.
    pub fn replace(&mut self, items: &[Item]) {
        let mut mas = self.state();
        for &(first, end, value) in items {
            // SAFETY: as above.
            unsafe {
                (self.functions.set_range)(&mut mas, first, end - 1);
                (self.functions.store)(&mut mas, entry(value));
            }
        }
    }

    /// Sum over all entries of first + value, by `mas_for_each`.
    pub fn sum(&self) -> u64 {
        let mut mas = self.state();
        let mut sum = 0_u64;
        loop {
            // SAFETY: as above.
            let found = unsafe { (self.functions.find)(&mut mas, c_ulong::MAX) };
            if found.is_null() {
                return sum;
            }
            sum = sum.wrapping_add(mas.index as u64 + u64::from(value(found)));
        }
    }

    /// Makes `copy`, which is empty, a duplicate, by `mtree_dup`.
    pub fn duplicate(&self, copy: &mut Self) {
        // SAFETY: as above, for both trees.
        let error = unsafe { (self.functions.dup)(self.tree.get(), copy.tree.get(), GFP_KERNEL) };
        assert_eq!(error, 0);
    }

    /// Performs a fork's operations: duplicates the tree, and replaces each entry by `mas_for_each`
    /// and `mas_store`.
    pub fn fork(&self, copy: &mut Self) {
        self.duplicate(copy);
        let mut mas = copy.state();
        loop {
            // SAFETY: as above.
            unsafe {
                let found = (self.functions.find)(&mut mas, c_ulong::MAX);
                if found.is_null() {
                    return;
                }
                (self.functions.store)(&mut mas, found.map_addr(|addr| addr ^ 16));
            }
        }
    }

    /// Empties the tree, by `__mt_destroy`.
    pub fn destroy(&mut self) {
        // SAFETY: as above.
        unsafe { (self.functions.destroy)(self.tree.get()) };
    }

    /// The lowest free range of `size` at or above `from`, by `mas_empty_area`.
    pub fn gap_up(&self, from: u64, size: u64) -> Option<u64> {
        let mut mas = self.state();
        // SAFETY: as above.
        let error = unsafe { (self.functions.empty_area)(&mut mas, from, c_ulong::MAX, size) };
        (error == 0).then_some(mas.index as u64)
    }

    /// The highest free range of `size` below `to`, by `mas_empty_area_rev`.
    pub fn gap_down(&self, to: u64, size: u64) -> Option<u64> {
        let mut mas = self.state();
        let last = to.checked_sub(1)?;
        // SAFETY: as above.
        let error = unsafe { (self.functions.empty_area_rev)(&mut mas, 0, last, size) };
        (error == 0).then_some(mas.index as u64)
    }
}

/// The free nodes of the hooks: each holds the next one's address.
struct FreeList(UnsafeCell<*mut c_void>);

// SAFETY: the benchmarks of the C interface are of one thread.
unsafe impl Sync for FreeList {}

static FREE: FreeList = FreeList(UnsafeCell::new(null_mut()));

/// Lets the process be one with hooks, or one without.
///
/// # Safety
///
/// There is no [`Capi`] with entries, and no other thread uses the C interface.
pub unsafe fn set_hooks(hooked: bool) {
    let hooks = MapleHooks {
        ctx: FREE.0.get().cast(),
        alloc: Some(take),
        free: Some(put),
        read_lock: None,
        read_unlock: None,
        call_rcu: None,
    };
    // SAFETY: the hooks keep the promises of an allocator, and the caller's promise.
    unsafe { maple_set_hooks(if hooked { &hooks } else { null() }) };
}

/// The hook `alloc`.
unsafe extern "C" fn take(ctx: *mut c_void, size: usize, align: usize, _: u32) -> *mut c_void {
    assert!(size <= NODE && align <= NODE);
    let list = ctx.cast::<*mut c_void>();
    // SAFETY: the context is the list.
    unsafe {
        let node = list.read();
        if node.is_null() {
            return alloc(Layout::from_size_align_unchecked(NODE, NODE)).cast();
        }
        list.write(node.cast::<*mut c_void>().read());
        node
    }
}

/// The hook `free`.
unsafe extern "C" fn put(ctx: *mut c_void, node: *mut c_void, _: usize, _: usize) {
    let list = ctx.cast::<*mut c_void>();
    // SAFETY: as in `take`; the node is free from now on.
    unsafe {
        node.cast::<*mut c_void>().write(list.read());
        list.write(node);
    }
}
