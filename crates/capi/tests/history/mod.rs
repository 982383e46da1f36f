//! A history of calls, read from bytes, performed on a tree through the C interface and on a list
//! of ranges. They are compared after each call. The random test and the fuzz target share it.

use std::cell::Cell;
use std::ffi::{c_ulong, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Once;

use samara::maple_tree::*;

mod position;

use position::Position;

const KERNEL: u32 = 0xcc0;
const NOWAIT: u32 = 0x2800;
const MAX: usize = usize::MAX;
const ENOMEM: i32 = -12;
const EBUSY: i32 = -16;
const EEXIST: i32 = -17;
const EINVAL: i32 = -22;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    /// The number of requests that still succeed, or `None` for all of them.
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

unsafe extern "C" fn alloc(_: *mut c_void, size: usize, align: usize, _: u32) -> *mut c_void {
    match LEFT.get() {
        Some(0) => return ptr::null_mut(),
        Some(left) => LEFT.set(Some(left - 1)),
        None => {}
    }
    LIVE.set(LIVE.get() + 1);
    let layout = std::alloc::Layout::from_size_align(size, align).unwrap();
    // SAFETY: nodes do not have size zero.
    unsafe { std::alloc::alloc(layout) }.cast()
}

unsafe extern "C" fn free(_: *mut c_void, block: *mut c_void, size: usize, align: usize) {
    LIVE.set(LIVE.get() - 1);
    let layout = std::alloc::Layout::from_size_align(size, align).unwrap();
    // SAFETY: it came from `alloc` with this layout.
    unsafe { std::alloc::dealloc(block.cast(), layout) }
}

/// One thread, outside of all sections: a grace period ends at once.
unsafe extern "C" fn call_rcu(
    _: *mut c_void,
    head: *mut RcuHead,
    done: unsafe extern "C" fn(*mut RcuHead),
) {
    // SAFETY: there are no readers.
    unsafe { done(head) }
}

fn set_hooks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hooks = MapleHooks {
            ctx: ptr::null_mut(),
            alloc: Some(alloc),
            free: Some(free),
            read_lock: None,
            read_unlock: None,
            call_rcu: Some(call_rcu),
        };
        // SAFETY: this is before the first tree of the program.
        unsafe { maple_set_hooks(&hooks) }
    });
}

/// A slot: first, last, entry. 0 means a gap.
type Slot = (usize, usize, usize);

/// All slots, in order. No two gaps touch.
struct Model(Vec<Slot>);

impl Model {
    fn at(&self, index: usize) -> Slot {
        let i = self.0.partition_point(|slot| slot.1 < index);
        self.0[i]
    }

    fn store(&mut self, first: usize, last: usize, entry: usize) {
        let mut new: Vec<Slot> = Vec::new();
        let mut push = |slot: Slot| match new.last_mut() {
            Some(before) if before.2 == 0 && slot.2 == 0 => before.1 = slot.1,
            _ => new.push(slot),
        };
        for &(a, b, word) in &self.0 {
            if a < first {
                push((a, b.min(first - 1), word));
            }
            if a <= first && first <= b {
                push((first, last, entry));
            }
            if b > last {
                push((a.max(last + 1), b, word));
            }
        }
        self.0 = new;
    }

    /// Returns the lowest or highest gap for `size` indices.
    fn gap(&self, min: usize, max: usize, size: usize, up: bool) -> Option<usize> {
        let fits = |&(a, b, word): &Slot| {
            let (a, b) = (a.max(min), b.min(max));
            (word == 0 && a <= b && b - a >= size - 1).then(|| if up { a } else { b - (size - 1) })
        };
        if up {
            self.0.iter().find_map(fits)
        } else {
            self.0.iter().rev().find_map(fits)
        }
    }
}

/// Numbers from bytes, and zeroes after their end.
struct Bytes<'a>(std::slice::Iter<'a, u8>);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    /// Returns an index near one of the ends.
    fn index(&mut self) -> usize {
        match self.byte() {
            low @ ..0xf0 => usize::from(low),
            high => MAX - usize::from(0xff - high),
        }
    }

    /// Returns a range, mostly short, so that trees have many entries.
    fn range(&mut self) -> (usize, usize) {
        let first = self.index();
        match self.byte() {
            n @ ..0xe0 => (first, first.saturating_add(usize::from(n % 8))),
            0xe0..0xf0 => {
                let other = self.index();
                (first.min(other), first.max(other))
            }
            n => (first, first.saturating_add(usize::from(n - 0xe0))),
        }
    }

    /// Returns an entry: mostly numbers, some that look like nodes, the zero entry, NULL.
    fn entry(&mut self) -> usize {
        match self.byte() {
            0 => 0,
            1 => 0x406,
            2 => 0x1_0002,
            n => usize::from(n) << 1 | 1,
        }
    }
}

fn word(entry: usize) -> *mut c_void {
    ptr::without_provenance_mut(entry)
}

/// Performs a history.
///
/// # Panics
///
/// Panics if a call returns something else than the list has, damages the structure, or leaks
/// memory.
pub(crate) fn play(bytes: &[u8]) {
    set_hooks();
    let before = LIVE.get();
    let mut bytes = Bytes(bytes.iter());
    let flags = u32::from(bytes.byte() & 3);
    let mut tree = MapleTree::new(flags);
    let tree: *mut MapleTree = &mut tree;
    let mut model = Model(vec![(0, MAX, 0)]);
    let mut state = MaybeUninit::<MaState>::uninit();
    // SAFETY: the tree is valid until the end of this function, and only this thread uses it.
    unsafe {
        mas_init(state.as_mut_ptr(), tree, 0);
        let mas = state.as_mut_ptr();
        while bytes.0.len() > 0 {
            step(tree, mas, &mut model, &mut bytes, flags);
            LEFT.set(None);
            assert_eq!(mt_validate(tree), 0, "the structure is damaged");
        }
        compare(tree, &model);
        mas_destroy(mas);
        mtree_destroy(tree);
    }
    assert_eq!(LIVE.get(), before, "nodes are left");
}

/// Walks over all slots in both directions.
unsafe fn compare(tree: *mut MapleTree, model: &Model) {
    // SAFETY: as in `play`.
    unsafe {
        let mut state = MaybeUninit::uninit();
        mas_init(state.as_mut_ptr(), tree, 0);
        let mas = state.as_mut_ptr();
        let mut back = Vec::new();
        for &(first, last, entry) in model.0.iter().filter(|slot| slot.2 != 0) {
            assert_eq!(mas_find(mas, MAX as c_ulong).addr(), entry);
            assert_eq!(((*mas).index, (*mas).last), (first, last));
            let shown = if entry == 0x406 { 0 } else { entry };
            assert_eq!(mtree_load(tree, last as c_ulong).addr(), shown);
            back.push((first, last, entry));
        }
        assert!(mas_find(mas, MAX as c_ulong).is_null());
        mas_set(mas, MAX as c_ulong);
        while let Some((first, last, entry)) = back.pop() {
            assert_eq!(mas_find_rev(mas, 0).addr(), entry);
            assert_eq!(((*mas).index, (*mas).last), (first, last));
        }
    }
}

/// Checks a move and its expected result.
unsafe fn moved(
    (tree, mas, model): (*mut MapleTree, *mut MaState, &Model),
    should: impl FnOnce(&mut Position, &Model) -> usize,
    go: impl FnOnce(*mut MaState) -> *mut c_void,
) -> *mut c_void {
    // SAFETY: as in `play`.
    unsafe {
        let nodes = mt_height(tree) > 0;
        let before = Position::of(&*mas, nodes);
        let mut after = before;
        let entry = should(&mut after, model);
        let found = go(mas);
        assert_eq!(
            (found.addr(), Position::of(&*mas, nodes)),
            (entry, after),
            "from {before:?}"
        );
        found
    }
}

unsafe fn step(
    tree: *mut MapleTree,
    mas: *mut MaState,
    model: &mut Model,
    bytes: &mut Bytes<'_>,
    flags: u32,
) {
    let code = bytes.byte();
    // Some calls use an allocator that is about to fail.
    if code & 0xc0 == 0x40 {
        LEFT.set(Some(u32::from(bytes.byte() % 8)));
    }
    let gfp = if code & 0x20 == 0 { KERNEL } else { NOWAIT };
    // SAFETY: as in `play`.
    unsafe {
        match code % 20 {
            0 => {
                let ((first, last), entry) = (bytes.range(), bytes.entry());
                match mtree_store_range(tree, first as _, last as _, word(entry), gfp) {
                    0 => model.store(first, last, entry),
                    error => assert!(error == ENOMEM && LEFT.get() == Some(0)),
                }
            }
            1 => {
                let ((first, last), entry) = (bytes.range(), bytes.entry());
                let slot = model.at(first);
                let taken = slot.2 != 0 || slot.1 < last;
                match mtree_insert_range(tree, first as _, last as _, word(entry), gfp) {
                    0 => {
                        assert!(!taken);
                        model.store(first, last, entry);
                    }
                    EEXIST => assert!(taken),
                    error => assert!(error == ENOMEM && LEFT.get() == Some(0)),
                }
            }
            2 => {
                let index = bytes.index();
                let (first, last, entry) = model.at(index);
                let erased = mtree_erase(tree, index as _).addr();
                if erased != 0 {
                    assert_eq!(erased, entry);
                    model.store(first, last, 0);
                } else {
                    assert!(entry == 0 || LEFT.get() == Some(0));
                }
            }
            3 => {
                let ((first, last), entry) = (bytes.range(), bytes.entry());
                mas_set_range(mas, first as _, last as _);
                let mut about = (first, last);
                match mas_store_gfp(mas, word(entry), gfp) {
                    0 => {
                        model.store(first, last, entry);
                        if entry == 0 {
                            // The whole gap.
                            let hole = model.at(first);
                            about = (hole.0, hole.1);
                        }
                    }
                    error => {
                        assert!(error == ENOMEM && LEFT.get() == Some(0) && mas_is_err(mas));
                        mas_reset(mas);
                    }
                }
                assert_eq!(((*mas).index, (*mas).last), about);
            }
            4 => {
                let index = bytes.index();
                (*mas).index = index;
                (*mas).last = index;
                moved(
                    (tree, mas, model),
                    |at, model| at.go(model, index).2,
                    |mas| mas_walk(mas),
                );
            }
            5 | 9 => {
                let limit = bytes.index();
                let holes = code & 0x80 != 0;
                moved(
                    (tree, mas, model),
                    |at, model| at.next(model, limit, holes),
                    |mas| {
                        if holes {
                            mas_next_range(mas, limit as _)
                        } else {
                            mas_next(mas, limit as _)
                        }
                    },
                );
            }
            6 | 10 => {
                let limit = bytes.index();
                let holes = code & 0x80 != 0;
                moved(
                    (tree, mas, model),
                    |at, model| at.prev(model, limit, holes),
                    |mas| {
                        if holes {
                            mas_prev_range(mas, limit as _)
                        } else {
                            mas_prev(mas, limit as _)
                        }
                    },
                );
            }
            7 => {
                let limit = bytes.index();
                let holes = code & 0x80 != 0;
                moved(
                    (tree, mas, model),
                    |at, model| at.find(model, limit, holes),
                    |mas| {
                        if holes {
                            mas_find_range(mas, limit as _)
                        } else {
                            mas_find(mas, limit as _)
                        }
                    },
                );
            }
            8 => {
                let limit = bytes.index();
                let holes = code & 0x80 != 0;
                moved(
                    (tree, mas, model),
                    |at, model| at.find_rev(model, limit, holes),
                    |mas| {
                        if holes {
                            mas_find_range_rev(mas, limit as _)
                        } else {
                            mas_find_rev(mas, limit as _)
                        }
                    },
                );
            }
            11 => {
                let (min, max) = bytes.range();
                let size = usize::from(bytes.byte());
                let up = code & 0x10 == 0;
                let found = if up {
                    mas_empty_area(mas, min as _, max as _, size as _)
                } else {
                    mas_empty_area_rev(mas, min as _, max as _, size as _)
                };
                match found {
                    0 => {
                        assert_eq!(Some((*mas).index), model.gap(min, max, size, up));
                        let (first, last) = ((*mas).index, (*mas).last);
                        assert_eq!(last - first, size - 1);
                        let entry = bytes.entry();
                        match mas_store_gfp(mas, word(entry), gfp) {
                            0 => model.store(first, last, entry),
                            error => {
                                assert!(error == ENOMEM && LEFT.get() == Some(0));
                                mas_reset(mas);
                            }
                        }
                    }
                    EBUSY => assert_eq!(model.gap(min, max, size, up), None),
                    error => {
                        assert!(error == EINVAL && (size == 0 || max - min < size - 1));
                    }
                }
            }
            12 => mas_pause(mas),
            13 => mas_reset(mas),
            14 => {
                let mut copy = MapleTree::new(mt_flags(flags, mt_in_rcu(tree)));
                let copy: *mut MapleTree = &mut copy;
                match mtree_dup(tree, copy, gfp) {
                    0 => compare(copy, model),
                    error => {
                        assert!(error == ENOMEM && LEFT.get() == Some(0));
                        assert!(mtree_empty(copy));
                    }
                }
                mtree_destroy(copy);
            }
            15 => {
                let ((first, last), entry) = (bytes.range(), bytes.entry());
                mas_set_range(mas, first as _, last as _);
                if mas_preallocate(mas, word(entry), gfp) == 0 {
                    LEFT.set(Some(0));
                    mas_store_prealloc(mas, word(entry));
                    assert!(!mas_is_err(mas));
                    model.store(first, last, entry);
                }
            }
            16 => {
                // The entry at the state is exchanged.
                let entry = bytes.entry();
                let limit = bytes.index();
                let found = moved(
                    (tree, mas, model),
                    |at, model| at.find(model, limit, false),
                    |mas| mas_find(mas, limit as _),
                );
                if !found.is_null() && entry != 0 {
                    let (first, last) = ((*mas).index, (*mas).last);
                    let old = mas_store(mas, word(entry));
                    if mas_is_err(mas) {
                        assert_eq!(LEFT.get(), Some(0));
                        mas_destroy(mas);
                        mas_reset(mas);
                    } else {
                        assert_eq!(old, found);
                        model.store(first, last, entry);
                    }
                }
            }
            17 => {
                let found = moved(
                    (tree, mas, model),
                    |at, model| at.find(model, MAX, false),
                    |mas| mas_find(mas, MAX as _),
                );
                let (first, last) = ((*mas).index, (*mas).last);
                if !found.is_null() {
                    if mas_erase(mas) == found {
                        model.store(first, last, 0);
                    } else {
                        assert!(LEFT.get() == Some(0) && mas_is_err(mas));
                        mas_reset(mas);
                    }
                    assert_eq!(((*mas).index, (*mas).last), (first, last));
                }
            }
            18 => {
                let mut index = bytes.index() as c_ulong;
                let (from, limit) = (index as usize, bytes.index());
                let found = mt_find(tree, &mut index, limit as _).addr();
                let expected = model.0.iter().find(|slot| {
                    slot.1 >= from
                        && slot.0 <= limit
                        && from <= limit
                        && slot.2 != 0
                        && slot.2 != 0x406
                });
                assert_eq!(found, expected.map_or(0, |slot| slot.2));
                let behind = expected.map_or(from, |slot| slot.1.wrapping_add(1));
                assert_eq!(index as usize, behind);
            }
            _ => {
                if mt_in_rcu(tree) {
                    mt_clear_in_rcu(tree);
                } else {
                    mt_set_in_rcu(tree);
                }
            }
        }
    }
}

fn mt_flags(flags: u32, rcu: bool) -> u32 {
    flags & 1 | if rcu { 2 } else { 0 }
}
