//! `mmap(2)`, from the call to the tree.
//!
//! The steps, in Linux's order, which decides the error that a program sees:
//!
//! 1. [`MmapRequest::check`]: the arguments, without the map. Mappings of the pool of huge pages go to `huge.rs` from here.
//! 2. [`mmap_start`](AddressSpace::mmap_start): the address.
//! 3. [`new_flags`](AddressSpace::new_flags) and [`new_backing`](AddressSpace::new_backing): the attributes of the VMA; `file_flags.rs` has the
//!    rules of files.
//! 4. [`map_region`](AddressSpace::map_region), which `shmat` and `remap_file_pages` share: the neighbours to merge with, the VMAs that are replaced, the
//!    limits, and late refusals.
//! 5. [`write_region`](AddressSpace::write_region): the owner of the pages prepares, the tree changes, the owner is notified.
//! 6. Populating. Its failure is no error of `mmap`.
//!
//! `MAP_FIXED` unmaps what it replaces, and some refusals come after that: they leave a hole, as in Linux.

use crate::abi;
use crate::calls::file_flags::{file_flags, is_refused_late};
use crate::calls::prctl::may_be_merged_by_content;
use crate::config::Overcommit;
use crate::errno::Errno;
use crate::file::{File, FileArg, FileKind};
use crate::flags::{PAGE_MASK, PAGE_SIZE, VmFlags, page_align};
use crate::heap::Counted;
use crate::kernel::Rule;
use crate::object::Object;
use crate::pages::{Pages, PrepareOp};
use crate::space::AddressSpace;
use crate::space::address::HugeAlignment;
use crate::space::areas::{Neighbours, Span};
use crate::space::merge::Merge;
use crate::space::notify::MappedRanges;
use crate::vma::vma_box::{UninitVma, VmaBox};
use crate::vma::{Area, Backing, SharedObject, Vma};

/// The flags that set flags of the VMA. Few mappings have one, so that one test skips all of them.
const MARKS: u64 =
    abi::MAP_GROWSDOWN | abi::MAP_LOCKED | abi::MAP_SYNC | abi::MAP_STACK | abi::MAP_NORESERVE;

/// The arguments of an `mmap`.
#[derive(Clone, Copy)]
pub(crate) struct MmapRequest<'a> {
    pub(crate) addr: u64,
    /// In bytes; after [`check`](Self::check) in whole pages.
    pub(crate) len: u64,
    pub(crate) protection: u64,
    pub(crate) flags: u64,
    pub(crate) file: &'a FileArg,
    pub(crate) offset: u64,
    /// The address that a followed kernel chose. Not used if the program fixes the address.
    pub(crate) forced: Option<u64>,
}

/// The kind of pages of a mapping.
enum PageKind<'a> {
    /// Pages of 4 KiB.
    Small,
    /// Pages of the pool of huge pages, of this file or of a new one without a name.
    Hugetlb(Option<&'a Counted<File>>),
}

impl<'a> MmapRequest<'a> {
    /// Returns `true` if the program has set any of these flags.
    #[inline(always)]
    pub(super) fn has(&self, flags: u64) -> bool {
        self.flags & flags != 0
    }

    /// Returns `true` if the program fixes the address.
    #[inline(always)]
    pub(super) fn is_fixed(&self) -> bool {
        self.has(abi::MAP_FIXED | abi::MAP_FIXED_NOREPLACE)
    }

    /// Returns `true` if the pages must be faulted in at once.
    #[inline(always)]
    pub(super) fn populates(&self) -> bool {
        self.flags & (abi::MAP_POPULATE | abi::MAP_NONBLOCK) == abi::MAP_POPULATE
    }

    /// Checks the arguments against one another, and rounds the length up to pages. `listens` says whether an owner of the pages is notified: it
    /// cannot map pages of the pool, so that such files count as any other.
    ///
    /// # Errors
    /// `EINVAL`, `EBADF`, and `ENOMEM` for a length that is too large to round up.
    #[inline(always)]
    fn check(&mut self, listens: bool) -> Result<PageKind<'a>, Errno> {
        if !self.offset.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        let anonymous = self.has(abi::MAP_ANONYMOUS);
        if anonymous {
            self.file = &FileArg::None;
        }
        match self.file {
            FileArg::Bad => return Err(Errno::EBADF),
            FileArg::File(file) if matches!(file.kind, FileKind::HugeTlb(_)) && !listens => {
                return Ok(PageKind::Hugetlb(Some(file)));
            }
            FileArg::File(_) if self.has(abi::MAP_HUGETLB) => return Err(Errno::EINVAL),
            FileArg::None if !anonymous => return Err(Errno::EBADF),
            _ => {}
        }
        if self.len == 0 {
            return Err(Errno::EINVAL);
        }
        if anonymous && self.has(abi::MAP_HUGETLB) {
            return Ok(PageKind::Hugetlb(None));
        }
        self.len = page_align(self.len);
        if self.len == 0 {
            return Err(Errno::ENOMEM);
        }
        Ok(PageKind::Small)
    }
}

impl AddressSpace {
    /// Performs `mmap`, and returns the address of the mapping.
    ///
    /// # Errors
    /// Linux's, in the order of the steps in the head of this file.
    // Inlined into one of two callers, the dispatcher of all calls, which takes fewer instructions so.
    #[inline(always)]
    pub(crate) fn do_mmap<P: Pages + ?Sized>(
        &mut self,
        mut request: MmapRequest<'_>,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        match request.check(pages.listens())? {
            PageKind::Small => self.mmap_small(&request, pages),
            PageKind::Hugetlb(file) => self.mmap_huge(&request, file, pages),
        }
    }

    /// Performs an `mmap` of small pages.
    ///
    /// # Errors
    /// As [`do_mmap`](Self::do_mmap).
    #[inline(always)]
    fn mmap_small<P: Pages + ?Sized>(
        &mut self,
        request: &MmapRequest<'_>,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        if self.over_map_limit() {
            return Err(Errno::ENOMEM);
        }
        let noexec = matches!(request.file, FileArg::File(file) if file.noexec);
        let protection = self.implied_protection(request.protection, noexec);
        if self.config.kernel.has(Rule::KeyBeforePlace) {
            self.key_for_new(protection);
        }
        let address = self.mmap_address(request)?;
        let start = self.mmap_start(request, address)?;
        let end = start + request.len;
        let mut flags = self.new_flags(request, protection)?;
        let (backing, shift) = self.new_backing(request, start, &mut flags, pages)?;
        let droppable = VmFlags::DROPPABLE | VmFlags::LOCKED;
        let unlocked = if flags.contains(droppable) {
            let vma = Vma::new(flags, shift, backing.clone());
            Some(VmaBox::try_new(vma)?)
        } else {
            None
        };
        // Made last and used only as the argument of one call: so it is built in place and not moved.
        let vma = Vma::new(flags, shift, backing);
        let may_merge =
            !matches!(request.file, FileArg::File(file) if file.kind == FileKind::Stacked);
        self.map_region(start, end, vma, may_merge, pages)?;
        if let Some(unlocked) = unlocked {
            self.unlock_droppable(start, unlocked)?;
        }
        if flags.contains(VmFlags::LOCKED) || request.populates() {
            // A page that cannot be faulted in is no error of mmap.
            let _ = self.populate(start, end, pages);
        }
        Ok(start)
    }

    /// Returns the protection that `protection` stands for: under `READ_IMPLIES_EXEC`, readable memory is executable unless it is of a file on a
    /// file system that is mounted `noexec`.
    #[inline(always)]
    pub(super) fn implied_protection(&self, protection: u64, noexec: bool) -> u64 {
        if self.config.read_implies_exec && protection & abi::PROT_READ != 0 && !noexec {
            protection | abi::PROT_EXEC
        } else {
            protection
        }
    }

    /// Returns the address that `mmap` with these arguments chooses. The length must be in whole pages.
    ///
    /// # Errors
    /// As [`choose_address`](Self::choose_address).
    pub(crate) fn mmap_address(&self, request: &MmapRequest<'_>) -> Result<u64, Errno> {
        let &MmapRequest {
            addr, len, offset, ..
        } = request;
        let flags = if request.has(abi::MAP_FIXED_NOREPLACE) {
            request.flags | abi::MAP_FIXED
        } else {
            request.flags
        };
        let hint = if flags & abi::MAP_FIXED != 0 {
            addr
        } else {
            self.round_hint(addr)
        };
        let kind = flags & abi::MAP_TYPE;
        let huge = match request.file {
            FileArg::File(file) if file.kind.aligns_huge() => HugeAlignment::File(offset),
            FileArg::File(file)
                if file.kind == FileKind::DevZero
                    && kind == abi::MAP_PRIVATE
                    && self.config.kernel.has(Rule::ZeroIsAligned) =>
            {
                HugeAlignment::File(offset)
            }
            FileArg::File(file) if file.kind == FileKind::Shmem && self.config.shmem_huge => {
                HugeAlignment::File(offset)
            }
            FileArg::None if kind == abi::MAP_SHARED && self.config.shmem_huge => {
                HugeAlignment::File(0)
            }
            FileArg::None if kind != abi::MAP_SHARED => HugeAlignment::Anonymous,
            _ => HugeAlignment::No,
        };
        self.choose_address(hint, len, flags, huge)
    }

    /// Returns the hint in whole pages, and not below the minimum address.
    pub(super) fn round_hint(&self, addr: u64) -> u64 {
        let hint = addr & PAGE_MASK;
        if hint != 0 && hint < self.config.mmap_min_addr {
            page_align(self.config.mmap_min_addr)
        } else {
            hint
        }
    }

    /// Returns where the mapping begins: at `address`, the one that was chosen, or where a followed kernel has placed it.
    ///
    /// # Errors
    /// `EEXIST` for `MAP_FIXED_NOREPLACE` if something is mapped there.
    #[inline(always)]
    pub(super) fn mmap_start(&self, request: &MmapRequest<'_>, address: u64) -> Result<u64, Errno> {
        let start = match request.forced {
            Some(forced) if !request.is_fixed() => forced,
            _ => address,
        };
        if request.has(abi::MAP_FIXED_NOREPLACE)
            && self.areas.find_in(start, start + request.len).is_some()
        {
            return Err(Errno::EEXIST);
        }
        Ok(start)
    }

    /// Returns the flags of a new VMA that depend on the arguments alone.
    ///
    /// # Errors
    /// `EPERM` for `MAP_LOCKED` if the caller may lock nothing, and `EAGAIN` at the limit on locked memory.
    #[inline(always)]
    pub(super) fn new_flags(
        &mut self,
        request: &MmapRequest<'_>,
        protection: u64,
    ) -> Result<VmFlags, Errno> {
        let key = self.key_for_new(protection);
        let mut flags =
            VmFlags::from_prot(protection).with_pkey(key) | VmFlags::MAY_ALL | self.future_locked;
        if request.has(MARKS) {
            flags |= self.marks(request.flags)?;
        }
        if !self.may_lock_new(flags, request.len) {
            return Err(Errno::EAGAIN);
        }
        Ok(flags)
    }

    /// Returns the flags of a VMA that [`MARKS`] ask for.
    ///
    /// # Errors
    /// `EPERM` for `MAP_LOCKED` if the caller may lock nothing.
    #[inline(never)]
    fn marks(&self, flags: u64) -> Result<VmFlags, Errno> {
        if flags & abi::MAP_LOCKED != 0 {
            self.may_lock()?;
        }
        let mut marks = VmFlags::empty();
        for (flag, given) in [
            (abi::MAP_GROWSDOWN, VmFlags::GROWSDOWN),
            (abi::MAP_LOCKED, VmFlags::LOCKED),
            (abi::MAP_SYNC, VmFlags::SYNC),
        ] {
            if flags & flag != 0 {
                marks |= given;
            }
        }
        if flags & abi::MAP_STACK != 0
            && self.config.transparent_huge_pages
            && self.config.kernel.has(Rule::StackHasNoHugePages)
        {
            marks |= VmFlags::NOHUGEPAGE;
        }
        if flags & abi::MAP_NORESERVE != 0
            && !matches!(self.config.overcommit, Overcommit::Never { .. })
        {
            marks |= VmFlags::NORESERVE;
        }
        Ok(marks)
    }

    /// Returns the object of a new VMA and the page offset of its first page minus that page's number. Adds to `area_flags` the flags that depend
    /// on the object.
    ///
    /// # Errors
    /// Those of [`file_flags`], `EINVAL` for a type of mapping that is not known or flags that the object does not allow, and those of the owner of the pages
    /// for a shared object.
    #[inline(always)]
    fn new_backing<P: Pages + ?Sized>(
        &self,
        request: &MmapRequest<'_>,
        start: u64,
        area_flags: &mut VmFlags,
        pages: &mut P,
    ) -> Result<(Backing, u64), Errno> {
        let &MmapRequest {
            len, flags, offset, ..
        } = request;
        let page = start >> 12;
        if let FileArg::File(file) = request.file {
            let given = file_flags(file, self.config.kernel, flags, *area_flags, len, offset)?;
            // A read-only mapping of zeroes needs no object, though it is shared.
            let object = file.kind == FileKind::DevZero && given.contains(VmFlags::SHARED);
            *area_flags = (given | file.driver.adds) - file.driver.removes;
            // VMAs that a driver manages cannot be locked.
            if area_flags.intersects(VmFlags::SPECIAL) {
                *area_flags -= VmFlags::LOCKED_MASK;
            }
            let backing = match object {
                true => shared_object(len, pages)?,
                false => Backing::File(file.clone()),
            };
            return Ok((backing, (offset >> 12).wrapping_sub(page)));
        }
        match flags & abi::MAP_TYPE {
            abi::MAP_SHARED => {
                if request.has(abi::MAP_GROWSDOWN) {
                    return Err(Errno::EINVAL);
                }
                *area_flags |= VmFlags::SHARED | VmFlags::MAYSHARE;
                Ok((shared_object(len, pages)?, 0u64.wrapping_sub(page)))
            }
            abi::MAP_PRIVATE => Ok((Backing::Anonymous, 0)),
            abi::MAP_DROPPABLE if self.config.kernel.has(Rule::Droppable) => {
                if request.has(abi::MAP_LOCKED | abi::MAP_GROWSDOWN) {
                    return Err(Errno::EINVAL);
                }
                *area_flags |= VmFlags::DROPPABLE
                    | VmFlags::NORESERVE
                    | VmFlags::WIPEONFORK
                    | VmFlags::DONTDUMP;
                Ok((Backing::Anonymous, 0))
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Unlocks the VMA at `start`, whose pages the kernel may drop. `unlocked` takes its place, and was allocated while the call could still fail.
    ///
    /// This comes after the mapping, so that the VMA has not merged with one that never was locked.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails.
    #[cold]
    fn unlock_droppable(&mut self, start: u64, mut unlocked: VmaBox) -> Result<(), Errno> {
        if let Some(area) = self.areas.at(start) {
            unlocked.flags = area.vma.flags - VmFlags::LOCKED_MASK;
            unlocked.anon.set(area.vma.anon());
            self.areas.replace(start, unlocked)?;
        }
        Ok(())
    }

    /// Maps `[start, end)` in place of whatever is there, if the limits allow it. The VMA merges with its neighbours if it `may_merge`.
    ///
    /// # Errors
    /// `EACCES` for what `PR_SET_MDWE` forbids, those of [`check_unmap`](Self::check_unmap), `ENOMEM` at a limit or when an allocation fails, `EPERM` and
    /// `EOPNOTSUPP` for late refusals, and those of the owner of the pages.
    pub(crate) fn map_region<P: Pages + ?Sized>(
        &mut self,
        start: u64,
        end: u64,
        mut vma: Vma,
        may_merge: bool,
        owner: &mut P,
    ) -> Result<(), Errno> {
        if !self.may_execute(None, vma.flags) {
            return Err(Errno::EACCES);
        }
        let marked_late = self.mark_mergeable(&mut vma);
        let accountable = vma.flags.is_accountable();
        if accountable {
            vma.flags |= VmFlags::ACCOUNT;
        }
        let mut span = Span::new(start, end);
        let (mut merge, divides) = self.find_merge(&mut span, &vma, may_merge);
        if marked_late && merge.is_none() {
            vma.flags |= VmFlags::MERGEABLE;
        }
        if span.over.areas > 0 {
            self.check_replaced(&span, owner)?;
        }
        self.check_cost(&span, &vma, accountable, owner)?;
        if self.refuses_late(&vma) {
            return self.refuse_late(&span, &vma, owner);
        }
        if vma.flags.contains(VmFlags::HUGETLB) {
            return self.map_huge(&span, vma, owner);
        }
        self.write_region(&mut span, &mut merge, divides, vma, owner)
    }

    /// Marks a new VMA for merging of equal pages, if all are (`PR_SET_MEMORY_MERGE`). Returns `true` if the mark comes only after the VMA has looked for
    /// neighbours to merge with.
    #[inline(always)]
    fn mark_mergeable(&self, vma: &mut Vma) -> bool {
        if !(self.config.merge_any && may_be_merged_by_content(vma)) {
            return false;
        }
        // A driver's VMA is marked when the driver is done with it, after it has merged without the mark. In older kernels, so is any.
        let late = !self.config.kernel.has(Rule::MarkedBeforeJoining)
            || vma
                .file()
                .is_some_and(|file| file.kind == FileKind::DevZero);
        if !late {
            vma.flags |= VmFlags::MERGEABLE;
        }
        late
    }

    /// Returns the merge of a new VMA over `span` with its neighbours, if there is one, and whether the VMA around the range must be split at
    /// the end of the range before. Notes in `span` what is there now.
    #[inline(always)]
    fn find_merge(&self, span: &mut Span, vma: &Vma, may_merge: bool) -> (Option<Merge>, bool) {
        let kernel = self.config.kernel;
        let mut neighbours = self.areas.neighbours(span);
        let anon_of = |area: Option<Area<'_>>| area.and_then(|area| area.vma.anon());
        let upper = anon_of(neighbours.upper);
        // Older kernels try the upper neighbour alone if its anon_vma is not that of the lower one.
        if upper.is_some() && !kernel.has(Rule::NewJoinsBoth) && anon_of(neighbours.lower) != upper
        {
            let above = Neighbours {
                lower: None,
                ..neighbours
            };
            if Merge::new(span, &above, vma, kernel).is_some() {
                neighbours = above;
            }
        }
        let merge = match may_merge {
            true => Merge::new(span, &neighbours, vma, kernel),
            false => None,
        };
        // A piece of a counted VMA over its own middle merges with the part below, and not with the part above.
        let around = |lower: &Area<'_>| {
            neighbours
                .upper
                .is_some_and(|upper| upper.start == lower.start)
        };
        let divides =
            merge.is_some() && vma.is_counted() && neighbours.lower.as_ref().is_some_and(around);
        (merge, divides)
    }

    /// Checks that what the mapping replaces may be unmapped.
    ///
    /// # Errors
    /// As [`check_unmap`](Self::check_unmap); older kernels return `ENOMEM` for `EINVAL`.
    #[inline(always)]
    fn check_replaced<P: Pages + ?Sized>(
        &mut self,
        span: &Span,
        owner: &mut P,
    ) -> Result<(), Errno> {
        self.check_unmap(span.start, &span.over, owner)
            .map_err(|error| match error {
                Errno::EINVAL if !self.config.kernel.has(Rule::ReplacingTellsWhy) => Errno::ENOMEM,
                error => error,
            })
    }

    /// Checks that the limits on sizes and on commitments allow the mapping, without the pages that it replaces.
    ///
    /// # Errors
    /// `ENOMEM`; see [`refuse_cost`](Self::refuse_cost) for what has changed then.
    #[inline(always)]
    fn check_cost<P: Pages + ?Sized>(
        &mut self,
        span: &Span,
        vma: &Vma,
        accountable: bool,
        owner: &mut P,
    ) -> Result<(), Errno> {
        let pages = (span.end - span.start) >> 12;
        // A new shared object is charged as a whole.
        let charged = accountable
            || matches!(vma.backing, Backing::SharedAnonymous(_))
                && !vma.flags.contains(VmFlags::NORESERVE);
        let fits = self.may_expand(vma.flags, pages - span.over.pages.total());
        if !fits || charged && !self.may_commit(pages) {
            return self.refuse_cost(span, vma, fits, owner);
        }
        Ok(())
    }

    /// Fails a mapping at a limit; `fits` says that it was the one on commitments. What was to be replaced is unmapped, or stays and is
    /// split at the ends of the range, as in Linux.
    ///
    /// # Errors
    /// `ENOMEM`, and those of the owner of the pages.
    #[cold]
    fn refuse_cost<P: Pages + ?Sized>(
        &mut self,
        span: &Span,
        vma: &Vma,
        fits: bool,
        owner: &mut P,
    ) -> Result<(), Errno> {
        // A shared object is made, and charged, after the range has been unmapped.
        let object = matches!(vma.backing, Backing::SharedAnonymous(_));
        if !self.config.kernel.has(Rule::RefusedStaysCut) || fits && object {
            if fits {
                self.unmap_span(span, owner)?;
            }
        } else if span.over.areas > 0 {
            // Linux has split off what was to be replaced, and does not merge it again.
            self.split_and_keep(&[span.start, span.end], owner)?;
        }
        Err(Errno::ENOMEM)
    }

    /// Returns `true` if the file refuses the mapping after the range has been unmapped.
    #[inline(always)]
    fn refuses_late(&self, vma: &Vma) -> bool {
        vma.file().is_some_and(|file| {
            is_refused_late(file, vma.flags, self.config.kernel)
                || vma.flags.contains(VmFlags::SYNC) && file.kind == FileKind::Regular
        })
    }

    /// Unmaps the range of a mapping that the file refuses.
    ///
    /// # Errors
    /// `EPERM` for a seal, `EOPNOTSUPP` for `MAP_SYNC` of a file that is not in persistent memory, and those of the owner of the pages.
    #[cold]
    fn refuse_late<P: Pages + ?Sized>(
        &mut self,
        span: &Span,
        vma: &Vma,
        owner: &mut P,
    ) -> Result<(), Errno> {
        let kernel = self.config.kernel;
        let sealed = vma
            .file()
            .is_some_and(|file| is_refused_late(file, vma.flags, kernel));
        self.unmap_span(span, owner)?;
        Err(if sealed {
            Errno::EPERM
        } else {
            Errno::EOPNOTSUPP
        })
    }

    /// Changes the tree in one step, so that no reader sees a hole, and notifies the owner of the pages.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails, and those of the owner.
    #[inline(always)]
    fn write_region<P: Pages + ?Sized>(
        &mut self,
        span: &mut Span,
        merge: &mut Option<Merge>,
        divides: bool,
        vma: Vma,
        owner: &mut P,
    ) -> Result<(), Errno> {
        let Span { start, end, .. } = *span;
        let replaced = span.over.areas > 0;
        let gone = MappedRanges::of(owner, &self.areas, (start, end), &span.over)?;
        if replaced {
            self.prepare(owner, PrepareOp::Unmap { start, end })?;
        }
        self.prepare(owner, PrepareOp::Map { start, end })?;
        if divides && self.areas.split(end)? {
            *span = Span::new(start, end);
            let neighbours = self.areas.neighbours(span);
            *merge = Merge::new(span, &neighbours, &vma, self.config.kernel);
        }
        if replaced && !self.guards.is_empty() {
            self.insert_over_markers(span, *merge, vma)?;
        } else {
            match merge {
                Some(merge) => self.merge_into(span, merge, vma.flags)?,
                // Not by [`insert`](Self::insert), which would move the VMA once more.
                None => {
                    let uninit = UninitVma::try_new()?;
                    self.areas.insert(span, uninit.fill(vma))?;
                }
            }
        }
        self.notify_unmap(owner, (start, end), &gone)?;
        self.notify_map(owner, start, end)
    }

    /// Inserts a VMA as [`insert`](Self::insert) does, and removes the markers of what it replaces.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails, and nothing has changed.
    #[cold]
    #[inline(never)]
    fn insert_over_markers(
        &mut self,
        span: &Span,
        merge: Option<Merge>,
        vma: Vma,
    ) -> Result<(), Errno> {
        let guarded = self.prepare_unguard(span.start, span.end)?;
        self.insert(span, merge, vma)?;
        if guarded {
            self.unguard(span.start, span.end);
        }
        Ok(())
    }
}

/// Returns a new shared anonymous object of `len` bytes.
///
/// # Errors
/// `ENOMEM`, and those of the owner of the pages.
fn shared_object<P: Pages + ?Sized>(len: u64, owner: &mut P) -> Result<Backing, Errno> {
    let pages = len >> 12;
    let kept = if owner.listens() {
        owner.object(pages)?
    } else {
        Object::none()
    };
    SharedObject::try_new(pages, kept).map(Backing::SharedAnonymous)
}
