//! Areas that the kernel provides: the vdso and its data, the page at address 0.

use crate::abi;
use crate::errno::Errno;
use crate::file::FileArg;
use crate::flags::{PAGE_SIZE, page_align};
use crate::heap::boxed::try_str;
use crate::kernel::Rule;
use crate::space::AddressSpace;
use crate::space::address::HugeAlignment;
use crate::space::areas::Span;
use crate::vma::vma_box::VmaBox;
use crate::vma::{Backing, SpecialObject, Vma};

use super::headers::Class;
use super::layout::Frame;
use super::random::{Base, Choice, Random, place};
use super::segments::mmap;
use super::settings::SpecialArea;

/// The span of a last-level table, in bytes.
const TABLE_SPAN: u64 = 2 << 20;

/// Maps the special areas, whatever the limits say, one behind the other, where there is room for all. Returns where `[vdso]` begins, which programs are
/// told; `None` if it is not among them. The lowest string of the new program is at `strings`.
///
/// # Errors
/// `ENOMEM`.
pub(super) fn map<R: Random + ?Sized>(
    space: &mut AddressSpace,
    areas: &[SpecialArea],
    frame: Frame,
    strings: u64,
    random: &mut R,
) -> Result<Option<u64>, Errno> {
    let pages = areas
        .iter()
        .try_fold(0u64, |sum, area| sum.checked_add(area.pages))
        .and_then(|pages| pages.checked_mul(PAGE_SIZE))
        .ok_or(Errno::ENOMEM)?;
    if pages == 0 {
        return Ok(None);
    }
    let wanted = if space.config.kernel.has(Rule::VdsoIsPlaced) || frame.class == Class::Elf32 {
        0
    } else {
        above_the_stack(frame, strings, pages, random)
    };
    let mut next = space.choose_address(wanted, pages, 0, HugeAlignment::No)?;
    let mut vdso = None;
    for area in areas.iter().filter(|area| area.pages > 0) {
        let (start, end) = (next, next + area.pages * PAGE_SIZE);
        let shift = 0u64.wrapping_sub(start >> 12);
        let object = SpecialObject::try_new(try_str(&area.name)?, area.object.clone())?;
        let vma = Vma::new(area.flags, shift, Backing::Special(object));
        let mut span = Span::new(start, end);
        space.areas.overlap(&mut span);
        space.areas.insert(&span, VmaBox::try_new(vma)?)?;
        space.areas.open_locks();
        if &*area.name == "[vdso]" {
            vdso = Some(start);
        }
        next = end;
    }
    Ok(vdso)
}

/// Returns the place at which older kernels want `len` bytes of special areas: behind the strings
/// of the stack, up to the end of the last-level table's span, or, if that has no space left, of
/// the next one. If the strings are long, the stack itself may be there. Then the areas are placed
/// like any mapping.
fn above_the_stack<R: Random + ?Sized>(
    frame: Frame,
    strings: u64,
    len: u64,
    random: &mut R,
) -> u64 {
    let lowest = page_align(strings);
    let end = lowest
        .saturating_add(len)
        .checked_next_multiple_of(TABLE_SPAN)
        .map_or(frame.task_size, |end| end.min(frame.task_size))
        .saturating_sub(len);
    if !frame.is_random || end <= lowest {
        return lowest;
    }
    let choice = Choice {
        base: Base::Vdso,
        lowest,
        step: PAGE_SIZE,
        count: (end - lowest) / PAGE_SIZE + 1,
    };
    place(random, &choice)
}

/// Maps the page at address 0, if it may be mapped and is free. What goes wrong is no error of exec.
pub(super) fn map_page_zero(space: &mut AddressSpace) {
    let flags = abi::MAP_PRIVATE | abi::MAP_FIXED | abi::MAP_ANONYMOUS;
    let protection = abi::PROT_READ | abi::PROT_EXEC;
    let made = mmap(space, (0, PAGE_SIZE), protection, flags, &FileArg::None, 0);
    if made.is_ok() && space.config.kernel.has(Rule::PageZeroIsSealed) {
        let _ = space.do_mseal(0, PAGE_SIZE, 0);
    }
}
