//! `mremap(2)`.

mod move_several;
mod relocate;
mod request;

use crate::abi;
use crate::errno::Errno;
use crate::file::{File, FileKind};
use crate::flags::VmFlags;
use crate::heap::Counted;
use crate::kernel::Rule;
use crate::pages::{Pages, PrepareOp};
use crate::space::AddressSpace;
use crate::space::address::HugeAlignment;
use crate::space::areas::Span;
use crate::space::vma::{Area, Backing};

use request::Request;

/// A move may need this many areas more for a moment.
const SPARE_AREAS: usize = 3;

impl AddressSpace {
    #[allow(clippy::too_many_arguments, reason = "the system call has five")]
    pub(crate) fn do_mremap<P: Pages + ?Sized>(
        &mut self,
        old: u64,
        old_len: u64,
        new_len: u64,
        flags: u64,
        new: u64,
        forced: Option<u64>,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let request = self.mremap_request(old, old_len, new_len, flags, new)?;
        if !request.has(abi::MREMAP_FIXED) {
            return self.mremap_one(&request, forced, pages);
        }
        self.undo_if_out_of_memory(pages, |space, pages| {
            if request.old_len == request.new_len
                && space.config.kernel.has(Rule::MremapMovesSeveral)
            {
                space.move_several(&request, pages)
            } else {
                space.mremap_one(&request, forced, pages)
            }
        })
    }

    /// Where a move would go, if the call moves anything.
    pub(crate) fn mremap_target(
        &self,
        old: u64,
        old_len: u64,
        new_len: u64,
        flags: u64,
        new: u64,
    ) -> Option<u64> {
        let request = self
            .mremap_request(old, old_len, new_len, flags, new)
            .ok()?;
        if request.has(abi::MREMAP_FIXED) {
            return Some(new);
        }
        if !request.has(abi::MREMAP_DONTUNMAP)
            && (request.old_len >= request.new_len || !request.has(abi::MREMAP_MAYMOVE))
        {
            return None;
        }
        let area = self.areas.at(old)?;
        self.move_address(&request, &area).ok()
    }

    /// One area: shrink, grow in place, or move.
    fn mremap_one<P: Pages + ?Sized>(
        &mut self,
        request: &Request,
        forced: Option<u64>,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let &Request {
            old,
            old_len,
            new_len,
            new,
            ..
        } = request;
        let area = self.areas.at(old).ok_or(Errno::EFAULT)?;
        if area.vma.flags.contains(VmFlags::HUGETLB) {
            let copies = request.has(abi::MREMAP_DONTUNMAP);
            let lengths = self.huge_lengths(&area, (old, old_len), (new, new_len), copies)?;
            let whole = Request {
                old_len: lengths.0,
                new_len: lengths.1,
                ..*request
            };
            if lengths != (old_len, new_len) {
                return self.mremap_one(&whole, forced, pages);
            }
        }
        let checks_first = self.config.kernel.has(Rule::MremapChecksFirst);
        if checks_first || !request.has(abi::MREMAP_FIXED) {
            self.check_source(request, &area)?;
        }
        if request.has(abi::MREMAP_FIXED) {
            let (end, kept) = (new + new_len, old_len.min(new_len));
            // What is at the destination may have to stay. Nothing else is divided then.
            let mut span = Span::new(new, end);
            self.areas.overlap(&mut span);
            self.check_unmap(new, &span.over, pages)?;
            // All that needs memory first: what is at the destination does not come back.
            self.prepare(pages, PrepareOp::Unmap { start: new, end })?;
            // What reaches beyond the end of addresses is refused below, when the destination has gone.
            let end = old.checked_add(old_len);
            if let Some(end) = end.filter(|&end| end <= self.config.task_size) {
                if old_len > new_len {
                    let start = old + new_len;
                    self.prepare(pages, PrepareOp::Unmap { start, end })?;
                }
                if kept > 0 {
                    let (from, to, len) = (old, new, kept);
                    self.prepare(pages, PrepareOp::Move { from, to, len })?;
                }
            }
            // The destination goes first, whatever comes of the move, but for want of memory.
            self.munmap_prepared(new, new_len, pages)?;
            // It may have been all of the source, where the old range wraps around.
            let gone = self.areas.at(old).is_none();
            if gone && checks_first {
                return Err(Errno::EFAULT);
            }
            if old_len > new_len {
                self.munmap_prepared(old + new_len, old_len - new_len, pages)?;
            }
            if gone {
                return Err(Errno::EFAULT);
            }
            let kept = Request {
                old_len: old_len.min(new_len),
                ..*request
            };
            if !checks_first {
                let area = self.areas.at(old).ok_or(Errno::EFAULT)?;
                let checked = self.check_source(&kept, &area);
                checked.map_err(|errno| self.keep_effects(errno))?;
            }
            self.charge_copy(&kept)?;
            let to = self.choose_address(new, new_len, abi::MAP_FIXED, HugeAlignment::No);
            let to = to.map_err(|errno| self.keep_effects(errno))?;
            self.charge_what_is_left_behind(request)?;
            return self.relocate(&kept, to, pages);
        }
        if request.has(abi::MREMAP_DONTUNMAP) {
            let place = self.move_address(request, &area);
            self.charge_copy(request)?;
            let place = place?;
            return self.relocate(request, forced.unwrap_or(place), pages);
        }
        if old_len >= new_len {
            if old_len > new_len {
                // Older kernels take lengths beyond the end of addresses as they come.
                self.do_munmap(old.wrapping_add(new_len), old_len - new_len, pages)?;
            }
            return Ok(old);
        }
        if self.can_grow(&area, old, old_len, new_len) {
            return self.grow_area(old, old_len, new_len, pages);
        }
        if !request.has(abi::MREMAP_MAYMOVE) {
            return Err(Errno::ENOMEM);
        }
        let place = self.move_address(request, &area)?;
        self.relocate(request, forced.unwrap_or(place), pages)
    }

    /// Where the kernel would move the area to.
    fn move_address(&self, request: &Request, area: &Area<'_>) -> Result<u64, Errno> {
        let offset = area.vma.page_offset(request.old) << 12;
        let huge = match &area.vma.backing {
            Backing::File(file)
                if file.kind.aligns_huge()
                    || area.vma.is_anonymous()
                        && !area.vma.flags.contains(VmFlags::MAYSHARE)
                        && self.config.kernel.has(Rule::ZeroIsAligned) =>
            {
                HugeAlignment::File(offset)
            }
            Backing::File(file) if file.kind == FileKind::Shmem && self.config.shmem_huge => {
                HugeAlignment::File(offset)
            }
            Backing::SharedAnonymous(_) | Backing::Shm { .. } if self.config.shmem_huge => {
                HugeAlignment::File(offset)
            }
            Backing::Anonymous => HugeAlignment::Anonymous,
            _ => HugeAlignment::No,
        };
        self.choose_address(request.new_hint(), request.new_len, 0, huge)
    }

    /// The area ends where the old range does, and there is room above.
    fn can_grow(&self, area: &Area<'_>, old: u64, old_len: u64, new_len: u64) -> bool {
        if old_len != area.end - old {
            return false;
        }
        let Some(end) = old.checked_add(new_len) else {
            return false;
        };
        end <= self.config.task_size && self.areas.find_in(area.end, end).is_none()
    }

    fn grow_area<P: Pages + ?Sized>(
        &mut self,
        old: u64,
        old_len: u64,
        new_len: u64,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let (from, to) = (old + old_len, old + new_len);
        let area = self.areas.at(old).ok_or(Errno::EFAULT)?;
        let flags = area.vma.flags;
        // It grows by joining what is mapped behind it, and a driver's area joins nothing.
        let ring = |file: &Counted<File>| file.kind == FileKind::PacketSocket;
        if flags.intersects(VmFlags::SPECIAL)
            && (self.config.kernel.has(Rule::RingsStaySmall) || !area.vma.file().is_some_and(ring))
        {
            return Err(Errno::ENOMEM);
        }
        if flags.contains(VmFlags::ACCOUNT) && !self.may_commit((to - from) >> 12) {
            return Err(Errno::ENOMEM);
        }
        self.prepare(
            pages,
            PrepareOp::Map {
                start: from,
                end: to,
            },
        )?;
        self.extend(from, to)?;
        self.notify_map(pages, from, to)?;
        if flags.contains(VmFlags::LOCKED) {
            let _ = self.populate(from, to, pages);
        }
        Ok(old)
    }
}
