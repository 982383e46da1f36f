//! Which facts about real pages a call depends on.
//!
//! An area without an anon_vma that is private, and writable or anonymous, may have been written since the last look. Before a
//! call may join, cut, move or empty such an area, the owner of the pages is asked.

use crate::abi;
use crate::call::Call;
use crate::file::FileArg;
use crate::flags::page_align;
use crate::pages::Pages;
use crate::space::AddressSpace;
use crate::space::fault::{could_share_anon_vma, reusable_anon_vma};
use crate::space::vma::AnonVma;

/// At most this many windows of addresses concern one call.
const WINDOWS: usize = 3;

/// Ranges whose areas a call may join, cut or empty; empty ones are unused.
type Windows = [(u64, u64); WINDOWS];

impl AddressSpace {
    /// The page ranges whose [`Pages::written`] [`perform`](Self::perform) may ask for `call`, given to `ask(start, end)`: each is the whole of an
    /// area that may have been written without this map's knowing. What lies in the range, its neighbours, and the unbroken rows of areas next to
    /// these that may have come to share an owner of private pages with them. Some are given twice. O(areas in these).
    pub fn facts_needed(&self, call: &Call, ask: &mut dyn FnMut(u64, u64)) {
        self.facts_needed_where(call, &mut |start, end| {
            ask(start, end);
            true
        });
    }

    /// As [`facts_needed`](Self::facts_needed), for one who has the answers at hand: `written` is what [`Pages::written`] will be. An area that was not
    /// written has no owner to share, so that a row ends with it. These are few, where rows may be as long as the map.
    pub fn facts_needed_where(&self, call: &Call, written: &mut dyn FnMut(u64, u64) -> bool) {
        for call in parts(call) {
            self.facts_needed_where(&call, written);
        }
        for window in self.windows(call, None) {
            let (mut next, high) = self.with_relatives(window, written);
            while let Some(area) = self.areas.find_in(next, high) {
                if area.vma.may_have_been_written() {
                    written(area.start, area.end);
                }
                next = area.end;
            }
        }
    }

    pub(crate) fn learn<P: Pages + ?Sized>(
        &mut self,
        call: &Call,
        forced: Option<u64>,
        pages: &mut P,
    ) {
        for call in parts(call) {
            self.learn(&call, forced, pages);
        }
        for window in self.windows(call, forced) {
            let written = &mut |start, end| pages.written(start, end);
            let (mut next, high) = self.with_relatives(window, written);
            while let Some(area) = self.areas.find_in(next, high) {
                let (start, end) = (area.start, area.end);
                if area.vma.may_have_been_written() && pages.written(start, end) {
                    self.touch_in_likely_order(start, high, pages);
                }
                next = end;
            }
        }
    }

    /// Records a write to the area at `start`, whose time is not known. Among areas that were written since the last look, the likeliest
    /// order is taken: one in which neighbours come to share an owner. (Of two they always do; of three in a row
    /// they do in four orders of six.)
    fn touch_in_likely_order<P: Pages + ?Sized>(&mut self, start: u64, high: u64, pages: &mut P) {
        if let Some(owner) = self.anon_vma_from_above(start, high, pages) {
            self.areas.set_anon_vma(start, Some(owner));
        } else {
            self.touch(start);
        }
    }

    /// The owner that comes down to the area at `start` through areas that were written after one that has it; none if a neighbour
    /// has one to lend at once.
    fn anon_vma_from_above<P: Pages + ?Sized>(
        &self,
        start: u64,
        high: u64,
        pages: &mut P,
    ) -> Option<AnonVma> {
        let area = self.areas.at(start)?;
        let below = self.areas.before(start);
        if below.is_some_and(|below| {
            below.end == start
                && could_share_anon_vma(below.vma, area.vma)
                && reusable_anon_vma(below.vma).is_some()
        }) {
            return None;
        }
        let mut lower = area;
        loop {
            let upper = self.areas.at(lower.end).filter(|_| lower.end < high)?;
            if !could_share_anon_vma(lower.vma, upper.vma) {
                return None;
            }
            if upper.vma.anon().is_some() {
                return reusable_anon_vma(upper.vma);
            }
            if !upper.vma.may_have_been_written() || !pages.written(upper.start, upper.end) {
                return None;
            }
            lower = upper;
        }
    }

    /// The window, and beyond it the unbroken rows of areas that may share an owner with those at its ends: one that was not written has none to
    /// share, and the row ends with it.
    fn with_relatives(
        &self,
        (low, high): (u64, u64),
        written: &mut dyn FnMut(u64, u64) -> bool,
    ) -> (u64, u64) {
        let Some(mut first) = self.areas.find_in(low, high) else {
            return (low, high);
        };
        let mut start = low;
        while first.vma.may_have_been_written()
            && let Some(below) = self.areas.before(first.start)
            && below.end == first.start
            && could_share_anon_vma(below.vma, first.vma)
            && written(first.start, first.end)
        {
            start = below.start;
            first = below;
        }
        let mut end = high;
        if let Some(mut last) = self.areas.before(high) {
            while last.vma.may_have_been_written()
                && let Some(above) = self.areas.at(last.end)
                && could_share_anon_vma(last.vma, above.vma)
                && written(last.start, last.end)
            {
                end = above.end;
                last = above;
            }
        }
        (start, end)
    }

    fn windows(&self, call: &Call, forced: Option<u64>) -> Windows {
        let none = (0, 0);
        // The range itself and both neighbours.
        let around = |addr: u64, len: u64| {
            let addr = addr & !0xfff;
            (
                addr.saturating_sub(1),
                addr.saturating_add(page_align(len)).saturating_add(1),
            )
        };
        match call {
            Call::Mmap {
                addr,
                len,
                flags,
                file,
                offset,
                ..
            } => {
                let len = page_align(*len);
                let fixed = flags & (abi::MAP_FIXED | abi::MAP_FIXED_NOREPLACE) != 0;
                let file = if flags & abi::MAP_ANONYMOUS != 0 {
                    &FileArg::None
                } else {
                    file
                };
                let start = match forced {
                    Some(start) if !fixed => start,
                    _ if len == 0 => return [none; WINDOWS],
                    _ => match self.mmap_address(*addr, len, *flags, file, *offset) {
                        Ok(start) => start,
                        Err(_) => return [none; WINDOWS],
                    },
                };
                [around(start, len), none, none]
            }
            // What is removed counts too: a neighbour that was written may have taken its owner over from it.
            Call::Munmap { addr, len } => [around(*addr, *len), none, none],
            // These change no area.
            Call::Msync { .. } | Call::Mincore { .. } => [none; WINDOWS],
            // What is given back may be several areas.
            Call::Brk { addr } if *addr >= self.layout.start_brk => {
                let (low, high) = (self.layout.brk.min(*addr), self.layout.brk.max(*addr));
                [around(low, (high - low).saturating_add(4096)), none, none]
            }
            // With an address it may replace what is there (`SHM_REMAP`).
            Call::Shmat {
                segment: Some(segment),
                addr,
                ..
            } if *addr != 0 => [around(*addr, segment.size), none, none],
            Call::Mremap {
                old_addr,
                old_len,
                new_len,
                flags,
                new_addr,
            } => {
                let to = match forced {
                    Some(to) => Some(to),
                    None => self.mremap_target(*old_addr, *old_len, *new_len, *flags, *new_addr),
                };
                // Without unmapping, the whole area is unlocked, and may share with its neighbours again.
                let unlocked = (flags & abi::MREMAP_DONTUNMAP != 0)
                    .then(|| self.areas.at(*old_addr))
                    .flatten()
                    .map_or(none, |area| around(area.start, area.end - area.start));
                [
                    around(*old_addr, (*old_len).max(*new_len)),
                    to.map_or(none, |to| around(to, *new_len)),
                    unlocked,
                ]
            }
            Call::Mlockall { .. } | Call::Munlockall | Call::UffdClose { .. } => {
                [(0, u64::MAX), none, none]
            }
            Call::Mprotect { addr, len, .. }
            | Call::Madvise { addr, len, .. }
            | Call::Mlock { addr, len, .. }
            | Call::Munlock { addr, len }
            | Call::Mseal { addr, len, .. }
            | Call::RemapFilePages { addr, len, .. }
            | Call::SetVmaName { addr, len, .. }
            | Call::Mbind { addr, len, .. }
            | Call::SetMempolicyHomeNode { addr, len, .. }
            | Call::UffdRegister { addr, len, .. }
            | Call::UffdUnregister { addr, len, .. } => {
                [around(*addr, len.saturating_add(addr & 0xfff)), none, none]
            }
            // `parts` has the ranges of the first. The others merge and split nothing, or only VMAs that cannot have been written.
            Call::ProcessMadvise { .. }
            | Call::Brk { .. }
            | Call::Shmat { .. }
            | Call::Shmdt { .. }
            | Call::PkeyAlloc { .. }
            | Call::PkeyFree { .. }
            | Call::SetMdwe { .. }
            | Call::SetMemoryMerge { .. }
            | Call::SetMm { .. } => [none; WINDOWS],
        }
    }
}

/// The calls that one call for several ranges stands for.
fn parts(call: &Call) -> impl Iterator<Item = Call> + '_ {
    let (ranges, advice) = match call {
        Call::ProcessMadvise { ranges, advice, .. } => (&**ranges, *advice),
        _ => (&[][..], 0),
    };
    ranges
        .iter()
        .map(move |&(addr, len)| Call::Madvise { addr, len, advice })
}
