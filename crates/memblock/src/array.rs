//! A sorted array of regions: its storage, its search, and the elementary moves that all other
//! operations consist of.
//!
//! # Invariants
//!
//! The first `cnt` entries are sorted by base. None is empty, none passes the largest address, and
//! no two overlap. No two neighbours that touch have the same flags and node. `total_size` is the
//! sum of their sizes. All `max` entries are initialised. [`RegionType::check`] verifies what can
//! be verified.
//!
//! This module does not know where storage comes from. `grow.rs` grows arrays.

use core::ffi::{CStr, c_char};
use core::fmt;

use crate::region::{Region, addrs_overlap, capped_end};

/// The regions of one kind: Linux's `struct memblock_type`, field for field.
///
/// [`Memblock::memory`](crate::Memblock::memory) and its siblings return it. It dereferences to the
/// slice of its regions.
#[repr(C)]
pub struct RegionType {
    cnt: usize,
    max: usize,
    total_size: u64,
    regions: *mut Region,
    name: *const c_char,
}

impl RegionType {
    pub(crate) const fn over(regions: *mut Region, max: usize, name: &'static CStr) -> Self {
        RegionType {
            cnt: 0,
            max,
            total_size: 0,
            regions,
            name: name.as_ptr(),
        }
    }

    /// Returns the number of regions that fit before the array must grow.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.max
    }

    /// Returns the sum of the sizes of all regions, in bytes.
    #[must_use]
    pub fn total_size(&self) -> u64 {
        self.total_size
    }

    /// Returns the name of the array in dumps: "memory", "reserved" or "physmem", unless C code has
    /// renamed it.
    #[must_use]
    pub fn name(&self) -> &str {
        if self.name.is_null() {
            return "";
        }
        // SAFETY: the name is set from a `CStr`. C code that replaces it promises a string that
        // stays valid.
        unsafe { CStr::from_ptr(self.name) }.to_str().unwrap_or("?")
    }

    /// Returns the regions, lowest first.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x1000)?;
    /// let bases: Vec<u64> = boot.memory().iter().map(|r| r.base).collect();
    /// assert_eq!(bases, [0x1000]);
    /// # Ok::<(), Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[Region] {
        // SAFETY:
        // - `regions` points to `max` initialised entries that this array owns: it was created with
        //   such storage, which is only replaced by such storage.
        // - `cnt ≤ max`. If C code has set a larger count, `max` bounds the slice.
        unsafe { core::slice::from_raw_parts(self.regions, self.cnt.min(self.max)) }
    }

    /// Returns all entries, including those beyond the count.
    #[inline]
    pub(crate) fn storage(&mut self) -> &mut [Region] {
        // SAFETY: as in `as_slice`; `&mut self` makes the access exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.regions, self.max) }
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut Region {
        self.regions
    }

    #[inline]
    pub(crate) fn len_mut(&mut self) -> &mut usize {
        &mut self.cnt
    }

    #[inline]
    pub(crate) fn total_mut(&mut self) -> &mut u64 {
        &mut self.total_size
    }

    /// Returns `true` if there is space for `n` more regions.
    #[inline]
    pub(crate) fn has_capacity(&self, n: usize) -> bool {
        self.max - self.cnt.min(self.max) >= n
    }

    /// Moves the regions to `regions`, which has `max` entries, and returns the old storage.
    ///
    /// # Safety
    ///
    /// `regions` is valid for writes of `max` entries, which belong to this array from now on.
    /// `max` is at least the current count.
    pub(crate) unsafe fn relocate(&mut self, regions: *mut Region, max: usize) -> *mut Region {
        let n = self.as_slice().len();
        // SAFETY:
        // - The caller provides `max ≥ n` writable entries. They are disjoint from the current
        //   ones, which the caller cannot own.
        // - The `n` current ones are initialised.
        unsafe {
            regions.copy_from_nonoverlapping(self.regions, n);
            for i in n..max {
                regions.add(i).write(Region::EMPTY);
            }
        }
        self.max = max;
        core::mem::replace(&mut self.regions, regions)
    }

    /// Pretends that the storage is smaller (or as large as it really is).
    #[cfg(test)]
    pub(crate) fn set_capacity(&mut self, max: usize) {
        self.max = max;
    }

    /// Returns the index of the first region that ends after `addr`: the one that contains it, or
    /// the next. O(log n).
    #[inline]
    pub(crate) fn first_ending_after(&self, addr: u64) -> usize {
        partition(self.as_slice(), addr, |r| r.end() <= addr)
    }

    /// Returns the index of the first region that ends at or after `addr`.
    #[inline]
    pub(crate) fn first_reaching(&self, addr: u64) -> usize {
        partition(self.as_slice(), addr, |r| r.end() < addr)
    }

    /// Returns the index of the first region that starts at or after `addr`.
    #[inline]
    pub(crate) fn first_from(&self, addr: u64) -> usize {
        partition(self.as_slice(), addr, |r| r.base < addr)
    }

    /// Returns the region that contains `addr`. O(log n).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x1000)?;
    /// assert_eq!(boot.memory().search(0x1800).map(|r| r.base), Some(0x1000));
    /// assert!(boot.memory().search(0x2000).is_none());
    /// # Ok::<(), Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn search(&self, addr: u64) -> Option<&Region> {
        // One search finds the only candidate: the last region that starts at or before the
        // address.
        let i = partition(self.as_slice(), addr, |r| r.base <= addr);
        let r = self.as_slice().get(i.wrapping_sub(1))?;
        (addr < r.end()).then_some(r)
    }

    /// Returns `true` if any region shares a byte with `base .. base + size`. As in Linux, an empty
    /// range strictly inside a region counts. O(log n).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.reserve(0x1000, 0x1000)?;
    /// assert!(boot.reserved().overlaps(0xf00, 0x101) && !boot.reserved().overlaps(0xf00, 0x100));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn overlaps(&self, base: u64, size: u64) -> bool {
        let size = capped_end(base, size) - base;
        let i = self.first_ending_after(base);
        self.as_slice()
            .get(i)
            .is_some_and(|r| addrs_overlap(base, size, r.base, r.size))
    }

    /// Inserts at `i`, where there is capacity. One memmove of the entries after it.
    #[inline]
    pub(crate) fn insert_at(&mut self, i: usize, region: Region) {
        let n = self.cnt;
        let s = self.storage();
        s.copy_within(i..n, i + 1);
        s[i] = region;
        self.cnt += 1;
        self.total_size += region.size;
    }

    /// Removes the entries `from..to`, whose sizes the caller has accounted for. At most one
    /// memmove.
    #[inline]
    pub(crate) fn drain(&mut self, from: usize, to: usize) {
        if from == to {
            return;
        }
        let n = self.cnt;
        let s = self.storage();
        s.copy_within(to..n, from);
        self.cnt = n - (to - from);
        if self.cnt == 0 {
            // C code reads the first entry of an empty array and expects it cleared.
            self.storage()[0] = Region::EMPTY;
        }
    }

    /// Removes region `i`.
    pub(crate) fn remove_at(&mut self, i: usize) {
        self.total_size -= self.as_slice()[i].size;
        self.drain(i, i + 1);
    }

    /// Empties the array, keeping its storage.
    pub(crate) fn clear(&mut self) {
        self.cnt = 0;
        self.total_size = 0;
        if let Some(first) = self.storage().first_mut() {
            *first = Region::EMPTY;
        }
    }

    /// Verifies the invariants. O(n).
    ///
    /// # Errors
    ///
    /// Returns the index of the first offending region (or the count), and what is wrong there.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x1000)?;
    /// assert_eq!(boot.memory().check(), Ok(()));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn check(&self) -> Result<(), (usize, &'static str)> {
        if self.cnt > self.max {
            return Err((self.cnt, "count exceeds capacity"));
        }
        let mut total: u64 = 0;
        let mut last: Option<&Region> = None;
        for (i, r) in self.as_slice().iter().enumerate() {
            if r.size == 0 {
                return Err((i, "empty region"));
            }
            if r.base.checked_add(r.size).is_none() {
                return Err((i, "region wraps"));
            }
            if r.flags.contains(crate::Flags::PENDING) {
                return Err((i, "unfinished insertion"));
            }
            if let Some(last) = last {
                if r.base < last.end() {
                    return Err((i, "unsorted or overlapping"));
                }
                if r.base == last.end() && r.attributes() == last.attributes() {
                    return Err((i, "unmerged"));
                }
            }
            total += r.size;
            last = Some(r);
        }
        if total != self.total_size {
            return Err((self.cnt, "total size is wrong"));
        }
        Ok(())
    }
}

/// The number of regions from which on a search begins with interpolation. Below it, bisection is
/// as fast.
const INTERPOLATION_MIN: usize = 256;

/// The number of regions that fit in a near cache once one of them is used. Branch-free bisection
/// of those is faster than predicted branches.
const NEAR: usize = 1024;

/// The distance from the estimated position that is probed, in regions, for each round.
const REACHES: [usize; 2] = [512, 32];

/// Returns the index of the first region for which `before` is false. It is true for all regions
/// below. `before` tests if a region begins or ends before `addr`.
///
/// Bisection of an array larger than the nearest cache misses it at nearly every step. So the
/// position is estimated first, as if regions were spread evenly, and then once more within the
/// remaining range. Evenly spread regions are found at once, and randomly spread ones in the second
/// round. However they are spread, the search takes log n steps and a few more.
#[inline]
pub(crate) fn partition(regions: &[Region], addr: u64, before: impl Fn(&Region) -> bool) -> usize {
    match regions {
        [first, .., last] if regions.len() >= INTERPOLATION_MIN => {
            if !before(first) {
                return 0;
            }
            if before(last) {
                return regions.len();
            }
            interpolation_search(regions, addr, before)
        }
        _ => regions.partition_point(before),
    }
}

/// Searches by interpolation. `before` is true for the first region and false for the last.
#[inline]
fn interpolation_search(regions: &[Region], addr: u64, before: impl Fn(&Region) -> bool) -> usize {
    // `before` is true at `left` and false at `right`.
    let (mut left, mut right) = (0, regions.len() - 1);
    for reach in REACHES {
        // 32 bits are finer than any array is long, and products of them fit.
        let (low, high) = (regions[left].base, regions[right].base);
        let span = high.saturating_sub(low);
        let shift = 32u32.saturating_sub(span.leading_zeros());
        let offset = addr.saturating_sub(low).min(span) >> shift;
        let at = left + (offset * (right - left) as u64 / ((span >> shift) + 1)) as usize;
        if before(&regions[at]) {
            left = at;
            for near in [1, reach] {
                if left + near < right {
                    if !before(&regions[left + near]) {
                        right = left + near;
                        break;
                    }
                    left += near;
                }
            }
        } else {
            right = at;
            for near in [1, reach] {
                if left + near < right {
                    if before(&regions[right - near]) {
                        left = right - near;
                        break;
                    }
                    right -= near;
                }
            }
        }
        if right - left <= 1 {
            return right;
        }
    }
    while right - left > NEAR {
        let middle = left + (right - left) / 2;
        // A branch, not a conditional move: the processor starts the next probe before this one has
        // arrived from memory.
        if before(&regions[middle]) {
            left = middle;
        } else {
            right = middle;
        }
    }
    left + 1 + regions[left + 1..right].partition_point(before)
}

impl core::ops::Deref for RegionType {
    type Target = [Region];

    #[inline]
    fn deref(&self) -> &[Region] {
        self.as_slice()
    }
}

impl<'a> IntoIterator for &'a RegionType {
    type Item = &'a Region;
    type IntoIter = core::slice::Iter<'a, Region>;

    fn into_iter(self) -> Self::IntoIter {
        self.as_slice().iter()
    }
}

impl fmt::Debug for RegionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.name())?;
        f.debug_list().entries(self.as_slice()).finish()
    }
}
