//! The advanced functions: `mas_…`. The caller locks.

use core::ffi::{c_int, c_uint, c_ulong, c_void};

use crate::maple_tree::abi::{MaState, MapleTree, Status};
use crate::maple_tree::normal::exports;

exports! {
    /// `mas_init`: creates a state for `addr`.
    fn mas_init(mas: *mut MaState, tree: *mut MapleTree, addr: c_ulong) {
        mas.write(MaState::at(tree, addr as usize, addr as usize));
    }

    /// `mas_reset`: the next operation begins at `index`, from the root.
    fn mas_reset(mas: *mut MaState) {
        (*mas).reset_position(Status::START);
    }

    /// `mas_set`: sets the state to `index`, and resets it.
    fn mas_set(mas: *mut MaState, index: c_ulong) {
        mas_set_range(mas, index, index);
    }

    /// `mas_set_range`: sets the state to `first..=last`, and resets it.
    fn mas_set_range(mas: *mut MaState, first: c_ulong, last: c_ulong) {
        mas_reset(mas);
        __mas_set_range(mas, first, last);
    }

    /// `__mas_set_range`: narrows the state to a part of its range.
    fn __mas_set_range(mas: *mut MaState, first: c_ulong, last: c_ulong) {
        (*mas).index = first as usize;
        (*mas).last = last as usize;
    }

    /// `mas_is_active`: returns true if the state is on a slot of a leaf.
    fn mas_is_active(mas: *mut MaState) -> bool {
        (*mas).status == Status::ACTIVE
    }

    /// `mas_is_err`: returns true if the last operation failed. `node` contains the error.
    fn mas_is_err(mas: *mut MaState) -> bool {
        (*mas).status == Status::ERROR
    }

    /// `mas_pause`: gives up the position, so that the lock can be dropped. Iteration continues
    /// after it.
    fn mas_pause(mas: *mut MaState) {
        (*mas).reset_position(Status::PAUSE);
    }

    /// `mas_walk`: returns the entry at `index`, or NULL. Sets index and last to the range of the
    /// entry or gap.
    fn mas_walk(mas: *mut MaState) -> *mut c_void {
        (*mas).walk().cast()
    }

    /// `mas_find`: on a new state, returns the first entry at or above `index`. Otherwise returns
    /// the next entry. Not above `max`.
    fn mas_find(mas: *mut MaState, max: c_ulong) -> *mut c_void {
        (*mas).find(max as usize, false).cast()
    }

    /// `mas_find_range`: as `mas_find`, but also visits gaps after the first step.
    fn mas_find_range(mas: *mut MaState, max: c_ulong) -> *mut c_void {
        (*mas).find(max as usize, true).cast()
    }

    /// `mas_find_rev`: on a new state, returns the last entry at or below `index`. Otherwise
    /// returns the previous entry. Not below `min`.
    fn mas_find_rev(mas: *mut MaState, min: c_ulong) -> *mut c_void {
        (*mas).find_rev(min as usize, false).cast()
    }

    /// `mas_find_range_rev`: as `mas_find_rev`, but also visits gaps after the first step.
    fn mas_find_range_rev(mas: *mut MaState, min: c_ulong) -> *mut c_void {
        (*mas).find_rev(min as usize, true).cast()
    }

    /// `mas_next`: returns the next entry, not above `max`.
    fn mas_next(mas: *mut MaState, max: c_ulong) -> *mut c_void {
        (*mas).next(max as usize, false).cast()
    }

    /// `mas_next_range`: returns the next slot, entry or gap, not above `max`.
    fn mas_next_range(mas: *mut MaState, max: c_ulong) -> *mut c_void {
        (*mas).next(max as usize, true).cast()
    }

    /// `mas_prev`: returns the previous entry, not below `min`.
    fn mas_prev(mas: *mut MaState, min: c_ulong) -> *mut c_void {
        (*mas).prev(min as usize, false).cast()
    }

    /// `mas_prev_range`: returns the previous slot, entry or gap, not below `min`.
    fn mas_prev_range(mas: *mut MaState, min: c_ulong) -> *mut c_void {
        (*mas).prev(min as usize, true).cast()
    }

    /// `mas_store`: stores over `index..=last` and returns the first entry that was in that range,
    /// or NULL.
    ///
    /// NULL erases, and sets index and last to the whole gap. If there is no memory without
    /// blocking, the state becomes an error: see `mas_nomem`.
    fn mas_store(mas: *mut MaState, entry: *mut c_void) -> *mut c_void {
        // Preallocated nodes must be freed by the general function.
        if (*mas).alloc.is_null() && let Some(before) = (*mas).exchange(entry.cast()) {
            return before.cast();
        }
        (*mas).store_over(entry.cast()).cast()
    }

    /// `mas_store_gfp`: as `mas_store`, allocating with `gfp`. Returns 0, `-EINVAL` or `-ENOMEM`.
    /// Nothing has changed after a failure.
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

    /// `mas_preallocate`: allocates what `mas_store_prealloc` of this entry over `index..=last`
    /// needs. Returns 0 or `-ENOMEM`.
    fn mas_preallocate(mas: *mut MaState, entry: *mut c_void, gfp: c_uint) -> c_int {
        (*mas).reserve_for(entry.cast(), gfp).err().unwrap_or(0)
    }

    /// `mas_store_prealloc`: stores over `index..=last` with preallocated nodes, and frees the
    /// rest. Does not allocate if the tree and the range are those of `mas_preallocate`.
    fn mas_store_prealloc(mas: *mut MaState, entry: *mut c_void) {
        let mas = &mut *mas;
        if mas.store(entry.cast()) {
            mas.widen_to_gap(entry.cast());
        }
        mas.release();
    }

    /// `mas_erase`: erases the whole range of the entry at `index`, and sets index and last to it.
    ///
    /// Returns the entry, or NULL if there is none, or no memory. In the latter case the state is
    /// an error, and nothing has changed. May drop the lock to allocate, and then looks up the
    /// entry again.
    fn mas_erase(mas: *mut MaState) -> *mut c_void {
        (*mas).erase().cast()
    }

    /// `mas_nomem`: if the last store failed for lack of memory, allocates with `gfp`, without the
    /// tree's own lock if that may block. Returns true if the store must be repeated.
    fn mas_nomem(mas: *mut MaState, gfp: c_uint) -> bool {
        (*mas).refill(gfp)
    }

    /// `mas_destroy`: frees preallocated nodes.
    fn mas_destroy(mas: *mut MaState) {
        (*mas).release();
    }

    /// `mas_expected_entries`: allocates what `nr` stores in ascending order after all existing
    /// entries need. Returns 0 or `-ENOMEM`.
    fn mas_expected_entries(mas: *mut MaState, nr: c_ulong) -> c_int {
        (*mas).reserve_for_run(nr as usize).err().unwrap_or(0)
    }

    /// `mas_empty_area`: sets index and last to the lowest `size` free indices within `min..=max`.
    /// Returns 0, `-EBUSY` if there are none, or `-EINVAL` if there cannot be any.
    fn mas_empty_area(mas: *mut MaState, min: c_ulong, max: c_ulong, size: c_ulong) -> c_int {
        (*mas).empty_area(min as usize, max as usize, size as usize)
    }

    /// `mas_empty_area_rev`: as `mas_empty_area`, with the highest free indices.
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
