//! The C interface as C programs use it: through pointers to its functions, so that nothing of them is built into a loop, with states that
//! are written anew as the macros of the header do. `c-hooked-…` is a program whose hooks are a list of free nodes; the others have no hooks.

use std::ffi::{c_int, c_ulong, c_void};
use std::hint::black_box;
use std::ptr::null_mut;

use samara::maple_tree::{
    __mt_destroy, MaState, MapleHooks, MapleTree, Status, maple_set_hooks, mas_empty_area,
    mas_empty_area_rev, mas_find, mas_prev, mas_set_range, mas_store, mas_store_gfp, mtree_dup,
};
use samara_bench_data::Item;

use crate::measured;
use crate::operations::{COPIES, ENTRIES, LOOKUPS, Operation, SMALL, ranges};

/// The operations by name.
pub(crate) const ALL: &[(&str, Operation)] = &[
    ("c-dup", || duplicate(SMALL, COPIES)),
    ("c-dup-4023", || duplicate(AREAS, FEW)),
    ("c-destroy", || destroy(SMALL, COPIES)),
    ("c-destroy-4023", || destroy(AREAS, FEW)),
    ("c-fork", || fork(SMALL, COPIES)),
    ("c-hooked-dup", || hooked(|| duplicate(SMALL, COPIES))),
    ("c-hooked-dup-4023", || hooked(|| duplicate(AREAS, FEW))),
    ("c-hooked-destroy", || hooked(|| destroy(SMALL, COPIES))),
    ("c-hooked-destroy-4023", || hooked(|| destroy(AREAS, FEW))),
    ("c-hooked-fork", || hooked(|| fork(SMALL, COPIES))),
    ("c-find", || find(THOUSAND)),
    ("c-find-100k", || find(MANY)),
    ("c-prev", || prev(THOUSAND)),
    ("c-append", append),
    ("c-insert", insert),
    ("c-replace", replace),
    ("c-gap-up-100k", || gap(mas_empty_area)),
    ("c-gap-down-100k", || gap(mas_empty_area_rev)),
];

/// Entries of a large program's tree, and how many duplicates are made of it.
const AREAS: u64 = 4_023;
const FEW: u32 = 8;
const THOUSAND: u64 = 1_000;
const MANY: u64 = 100_000;
/// Pages of a gap that is searched for.
const GAP: c_ulong = 4_096;

const ALLOC_RANGE: u32 = 0x01;
const GFP_KERNEL: u32 = 0xcc0;
/// Bytes of a node, to which it is aligned.
const NODE: usize = 256;

type Destroy = unsafe extern "C" fn(*mut MapleTree);
type Dup = unsafe extern "C" fn(*mut MapleTree, *mut MapleTree, u32) -> c_int;
type Search = unsafe extern "C" fn(*mut MaState, c_ulong, c_ulong, c_ulong) -> c_int;
type SetRange = unsafe extern "C" fn(*mut MaState, c_ulong, c_ulong);
type Step = unsafe extern "C" fn(*mut MaState, c_ulong) -> *mut c_void;
type Store = unsafe extern "C" fn(*mut MaState, *mut c_void) -> *mut c_void;
type StoreGfp = unsafe extern "C" fn(*mut MaState, *mut c_void, u32) -> c_int;

fn tree() -> MapleTree {
    MapleTree::new(ALLOC_RANGE)
}

/// `MA_STATE(mas, tree, first, last)`.
fn state(tree: &MapleTree, first: usize, last: usize) -> MaState {
    MaState {
        tree,
        index: first,
        last,
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

/// The entry with a number: never NULL, never reserved.
fn entry(value: u32) -> *mut c_void {
    std::ptr::without_provenance_mut((value as usize + 0x1000) << 4)
}

fn fill(tree: &MapleTree, items: &[Item]) {
    let set_range: SetRange = black_box(mas_set_range);
    let store: StoreGfp = black_box(mas_store_gfp);
    let mut mas = state(tree, 0, 0);
    for &(first, end, value) in items {
        // SAFETY: tree and state are valid, and this thread alone uses them.
        unsafe {
            set_range(&mut mas, first, end - 1);
            let error = store(&mut mas, entry(value), GFP_KERNEL);
            assert_eq!(error, 0);
        }
    }
}

fn empty_trees(count: u32) -> Vec<MapleTree> {
    (0..count).map(|_| tree()).collect()
}

fn duplicate_all(from: &mut MapleTree, copies: &mut [MapleTree]) {
    let dup: Dup = black_box(mtree_dup);
    for copy in copies {
        // SAFETY: both trees are valid, and this thread alone uses them.
        let error = unsafe { dup(from, copy, GFP_KERNEL) };
        assert_eq!(error, 0);
    }
}

fn destroy_all(copies: &mut [MapleTree]) {
    let destroy: Destroy = black_box(__mt_destroy);
    for copy in copies {
        // SAFETY: the tree is valid, and this thread alone uses it.
        unsafe { destroy(copy) };
    }
}

/// A tree of the entries that the test module of Linux's tree duplicates, `i * 10 ..= i * 10 + 5`, and copies that have been made and
/// destroyed once, so that the memory is there.
fn forked(entries: u64, copies: u32) -> (MapleTree, Vec<MapleTree>) {
    let mut from = tree();
    let items: Vec<Item> = (0..entries)
        .map(|i| (i * 10, i * 10 + 6, i as u32))
        .collect();
    fill(&from, &items);
    let mut copies = empty_trees(copies);
    duplicate_all(&mut from, &mut copies);
    destroy_all(&mut copies);
    (from, copies)
}

fn duplicate(entries: u64, count: u32) -> u32 {
    let (mut from, mut copies) = forked(entries, count);
    measured(|| duplicate_all(&mut from, &mut copies));
    count
}

fn destroy(entries: u64, count: u32) -> u32 {
    let (mut from, mut copies) = forked(entries, count);
    duplicate_all(&mut from, &mut copies);
    measured(|| destroy_all(&mut copies));
    count
}

/// Performs a fork's operations: duplicates the tree, and replaces each entry.
fn fork(entries: u64, count: u32) -> u32 {
    let (mut from, mut copies) = forked(entries, count);
    let dup: Dup = black_box(mtree_dup);
    let find: Step = black_box(mas_find);
    let store: Store = black_box(mas_store);
    measured(|| {
        for copy in &mut copies {
            // SAFETY: the trees and the state are valid, and this thread alone uses them.
            unsafe {
                let error = dup(&mut from, copy, GFP_KERNEL);
                assert_eq!(error, 0);
                let mut mas = state(copy, 0, 0);
                loop {
                    let found = find(&mut mas, c_ulong::MAX);
                    if found.is_null() {
                        break;
                    }
                    let before = store(&mut mas, found.wrapping_byte_add(8));
                    black_box(before);
                }
            }
        }
    });
    count
}

/// `mas_for_each`, an entry.
fn find(entries: u64) -> u32 {
    let (ranges, _) = ranges(entries);
    let tree = tree();
    fill(&tree, &ranges.items);
    let find: Step = black_box(mas_find);
    let mut found = 0;
    measured(|| {
        let mut mas = state(&tree, 0, 0);
        loop {
            // SAFETY: tree and state are valid, and this thread alone uses them.
            let entry = unsafe { find(&mut mas, c_ulong::MAX) };
            if entry.is_null() {
                break;
            }
            found += 1;
        }
    });
    found
}

/// `mas_prev`, an entry.
fn prev(entries: u64) -> u32 {
    let (ranges, _) = ranges(entries);
    let tree = tree();
    fill(&tree, &ranges.items);
    let prev: Step = black_box(mas_prev);
    let mut found = 0;
    measured(|| {
        let mut mas = state(&tree, usize::MAX, usize::MAX);
        loop {
            // SAFETY: tree and state are valid, and this thread alone uses them.
            let entry = unsafe { prev(&mut mas, 0) };
            if entry.is_null() {
                break;
            }
            found += 1;
        }
    });
    found
}

fn append() -> u32 {
    let (ranges, _) = ranges(THOUSAND);
    let tree = tree();
    measured(|| fill(&tree, &ranges.items));
    THOUSAND as u32
}

/// In random order, with no cursor's position known.
fn insert() -> u32 {
    let (ranges, mut random) = ranges(ENTRIES);
    let items = ranges.shuffled(&mut random);
    let tree = tree();
    measured(|| fill(&tree, &items));
    ENTRIES as u32
}

/// Another entry in the very range of one, in random order.
fn replace() -> u32 {
    let (ranges, mut random) = ranges(THOUSAND);
    let items = ranges.shuffled(&mut random);
    let tree = tree();
    fill(&tree, &ranges.items);
    let set_range: SetRange = black_box(mas_set_range);
    let store: Store = black_box(mas_store);
    measured(|| {
        let mut mas = state(&tree, 0, 0);
        for &(first, end, value) in &items {
            // SAFETY: tree and state are valid, and this thread alone uses them.
            unsafe {
                set_range(&mut mas, first, end - 1);
                let before = store(&mut mas, entry(value ^ 1));
                black_box(before);
            }
        }
    });
    THOUSAND as u32
}

fn gap(search: Search) -> u32 {
    let (ranges, _) = ranges(MANY);
    let tree = tree();
    fill(&tree, &ranges.items);
    let search = black_box(search);
    measured(|| {
        for _ in 0..LOOKUPS {
            let mut mas = state(&tree, 0, 0);
            // SAFETY: tree and state are valid, and this thread alone uses them.
            let error = unsafe { search(&mut mas, 0, ranges.end, GAP) };
            assert_eq!(error, 0);
            black_box(mas.index);
        }
    });
    LOOKUPS as u32
}

/// Does `work` with hooks that are a list of free nodes.
fn hooked(work: fn() -> u32) -> u32 {
    let mut free: *mut c_void = null_mut();
    let hooks = MapleHooks {
        ctx: (&raw mut free).cast(),
        alloc: Some(take),
        free: Some(put),
        read_lock: None,
        read_unlock: None,
        call_rcu: None,
    };
    // SAFETY: there is no tree, and no other thread; the list stays until the defaults are back.
    unsafe { maple_set_hooks(&hooks) };
    work()
}

/// The hook `alloc`.
unsafe extern "C" fn take(ctx: *mut c_void, size: usize, align: usize, _: u32) -> *mut c_void {
    assert!(size <= NODE && align <= NODE);
    let list = ctx.cast::<*mut c_void>();
    // SAFETY: the context is the list; a node on it holds the next one's address.
    unsafe {
        let node = list.read();
        if node.is_null() {
            let layout = std::alloc::Layout::from_size_align_unchecked(NODE, NODE);
            return std::alloc::alloc(layout).cast();
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
