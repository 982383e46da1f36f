//! Unknown facts about files and calls: differences there are undecided.

use samara_mm::{AddressSpace, Area, Call, FileArg, FileKind, PAGE_SIZE, VmFlags};

use super::Checker;
use crate::orderings::Range;
use crate::replica::Verdict;
use crate::undecided::Unknown;

/// The name of a map of BPF in maps.
const BPF_MAP: &str = "anon_inode:bpf-map";
const EACCES: i64 = -(libc::EACCES as i64);

/// Returns the unknown fact about the files in a range. Servers of FUSE decide which areas merge,
/// and for areas from before the trace the open file is unknown.
pub(super) fn of_files(engine: &AddressSpace, range: Range) -> Option<Unknown> {
    let unknown = |area: Area<'_>| {
        let file = area.vma.file()?;
        let shared = area.vma.flags.contains(VmFlags::SHARED);
        match file.kind {
            FileKind::Fuse if !shared => Some(Unknown::Served),
            FileKind::Regular | FileKind::Unaligned | FileKind::Shmem | FileKind::Stacked
                if file.description.is_none() =>
            {
                Some(Unknown::Opened)
            }
            _ => None,
        }
    };
    areas(engine, range).find_map(unknown)
}

/// Returns the areas in a range, upwards.
pub(super) fn areas(engine: &AddressSpace, (start, end): Range) -> impl Iterator<Item = Area<'_>> {
    let mut next = start;
    std::iter::from_fn(move || {
        let area = engine.find_intersection(next, end)?;
        next = area.end;
        Some(area)
    })
}

/// Returns `true` if the file is an arena of BPF, or may be one.
fn is_arena(file: &samara_mm::File) -> bool {
    let may_be = file.kind == FileKind::WholeDevice || file.description.is_none();
    &*file.name == BPF_MAP && may_be
}

/// Returns the ranges that a call names.
fn ranges(call: &Call, returned: i64) -> Vec<Range> {
    let range = |addr: u64, len: u64| {
        let start = addr - addr % PAGE_SIZE;
        (start, addr.saturating_add(len.max(1)))
    };
    match *call {
        Call::Mremap {
            old_addr,
            old_len,
            new_len,
            new_addr,
            flags,
        } => {
            let fixed = flags & libc::MREMAP_FIXED as u64 != 0;
            let to = fixed.then(|| range(new_addr, new_len));
            std::iter::once(range(old_addr, old_len.max(new_len)))
                .chain(to)
                .collect()
        }
        Call::Mmap {
            addr, len, flags, ..
        } => {
            let fixed = flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) as u64 != 0;
            let at = if fixed { addr } else { returned as u64 };
            let failed = (-4095..0).contains(&returned);
            if failed && !fixed {
                return Vec::new();
            }
            vec![range(at, len)]
        }
        Call::Brk { addr } => vec![range(addr, 1)],
        Call::ProcessMadvise { ref ranges, .. } => {
            ranges.iter().map(|&(at, len)| range(at, len)).collect()
        }
        _ => call
            .range()
            .map(|(addr, len)| range(addr, len))
            .into_iter()
            .collect(),
    }
}

impl Checker {
    /// Notes why a wrong answer to the next call decides nothing.
    pub fn next_is_unknown(&mut self, unknown: Unknown) {
        self.next_unknown = Some(unknown);
    }

    /// Notes that something is not known of `start..end`.
    pub fn doubt_for(&mut self, start: u64, end: u64, unknown: Unknown) {
        self.doubts.note_for((start, end), unknown);
    }

    /// Returns the verdict on a call that was [performed](Self::perform). A difference decides nothing if it
    /// depends on something that is not known.
    pub fn judge(&mut self, call: &Call, returned: i64, verdict: Verdict) -> Verdict {
        let next = self.next_unknown.take();
        if verdict != Verdict::Differs {
            return verdict;
        }
        match next.or_else(|| self.unknown_of(call, returned)) {
            Some(unknown) => Verdict::Undecided(unknown),
            None => verdict,
        }
    }

    /// Returns the unknown fact on which the result of a call depends.
    fn unknown_of(&self, call: &Call, returned: i64) -> Option<Unknown> {
        if let Call::Mmap {
            file: FileArg::File(file),
            ..
        } = call
            && is_arena(file)
        {
            return Some(Unknown::Arena);
        }
        // What may be written has been settled by what the kernel did not refuse; areas count only where several are moved.
        let bears = |unknown: &Unknown| match unknown {
            Unknown::Sealed => returned == EACCES || matches!(call, Call::Mremap { .. }),
            _ => matches!(call, Call::Mremap { .. }),
        };
        ranges(call, returned).into_iter().find_map(|range| {
            let is_of_arena = |area: Area<'_>| area.vma.file().is_some_and(|file| is_arena(file));
            if areas(self.engine(), range).any(is_of_arena) {
                return Some(Unknown::Arena);
            }
            let of_files = || of_files(self.engine(), range).filter(bears);
            self.doubts.of(range).find(bears).or_else(of_files)
        })
    }
}
