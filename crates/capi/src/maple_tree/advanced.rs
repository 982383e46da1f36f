//! The advanced functions: `mas_…`. The caller locks.

use core::ffi::{c_int, c_uint, c_ulong, c_void};

use crate::maple_tree::abi::{MaState, MapleTree, Status};
use crate::maple_tree::normal::exports;

exports! {
    /// `mas_init`: a state about `addr`.
    fn mas_init(mas: *mut MaState, tree: *mut MapleTree, addr: c_ulong) {
        mas.write(MaState::at(tree, addr as usize, addr as usize));
    }

    /// `mas_reset`: the next operation begins at `index`, from the root.
    fn mas_reset(mas: *mut MaState) {
        (*mas).reset_position(Status::START);
    }

    /// `mas_set`: makes the state about `index`, and resets it.
    fn mas_set(mas: *mut MaState, index: c_ulong) {
        mas_set_range(mas, index, index);
    }

    /// `mas_set_range`: makes the state about `first..=last`, and resets it.
    fn mas_set_range(mas: *mut MaState, first: c_ulong, last: c_ulong) {
        mas_reset(mas);
        __mas_set_range(mas, first, last);
    }

    /// `__mas_set_range`: makes the state about a part of the range it is on.
    fn __mas_set_range(mas: *mut MaState, first: c_ulong, last: c_ulong) {
        (*mas).index = first as usize;
        (*mas).last = last as usize;
    }

    /// `mas_is_active`: whether the state is on a slot of a leaf.
    fn mas_is_active(mas: *mut MaState) -> bool {
        (*mas).status == Status::ACTIVE
    }

    /// `mas_is_err`: whether the last operation failed; `node` tells how.
    fn mas_is_err(mas: *mut MaState) -> bool {
        (*mas).status == Status::ERROR
    }

    /// `mas_pause`: lets go of the position, so that the lock can be dropped; iteration goes on where it was.
    fn mas_pause(mas: *mut MaState) {
        (*mas).reset_position(Status::PAUSE);
    }

    /// `mas_walk`: the entry at `index`, or NULL; index and last become the range of the entry or hole.
    fn mas_walk(mas: *mut MaState) -> *mut c_void {
        (*mas).walk().cast()
    }

    /// `mas_find`: on a new state the first entry at or above `index`, else the next entry; not above `max`.
    fn mas_find(mas: *mut MaState, max: c_ulong) -> *mut c_void {
        (*mas).find(max as usize, false).cast()
    }

    /// `mas_find_range`: as `mas_find`, but after the first also holes.
    fn mas_find_range(mas: *mut MaState, max: c_ulong) -> *mut c_void {
        (*mas).find(max as usize, true).cast()
    }

    /// `mas_find_rev`: on a new state the last entry at or below `index`, else the previous entry; not below `min`.
    fn mas_find_rev(mas: *mut MaState, min: c_ulong) -> *mut c_void {
        (*mas).find_rev(min as usize, false).cast()
    }

    /// `mas_find_range_rev`: as `mas_find_rev`, but after the first also holes.
    fn mas_find_range_rev(mas: *mut MaState, min: c_ulong) -> *mut c_void {
        (*mas).find_rev(min as usize, true).cast()
    }

    /// `mas_next`: the next entry, not above `max`.
    fn mas_next(mas: *mut MaState, max: c_ulong) -> *mut c_void {
        (*mas).next(max as usize, false).cast()
    }

    /// `mas_next_range`: the next slot, entry or hole, not above `max`.
    fn mas_next_range(mas: *mut MaState, max: c_ulong) -> *mut c_void {
        (*mas).next(max as usize, true).cast()
    }

    /// `mas_prev`: the previous entry, not below `min`.
    fn mas_prev(mas: *mut MaState, min: c_ulong) -> *mut c_void {
        (*mas).prev(min as usize, false).cast()
    }

    /// `mas_prev_range`: the previous slot, entry or hole, not below `min`.
    fn mas_prev_range(mas: *mut MaState, min: c_ulong) -> *mut c_void {
        (*mas).prev(min as usize, true).cast()
    }

    /// `mas_store`: stores over `index..=last`; NULL erases, and index and last become the whole hole. Gives the first entry that was in that range, or NULL. If there is no
    /// memory without blocking the state is an error: see `mas_nomem`.
    fn mas_store(mas: *mut MaState, entry: *mut c_void) -> *mut c_void {
        // What has been set aside would have to be given back.
        if (*mas).alloc.is_null() && let Some(before) = (*mas).exchange(entry.cast()) {
            return before.cast();
        }
        (*mas).store_over(entry.cast()).cast()
    }

    /// `mas_store_gfp`: as `mas_store`, allocating with `gfp`. 0, `-EINVAL` or `-ENOMEM`; on failure nothing changed.
    fn mas_store_gfp(mas: *mut MaState, entry: *mut c_void, gfp: c_uint) -> c_int {
        let mas = &mut *mas;
        match mas.retry_with_memory(gfp, |mas| mas.try_store(entry.cast())) {
            Ok(()) => {
                mas.widen_to_gap(entry.cast());
                0
            }
            Err(error) => error,
        }
    }

    /// `mas_preallocate`: sets aside what `mas_store_prealloc` of this entry over `index..=last` needs. 0 or `-ENOMEM`.
    fn mas_preallocate(mas: *mut MaState, entry: *mut c_void, gfp: c_uint) -> c_int {
        (*mas).reserve_for(entry.cast(), gfp).err().unwrap_or(0)
    }

    /// `mas_store_prealloc`: stores over `index..=last` with what was set aside, of which the rest is given back. Does not allocate if
    /// the tree and the range are those of `mas_preallocate`.
    fn mas_store_prealloc(mas: *mut MaState, entry: *mut c_void) {
        let mas = &mut *mas;
        if mas.store(entry.cast()) {
            mas.widen_to_gap(entry.cast());
        }
        mas.release();
    }

    /// `mas_erase`: erases the whole range of the entry at `index`; index and last become that range. Gives the entry, or NULL if there
    /// is none, or no memory: then the state is an error, and nothing changed. May drop the lock to allocate, and looks again.
    fn mas_erase(mas: *mut MaState) -> *mut c_void {
        (*mas).erase().cast()
    }

    /// `mas_nomem`: if the last store failed for lack of memory, allocates with `gfp` (without the tree's own lock, if that may block);
    /// whether the store is to be repeated.
    fn mas_nomem(mas: *mut MaState, gfp: c_uint) -> bool {
        (*mas).refill(gfp)
    }

    /// `mas_destroy`: gives back what was set aside.
    fn mas_destroy(mas: *mut MaState) {
        (*mas).release();
    }

    /// `mas_expected_entries`: sets aside what `nr` stores in ascending order behind all that is there need. 0 or `-ENOMEM`.
    fn mas_expected_entries(mas: *mut MaState, nr: c_ulong) -> c_int {
        (*mas).reserve_for_run(nr as usize).err().unwrap_or(0)
    }

    /// `mas_empty_area`: sets index and last to the lowest `size` free indices within `min..=max`. `-EBUSY` if there are none, `-EINVAL`
    /// if there cannot be.
    fn mas_empty_area(mas: *mut MaState, min: c_ulong, max: c_ulong, size: c_ulong) -> c_int {
        (*mas).empty_area(min as usize, max as usize, size as usize)
    }

    /// `mas_empty_area_rev`: as `mas_empty_area`, the highest.
    fn mas_empty_area_rev(mas: *mut MaState, min: c_ulong, max: c_ulong, size: c_ulong) -> c_int {
        (*mas).empty_area_rev(min as usize, max as usize, size as usize)
    }

    /// `mas_alloc_cyclic`: as `mtree_alloc_cyclic`, under the caller's lock.
    fn mas_alloc_cyclic(
        mas: *mut MaState,
        start: *mut c_ulong,
        entry: *mut c_void,
        lo: c_ulong,
        hi: c_ulong,
        next: *mut c_ulong,
        gfp: c_uint,
    ) -> c_int {
        (*mas).alloc_cyclic(start, entry.cast(), (lo as usize, hi as usize), next, gfp)
    }
}
