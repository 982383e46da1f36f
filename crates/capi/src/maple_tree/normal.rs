//! The normal functions: `mt_…` and `mtree_…`. They take the lock, or protect their reads,
//! themselves.
//!
//! Errors are Linux's negative numbers. `-EINVAL` means a range whose end is before its start, an
//! entry that is reserved for the advanced functions, or a tree without the needed mode. `-ENOMEM`
//! means no memory. Other errors are documented at the functions.

use core::ffi::{c_int, c_uint, c_ulong, c_void};
use core::ptr;

use crate::maple_tree::abi::{MaState, MapleTree, Status, errno, flags, gfp};
use crate::maple_tree::entry::{is_advanced, is_reserved, is_zero, shown};
use crate::maple_tree::memory::Gfp;
use crate::maple_tree::rcu::{self, ReadSide};

/// Declares functions whose callers' duties are those of the module `maple_tree`.
macro_rules! exports {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)? $body:block
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// See [the module](crate::maple_tree#safety).
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $ret)? {
            // SAFETY: the caller has the duties of the module, which are those of the functions
            // called here.
            #[allow(unused_unsafe, reason = "not every function needs it")]
            unsafe { $body }
        }
    )*};
}
pub(crate) use exports;

/// A guard that holds the tree's own lock.
pub(crate) struct LockGuard<'a>(&'a MapleTree);

impl<'a> LockGuard<'a> {
    pub(crate) fn new(tree: &'a MapleTree) -> Self {
        tree.lock();
        Self(tree)
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

fn to_c(result: Result<(), c_int>) -> c_int {
    result.err().unwrap_or(0)
}

/// Converts a return value for C to a result: 0, or the negative number of an error.
fn done(error: c_int) -> Result<(), c_int> {
    if error == 0 { Ok(()) } else { Err(error) }
}

/// Stores over a range, under the lock.
unsafe fn store_range(
    mt: *const MapleTree,
    first: usize,
    last: usize,
    entry: *mut (),
    allowed: u32,
) -> Result<(), c_int> {
    if is_advanced(entry) || first > last {
        return Err(-errno::EINVAL);
    }
    // SAFETY: the caller has the duties of the module. The lock is held.
    unsafe {
        let _held = LockGuard::new(&*mt);
        MaState::at(mt, first, last).retry_with_memory(allowed, |mas| mas.try_store(entry))
    }
}

/// Stores into a gap, under the lock.
unsafe fn insert_range(
    mt: *const MapleTree,
    first: usize,
    last: usize,
    entry: *mut (),
    allowed: u32,
) -> Result<(), c_int> {
    if is_advanced(entry) || first > last {
        return Err(-errno::EINVAL);
    }
    // SAFETY: as in `store_range`.
    unsafe {
        let _held = LockGuard::new(&*mt);
        MaState::at(mt, first, last).retry_with_memory(allowed, |mas| {
            // The lock may have been dropped since the last look-up.
            let at = mas.position();
            let (there, ends) = match at {
                Some(at) => (at.entry(), at.last()),
                None => {
                    let slot = mas.seek(first);
                    (slot.entry, slot.last)
                }
            };
            if !there.is_null() || ends < last {
                return Err(-errno::EEXIST);
            }
            mas.try_store_at(at, entry)
        })
    }
}

/// Finds a gap and stores there, under the lock. The state stays at the gap.
unsafe fn alloc_range(
    mt: *const MapleTree,
    entry: *mut (),
    allowed: u32,
    search: impl Fn(&mut MaState) -> Result<(), c_int>,
) -> Result<usize, c_int> {
    // SAFETY: as in `store_range`.
    unsafe {
        let tree = &*mt;
        if !tree.tracks_gaps() || is_reserved(entry) {
            return Err(-errno::EINVAL);
        }
        let _held = LockGuard::new(tree);
        MaState::at(mt, 0, 0).retry_with_memory(allowed, |mas| {
            search(mas)?;
            let first = mas.index;
            mas.try_store(entry).map(|()| first)
        })
    }
}

fn write_start(start: *mut c_ulong, result: Result<usize, c_int>) -> c_int {
    match result {
        Ok(first) => {
            // SAFETY: the caller of the exported function passed a valid pointer.
            unsafe { start.write(first as c_ulong) };
            0
        }
        Err(error) => error,
    }
}

exports! {
    /// `maple_tree_init`: does nothing, since no setup is needed.
    fn maple_tree_init() {}

    /// `mt_init_flags`: creates an empty tree with these modes.
    fn mt_init_flags(mt: *mut MapleTree, flags: c_uint) {
        mt.write(MapleTree::new(flags));
    }

    /// `mt_init`: creates an empty tree.
    fn mt_init(mt: *mut MapleTree) {
        mt.write(MapleTree::new(0));
    }

    /// `mtree_lock`: takes the tree's own lock. Does nothing if the lock is external.
    fn mtree_lock(mt: *mut MapleTree) {
        (*mt).lock();
    }

    /// `mtree_unlock`: releases the tree's own lock. Does nothing if the lock is external.
    fn mtree_unlock(mt: *mut MapleTree) {
        (*mt).unlock();
    }

    /// `mtree_empty`: returns true if nothing is stored.
    fn mtree_empty(mt: *const MapleTree) -> bool {
        (*mt).words.is_empty()
    }

    /// `mt_height`: returns the number of levels of nodes, or 0 if there are none.
    fn mt_height(mt: *const MapleTree) -> c_uint {
        (*mt).words.height()
    }

    /// `mt_external_lock`: returns true if the lock is external.
    fn mt_external_lock(mt: *const MapleTree) -> bool {
        (*mt).lock_is_external()
    }

    /// `mt_in_rcu`: returns true if readers may run concurrently with the writer.
    fn mt_in_rcu(mt: *mut MapleTree) -> bool {
        (*mt).in_rcu()
    }

    /// `mt_set_in_rcu`: permits readers to run concurrently with the writer. Takes the lock.
    fn mt_set_in_rcu(mt: *mut MapleTree) {
        let tree = &*mt;
        let _held = LockGuard::new(tree);
        tree.words.set_flags(flags::USE_RCU, flags::USE_RCU);
    }

    /// `mt_clear_in_rcu`: requires readers to hold the lock. Takes the lock.
    fn mt_clear_in_rcu(mt: *mut MapleTree) {
        let tree = &*mt;
        let _held = LockGuard::new(tree);
        tree.words.set_flags(flags::USE_RCU, 0);
    }

    /// `mtree_destroy`: empties the tree, which keeps its modes and can be used again. Takes the
    /// lock.
    fn mtree_destroy(mt: *mut MapleTree) {
        let tree = &*mt;
        {
            let _held = LockGuard::new(tree);
            tree.clear();
        }
        rcu::settle();
    }

    /// `__mt_destroy`: as `mtree_destroy`, under the caller's lock.
    fn __mt_destroy(mt: *mut MapleTree) {
        (*mt).clear();
        rcu::settle();
    }

    /// `mtree_dup`: copies the entries of `mt` to the empty tree `dst`. Takes both locks. `-EINVAL`
    /// if the modes of the trees differ or `dst` is not empty. After any error `dst` is unchanged.
    fn mtree_dup(mt: *mut MapleTree, dst: *mut MapleTree, gfp: c_uint) -> c_int {
        if ptr::addr_eq(mt, dst) {
            return -errno::EINVAL;
        }
        let _from = LockGuard::new(&*mt);
        let _to = LockGuard::new(&*dst);
        __mt_dup(mt, dst, gfp)
    }

    /// `__mt_dup`: as `mtree_dup`, under the caller's locks.
    fn __mt_dup(mt: *mut MapleTree, dst: *mut MapleTree, gfp: c_uint) -> c_int {
        const STATE: u32 = flags::HEIGHT_MASK | flags::ALLOC_WRAPPED;
        let (from, to) = (&*mt, &*dst);
        let differ = (from.words.flags() ^ to.words.flags()) & !STATE != 0;
        if ptr::addr_eq(mt, dst) || differ || !to.words.is_empty() {
            return -errno::EINVAL;
        }
        match from.words.duplicate(&to.words, &Gfp(gfp)) {
            Ok(()) => 0,
            Err(_) => -errno::ENOMEM,
        }
    }

    /// `mtree_load`: returns the entry at `index`, or NULL. Takes no lock.
    fn mtree_load(mt: *mut MapleTree, index: c_ulong) -> *mut c_void {
        let _reading = ReadSide::enter();
        shown((*mt).words.load(index as usize)).cast()
    }

    /// `mtree_insert`: stores at `index`. `-EEXIST` if there is an entry.
    fn mtree_insert(mt: *mut MapleTree, index: c_ulong, entry: *mut c_void, gfp: c_uint) -> c_int {
        to_c(insert_range(mt, index as usize, index as usize, entry.cast(), gfp))
    }

    /// `mtree_insert_range`: stores at `first..=last`. `-EEXIST` if there is an entry anywhere in
    /// the range.
    fn mtree_insert_range(
        mt: *mut MapleTree,
        first: c_ulong,
        last: c_ulong,
        entry: *mut c_void,
        gfp: c_uint,
    ) -> c_int {
        to_c(insert_range(mt, first as usize, last as usize, entry.cast(), gfp))
    }

    /// `mtree_store`: stores at `index`, replacing what is there. NULL erases.
    fn mtree_store(mt: *mut MapleTree, index: c_ulong, entry: *mut c_void, gfp: c_uint) -> c_int {
        to_c(store_range(mt, index as usize, index as usize, entry.cast(), gfp))
    }

    /// `mtree_store_range`: stores at `first..=last`, replacing what is there. NULL erases.
    fn mtree_store_range(
        mt: *mut MapleTree,
        first: c_ulong,
        last: c_ulong,
        entry: *mut c_void,
        gfp: c_uint,
    ) -> c_int {
        to_c(store_range(mt, first as usize, last as usize, entry.cast(), gfp))
    }

    /// `mtree_erase`: erases the whole range of the entry at `index`. Returns the entry, or NULL if
    /// there is none or no memory. In the latter case nothing has changed.
    fn mtree_erase(mt: *mut MapleTree, index: c_ulong) -> *mut c_void {
        let _held = LockGuard::new(&*mt);
        MaState::at(mt, index as usize, index as usize).erase().cast()
    }

    /// `mtree_alloc_range`: stores at the lowest `size` free indices within `min..=max`, and stores
    /// the first index to `start`. `-EBUSY` if there are none. `-EINVAL` unless the tree has
    /// `MT_FLAGS_ALLOC_RANGE`.
    fn mtree_alloc_range(
        mt: *mut MapleTree,
        start: *mut c_ulong,
        entry: *mut c_void,
        size: c_ulong,
        min: c_ulong,
        max: c_ulong,
        gfp: c_uint,
    ) -> c_int {
        write_start(start, alloc_range(mt, entry.cast(), gfp, |mas| {
            done(mas.empty_area(min as usize, max as usize, size as usize))
        }))
    }

    /// `mtree_alloc_rrange`: as `mtree_alloc_range`, at the highest free indices.
    fn mtree_alloc_rrange(
        mt: *mut MapleTree,
        start: *mut c_ulong,
        entry: *mut c_void,
        size: c_ulong,
        min: c_ulong,
        max: c_ulong,
        gfp: c_uint,
    ) -> c_int {
        write_start(start, alloc_range(mt, entry.cast(), gfp, |mas| {
            done(mas.empty_area_rev(min as usize, max as usize, size as usize))
        }))
    }

    /// `mtree_alloc_cyclic`: stores at the lowest free index at or above `*next` within `lo..=hi`.
    /// If there is none, at the lowest within `lo..=hi`. Stores the index to `start`, and sets
    /// `*next` to the one after it. Returns 1 if the search wrapped around, 0 otherwise.
    fn mtree_alloc_cyclic(
        mt: *mut MapleTree,
        start: *mut c_ulong,
        entry: *mut c_void,
        lo: c_ulong,
        hi: c_ulong,
        next: *mut c_ulong,
        gfp: c_uint,
    ) -> c_int {
        let tree = &*mt;
        if !tree.tracks_gaps() || is_reserved(entry.cast()) {
            return -errno::EINVAL;
        }
        let _held = LockGuard::new(tree);
        MaState::at(mt, 0, 0).alloc_cyclic(start, entry.cast(), (lo as usize, hi as usize), next, gfp)
    }

    /// `mt_find`: returns the first entry at or above `*index` and not above `max`, or NULL. Sets
    /// `*index` to the index after the entry (to 0 if it ends at the largest index).
    fn mt_find(mt: *mut MapleTree, index: *mut c_ulong, max: c_ulong) -> *mut c_void {
        let (first, max) = (*index as usize, max as usize);
        if first > max {
            return ptr::null_mut();
        }
        let _reading = ReadSide::enter();
        let mut mas = MaState::at(mt, first, first);
        let mut entry = mas.find(max, false);
        while is_zero(entry) {
            entry = mas.find(max, false);
        }
        if !entry.is_null() {
            *index = mas.last.wrapping_add(1) as c_ulong;
        }
        entry.cast()
    }

    /// `mt_find_after`: as `mt_find`, but returns NULL if `*index` is 0, since the previous search
    /// ended at the largest index.
    fn mt_find_after(mt: *mut MapleTree, index: *mut c_ulong, max: c_ulong) -> *mut c_void {
        if *index == 0 {
            return ptr::null_mut();
        }
        mt_find(mt, index, max)
    }

    /// `mt_next`: returns the first entry after the slot at `index` that starts at or below `max`,
    /// or NULL.
    fn mt_next(mt: *mut MapleTree, index: c_ulong, max: c_ulong) -> *mut c_void {
        let _reading = ReadSide::enter();
        MaState::at(mt, index as usize, index as usize).next(max as usize, false).cast()
    }

    /// `mt_prev`: returns the last entry before the slot at `index` that ends at or above `min`, or
    /// NULL.
    fn mt_prev(mt: *mut MapleTree, index: c_ulong, min: c_ulong) -> *mut c_void {
        let _reading = ReadSide::enter();
        MaState::at(mt, index as usize, index as usize).prev(min as usize, false).cast()
    }

    /// `mt_validate`: returns 0 if every invariant of the structure holds. The caller excludes
    /// writers.
    fn mt_validate(mt: *mut MapleTree) -> c_int {
        if (*mt).words.is_sound() { 0 } else { -errno::EINVAL }
    }
}

impl MaState {
    /// Erases the range of the entry at `index`, and sets index and last to it.
    ///
    /// Returns NULL if there is no entry, or no memory. In the latter case the state is an error,
    /// and the tree is unchanged.
    ///
    /// # Safety
    ///
    /// As for [`retry_with_memory`](MaState::retry_with_memory).
    pub(crate) unsafe fn erase(&mut self) -> *mut () {
        let (index, last) = (self.index, self.last);
        // SAFETY: the caller's promise.
        unsafe {
            self.retry_with_memory(gfp::KERNEL, |mas| {
                (mas.index, mas.last) = (index, last);
                let entry = mas.walk();
                if entry.is_null() {
                    return Ok(entry);
                }
                let found = (mas.index, mas.last);
                mas.try_store(ptr::null_mut()).map(|()| {
                    (mas.index, mas.last) = found;
                    entry
                })
            })
        }
        .unwrap_or_else(|_| {
            (self.index, self.last) = (index, last);
            ptr::null_mut()
        })
    }

    /// Sets index and last to the lowest `size` free indices within `min..=max`. Returns 0,
    /// `-EBUSY` or `-EINVAL`, for C.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    pub(crate) unsafe fn empty_area(&mut self, min: usize, max: usize, size: usize) -> c_int {
        // SAFETY: the caller's promise.
        unsafe {
            self.area(min, max, size, |tree| {
                tree.words.gap::<true>((min, max), size)
            })
        }
    }

    /// Sets index and last to the highest `size` free indices within `min..=max`. Returns the
    /// values of [`empty_area`](MaState::empty_area).
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    pub(crate) unsafe fn empty_area_rev(&mut self, min: usize, max: usize, size: usize) -> c_int {
        // SAFETY: the caller's promise.
        unsafe {
            self.area(min, max, size, |tree| {
                tree.words.gap::<false>((min, max), size)
            })
        }
    }

    unsafe fn area(
        &mut self,
        min: usize,
        max: usize,
        size: usize,
        search: impl FnOnce(&MapleTree) -> Option<usize>,
    ) -> c_int {
        if size == 0 || max < min || max - min < size - 1 {
            return -errno::EINVAL;
        }
        // SAFETY: the duties of `empty_area`.
        unsafe {
            let Some(first) = search(self.tree()) else {
                return -errno::EBUSY;
            };
            self.index = first;
            if self.tree().words.height() == 0 {
                self.reset_position(Status::START);
                self.walk();
                self.index = first;
            } else {
                // In a leaf that is looked up when it is needed.
                self.reset_position(Status::ACTIVE);
            }
            self.last = first + (size - 1);
        }
        0
    }

    /// Implements `mas_alloc_cyclic`.
    ///
    /// # Safety
    ///
    /// As for [`retry_with_memory`](MaState::retry_with_memory); `start` and `next` are valid.
    pub(crate) unsafe fn alloc_cyclic(
        &mut self,
        start: *mut c_ulong,
        entry: *mut (),
        (lo, hi): (usize, usize),
        next: *mut c_ulong,
        allowed: u32,
    ) -> c_int {
        const WRAPPED: u32 = flags::ALLOC_WRAPPED;
        // SAFETY: the caller's promise.
        let done = unsafe {
            self.retry_with_memory(allowed, |mas| {
                let words = &mas.tree().words;
                let from = (*next as usize).max(lo);
                let mut wrapped = words.flags() & WRAPPED != 0;
                let mut found = done(mas.empty_area(from, hi, 1));
                if found.is_err() && from > lo {
                    found = done(mas.empty_area(lo, hi, 1));
                    wrapped = true;
                }
                found?;
                let first = mas.index;
                mas.try_store(entry)?;
                let behind = first.wrapping_add(1);
                // The next allocation reports that the largest index was allocated.
                words.set_flags(WRAPPED, if behind == 0 { WRAPPED } else { 0 });
                *start = first as c_ulong;
                *next = behind as c_ulong;
                Ok(wrapped)
            })
        };
        match done {
            Ok(wrapped) => c_int::from(wrapped),
            Err(error) => error,
        }
    }
}
