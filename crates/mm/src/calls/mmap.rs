//! `mmap(2)`.

use crate::config::Overcommit;
use crate::errno::Errno;
use crate::file::{FileArg, FileKind};
use crate::flags::{PAGE_MASK, PAGE_SIZE, VmFlags, map, page_align, prot};
use crate::heap::boxed::try_box;
use crate::space::AddressSpace;
use crate::space::merge::Laying;
use crate::space::place::Huge;
use crate::space::vma::{Backing, Policy, Vma, new_object};

/// Flags that `MAP_SHARED_VALIDATE` knows for every file.
const LEGACY_FLAGS: u64 = map::SHARED
    | map::PRIVATE
    | map::FIXED
    | map::ANONYMOUS
    | 0x0800 // MAP_DENYWRITE
    | 0x1000 // MAP_EXECUTABLE
    | 0x400_0000 // MAP_UNINITIALIZED
    | map::GROWSDOWN
    | map::LOCKED
    | map::NORESERVE
    | map::POPULATE
    | map::NONBLOCK
    | map::STACK
    | map::HUGETLB
    | map::BIT32
    | 0x80 // MAP_ABOVE4G
    | (0x3f << 26); // sizes of huge pages

impl AddressSpace {
    /// The place that `mmap` with these arguments would get, or its error.
    pub(crate) fn mmap_place(
        &self,
        addr: u64,
        len: u64,
        flags: u64,
        file: &FileArg,
        offset: u64,
    ) -> Result<u64, Errno> {
        let flags = if flags & map::FIXED_NOREPLACE != 0 {
            flags | map::FIXED
        } else {
            flags
        };
        let hint = if flags & map::FIXED != 0 {
            addr
        } else {
            self.round_hint(addr)
        };
        let huge = match file {
            FileArg::File(file) if file.kind.aligns_huge() => Huge::File(offset),
            FileArg::File(file)
                if file.kind == FileKind::DevZero && flags & map::TYPE == map::PRIVATE =>
            {
                Huge::File(offset)
            }
            FileArg::File(file) if file.kind == FileKind::Shmem && self.config.shmem_huge => {
                Huge::File(offset)
            }
            FileArg::None if flags & map::TYPE == map::SHARED && self.config.shmem_huge => {
                Huge::File(0)
            }
            FileArg::None if flags & map::TYPE != map::SHARED => Huge::Anonymous,
            _ => Huge::No,
        };
        self.place(hint, len, flags, huge)
    }

    fn round_hint(&self, addr: u64) -> u64 {
        let hint = addr & PAGE_MASK;
        if hint != 0 && hint < self.config.mmap_min_addr {
            page_align(self.config.mmap_min_addr)
        } else {
            hint
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the system call has six")]
    pub(crate) fn mmap(
        &mut self,
        addr: u64,
        len: u64,
        protection: u64,
        flags: u64,
        file: &FileArg,
        offset: u64,
        forced: Option<u64>,
    ) -> Result<u64, Errno> {
        if !offset.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        let anonymous = flags & map::ANONYMOUS != 0;
        let file = if anonymous { &FileArg::None } else { file };
        match file {
            FileArg::Bad => return Err(Errno::EBADF),
            FileArg::File(_) if flags & map::HUGETLB != 0 => return Err(Errno::EINVAL),
            FileArg::None if !anonymous => return Err(Errno::EBADF),
            _ => {}
        }
        if len == 0 {
            return Err(Errno::EINVAL);
        }
        if anonymous && flags & map::HUGETLB != 0 {
            return Err(self.refuse_huge(flags));
        }
        let len = page_align(len);
        if len == 0 {
            return Err(Errno::ENOMEM);
        }
        if self.over_map_limit() {
            return Err(Errno::ENOMEM);
        }
        let place = self.mmap_place(addr, len, flags, file, offset)?;
        let fixed = flags & (map::FIXED | map::FIXED_NOREPLACE) != 0;
        let start = if fixed {
            place
        } else {
            forced.unwrap_or(place)
        };
        let end = start + len;
        if flags & map::FIXED_NOREPLACE != 0 && self.areas.find_in(start, end).is_some() {
            return Err(Errno::EEXIST);
        }
        if flags & map::LOCKED != 0 {
            self.may_lock()?;
        }
        let protection = if self.config.read_implies_exec
            && protection & prot::READ != 0
            && !matches!(file, FileArg::File(file) if file.noexec)
        {
            protection | prot::EXEC
        } else {
            protection
        };
        let key = if protection & prot::ALL == prot::EXEC {
            self.execute_only_key()
        } else {
            0
        };
        let mut area_flags =
            VmFlags::from_prot(protection).with_pkey(key) | VmFlags::MAY_ALL | self.future_locked;
        for (flag, given) in [
            (map::GROWSDOWN, VmFlags::GROWSDOWN),
            (map::LOCKED, VmFlags::LOCKED),
            (map::SYNC, VmFlags::SYNC),
        ] {
            if flags & flag != 0 {
                area_flags |= given;
            }
        }
        if flags & map::STACK != 0 && self.config.transparent_huge_pages {
            area_flags |= VmFlags::NOHUGEPAGE;
        }
        if !self.may_lock_new(area_flags, len) {
            return Err(Errno::EAGAIN);
        }
        let page = start >> 12;
        let (backing, shift) = match file {
            FileArg::File(file) => {
                // The offset may not pass the largest file.
                let most = file.kind.largest();
                if len > most || offset >> 12 > (most - len) >> 12 {
                    return Err(Errno::EOVERFLOW);
                }
                let kind = flags & map::TYPE;
                match kind {
                    map::SHARED | map::SHARED_VALIDATE => {
                        let known = match file.kind {
                            FileKind::Regular => LEGACY_FLAGS | map::SYNC,
                            _ => LEGACY_FLAGS,
                        };
                        if kind == map::SHARED_VALIDATE && flags & !known != 0 {
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
                    map::PRIVATE => {}
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
                if file.kind == FileKind::Unmappable {
                    return Err(Errno::ENODEV);
                }
                if flags & map::GROWSDOWN != 0 {
                    return Err(Errno::EINVAL);
                }
                let backing = if file.kind == FileKind::DevZero && kind != map::PRIVATE {
                    Backing::SharedAnonymous {
                        id: new_object(),
                        pages: len >> 12,
                    }
                } else {
                    Backing::File(file.clone())
                };
                (backing, (offset >> 12).wrapping_sub(page))
            }
            _ => match flags & map::TYPE {
                map::SHARED => {
                    if flags & map::GROWSDOWN != 0 {
                        return Err(Errno::EINVAL);
                    }
                    area_flags |= VmFlags::SHARED | VmFlags::MAYSHARE;
                    (
                        Backing::SharedAnonymous {
                            id: new_object(),
                            pages: len >> 12,
                        },
                        0u64.wrapping_sub(page),
                    )
                }
                map::PRIVATE => (Backing::Anonymous, 0),
                map::DROPPABLE => {
                    if flags & (map::LOCKED | map::GROWSDOWN) != 0 {
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
        if flags & map::NORESERVE != 0
            && !matches!(self.config.overcommit, Overcommit::Never { .. })
        {
            area_flags |= VmFlags::NORESERVE;
        }
        let vma = Vma {
            flags: area_flags,
            shift,
            backing,
            anon: None.into(),
            guarded: false.into(),
            policy: Policy::default(),
            uffd: None,
            name: None,
        };
        let droppable = VmFlags::DROPPABLE | VmFlags::LOCKED;
        let unlocked = if area_flags.contains(droppable) {
            Some(try_box(vma.try_clone()?)?)
        } else {
            None
        };
        self.map_region(start, end, vma)?;
        if let (Some(mut unlocked), Some(area)) = (unlocked, self.areas.at(start)) {
            // Cannot stay locked; only now, so that it has not joined one that never was.
            unlocked.flags = area.vma.flags - VmFlags::LOCKED_MASK;
            unlocked.anon.set(area.vma.anon());
            self.areas.replace(start, unlocked)?;
        }
        let locked = area_flags.contains(VmFlags::LOCKED);
        if locked || flags & (map::POPULATE | map::NONBLOCK) == map::POPULATE {
            // What cannot be faulted in is no error of mmap.
            let _ = self.populate(start, end);
        }
        Ok(start)
    }

    /// Memory from the pool of huge pages: there is none, as on a machine that has not set any aside. Mappings
    /// without a reservation would succeed all the same, and a pool is not modelled: `ENOSYS` says so.
    fn refuse_huge(&self, flags: u64) -> Errno {
        let shift = flags >> 26 & 0x3f;
        if !matches!(shift, 0 | 21 | 30) {
            Errno::EINVAL
        } else if self.config.huge_page_pool || flags & map::NORESERVE != 0 {
            Errno::ENOSYS
        } else {
            Errno::ENOMEM
        }
    }

    /// Maps `[start, end)` over whatever is there, after the limits have allowed it.
    pub(crate) fn map_region(&mut self, start: u64, end: u64, mut vma: Vma) -> Result<(), Errno> {
        let accountable = vma.flags.is_accountable();
        if accountable {
            vma.flags |= VmFlags::ACCOUNT;
        }
        let look = self.areas.look(start, end);
        let (over, laying) = (look.over, Laying::new(&look, &vma));
        let replaced = over.areas > 0;
        if replaced {
            self.check_unmap(start, &over)?;
        }
        let pages = (end - start) >> 12;
        // A new shared object is charged as a whole.
        let charged = accountable
            || matches!(vma.backing, Backing::SharedAnonymous { .. })
                && !vma.flags.contains(VmFlags::NORESERVE);
        if !self.may_expand(vma.flags, pages - over.pages.total)
            || charged && !self.may_commit(pages)
        {
            // What was to be replaced has been cut out already; it stays, and stays cut.
            if replaced {
                self.cut_for_unmap(start)?;
                self.cut_for_unmap(end)?;
            }
            return Err(Errno::ENOMEM);
        }
        if vma.flags.contains(VmFlags::SYNC)
            && vma
                .file()
                .is_some_and(|file| file.kind == FileKind::Regular)
        {
            // Only files in persistent memory can do this, says the file system, when what was there is gone.
            self.guards.remove(start, end)?;
            self.areas.clear(start, end, over)?;
            return Err(Errno::EOPNOTSUPP);
        }
        if replaced {
            self.guards.remove(start, end)?;
        }
        self.lay(laying, vma)
    }
}
