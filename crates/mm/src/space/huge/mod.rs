//! Mappings of the pool of huge pages (`MAP_HUGETLB`, hugetlbfs): the pages that are reserved for
//! them, and those that they have taken.
//!
//! The pool itself, its files and its slots are in [`huge_pool`](crate::huge_pool).
//!
//! Reservations of a private mapping belong to the process that mapped it. A child of a fork shares
//! the pages until either writes, and has no reservation. Reservations of a shared mapping belong
//! to the file, and stay with it when it is no longer mapped.
//!
//! The slots are stored with the [guards](crate::space::guards), so that address spaces without
//! huge pages check nothing.

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;

use core::ops::Range;

use crate::errno::Errno;
use crate::file::{File, FileId, FileKind};
use crate::flags::VmFlags;
use crate::heap::Counted;
use crate::heap::boxed::try_str;
use crate::huge_pool::file::HugeFile;
use crate::huge_pool::slots::Slots;
use crate::huge_pool::{HugePool, Size};
use crate::object::Object;
use crate::object::new_object;
use crate::space::AddressSpace;
use crate::vma::{Backing, Vma};

/// Returns the page size of a VMA of the pool.
pub(crate) fn size_of(vma: &Vma) -> Option<Size> {
    match vma.file()?.kind {
        FileKind::HugeTlb(bytes) => Size::of(bytes),
        _ => None,
    }
}

/// Returns the file behind a VMA, as the pool knows it.
fn file_of(vma: &Vma) -> Option<&HugeFile> {
    vma.file()?.object.get()
}

fn number(vma: &Vma, size: Size, address: u64) -> u64 {
    vma.page_offset(address) / (size.bytes() >> 12)
}

impl AddressSpace {
    /// Returns the pool. A machine without a configured one has an empty pool.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn huge_pool(&mut self) -> Result<HugePool, Errno> {
        if self.config.huge_pool.is_none() {
            self.config.huge_pool = Some(HugePool::new(0)?);
        }
        self.config.huge_pool.clone().ok_or(Errno::ENOMEM)
    }

    /// Returns a new file without a name in any directory, for `MAP_HUGETLB` without a descriptor.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn anonymous_huge_file(
        &mut self,
        size: Size,
        len: u64,
    ) -> Result<Counted<File>, Errno> {
        let pool = self.huge_pool()?;
        let object = match pool.is_told() {
            true => Object::none(),
            false => pool.file(size.bytes(), len)?,
        };
        let id = FileId {
            major: 0,
            minor: 0,
            inode: new_object(),
        };
        Counted::try_new(File {
            kind: FileKind::HugeTlb(size.bytes()),
            object,
            ..File::new(id, try_str("/anon_hugepage (deleted)")?)
        })
    }

    /// Reserves the pages of `[start, end)` for a VMA with these attributes that is about to be
    /// inserted.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn reserve_huge(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        let size = size_of(vma).ok_or(Errno::EINVAL)?;
        if matches!(vma.backing, Backing::Shm { .. }) {
            // All of it was reserved when the segment was created, or nothing.
            return Ok(());
        }
        let pool = self.huge_pool()?;
        let count = (end - start) / size.bytes();
        let first = number(vma, size, start);
        let promised = !vma.flags.contains(VmFlags::NORESERVE);
        if pool.is_told() {
            return pool.reserve(size, if promised { count } else { 0 });
        }
        if vma.flags.contains(VmFlags::MAYSHARE) {
            if let Some(file) = file_of(vma).filter(|_| promised) {
                file.reserve(first, count)?;
            }
        } else {
            let slots = self.guards_mut()?.huge_mut(pool)?;
            if promised {
                slots.reserve(size, &(start..end))?;
            }
        }
        if vma.flags.contains(VmFlags::WRITE)
            && let Some(file) = file_of(vma)
        {
            file.extend((first + count).saturating_mul(size.bytes()));
        }
        Ok(())
    }

    /// Faults in the huge pages of `[start, end)`, which lies in one VMA, upwards.
    ///
    /// # Errors
    /// `EFAULT` at the first one that is not available.
    #[cold]
    pub(crate) fn fault_huge(&mut self, start: u64, end: u64, write: bool) -> Result<(), Errno> {
        let area = self.areas.at(start).ok_or(Errno::EFAULT)?;
        let vma = area.vma;
        let told = self
            .config
            .huge_pool
            .as_ref()
            .is_some_and(HugePool::is_told);
        let Some(size) = size_of(vma).filter(|_| !told) else {
            return Ok(());
        };
        let file = file_of(vma);
        let shared = vma.flags.contains(VmFlags::MAYSHARE);
        if shared && file.is_none() {
            return Ok(());
        }
        let mut address = start - start % size.bytes();
        while address < end {
            let number = number(vma, size, address);
            if file.is_some_and(|file| !file.reaches(number)) {
                return Err(Errno::EFAULT);
            }
            match file {
                Some(file) if shared => {
                    let which = file.fault(number)?;
                    let pool = self.config.huge_pool.clone().ok_or(Errno::EFAULT)?;
                    self.guards.huge_mut(pool)?.see(address, which)?;
                }
                _ => {
                    let slots = self.guards.huge.as_mut().ok_or(Errno::EFAULT)?;
                    let in_file = file.and_then(|file| file.there(number));
                    match in_file {
                        Some(which) if !slots.has(address) => {
                            // The page of the file is mapped first. It stays if no copy is
                            // available.
                            slots.see(address, which)?;
                            if write {
                                slots.fault(size, address, write, (file, number))?;
                            }
                        }
                        _ => slots.fault(size, address, write, (file, number))?,
                    }
                }
            }
            address += size.bytes();
        }
        Ok(())
    }

    /// Performs `MADV_DONTNEED` for a part of a VMA of huge pages, and returns the end of what was
    /// discarded. A last page that is not whole stays.
    ///
    /// # Errors
    /// `EINVAL` if the part does not begin with a page.
    #[cold]
    pub(crate) fn discard_huge(&mut self, start: u64, end: u64, size: Size) -> Result<u64, Errno> {
        if !start.is_multiple_of(size.bytes()) {
            return Err(Errno::EINVAL);
        }
        let end = end - end % size.bytes();
        if start < end
            && let Some(slots) = &mut self.guards.huge
        {
            slots.discard(&(start..end));
        }
        Ok(end)
    }

    /// Returns `true` if one of the pages that `[start, end)` touches has been mapped here. The
    /// range lies in one VMA. It is not enough that the file has the page.
    #[cold]
    pub(crate) fn has_huge(&self, start: u64, end: u64, vma: &Vma, size: Size) -> bool {
        let Some(slots) = &self.guards.huge else {
            return false;
        };
        let file = file_of(vma);
        let is_seen = |address| {
            let seen = slots.seen(address);
            seen.is_some()
                && file.is_some_and(|file| file.there(number(vma, size, address)) == seen)
        };
        let first = start - start % size.bytes();
        let mut each = (first..end).step_by(size.bytes() as usize);
        each.any(|address| slots.has(address) || is_seen(address))
    }

    /// Performs `MADV_REMOVE` for a part of a VMA of huge pages: the whole pages in it are removed
    /// from the file.
    #[cold]
    pub(crate) fn punch_huge(&mut self, start: u64, end: u64, size: Size) {
        let Some(area) = self.areas.at(start) else {
            return;
        };
        let from = start.next_multiple_of(size.bytes());
        let to = end - end % size.bytes();
        if from < to
            && let Some(file) = file_of(area.vma)
        {
            let first = number(area.vma, size, from);
            file.punch(first, first + (to - from) / size.bytes());
        }
    }

    /// Moves the slots of `[from, from + len)` to `to`.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn shift_huge(
        &mut self,
        from: u64,
        len: u64,
        area: Range<u64>,
        to: u64,
    ) -> Result<(), Errno> {
        let Some(slots) = &self.guards.huge else {
            return Ok(());
        };
        if !slots.is_empty_in(&area)
            && let Some(slots) = &mut self.guards_mut()?.huge
        {
            slots.shift(&(from..from + len), &area, to);
        }
        Ok(())
    }

    /// Returns the slots of a child.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn forked_slots(&self) -> Result<Option<Slots>, Errno> {
        let Some(slots) = &self.guards.huge else {
            return Ok(None);
        };
        let inherits = |address| {
            let area = self.areas.at(address);
            area.is_some_and(|area| !area.vma.flags.contains(VmFlags::DONTCOPY))
        };
        // What can be mapped from its file again is not copied, unless private pages are.
        let maps = |address| {
            let area = self.areas.at(address);
            area.is_some_and(|area| {
                let left_out = VmFlags::DONTCOPY | VmFlags::MAYSHARE;
                area.vma.anon().is_some() && !area.vma.flags.intersects(left_out)
            })
        };
        slots.child(inherits, maps).map(Some)
    }
}
