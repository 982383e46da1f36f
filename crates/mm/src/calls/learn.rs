//! Facts about real pages that a call depends on: what the owner of the pages is asked before a call.
//!
//! A private VMA that is writable or anonymous and has no anon_vma may have been written since the owner was last asked. The owner is asked
//! before a call merges, splits, moves or empties such a VMA.

use crate::abi;
use crate::call::Call;
use crate::calls::mmap::MmapRequest;
use crate::file::FileArg;
use crate::flags::page_align;
use crate::pages::Pages;
use crate::space::AddressSpace;
use crate::space::fault::{could_share_anon_vma, reusable_anon_vma};
use crate::vma::AnonVma;

/// The most windows of addresses that concern one call.
const WINDOWS: usize = 3;

/// Ranges whose VMAs a call may merge, split or empty. Unused ones are empty.
type Windows = [(u64, u64); WINDOWS];

impl AddressSpace {
    /// Calls `ask(start, end)` for each page range whose [`Pages::written`] [`perform`](Self::perform) may ask about for `call`.
    ///
    /// Each is the whole of a VMA that may have been written without a report to this map. These are the VMAs in the range, its neighbours,
    /// and the unbroken rows of VMAs next to those that may share an anon_vma with them. Some are given twice. O(VMAs in these).
    pub fn facts_needed(&self, call: &Call, ask: &mut dyn FnMut(u64, u64)) {
        self.facts_needed_where(call, &mut |start, end| {
            ask(start, end);
            true
        });
    }

    /// As [`facts_needed`](Self::facts_needed), for a caller that knows the answers: `written` returns what [`Pages::written`] will return.
    ///
    /// A VMA that was not written has no anon_vma to share, so a row ends with it. Rows of written VMAs are short, where other rows may be as long as the map.
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

    /// Asks the owner of the pages about the VMAs that `call` depends on, and records the writes that it reports.
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

    /// Records a write to the VMA at `start` whose time is not known.
    ///
    /// Of the orders in which VMAs may have been written since the owner was last asked, this takes the likeliest: one in which neighbours come to share an
    /// anon_vma. Two neighbours share it in any order, three in a row in four orders of six.
    fn touch_in_likely_order<P: Pages + ?Sized>(&mut self, start: u64, high: u64, pages: &mut P) {
        if let Some(owner) = self.anon_vma_from_above(start, high, pages) {
            self.areas.set_anon_vma(start, Some(owner));
        } else {
            self.touch(start);
        }
    }

    /// Returns the anon_vma that the VMA at `start` takes over from the next one above that has one, through VMAs that were written in between. Returns
    /// `None` if the lower neighbour has one to share at once.
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

    /// Returns the window extended by the unbroken rows of VMAs that may share an anon_vma with those at its ends. A VMA that was not written has none
    /// to share, and the row ends with it.
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

    /// Returns the windows of addresses whose VMAs a call may merge, split, move or empty.
    fn windows(&self, call: &Call, forced: Option<u64>) -> Windows {
        match call {
            Call::Mmap {
                addr,
                len,
                prot,
                flags,
                file,
                offset,
            } => {
                let anonymous = flags & abi::MAP_ANONYMOUS != 0;
                let request = MmapRequest {
                    addr: *addr,
                    len: page_align(*len),
                    protection: *prot,
                    flags: *flags,
                    file: if anonymous { &FileArg::None } else { file },
                    offset: *offset,
                    forced,
                };
                one(self.mmap_window(&request))
            }
            // What is removed counts too: a neighbour that was written may have taken its anon_vma over from it.
            Call::Munmap { addr, len } => one(around(*addr, *len)),
            // What is given back may be several VMAs.
            Call::Brk { addr } if *addr >= self.layout.start_brk => {
                let (low, high) = (self.layout.brk.min(*addr), self.layout.brk.max(*addr));
                one(around(low, (high - low).saturating_add(4096)))
            }
            // With an address it may replace what is there (`SHM_REMAP`).
            Call::Shmat {
                segment: Some(segment),
                addr,
                ..
            } if *addr != 0 => one(around(*addr, segment.size)),
            Call::Mremap {
                old_addr,
                old_len,
                new_len,
                flags,
                new_addr,
            } => {
                let target =
                    || self.mremap_target(*old_addr, *old_len, *new_len, *flags, *new_addr);
                let to = forced.or_else(target);
                // With `MREMAP_DONTUNMAP` the whole VMA is unlocked, and may share an anon_vma with its neighbours again.
                let unlocked = (flags & abi::MREMAP_DONTUNMAP != 0)
                    .then(|| self.areas.at(*old_addr))
                    .flatten()
                    .map_or(NONE, |area| around(area.start, area.end - area.start));
                [
                    around(*old_addr, (*old_len).max(*new_len)),
                    to.map_or(NONE, |to| around(to, *new_len)),
                    unlocked,
                ]
            }
            Call::Mlockall { .. } | Call::Munlockall | Call::UffdClose { .. } => one((0, u64::MAX)),
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
                one(around(*addr, len.saturating_add(addr & 0xfff)))
            }
            // `parts` has the ranges of the first. The others merge and split nothing, or only VMAs that are not private.
            Call::ProcessMadvise { .. }
            | Call::Brk { .. }
            | Call::Shmat { .. }
            | Call::Shmdt { .. }
            | Call::Msync { .. }
            | Call::Mincore { .. }
            | Call::PkeyAlloc { .. }
            | Call::PkeyFree { .. }
            | Call::SetMdwe { .. }
            | Call::SetMemoryMerge { .. }
            | Call::SetMm { .. } => [NONE; WINDOWS],
        }
    }

    /// Returns the window of an `mmap`: where the mapping goes, or none if it fails.
    fn mmap_window(&self, request: &MmapRequest<'_>) -> (u64, u64) {
        let start = match request.forced {
            Some(start) if !request.is_fixed() => Some(start),
            _ if request.len == 0 => None,
            _ => self.mmap_address(request).ok(),
        };
        start.map_or(NONE, |start| around(start, request.len))
    }
}

/// No window.
const NONE: (u64, u64) = (0, 0);

/// Returns one window.
fn one(window: (u64, u64)) -> Windows {
    [window, NONE, NONE]
}

/// Returns the window of the pages in `len` bytes from `addr`, and of both neighbours.
fn around(addr: u64, len: u64) -> (u64, u64) {
    let addr = addr & !0xfff;
    (
        addr.saturating_sub(1),
        addr.saturating_add(page_align(len)).saturating_add(1),
    )
}

/// Returns the calls that one call for several ranges stands for.
fn parts(call: &Call) -> impl Iterator<Item = Call> + '_ {
    let (ranges, advice) = match call {
        Call::ProcessMadvise { ranges, advice, .. } => (&**ranges, *advice),
        _ => (&[][..], 0),
    };
    ranges
        .iter()
        .map(move |&(addr, len)| Call::Madvise { addr, len, advice })
}
