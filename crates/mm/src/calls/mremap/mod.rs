//! `mremap(2)`, from the call to the tree.
//!
//! 1. [`mremap_request`](AddressSpace::mremap_request) (`request.rs`) checks the arguments.
//! 2. [`do_mremap`](AddressSpace::do_mremap) goes over the VMAs of a move to a fixed address that changes no length (`move_several.rs`); other calls concern
//!    one VMA.
//! 3. [`mremap_one`](AddressSpace::mremap_one) shrinks the VMA, grows it in place, or moves it.
//! 4. A move chooses the address, checks the limits, and [`relocate`](AddressSpace::relocate) (`relocate.rs`) changes the tree and notifies the owner of the
//!    pages.
//!
//! A move to a fixed address unmaps what is there first, and some refusals come after that: they leave a hole, as in Linux. If memory
//! runs out, the call has changed nothing, for owners that can be told the reverse.

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
use crate::vma::{Area, Backing};

use request::Request;

/// The number of VMAs that a move may need in addition for a moment.
const SPARE_AREAS: usize = 3;

impl AddressSpace {
    /// Performs `mremap`, and returns the new address. `forced` is the address that a followed kernel chose.
    ///
    /// # Errors
    /// Linux's.
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

    /// Returns the destination of a call that moves something.
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

    /// Shrinks one VMA, grows it in place, or moves it.
    ///
    /// # Errors
    /// Linux's.
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
        let fixed = request.has(abi::MREMAP_FIXED);
        if !fixed || self.config.kernel.has(Rule::MremapChecksFirst) {
            self.check_source(request, &area)?;
        }
        if fixed {
            return self.move_to_fixed(request, pages);
        }
        if request.has(abi::MREMAP_DONTUNMAP) {
            let address = self.move_address(request, &area);
            self.charge_copy(request)?;
            let address = address?;
            return self.relocate(request, forced.unwrap_or(address), pages);
        }
        if old_len >= new_len {
            if old_len > new_len {
                // Older kernels do not check the length: the address may wrap around.
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
        let address = self.move_address(request, &area)?;
        self.relocate(request, forced.unwrap_or(address), pages)
    }

    /// Moves a VMA to the address that the program fixes. What is mapped there is unmapped first, whatever comes of the move, unless memory runs out.
    ///
    /// # Errors
    /// Linux's.
    fn move_to_fixed<P: Pages + ?Sized>(
        &mut self,
        request: &Request,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let &Request {
            old,
            old_len,
            new_len,
            new,
            ..
        } = request;
        let checks_first = self.config.kernel.has(Rule::MremapChecksFirst);
        self.prepare_move_to_fixed(request, pages)?;
        self.munmap_prepared(new, new_len, pages)?;
        // The destination may have been all of the source, where the old range wraps around.
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
        self.relocate(&kept, to, pages)
    }

    /// Checks that the destination may be unmapped, and has the owner of the pages prepare all steps of a move to a fixed address: what is unmapped at the
    /// destination does not come back.
    ///
    /// # Errors
    /// As [`check_unmap`](Self::check_unmap), and those of the owner.
    fn prepare_move_to_fixed<P: Pages + ?Sized>(
        &mut self,
        request: &Request,
        pages: &mut P,
    ) -> Result<(), Errno> {
        let &Request {
            old,
            old_len,
            new_len,
            new,
            ..
        } = request;
        let end = new + new_len;
        let mut span = Span::new(new, end);
        self.areas.overlap(&mut span);
        // The destination may have to stay. Then nothing else is split.
        self.check_unmap(new, &span.over, pages)?;
        self.prepare(pages, PrepareOp::Unmap { start: new, end })?;
        // A source that reaches beyond the end of addresses is refused later, after the destination has been unmapped.
        let end = old.checked_add(old_len);
        let Some(end) = end.filter(|&end| end <= self.config.task_size) else {
            return Ok(());
        };
        if old_len > new_len {
            let start = old + new_len;
            self.prepare(pages, PrepareOp::Unmap { start, end })?;
        }
        let len = old_len.min(new_len);
        if len > 0 {
            let (from, to) = (old, new);
            self.prepare(pages, PrepareOp::Move { from, to, len })?;
        }
        Ok(())
    }

    /// Returns where the kernel moves the VMA to if the program does not fix the address.
    ///
    /// # Errors
    /// As [`choose_address`](Self::choose_address).
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

    /// Returns `true` if the VMA ends where the old range does, and the range above that it grows by is free.
    fn can_grow(&self, area: &Area<'_>, old: u64, old_len: u64, new_len: u64) -> bool {
        if old_len != area.end - old {
            return false;
        }
        let Some(end) = old.checked_add(new_len) else {
            return false;
        };
        end <= self.config.task_size && self.areas.find_in(area.end, end).is_none()
    }

    /// Grows the VMA at `old` in place.
    ///
    /// # Errors
    /// `ENOMEM` for the VMA of a driver, at the limit on commitments and when an allocation fails, and those of the owner of the pages.
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
        // Linux maps the growth and merges it. A driver's VMA merges with nothing.
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
