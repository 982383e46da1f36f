//! The history of one address space in a record, as steps that can be performed elsewhere.
//!
//! Elsewhere everything lies at other addresses. So an address is expressed relative to an earlier
//! step's result, or to the heap. Steps of their own map the areas that existed when the record
//! began.

use std::collections::BTreeMap;

use samara_conformance::seed::Seed;
use samara_mm::{Call, Config, FileArg, VmFlags, abi};

use crate::record::{Reason, Record};

use super::both::Files;

/// The object that an address is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In no known object: the address is used unchanged.
    Absolute,
    /// An offset from the result of a step.
    Behind { step: usize, offset: i64 },
    /// An offset from the start of the heap.
    Heap(i64),
}

#[derive(Debug, Clone)]
pub(super) enum Action {
    Call(Call),
    /// Writes to the page at this address.
    Touch(u64),
    /// Forks. The history continues in the child.
    ForkInto,
    /// Forks. The history continues in the parent, and the child stays.
    ForkAside,
}

#[derive(Debug, Clone)]
pub(super) struct Step {
    /// The number by which other steps refer to this one.
    pub(super) id: usize,
    pub(super) action: Action,
    /// The places of its addresses, in the order of [`addresses`].
    pub(super) places: [Place; 2],
}

/// Returns the addresses among a call's arguments that name a place. Leaves out the address 0 of
/// `mmap`, and the new address of `mremap` where the call ignores it.
pub(super) fn addresses(action: &mut Action) -> [Option<&mut u64>; 2] {
    /// With these flags `mremap` uses the new address.
    const NAMES_PLACE: u64 = abi::MREMAP_FIXED | abi::MREMAP_DONTUNMAP;
    let call = match action {
        Action::Call(call) => call,
        Action::Touch(addr) => return [Some(addr), None],
        Action::ForkInto | Action::ForkAside => return [None, None],
    };
    match call {
        Call::Mmap { addr, .. } | Call::Shmat { addr, .. } => {
            [Some(addr).filter(|addr| **addr != 0), None]
        }
        Call::Mremap {
            old_addr,
            new_addr,
            flags,
            ..
        } => [
            Some(old_addr),
            Some(new_addr).filter(|addr| *flags & NAMES_PLACE != 0 && **addr != 0),
        ],
        Call::Brk { addr } => [Some(addr).filter(|addr| **addr != 0), None],
        Call::Munmap { addr, .. }
        | Call::Mprotect { addr, .. }
        | Call::Madvise { addr, .. }
        | Call::Mlock { addr, .. }
        | Call::Munlock { addr, .. }
        | Call::Msync { addr, .. }
        | Call::Mincore { addr, .. }
        | Call::Mseal { addr, .. }
        | Call::RemapFilePages { addr, .. }
        | Call::Shmdt { addr }
        | Call::SetVmaName { addr, .. }
        | Call::Mbind { addr, .. }
        | Call::SetMempolicyHomeNode { addr, .. } => [Some(addr), None],
        _ => [None, None],
    }
}

/// Returns the range that a step has mapped, if it has mapped any.
pub(super) fn mapped(action: &Action, result: i64) -> Option<(u64, u64)> {
    if (-4095..0).contains(&result) {
        return None;
    }
    let start = result as u64;
    let len = match action {
        Action::Call(Call::Mmap { len, .. } | Call::Mremap { new_len: len, .. }) => *len,
        Action::Call(Call::Shmat {
            segment: Some(segment),
            ..
        }) => segment.size,
        _ => return None,
    };
    Some((
        start,
        start.saturating_add(len.saturating_add(0xfff) & !0xfff),
    ))
}

pub(super) struct History {
    pub(super) steps: Vec<Step>,
    pub(super) config: Config,
}

/// The known ranges of the recorded address space. By start: the end, the step that mapped the
/// range, and that step's result. The heap belongs to no step.
#[derive(Default)]
struct Known(BTreeMap<u64, (u64, Option<usize>, u64)>);

/// The largest distance from a known range at which an address is still expressed relative to it.
const NEAR: u64 = 1 << 30;

impl Known {
    fn put(&mut self, (start, end): (u64, u64), step: Option<usize>, base: u64) {
        let overlapped: Vec<u64> = self
            .0
            .range(..end)
            .rev()
            .take_while(|(_, (until, ..))| *until > start)
            .map(|(from, _)| *from)
            .collect();
        for from in overlapped {
            if let Some((until, step, base)) = self.0.remove(&from) {
                if from < start {
                    self.0.insert(from, (start, step, base));
                }
                if until > end {
                    self.0.insert(end, (until, step, base));
                }
            }
        }
        self.0.insert(start, (end, step, base));
    }

    fn locate(&self, addr: u64) -> Place {
        let below = self.0.range(..=addr).next_back();
        let above = self.0.range(addr..).next();
        let told = |(step, base): (Option<usize>, u64)| {
            let offset = addr.wrapping_sub(base) as i64;
            match step {
                Some(step) => Place::Behind { step, offset },
                None => Place::Heap(offset),
            }
        };
        match (below, above) {
            (Some((_, &(end, step, base))), _) if end >= addr => told((step, base)),
            (_, Some((&start, &(_, step, base)))) if start - addr < NEAR => told((step, base)),
            (Some((_, &(end, step, base))), _) if addr - end < NEAR => told((step, base)),
            _ => Place::Absolute,
        }
    }
}

impl History {
    /// Returns the steps of `space` up to the record at `index`, from the start of its program.
    /// `None` if the record does not contain that start.
    pub(super) fn of(
        records: &[Record],
        index: usize,
        space: u32,
        files: &mut Files,
    ) -> Option<Self> {
        let mut current = space;
        let mut path: Vec<(usize, bool)> = Vec::new();
        let mut start: Option<&Seed> = None;
        for (at, record) in records.iter().enumerate().take(index + 1).rev() {
            match record {
                Record::Call { space, .. } if *space == current => path.push((at, false)),
                Record::Written { space, .. } if *space == current => path.push((at, false)),
                Record::Fork { child, parent } if *child == current => {
                    path.push((at, true));
                    current = *parent;
                }
                Record::Fork { parent, .. } if *parent == current => path.push((at, false)),
                Record::Seed {
                    space,
                    reason: Reason::Exec | Reason::Adopted,
                    seed,
                } if *space == current => {
                    start = Some(seed);
                    break;
                }
                _ => {}
            }
        }
        let seed = start?;
        let mut making = Making {
            steps: Vec::new(),
            known: Known::default(),
            files,
        };
        making.start(seed);
        for (at, into) in path.into_iter().rev() {
            making.record(&records[at], into);
        }
        Some(Self {
            steps: making.steps,
            config: seed.config.clone(),
        })
    }
}

struct Making<'f> {
    steps: Vec<Step>,
    known: Known,
    files: &'f mut Files,
}

impl Making<'_> {
    fn push(&mut self, mut action: Action) -> usize {
        let known = &self.known;
        let places =
            addresses(&mut action).map(|addr| addr.map_or(Place::Absolute, |a| known.locate(*a)));
        if let Action::Call(Call::Mmap {
            file: FileArg::File(file),
            ..
        }) = &mut action
            && let Some(own) = self.files.like(file)
        {
            *file = own;
        }
        let id = self.steps.len();
        self.steps.push(Step { id, action, places });
        id
    }

    /// Maps the areas that the address space had at its start, without those that the kernel
    /// installed.
    fn start(&mut self, seed: &Seed) {
        const FIXED_PRIVATE: u64 = 0x12;
        let layout = seed.layout;
        let heap = (layout.start_brk, layout.brk.next_multiple_of(4096));
        self.known
            .put((heap.0, heap.1.max(heap.0 + 1)), None, layout.start_brk);
        if layout.brk > layout.start_brk {
            self.push(Action::Call(Call::Brk { addr: layout.brk }));
        }
        let areas: Vec<_> = seed
            .areas
            .iter()
            .filter(|area| area.name.is_none() && !(heap.0..heap.1).contains(&area.start))
            .collect();
        for run in areas.chunk_by(|a, b| a.end == b.start) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else {
                continue;
            };
            let room = Action::Call(Call::Mmap {
                addr: 0,
                len: last.end - first.start,
                prot: 0,
                flags: 0x4022,
                file: FileArg::None,
                offset: 0,
            });
            let id = self.push(room);
            self.known
                .put((first.start, last.end), Some(id), first.start);
            for area in run {
                let shared = u64::from(area.shared);
                let grows = area
                    .flags
                    .is_some_and(|flags| flags.contains(VmFlags::GROWSDOWN));
                self.push(Action::Call(Call::Mmap {
                    addr: area.start,
                    len: area.end - area.start,
                    prot: area.prot,
                    flags: FIXED_PRIVATE - shared
                        + if area.file.is_none() { 0x20 } else { 0 }
                        + if grows { 0x100 } else { 0 },
                    file: match &area.file {
                        Some(file) => FileArg::File(file.clone()),
                        None => FileArg::None,
                    },
                    offset: if area.file.is_some() { area.offset } else { 0 },
                }));
                if area.touched {
                    self.push(Action::Touch(area.start));
                }
            }
        }
    }

    fn record(&mut self, record: &Record, into: bool) {
        match record {
            Record::Written { start, .. } => {
                self.push(Action::Touch(*start));
            }
            Record::Fork { .. } if into => {
                self.push(Action::ForkInto);
            }
            Record::Fork { .. } => {
                self.push(Action::ForkAside);
            }
            Record::Call {
                call,
                before,
                returned,
                ..
            } => {
                for (start, _) in before {
                    self.push(Action::Touch(*start));
                }
                // These attach segments that this machine does not have.
                if matches!(call, Call::Shmat { .. } | Call::Shmdt { .. }) {
                    return;
                }
                let id = self.push(Action::Call(call.clone()));
                if let Some(range) = mapped(&Action::Call(call.clone()), *returned) {
                    self.known.put(range, Some(id), range.0);
                }
            }
            _ => {}
        }
    }
}
