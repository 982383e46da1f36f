//! `brk(2)`.

use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, VmFlags, page_align};
use crate::kernel::Rule;
use crate::pages::{Pages, PrepareOp};
use crate::space::AddressSpace;
use crate::space::areas::Span;
use crate::space::merge::Merge;
use crate::vma::vma_box::VmaBox;
use crate::vma::{Backing, Vma};

impl AddressSpace {
    /// Returns the VMA that `brk(2)` maps, and exec for the bss of a program: zeroed memory, which
    /// is charged.
    #[inline(always)]
    pub(crate) fn zeroed_memory(&self, flags: VmFlags) -> Vma {
        let mut flags = flags | VmFlags::ACCOUNT;
        let marked = self.config.merge_any && self.config.kernel.has(Rule::MarkedBeforeJoining);
        flags.set(VmFlags::MERGEABLE, marked);
        Vma::new(flags, 0, Backing::Anonymous)
    }

    /// Inserts [it](Self::zeroed_memory), merged with its neighbours or not.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    #[inline(always)]
    pub(crate) fn insert_zeroed(
        &mut self,
        span: &Span,
        merge: Option<Merge>,
        mut vma: Vma,
    ) -> Result<(), Errno> {
        let Some(merge) = merge else {
            vma.flags.set(VmFlags::MERGEABLE, self.config.merge_any);
            return self.areas.insert(span, VmaBox::try_new(vma)?);
        };
        let flags = vma.flags;
        debug_assert!(vma.is_plain());
        // It owns nothing. Forgetting it saves the call that would find that out.
        core::mem::forget(vma);
        self.merge_into(span, &merge, flags)
    }

    /// Moves the program break, and returns the break afterwards, which is the old one on failure.
    pub(crate) fn do_brk<P: Pages + ?Sized>(&mut self, addr: u64, pages: &mut P) -> u64 {
        if self.try_brk(addr, pages).is_ok() {
            self.layout.brk = addr;
        }
        self.layout.brk
    }

    fn try_brk<P: Pages + ?Sized>(&mut self, addr: u64, owner: &mut P) -> Result<(), Errno> {
        if addr < self.layout.start_brk {
            return Err(Errno::EINVAL);
        }
        let size = addr - self.layout.start_brk;
        if self.limits.data != u64::MAX
            && size.saturating_add(self.layout.data_size) > self.limits.data
        {
            return Err(Errno::ENOMEM);
        }
        let shrinks = addr <= self.layout.brk;
        // Checked before it is rounded up, which would make the highest addresses 0.
        if !shrinks && addr > self.config.task_size {
            return Err(Errno::ENOMEM);
        }
        let new = page_align(addr);
        let old = page_align(self.layout.brk);
        if new == old {
            return Ok(());
        }
        if shrinks {
            self.shrink_heap((new, old), owner)
        } else {
            self.grow_heap((old, new), owner)
        }
    }

    /// Unmaps the range, in which something must be mapped.
    ///
    /// # Errors
    /// `EINVAL`, and those of `munmap`.
    #[inline]
    fn shrink_heap<P: Pages + ?Sized>(
        &mut self,
        (new, old): (u64, u64),
        owner: &mut P,
    ) -> Result<(), Errno> {
        let mut span = Span::new(new, old);
        self.areas.overlap(&mut span);
        if span.over.areas == 0 {
            return Err(Errno::EINVAL);
        }
        self.unmap_span(&span, owner)
    }

    /// Maps the range, if it is free and the limits allow it.
    ///
    /// # Errors
    /// `ENOMEM`, and `EAGAIN` for locked memory.
    #[inline]
    fn grow_heap<P: Pages + ?Sized>(
        &mut self,
        (old, new): (u64, u64),
        owner: &mut P,
    ) -> Result<(), Errno> {
        // An address space without a heap has the break at 0.
        if old < self.config.task_base {
            return Err(Errno::ENOMEM);
        }
        let flags = VmFlags::READ | VmFlags::WRITE | VmFlags::MAY_ALL | self.future_locked;
        if !self.may_lock_new(flags, new - old) {
            return Err(Errno::EAGAIN);
        }
        // A page, and the guard gap of a stack, must stay free above the heap.
        let mut span = Span::new(old, new);
        let mut neighbours = self.areas.neighbours_and_above(&mut span);
        if let Some(above) = neighbours.first.or(neighbours.upper)
            && new + PAGE_SIZE > self.guarded_start(&above)
        {
            return Err(Errno::ENOMEM);
        }
        let pages = (new - old) >> 12;
        if !self.may_expand(flags, pages) || self.over_map_limit() || !self.may_commit(pages) {
            return Err(Errno::ENOMEM);
        }
        let mut flags = flags;
        if self.config.read_implies_exec {
            flags |= VmFlags::EXEC;
        }
        let vma = self.zeroed_memory(flags);
        // The heap never merges with what lies below its start, even if it borders on it.
        let heap = self.layout.start_brk;
        neighbours.lower = neighbours.lower.filter(|area| area.end > heap);
        let merge = Merge::new(&span, &neighbours, &vma, self.config.kernel);
        self.prepare(
            owner,
            PrepareOp::Map {
                start: old,
                end: new,
            },
        )?;
        self.insert_zeroed(&span, merge, vma)?;
        self.notify_map(owner, old, new)?;
        if flags.contains(VmFlags::LOCKED) {
            let _ = self.populate(old, new, owner);
        }
        Ok(())
    }
}
