//! Hooks that query while pages change owners. Called from Rust, so that Miri can check the
//! references to the one memblock.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what went wrong by panicking"
)]

use core::ffi::{c_int, c_ulong, c_void};
use core::ptr;

use samara::memblock::*;

const PAGE: u64 = 4096;

/// The page allocator: `true` for each of the first frames that it owns.
struct Pages {
    has: [bool; 64],
    asked: u32,
}

/// Calls everything that a hook may call.
unsafe fn ask(first: c_ulong) {
    let at = u64::from(first as u32) * PAGE;
    let (mut idx, mut start, mut end, mut nid, mut frame) = (0, 0, 0, 0, -1);
    // SAFETY: one call at a time, and the pointers are those of variables.
    unsafe {
        assert!(memblock_is_memory(at) && memblock_phys_mem_size() > 0);
        let _ = (memblock_is_reserved(at), memblock_reserved_size());
        assert_eq!(
            memblock_bottom_up(),
            (&raw const memblock).cast::<bool>().read()
        );
        assert!(memblock_search_pfn_nid(first, ptr::null_mut(), ptr::null_mut()) >= -1);
        // After a flag and a number of 64 bits, which some machines align to 32.
        let behind = align_of::<u64>() + size_of::<u64>();
        let memory = (&raw mut memblock).cast::<u8>().add(behind).cast();
        __next_mem_range(
            &mut idx,
            -1,
            0,
            memory,
            ptr::null_mut(),
            &mut start,
            &mut end,
            &mut nid,
        );
        assert!(start < end);
        let (mut from, mut to) = (0, 0);
        __next_mem_pfn_range(&mut frame, -1, &mut from, &mut to, &mut nid);
        assert!(from < to);
        idx = 0;
        __next_free_pfn_range(&mut idx, -1, 0, c_ulong::MAX, &mut from, &mut to, &mut nid);
    }
}

unsafe extern "C" fn free_pages(ctx: *mut c_void, start: c_ulong, end: c_ulong, _: c_int) {
    // SAFETY: the pointer that `set` stored, to which only the hook refers.
    let pages = unsafe { &mut *ctx.cast::<Pages>() };
    for frame in start..end {
        assert!(!pages.has[frame as usize]);
        pages.has[frame as usize] = true;
    }
    pages.asked += 1;
    // SAFETY: in a hook.
    unsafe { ask(start) };
}

unsafe extern "C" fn claim_pages(ctx: *mut c_void, start: c_ulong, end: c_ulong) -> bool {
    // SAFETY: as above.
    let pages = unsafe { &mut *ctx.cast::<Pages>() };
    // SAFETY: in a hook.
    unsafe { ask(start) };
    let range = start as usize..end as usize;
    let all = pages.has[range.clone()].iter().all(|has| *has);
    if all {
        pages.has[range].fill(false);
    }
    all
}

#[test]
fn hooks_may_ask() {
    let mut pages = Pages {
        has: [false; 64],
        asked: 0,
    };
    let ctx = &raw mut pages;
    let hooks = MemblockHooks {
        ctx: ctx.cast(),
        free_pages: Some(free_pages),
        claim_pages: Some(claim_pages),
        panic: None,
    };
    // SAFETY: this is the only test of this program, so that calls come one at a time and no other
    // code writes the global's fields. `pages` outlives the hooks.
    unsafe {
        memblock_set_hooks(&hooks);
        assert_eq!(memblock_add(PAGE, 40 * PAGE), 0);
        assert_eq!(memblock_add_node(50 * PAGE, 4 * PAGE, 1, 1), 0);
        assert_eq!(memblock_reserve(5 * PAGE + 8, PAGE), 0);
        assert_eq!(memblock_free_all(), 42);
        assert_eq!(memblock_free_all(), 0);
        assert_eq!(memblock_phys_free(5 * PAGE, 2 * PAGE), 0);
        assert_eq!(memblock_reserve(10 * PAGE, 1), 0);
        assert!(!(*ctx).has[10] && (*ctx).has[5]);
        assert_eq!(memblock_free_late(0, u64::MAX), 1);
        assert_eq!(memblock_reserve_kern(50 * PAGE, 8), 0);
        // Frame 52 is in use: frames that were claimed before it are handed back.
        (*ctx).has[52] = false;
        assert_eq!(memblock_reserve(40 * PAGE, 20 * PAGE), -12);
        assert_eq!(memblock_phys_alloc(8, 8), 0);
        assert!(memblock_alloc(8, 8).is_null());
        assert_eq!(memblock_discard(), 0);
        assert_eq!(memblock_phys_mem_size(), 0);
        memblock_set_hooks(ptr::null());
        assert_eq!(((*ctx).has[40], (*ctx).has[50]), (true, false));
        assert!((*ctx).asked > 3);
    }
}
