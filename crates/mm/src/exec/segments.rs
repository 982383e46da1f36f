//! Segments: what of a file is mapped where, and what is zeroed behind it.

use alloc::vec::Vec;

use crate::abi;
use crate::calls::mmap::MmapRequest;
use crate::errno::Errno;
use crate::file::FileArg;
use crate::flags::{PAGE_MASK, PAGE_SIZE, VmFlags, page_align};
use crate::kernel::Rule;
use crate::pages::NoPages;
use crate::space::AddressSpace;
use crate::space::areas::{Neighbours, Span};
use crate::space::merge::Merge;

use super::headers::{Headers, Segment};
use super::image::{Image, Program};

/// The place of a file's first segment. The others follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// At its own address, or at this one; nothing may be there.
    At(Option<u64>),
    /// At its own address, over whatever is there.
    Over,
    /// Any free place, at a multiple of this.
    Anywhere(u64),
    /// At its own address, if that is free, or where there is room.
    Hinted,
}

/// Which address of a segment must be one of user space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// The one in the file, says the kernel of programs.
    InFile,
    /// The one at which it is mapped, says the kernel of interpreters.
    InMemory,
}

/// A file that has been loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Loaded {
    /// The difference between addresses in memory and those in the file.
    pub(super) bias: u64,
    /// The address of the first segment.
    pub(super) start: u64,
    /// The end of the highest segment.
    pub(super) end: u64,
    /// The start of the segment with the highest address, and the end of its part from the file.
    pub(super) data: (u64, u64),
}

/// Maps the segments of a file.
///
/// Ranges that were zeroed in pages of the file, behind its part, are added to `zeroed`.
///
/// # Errors
/// Those of `mmap(2)`; `EINVAL` for segments that make no sense, `EFAULT` where a page cannot be zeroed.
pub(super) fn load<I: Image>(
    space: &mut AddressSpace,
    program: &Program<I>,
    headers: &Headers,
    (place, check): (Place, Check),
    zeroed: &mut Vec<(u64, u64)>,
) -> Result<Loaded, Errno> {
    let mut loaded = Loaded::default();
    let extent = headers.extent();
    let once = check == Check::InMemory && !space.config.kernel.has(Rule::SegmentsAreZeroedEach);
    let mut above = Above::default();
    // Room for all segments is found with the first one; an interpreter takes it even where that is decided.
    let takes_all = headers.moves || check == Check::InMemory;
    for (number, segment) in headers.segments.iter().enumerate() {
        let first = number == 0;
        if first && takes_all && extent == 0 {
            return Err(Errno::EINVAL);
        }
        let to = match first {
            true => first_target(space, program, segment, (place, check), extent, &mut loaded)?,
            false => To::Over,
        };
        let whole = (first && takes_all).then_some(extent);
        let address = loaded.bias.wrapping_add(segment.address);
        let at = if once {
            map_part(space, program, segment, address, (to, whole), true, zeroed)?.0
        } else {
            map(space, program, segment, address, to, whole, zeroed)?
        };
        if at >= space.config.task_size {
            // Of an interpreter the kernel takes such an address for that of the whole, and is done, unless it looks like an error.
            if check == Check::InFile || at.wrapping_neg() < PAGE_SIZE {
                return Err(Errno::EINVAL);
            }
            loaded.bias = at;
            return Ok(loaded);
        }
        if first {
            loaded.bias = match check {
                Check::InFile => loaded
                    .bias
                    .wrapping_add(at.wrapping_sub(address & PAGE_MASK)),
                Check::InMemory => at.wrapping_sub(segment.address & PAGE_MASK),
            };
            loaded.start = at;
        }
        let address = loaded.bias.wrapping_add(segment.address);
        let checked = match check {
            Check::InFile => segment.address,
            Check::InMemory => address,
        };
        check_extent(segment, checked, space.config.task_size)?;
        let address = headers.class.wrap(address);
        loaded.extend(address, segment);
        above.extend(address, segment);
    }
    if once {
        above.zero(space, program, zeroed)?;
    }
    Ok(loaded)
}

/// Finds the target of a file's first segment, and sets the bias if the place decides it.
///
/// # Errors
/// Those of `mmap(2)`.
fn first_target<I: Image>(
    space: &mut AddressSpace,
    program: &Program<I>,
    segment: &Segment,
    (place, check): (Place, Check),
    extent: u64,
    loaded: &mut Loaded,
) -> Result<To, Errno> {
    Ok(match place {
        Place::At(Some(address)) => {
            loaded.bias = address.wrapping_sub(segment.address) & PAGE_MASK;
            To::Free
        }
        Place::At(None) => To::Free,
        Place::Over => To::Over,
        Place::Hinted => To::Anywhere,
        Place::Anywhere(align) => {
            // A segment without bytes in the file finds no room, and goes to the lowest address.
            let found = if align > PAGE_SIZE && segment.in_file != 0 {
                To::Free
            } else {
                To::Anywhere
            };
            let at = match found {
                To::Free => probe(space, program, segment, extent)? & !(align - 1),
                To::Anywhere | To::Over => 0,
            };
            loaded.bias = at.wrapping_sub(segment.address);
            if check == Check::InFile {
                loaded.bias &= PAGE_MASK;
            }
            found
        }
    })
}

/// Checks that a segment at this address lies in user space.
///
/// # Errors
/// `EINVAL`.
fn check_extent(segment: &Segment, address: u64, task_size: u64) -> Result<(), Errno> {
    if address >= task_size
        || segment.in_file > segment.in_memory
        || segment.in_memory > task_size
        || address > task_size - segment.in_memory
    {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

impl Loaded {
    /// Notes a segment that has been mapped at this address.
    fn extend(&mut self, address: u64, segment: &Segment) {
        self.end = self.end.max(address.wrapping_add(segment.in_memory));
        self.data.0 = self.data.0.max(address);
        self.data.1 = self.data.1.max(address.wrapping_add(segment.in_file));
    }
}

/// The memory of an interpreter that older kernels zero: from the end of its file's part upwards.
#[derive(Debug, Default)]
struct Above {
    /// The highest end of what is in the file, and of what is in memory.
    file_end: u64,
    memory_end: u64,
    /// As the segment with the highest end.
    executable: bool,
}

impl Above {
    /// Notes a segment that has been mapped at this address.
    fn extend(&mut self, address: u64, segment: &Segment) {
        let memory_end = address.wrapping_add(segment.in_memory);
        self.file_end = self.file_end.max(address.wrapping_add(segment.in_file));
        if memory_end > self.memory_end {
            self.memory_end = memory_end;
            self.executable = segment.protection & abi::PROT_EXEC != 0;
        }
    }

    fn zero<I: Image>(
        &self,
        space: &mut AddressSpace,
        program: &Program<I>,
        zeroed: &mut Vec<(u64, u64)>,
    ) -> Result<(), Errno> {
        if !self.file_end.is_multiple_of(PAGE_SIZE) {
            let page = self.file_end & PAGE_MASK;
            let area = space.areas.at(page).ok_or(Errno::EFAULT)?;
            let offset = area.vma.page_offset(page) << 12;
            let of_file = area.vma.file().is_some_and(|file| *file == program.file);
            if !area.vma.flags.contains(VmFlags::WRITE) || of_file && offset >= program.image.len()
            {
                return Err(Errno::EFAULT);
            }
            zeroed.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            zeroed.push((self.file_end, page + PAGE_SIZE));
            space.touch(page);
        }
        let (from, to) = (page_align(self.file_end), page_align(self.memory_end));
        if from < to {
            map_zeroes(space, from, to, self.executable)?;
            zeroed.retain(|range| range.1 <= from || range.0 >= to);
        }
        Ok(())
    }
}

/// The way to find the place of one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Free,
    Over,
    Anywhere,
}

/// Returns a free place for all segments.
fn probe<I>(
    space: &AddressSpace,
    program: &Program<I>,
    segment: &Segment,
    extent: u64,
) -> Result<u64, Errno> {
    let file = FileArg::File(program.file.clone());
    let offset = segment.offset.wrapping_sub(segment.address & !PAGE_MASK);
    space.mmap_address(&MmapRequest {
        addr: 0,
        len: page_align(extent),
        protection: abi::PROT_NONE,
        flags: abi::MAP_PRIVATE,
        file: &file,
        offset,
        forced: None,
    })
}

/// Maps what one segment has of the file; `address` is where it begins. With `part`, a page that it has nothing but the beginning of is mapped, too. The
/// result is the address of its first page, and of what lies behind.
fn map_part<I: Image>(
    space: &mut AddressSpace,
    program: &Program<I>,
    segment: &Segment,
    address: u64,
    (to, whole): (To, Option<u64>),
    part: bool,
    zeroed: &mut Vec<(u64, u64)>,
) -> Result<(u64, u64), Errno> {
    let within = segment.address & !PAGE_MASK;
    let mut start = address & PAGE_MASK;
    let len = page_align(segment.in_file.wrapping_add(within));
    let has_some = segment.in_file != 0 || part && len != 0;
    let behind = if !has_some {
        start
    } else {
        let offset = segment.offset.wrapping_sub(within);
        start = map_file(space, program, segment, (start, offset, len), to, whole)?;
        start.wrapping_add(within).wrapping_add(segment.in_file)
    };
    if has_some {
        let end = start.saturating_add(page_align(
            whole
                .unwrap_or(0)
                .max(segment.in_file.saturating_add(within)),
        ));
        zeroed.retain(|range| range.1 <= start || range.0 >= end);
    }
    Ok((start, behind))
}

/// Maps one segment, and zeroed memory behind it; `address` is where it begins. The result is the address of its first page.
fn map<I: Image>(
    space: &mut AddressSpace,
    program: &Program<I>,
    segment: &Segment,
    address: u64,
    to: To,
    whole: Option<u64>,
    zeroed: &mut Vec<(u64, u64)>,
) -> Result<u64, Errno> {
    let within = segment.address & !PAGE_MASK;
    let (start, behind) = map_part(space, program, segment, address, (to, whole), false, zeroed)?;
    if segment.in_memory <= segment.in_file {
        return Ok(start);
    }
    let end = start.wrapping_add(within).wrapping_add(segment.in_memory);
    if segment.in_file != 0 && !behind.is_multiple_of(PAGE_SIZE) {
        zero(space, program, segment, behind, zeroed)?;
    }
    let (from, to) = (page_align(behind), page_align(end));
    if from != to {
        map_zeroes(space, from, to, segment.protection & abi::PROT_EXEC != 0)?;
        zeroed.retain(|range| range.1 <= from || range.0 >= to);
    }
    Ok(start)
}

/// Maps what a segment has of the file.
fn map_file<I>(
    space: &mut AddressSpace,
    program: &Program<I>,
    segment: &Segment,
    (start, offset, len): (u64, u64, u64),
    to: To,
    whole: Option<u64>,
) -> Result<u64, Errno> {
    let file = FileArg::File(program.file.clone());
    let flags = abi::MAP_PRIVATE
        | match to {
            To::Free => abi::MAP_FIXED_NOREPLACE,
            To::Over => abi::MAP_FIXED,
            To::Anywhere => 0,
        };
    let protection = segment.protection;
    let Some(whole) = whole else {
        return mmap(space, (start, len), protection, flags, &file, offset);
    };
    // What the other segments do not take is free again.
    let whole = page_align(whole);
    let at = mmap(space, (start, whole), protection, flags, &file, offset)?;
    if whole > len {
        space.unmap(at + len, at + whole, &mut NoPages)?;
    }
    Ok(at)
}

/// Performs `mmap(2)` without an owner of the pages. It is a separate copy: the call's own code is
/// inlined into the dispatcher of all calls.
#[inline(never)]
pub(super) fn mmap(
    space: &mut AddressSpace,
    (addr, len): (u64, u64),
    protection: u64,
    flags: u64,
    file: &FileArg,
    offset: u64,
) -> Result<u64, Errno> {
    let request = MmapRequest {
        addr,
        len,
        protection,
        flags,
        file,
        offset,
        forced: None,
    };
    space.do_mmap(request, &mut NoPages)
}

/// Zeroes the last page of the file's part from `behind` on.
fn zero<I: Image>(
    space: &mut AddressSpace,
    program: &Program<I>,
    segment: &Segment,
    behind: u64,
    zeroed: &mut Vec<(u64, u64)>,
) -> Result<(), Errno> {
    let page = behind & PAGE_MASK;
    let offset = segment.offset.wrapping_add(segment.in_file) & PAGE_MASK;
    let writable = segment.protection & abi::PROT_WRITE != 0;
    // Pages that cannot be written are left as they are.
    if !writable {
        return Ok(());
    }
    if offset >= program.image.len() {
        return match space.config.kernel.has(Rule::ZeroingMustWork) {
            true => Err(Errno::EFAULT),
            false => Ok(()),
        };
    }
    zeroed.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    zeroed.push((behind, page + PAGE_SIZE));
    space.touch(page);
    Ok(())
}

/// Maps zeroed memory, over whatever is there, as `brk(2)` does: it joins what is below, never what is above.
fn map_zeroes(
    space: &mut AddressSpace,
    start: u64,
    end: u64,
    executable: bool,
) -> Result<(), Errno> {
    if start > end || end > space.config.task_size {
        return Err(Errno::ENOMEM);
    }
    if !space.is_above_minimum(start) {
        return Err(Errno::EPERM);
    }
    let mut flags = VmFlags::READ | VmFlags::WRITE | VmFlags::MAY_ALL;
    if executable || space.config.read_implies_exec {
        flags |= VmFlags::EXEC;
    }
    space.unmap(start, end, &mut NoPages)?;
    let pages = (end - start) >> 12;
    if !space.may_expand(flags, pages) || space.over_map_limit() || !space.may_commit(pages) {
        return Err(Errno::ENOMEM);
    }
    let vma = space.zeroed_memory(flags);
    let mut span = Span::new(start, end);
    let below = Neighbours {
        upper: None,
        ..space.areas.neighbours(&mut span)
    };
    let merge = Merge::new(&span, &below, &vma, space.config.kernel);
    space.insert_zeroed(&span, merge, vma)
}
