//! `mmap(2)`.

use crate::abi;
use crate::calls::prctl::may_be_merged_by_content;
use crate::config::Overcommit;
use crate::errno::Errno;
use crate::file::{File, FileArg, FileKind};
use crate::flags::{PAGE_MASK, PAGE_SIZE, VmFlags, page_align};
use crate::kernel::{KernelVersion, Rule};
use crate::pages::{MappedRanges, Object, Pages, PrepareOp};
use crate::space::AddressSpace;
use crate::space::address::HugeAlignment;
use crate::space::areas::{Neighbours, Span};
use crate::space::merge::Merge;
use crate::space::vma::{Area, Backing, SharedObject, Vma};
use crate::space::vma_box::{UninitVma, VmaBox};

/// Flags that `MAP_SHARED_VALIDATE` knows for every file.
const LEGACY_FLAGS: u64 = abi::MAP_SHARED
    | abi::MAP_PRIVATE
    | abi::MAP_FIXED
    | abi::MAP_ANONYMOUS
    | abi::MAP_DENYWRITE
    | abi::MAP_EXECUTABLE
    | abi::MAP_UNINITIALIZED
    | abi::MAP_GROWSDOWN
    | abi::MAP_LOCKED
    | abi::MAP_NORESERVE
    | abi::MAP_POPULATE
    | abi::MAP_NONBLOCK
    | abi::MAP_STACK
    | abi::MAP_HUGETLB
    | abi::MAP_32BIT
    | HUGE_SIZES;
/// Of the bits that name a size of huge pages, those that 2 MiB and 1 GiB have between them.
const HUGE_SIZES: u64 = (21 | 30) << abi::MAP_HUGE_SHIFT;

/// Flags that mark the new area; few mappings have one.
pub(super) const MARKS: u64 =
    abi::MAP_GROWSDOWN | abi::MAP_LOCKED | abi::MAP_SYNC | abi::MAP_STACK | abi::MAP_NORESERVE;

/// `F_SEAL_WRITE` and `F_SEAL_FUTURE_WRITE` (`F_ADD_SEALS(2const)`).
const WRITE_SEALS: u32 = SEAL_WRITE | 0x10;
const SEAL_WRITE: u32 = 0x8;

impl AddressSpace {
    /// The place that `mmap` with these arguments would get, or its error.
    pub(crate) fn mmap_address(
        &self,
        addr: u64,
        len: u64,
        flags: u64,
        file: &FileArg,
        offset: u64,
    ) -> Result<u64, Errno> {
        let flags = if flags & abi::MAP_FIXED_NOREPLACE != 0 {
            flags | abi::MAP_FIXED
        } else {
            flags
        };
        let hint = if flags & abi::MAP_FIXED != 0 {
            addr
        } else {
            self.round_hint(addr)
        };
        let huge = match file {
            FileArg::File(file) if file.kind.aligns_huge() => HugeAlignment::File(offset),
            FileArg::File(file)
                if file.kind == FileKind::DevZero
                    && flags & abi::MAP_TYPE == abi::MAP_PRIVATE
                    && self.config.kernel.has(Rule::ZeroIsAligned) =>
            {
                HugeAlignment::File(offset)
            }
            FileArg::File(file) if file.kind == FileKind::Shmem && self.config.shmem_huge => {
                HugeAlignment::File(offset)
            }
            FileArg::None if flags & abi::MAP_TYPE == abi::MAP_SHARED && self.config.shmem_huge => {
                HugeAlignment::File(0)
            }
            FileArg::None if flags & abi::MAP_TYPE != abi::MAP_SHARED => HugeAlignment::Anonymous,
            _ => HugeAlignment::No,
        };
        self.choose_address(hint, len, flags, huge)
    }

    pub(super) fn round_hint(&self, addr: u64) -> u64 {
        let hint = addr & PAGE_MASK;
        if hint != 0 && hint < self.config.mmap_min_addr {
            page_align(self.config.mmap_min_addr)
        } else {
            hint
        }
    }

    // One of two callers is the way of all calls, which is shorter with it in line.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "the system call has six")]
    pub(crate) fn do_mmap<P: Pages + ?Sized>(
        &mut self,
        addr: u64,
        len: u64,
        protection: u64,
        flags: u64,
        file: &FileArg,
        offset: u64,
        forced: Option<u64>,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        if !offset.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        let anonymous = flags & abi::MAP_ANONYMOUS != 0;
        let file = if anonymous { &FileArg::None } else { file };
        match file {
            FileArg::Bad => return Err(Errno::EBADF),
            FileArg::File(file)
                if matches!(file.kind, FileKind::HugeTlb(_)) && !pages.listens() =>
            {
                let file = Some(file);
                return self.mmap_huge(addr, len, protection, flags, file, offset, forced, pages);
            }
            FileArg::File(_) if flags & abi::MAP_HUGETLB != 0 => return Err(Errno::EINVAL),
            FileArg::None if !anonymous => return Err(Errno::EBADF),
            _ => {}
        }
        if len == 0 {
            return Err(Errno::EINVAL);
        }
        if anonymous && flags & abi::MAP_HUGETLB != 0 {
            return self.mmap_huge(addr, len, protection, flags, None, offset, forced, pages);
        }
        let len = page_align(len);
        if len == 0 {
            return Err(Errno::ENOMEM);
        }
        if self.over_map_limit() {
            return Err(Errno::ENOMEM);
        }
        let protection = if self.config.read_implies_exec
            && protection & abi::PROT_READ != 0
            && !matches!(file, FileArg::File(file) if file.noexec)
        {
            protection | abi::PROT_EXEC
        } else {
            protection
        };
        if self.config.kernel.has(Rule::KeyBeforePlace) {
            self.key_for_new(protection);
        }
        let place = self.mmap_address(addr, len, flags, file, offset)?;
        let fixed = flags & (abi::MAP_FIXED | abi::MAP_FIXED_NOREPLACE) != 0;
        let start = if fixed {
            place
        } else {
            forced.unwrap_or(place)
        };
        let end = start + len;
        if flags & abi::MAP_FIXED_NOREPLACE != 0 && self.areas.find_in(start, end).is_some() {
            return Err(Errno::EEXIST);
        }
        let key = self.key_for_new(protection);
        let mut area_flags =
            VmFlags::from_prot(protection).with_pkey(key) | VmFlags::MAY_ALL | self.future_locked;
        if flags & MARKS != 0 {
            area_flags |= self.marks(flags)?;
        }
        if !self.may_lock_new(area_flags, len) {
            return Err(Errno::EAGAIN);
        }
        let page = start >> 12;
        let (backing, shift) = match file {
            FileArg::File(file) => {
                area_flags = file_flags(file, self.config.kernel, flags, area_flags, len, offset)?;
                // Zeroes that nobody can write to need no object to be shared.
                let object = file.kind == FileKind::DevZero && area_flags.contains(VmFlags::SHARED);
                area_flags = (area_flags | file.driver.adds) - file.driver.removes;
                // What a driver manages cannot be locked.
                if area_flags.intersects(VmFlags::SPECIAL) {
                    area_flags -= VmFlags::LOCKED_MASK;
                }
                let backing = if object {
                    shared_object(len, pages)?
                } else {
                    Backing::File(file.clone())
                };
                (backing, (offset >> 12).wrapping_sub(page))
            }
            _ => match flags & abi::MAP_TYPE {
                abi::MAP_SHARED => {
                    if flags & abi::MAP_GROWSDOWN != 0 {
                        return Err(Errno::EINVAL);
                    }
                    area_flags |= VmFlags::SHARED | VmFlags::MAYSHARE;
                    (shared_object(len, pages)?, 0u64.wrapping_sub(page))
                }
                abi::MAP_PRIVATE => (Backing::Anonymous, 0),
                abi::MAP_DROPPABLE if self.config.kernel.has(Rule::Droppable) => {
                    if flags & (abi::MAP_LOCKED | abi::MAP_GROWSDOWN) != 0 {
                        return Err(Errno::EINVAL);
                    }
                    area_flags |= VmFlags::DROPPABLE
                        | VmFlags::NORESERVE
                        | VmFlags::WIPEONFORK
                        | VmFlags::DONTDUMP;
                    (Backing::Anonymous, 0)
                }
                _ => return Err(Errno::EINVAL),
            },
        };
        let droppable = VmFlags::DROPPABLE | VmFlags::LOCKED;
        let unlocked = if area_flags.contains(droppable) {
            let vma = Vma::new(area_flags, shift, backing.clone());
            Some(VmaBox::try_new(vma)?)
        } else {
            None
        };
        // Last, and used for nothing but the call: so it is made as its argument, and not moved there.
        let vma = Vma::new(area_flags, shift, backing);
        let joins = !matches!(file, FileArg::File(file) if file.kind == FileKind::Stacked);
        self.map_region(start, end, vma, joins, pages)?;
        if let Some(mut unlocked) = unlocked
            && let Some(area) = self.areas.at(start)
        {
            // Cannot stay locked; only now, so that it has not joined one that never was.
            unlocked.flags = area.vma.flags - VmFlags::LOCKED_MASK;
            unlocked.anon.set(area.vma.anon());
            self.areas.replace(start, unlocked)?;
        }
        let locked = area_flags.contains(VmFlags::LOCKED);
        if locked || flags & (abi::MAP_POPULATE | abi::MAP_NONBLOCK) == abi::MAP_POPULATE {
            // What cannot be faulted in is no error of mmap.
            let _ = self.populate(start, end, pages);
        }
        Ok(start)
    }

    /// What [`MARKS`] make of an area.
    #[inline(never)]
    pub(super) fn marks(&self, flags: u64) -> Result<VmFlags, Errno> {
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

    /// Maps `[start, end)` over whatever is there, after the limits have allowed it; as an area of its own, whatever lies beside it, unless it `joins`.
    pub(crate) fn map_region<P: Pages + ?Sized>(
        &mut self,
        start: u64,
        end: u64,
        mut vma: Vma,
        joins: bool,
        owner: &mut P,
    ) -> Result<(), Errno> {
        if !self.may_execute(None, vma.flags) {
            return Err(Errno::EACCES);
        }
        let mergeable = self.config.merge_any && may_be_merged_by_content(&vma);
        // A driver's mapping is marked when the driver is done with it. By then it has joined its neighbours, which it did without the mark. So did others.
        let marked_late = mergeable
            && (!self.config.kernel.has(Rule::MarkedBeforeJoining)
                || vma
                    .file()
                    .is_some_and(|file| file.kind == FileKind::DevZero));
        if mergeable && !marked_late {
            vma.flags |= VmFlags::MERGEABLE;
        }
        let accountable = vma.flags.is_accountable();
        if accountable {
            vma.flags |= VmFlags::ACCOUNT;
        }
        let mut span = Span::new(start, end);
        let mut neighbours = self.areas.neighbours(&mut span);
        let kernel = self.config.kernel;
        let anon_of = |area: Option<Area<'_>>| area.and_then(|area| area.vma.anon());
        let upper = anon_of(neighbours.upper);
        if upper.is_some() && !kernel.has(Rule::NewJoinsBoth) && anon_of(neighbours.lower) != upper
        {
            let above = Neighbours {
                lower: None,
                ..neighbours
            };
            if Merge::new(&span, &above, &vma, kernel).is_some() {
                neighbours = above;
            }
        }
        let mut merge = match joins {
            true => Merge::new(&span, &neighbours, &vma, kernel),
            false => None,
        };
        if marked_late && merge.is_none() {
            vma.flags |= VmFlags::MERGEABLE;
        }
        // A piece of a counted area over its own middle joins what is below it, and not what is above.
        let within = |lower: &Area<'_>| {
            neighbours
                .upper
                .is_some_and(|upper| upper.start == lower.start)
        };
        let divides =
            merge.is_some() && vma.is_counted() && neighbours.lower.as_ref().is_some_and(within);
        let over = &span.over;
        let replaced = over.areas > 0;
        if replaced {
            self.check_unmap(start, over, owner)
                .map_err(|error| match error {
                    Errno::EINVAL if !kernel.has(Rule::ReplacingTellsWhy) => Errno::ENOMEM,
                    error => error,
                })?;
        }
        let pages = (end - start) >> 12;
        // A new shared object is charged as a whole.
        let charged = accountable
            || matches!(vma.backing, Backing::SharedAnonymous(_))
                && !vma.flags.contains(VmFlags::NORESERVE);
        let fits = self.may_expand(vma.flags, pages - over.pages.total());
        if !fits || charged && !self.may_commit(pages) {
            // An object is made, and charged, when what was there is gone.
            let object = matches!(vma.backing, Backing::SharedAnonymous(_));
            if !self.config.kernel.has(Rule::RefusedStaysCut) || fits && object {
                if fits {
                    self.unmap_span(&span, owner)?;
                }
            } else if replaced {
                // What was to be replaced has been cut out already; it stays, and stays cut.
                self.split_and_keep(&[start, end], owner)?;
            }
            return Err(Errno::ENOMEM);
        }
        if let Some(file) = vma.file()
            && is_refused_late(file, vma.flags, kernel)
        {
            self.unmap_span(&span, owner)?;
            return Err(Errno::EPERM);
        }
        if vma.flags.contains(VmFlags::HUGETLB) {
            return self.map_huge(&span, vma, owner);
        }
        if vma.flags.contains(VmFlags::SYNC)
            && vma
                .file()
                .is_some_and(|file| file.kind == FileKind::Regular)
        {
            // Only files in persistent memory can do this, says the file system, when what was there is gone.
            self.unmap_span(&span, owner)?;
            return Err(Errno::EOPNOTSUPP);
        }
        let gone = MappedRanges::of(owner, &self.areas, (start, end), over)?;
        if replaced {
            self.prepare(owner, PrepareOp::Unmap { start, end })?;
        }
        self.prepare(owner, PrepareOp::Map { start, end })?;
        if divides && self.areas.split(end)? {
            span = Span::new(start, end);
            let neighbours = self.areas.neighbours(&mut span);
            merge = Merge::new(&span, &neighbours, &vma, kernel);
        }
        if replaced && !self.guards.is_empty() {
            self.insert_over_markers(&span, merge, vma)?;
        } else {
            match merge {
                Some(merge) => self.merge_into(&span, &merge, vma.flags)?,
                // Not by [`lay`](Self::insert), where the area would be moved once more.
                None => {
                    let room = UninitVma::try_new()?;
                    self.areas.insert(&span, room.fill(vma))?;
                }
            }
        }
        self.notify_unmap(owner, (start, end), &gone)?;
        self.notify_map(owner, start, end)
    }

    /// As [`lay`](Self::insert), where what is replaced may be marked.
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

/// The flags that `MAP_SHARED_VALIDATE` knows for a file.
fn known(file: &File, kernel: KernelVersion) -> u64 {
    let sync = match file.kind {
        FileKind::Regular => abi::MAP_SYNC,
        _ => 0,
    };
    let above = match kernel.has(Rule::Above4gIsKnown) {
        true => abi::MAP_ABOVE4G,
        false => 0,
    };
    LEGACY_FLAGS | sync | above
}

/// The properties of a mapping of a file, of which `area_flags` are known already.
///
/// # Errors
/// Where the file, or the way in which it was opened, forbids it.
#[inline(always)]
pub(super) fn file_flags(
    file: &File,
    kernel: KernelVersion,
    flags: u64,
    mut area_flags: VmFlags,
    len: u64,
    offset: u64,
) -> Result<VmFlags, Errno> {
    // The offset may not pass the largest file.
    let most = file.kind.largest();
    if len > most || offset >> 12 > (most - len) >> 12 {
        return Err(Errno::EOVERFLOW);
    }
    let kind = flags & abi::MAP_TYPE;
    match kind {
        abi::MAP_SHARED | abi::MAP_SHARED_VALIDATE => {
            if kind == abi::MAP_SHARED_VALIDATE && flags & !known(file, kernel) != 0 {
                return Err(Errno::EOPNOTSUPP);
            }
            if area_flags.contains(VmFlags::WRITE) && !file.writable {
                return Err(Errno::EACCES);
            }
            area_flags |= VmFlags::SHARED | VmFlags::MAYSHARE;
            if !file.writable {
                area_flags -= VmFlags::SHARED | VmFlags::MAYWRITE;
            }
        }
        abi::MAP_PRIVATE => {}
        _ => return Err(Errno::EINVAL),
    }
    if !file.readable {
        return Err(Errno::EACCES);
    }
    if file.noexec {
        if area_flags.contains(VmFlags::EXEC) {
            return Err(Errno::EPERM);
        }
        area_flags -= VmFlags::MAYEXEC;
    }
    match file.kind {
        FileKind::Unmappable => return Err(Errno::ENODEV),
        // No such driver lets its areas grow, by which they are known to need a look before they are cut.
        FileKind::WholeDevice => area_flags |= VmFlags::DONTEXPAND,
        _ => {}
    }
    if flags & abi::MAP_GROWSDOWN != 0 {
        return Err(Errno::EINVAL);
    }
    if area_flags.contains(VmFlags::SHARED) && file.seals & WRITE_SEALS != 0 {
        if !area_flags.contains(VmFlags::WRITE) {
            area_flags -= VmFlags::MAYWRITE;
        } else if !is_refused_late(file, area_flags, kernel) {
            return Err(Errno::EPERM);
        }
    }
    Ok(area_flags)
}

/// Is a seal looked at only when what was in the place of the mapping is gone?
fn is_refused_late(file: &File, flags: VmFlags, kernel: KernelVersion) -> bool {
    let writes = VmFlags::SHARED | VmFlags::WRITE;
    flags.contains(writes)
        && file.seals & WRITE_SEALS == WRITE_SEALS & !SEAL_WRITE
        && !kernel.has(Rule::FutureSealIsLookedAtFirst)
}

/// A new shared anonymous object of `len` bytes.
fn shared_object<P: Pages + ?Sized>(len: u64, owner: &mut P) -> Result<Backing, Errno> {
    let pages = len >> 12;
    let kept = if owner.listens() {
        owner.object(pages)?
    } else {
        Object::none()
    };
    SharedObject::try_new(pages, kept).map(Backing::SharedAnonymous)
}
