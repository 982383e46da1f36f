//! Areas that the kernel provides: the vdso and its data, the page at address 0.

use crate::abi;
use crate::errno::Errno;
use crate::file::FileArg;
use crate::flags::PAGE_SIZE;
use crate::kernel::Rule;
use crate::space::AddressSpace;
use crate::space::areas::Span;
use crate::space::place::Huge;
use crate::space::vma::{Backing, Vma};

use super::segments::mmap;
use super::settings::SpecialArea;

/// Maps the special areas, whatever the limits say, one behind the other, where there is room for all. The result is where the last one begins, which is
/// the code; `None` if there are none.
///
/// # Errors
/// `ENOMEM`.
pub(super) fn map(space: &mut AddressSpace, areas: &[SpecialArea]) -> Result<Option<u64>, Errno> {
    let pages = areas
        .iter()
        .try_fold(0u64, |sum, area| sum.checked_add(area.pages))
        .and_then(|pages| pages.checked_mul(PAGE_SIZE))
        .ok_or(Errno::ENOMEM)?;
    if pages == 0 {
        return Ok(None);
    }
    let mut next = space.place(0, pages, 0, Huge::No)?;
    let mut last = None;
    for area in areas.iter().filter(|area| area.pages > 0) {
        let (start, end) = (next, next + area.pages * PAGE_SIZE);
        let shift = 0u64.wrapping_sub(start >> 12);
        let vma = Vma::new(area.flags, shift, Backing::Special(area.name.clone()));
        let mut span = Span::new(start, end);
        space.areas.overlap(&mut span);
        space.areas.put(&span, vma)?;
        space.areas.reopen();
        last = Some(start);
        next = end;
    }
    Ok(last)
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
