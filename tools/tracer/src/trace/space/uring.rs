//! Advice that is given through a ring of `io_uring` (`IORING_OP_MADVISE`): `io_uring_setup(2)`,
//! `io_uring_enter(2)`.
//!
//! The kernel copies submitted entries during `io_uring_enter`. It gives the advice between that
//! and the completion, which it writes into the ring. The tracer reads the entries before. If the
//! completion shows when the call returns, or shortly after, the engine then performs the advice.
//!
//! While the completion does not show, the advice may or may not have been given, and a different
//! map is undecided. The same holds for a ring that cannot be read: a thread of the kernel polls
//! it, or it belongs to another process. The numbers that a thread has registered for its rings
//! (`io_uring_register(2)`) are known.

use std::time::{Duration, Instant};

use samara_conformance::undecided::Unknown;
use samara_linux::Tid;
use samara_linux::memory;
use samara_mm::Call;

use super::{Space, Who};
use crate::trace::session::Session;

/// The size of `struct io_uring_params`, and the flags in it (`io_uring_setup(2)`).
const PARAMS: usize = 120;
const SETUP_IOPOLL: u32 = 1;
const SETUP_SQPOLL: u32 = 1 << 1;
const SETUP_SQE128: u32 = 1 << 10;
const SETUP_CQE32: u32 = 1 << 11;
const SETUP_DEFER_TASKRUN: u32 = 1 << 13;
const SETUP_NO_MMAP: u32 = 1 << 14;
const SETUP_REGISTERED_FD_ONLY: u32 = 1 << 15;
const SETUP_NO_SQARRAY: u32 = 1 << 16;
/// Flags beyond these may give the entries another layout.
const SETUP_KNOWN: u32 = (1 << 17) - 1;
const FEAT_SINGLE_MMAP: u32 = 1;
const ENTER_REGISTERED_RING: u32 = 1 << 4;
const OFF_SQ_RING: u64 = 0;
const OFF_CQ_RING: u64 = 0x800_0000;
const OFF_SQES: u64 = 0x1000_0000;
const OP_MADVISE: u8 = 25;
/// The most entries of a ring.
const ENTRIES: u32 = 1 << 16;

/// The time to wait for a completion that can come without the program.
const PATIENCE: Duration = Duration::from_millis(100);

/// One ring.
#[derive(Debug, Clone)]
struct Ring {
    number: u32,
    /// The descriptor with which it was made, until another ring gets that descriptor.
    descriptor: Option<i32>,
    params: [u32; PARAMS / 4],
    /// The addresses at which the program has mapped its parts. 0 is possible.
    submissions: Option<u64>,
    completions: Option<u64>,
    entries: Option<u64>,
}

/// Indices of 32-bit numbers in the parameters.
mod at {
    pub(super) const FLAGS: usize = 2;
    pub(super) const FEATURES: usize = 5;
    pub(super) const SQ_HEAD: usize = 10;
    pub(super) const SQ_TAIL: usize = 11;
    pub(super) const SQ_MASK: usize = 12;
    pub(super) const SQ_ARRAY: usize = 16;
    pub(super) const SQ_USER: usize = 18;
    pub(super) const CQ_TAIL: usize = 21;
    pub(super) const CQ_MASK: usize = 22;
    pub(super) const CQ_CQES: usize = 25;
    pub(super) const CQ_USER: usize = 28;
}

/// An advice that has been submitted.
#[derive(Debug, Clone)]
struct Advice {
    call: Call,
    /// The value by which its completion can be recognised.
    data: u64,
    ring: Ring,
    /// The tail of the completions before it was submitted.
    from: u32,
    /// The thread whose current call submits it, and its index among that call's entries.
    submits: Option<(Tid, u64)>,
}

/// Rings of one address space, and what was submitted to them.
#[derive(Debug, Default)]
pub(super) struct Rings {
    rings: Vec<Ring>,
    /// The number of rings made so far.
    made: u32,
    /// Registered rings: the thread, its number for the ring, and the ring's own number.
    registered: Vec<(Tid, u32, u32)>,
    /// The part of a ring that is being mapped: its descriptor, and the offset.
    mapping: Option<(i32, u64)>,
    /// Advice whose completion has not shown.
    pending: Vec<Advice>,
    /// There may be advice that the tracer does not see.
    blind: bool,
    /// Calls have been judged while some advice was pending.
    open: bool,
}

impl Ring {
    fn number(&self, index: usize) -> u64 {
        u64::from(self.params[index])
    }

    fn flags(&self) -> u32 {
        self.params[at::FLAGS]
    }

    fn half(tid: Tid, address: u64) -> Option<u32> {
        u32::try_from(memory::read_half(tid, address).ok()?).ok()
    }

    /// Returns `true` if all of it is mapped where it can be read.
    fn is_readable(&self) -> bool {
        self.flags() & SETUP_SQPOLL == 0
            && self.flags() & !SETUP_KNOWN == 0
            && self.submissions.is_some()
            && self.completions.is_some()
            && self.entries.is_some()
    }

    /// Returns `true` if its completions appear while the program stands still.
    fn completes_alone(&self) -> bool {
        self.flags() & (SETUP_IOPOLL | SETUP_DEFER_TASKRUN) == 0
    }

    fn completed(&self, tid: Tid) -> Option<u32> {
        Self::half(tid, self.completions? + self.number(at::CQ_TAIL))
    }

    /// Returns the advice among the next `count` entries.
    fn submitted(&self, tid: Tid, count: u32) -> Option<Vec<Advice>> {
        let (submissions, entries) = (self.submissions?, self.entries?);
        let half = |index| Self::half(tid, submissions + self.number(index));
        let (head, tail, mask) = (half(at::SQ_HEAD)?, half(at::SQ_TAIL)?, half(at::SQ_MASK)?);
        let from = self.completed(tid)?;
        let size = if self.flags() & SETUP_SQE128 == 0 {
            64
        } else {
            128
        };
        let array = submissions + self.number(at::SQ_ARRAY);
        let mut found = Vec::new();
        for number in 0..count.min(tail.wrapping_sub(head)).min(ENTRIES) {
            let place = head.wrapping_add(number) & mask;
            let index = match self.flags() & SETUP_NO_SQARRAY {
                0 => Self::half(tid, array + 4 * u64::from(place))?,
                _ => place,
            };
            let mut entry = [0; 64];
            let address = entries + u64::from(index & mask) * size;
            if memory::read(tid, address, &mut entry).ok()? < entry.len() {
                return None;
            }
            if entry[0] != OP_MADVISE {
                continue;
            }
            let word = |at: usize| entry[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
            let half = |at: usize| entry[at..at + 4].try_into().map_or(0, u32::from_ne_bytes);
            // Lengths of 64 bits lie where other operations have an offset (since Linux 6.10).
            let len = match word(8) {
                0 => u64::from(half(24)),
                len => len,
            };
            found.push(Advice {
                call: Call::Madvise {
                    addr: word(16),
                    len,
                    advice: half(28).cast_signed(),
                },
                data: word(32),
                ring: self.clone(),
                from,
                submits: Some((tid, number.into())),
            });
        }
        Some(found)
    }
}

/// A request of `io_uring_register` about rings: an array of structures that name them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registering {
    pub(crate) updates: u64,
    pub(crate) count: u32,
    /// `true` to register them, `false` to unregister them.
    pub(crate) registers: bool,
}

impl Rings {
    fn with(&self, descriptor: i32) -> Option<&Ring> {
        let mut rings = self.rings.iter();
        rings.find(|ring| ring.descriptor == Some(descriptor))
    }

    /// Returns the ring that a thread has registered under a number. For a number registered before
    /// tracing began, that is most likely the only ring.
    fn registered_as(&self, tid: Tid, number: u32) -> Option<&Ring> {
        let mut registered = self.registered.iter();
        match registered.find(|known| (known.0, known.1) == (tid, number)) {
            Some(&(.., ring)) => self.rings.iter().find(|known| known.number == ring),
            None => self.rings.first().filter(|_| self.rings.len() == 1),
        }
    }

    fn register(&mut self, tid: Tid, number: u32, ring: Option<u32>) {
        self.registered
            .retain(|known| (known.0, known.1) != (tid, number));
        self.registered.extend(ring.map(|ring| (tid, number, ring)));
    }

    /// Removes rings that have neither a descriptor nor a number any more, and so cannot be used.
    fn forget(&mut self) {
        let registered = &self.registered;
        self.rings.retain(|ring| {
            ring.descriptor.is_some() || registered.iter().any(|known| known.2 == ring.number)
        });
    }
}

impl Advice {
    fn range(&self) -> (u64, u64) {
        match self.call {
            Call::Madvise { addr, len, .. } => (addr, addr.saturating_add(len)),
            _ => (0, 0),
        }
    }

    /// Returns its place among the completions and its result, if the completion shows.
    fn result(&self, tid: Tid) -> Option<(u32, i64)> {
        let ring = &self.ring;
        let tail = ring.completed(tid)?;
        let completions = ring.completions?;
        let mask = Ring::half(tid, completions + ring.number(at::CQ_MASK))?;
        let size = if ring.flags() & SETUP_CQE32 == 0 {
            16
        } else {
            32
        };
        let first = completions + ring.number(at::CQ_CQES);
        // Places that have been reused since show nothing.
        let seen = tail.wrapping_sub(self.from).min(mask.wrapping_add(1));
        (0..seen).find_map(|back| {
            let place = tail.wrapping_sub(seen).wrapping_add(back);
            let at = first + u64::from(place & mask) * size;
            let same = memory::read_word(tid, at).ok()? == self.data;
            let result = Ring::half(tid, at + 8)?.cast_signed();
            same.then_some((place, result.into()))
        })
    }
}

impl Space {
    /// Notes the ring that a successful `io_uring_setup` has made, with these parameters.
    pub(crate) fn uring_set_up(&mut self, made: i32, params: u64, who: Who) {
        let mut bytes = [0; PARAMS];
        if !matches!(memory::read(who.tid, params, &mut bytes), Ok(PARAMS)) {
            self.urings.blind = true;
            return;
        }
        let mut numbers = [0; PARAMS / 4];
        for (number, bytes) in numbers.iter_mut().zip(bytes.chunks_exact(4)) {
            *number = bytes.try_into().map_or(0, u32::from_ne_bytes);
        }
        self.urings.made += 1;
        let mut ring = Ring {
            number: self.urings.made,
            descriptor: Some(made),
            params: numbers,
            submissions: None,
            completions: None,
            entries: None,
        };
        let word = |low: usize| ring.number(low) | ring.number(low + 1) << 32;
        if ring.flags() & SETUP_NO_MMAP != 0 {
            let (both, entries) = (Some(word(at::CQ_USER)), Some(word(at::SQ_USER)));
            (ring.submissions, ring.completions, ring.entries) = (both, both, entries);
        }
        self.urings.blind |= ring.flags() & SETUP_SQPOLL != 0;
        if ring.flags() & SETUP_REGISTERED_FD_ONLY != 0 {
            ring.descriptor = None;
            let number = Some(ring.number);
            self.urings.register(who.tid, made.cast_unsigned(), number);
        }
        for known in &mut self.urings.rings {
            // The former ring with this descriptor has been closed.
            known
                .descriptor
                .take_if(|known| ring.descriptor == Some(*known));
        }
        self.urings.rings.push(ring);
        self.urings.forget();
    }

    /// Notes that rings have been registered or unregistered. `returned` is the number of named
    /// rings for which that happened.
    pub(crate) fn urings_registered(&mut self, asked: Registering, returned: i64, who: Who) {
        let done = u64::try_from(returned).unwrap_or(0);
        for index in 0..done.min(asked.count.into()) {
            let at = asked.updates.wrapping_add(16 * index);
            let (Some(number), Ok(descriptor)) = (
                Ring::half(who.tid, at),
                memory::read_word(who.tid, at.wrapping_add(8)),
            ) else {
                return;
            };
            let ring = self.urings.with(descriptor as i32);
            let ring = ring.map(|ring| ring.number).filter(|_| asked.registers);
            self.urings.register(who.tid, number, ring);
        }
        self.urings.forget();
    }

    /// Removes the ring numbers of a thread that has left.
    pub(crate) fn forget_urings_of(&mut self, tid: Tid) {
        self.urings.registered.retain(|known| known.0 != tid);
        self.urings.forget();
    }

    /// Notes that a mapping of a descriptor at an offset begins.
    pub(crate) fn uring_mapping(&mut self, descriptor: i32, offset: u64) {
        self.urings.mapping = (!self.urings.rings.is_empty()).then_some((descriptor, offset));
    }

    /// Notes the part of a ring that a performed call has mapped.
    pub(super) fn follow_urings(&mut self, call: &Call, returned: i64) {
        let Some((descriptor, offset)) = self.urings.mapping.take() else {
            return;
        };
        let mapped = matches!(call, Call::Mmap { .. }) && !(-4095..0).contains(&returned);
        let rings = &mut self.urings.rings;
        if let Some(ring) = rings.iter_mut().find(|r| r.descriptor == Some(descriptor))
            && mapped
        {
            let address = Some(returned as u64);
            match offset {
                OFF_SQ_RING => {
                    ring.submissions = address;
                    if ring.params[at::FEATURES] & FEAT_SINGLE_MMAP != 0 {
                        ring.completions = address;
                    }
                }
                OFF_CQ_RING => ring.completions = address,
                OFF_SQES => ring.entries = address,
                _ => {}
            }
        }
    }

    /// Handles the start of `io_uring_enter`. Returns `true` if its return must be seen, because
    /// advice is submitted or pending.
    pub(crate) fn uring_enters(
        &mut self,
        (descriptor, count, flags): (i32, u32, u32),
        who: Who,
        session: &mut Session,
    ) -> bool {
        if count == 0 {
            return !self.urings.pending.is_empty();
        }
        let ring = match flags & ENTER_REGISTERED_RING {
            0 => self.urings.with(descriptor),
            _ => self
                .urings
                .registered_as(who.tid, descriptor.cast_unsigned()),
        };
        let advice = ring
            .filter(|ring| ring.is_readable())
            .and_then(|ring| ring.submitted(who.tid, count));
        let Some(advice) = advice else {
            self.urings.blind = true;
            return false;
        };
        if advice.is_empty() {
            return !self.urings.pending.is_empty();
        }
        self.catch_up(who, session);
        // Writes are noted before advice removes the pages.
        let mut runs = Vec::new();
        for (start, end) in advice.iter().map(Advice::range) {
            let _ = self.pagemap.each_written(start, end, &mut |start, end| {
                runs.push((start, end));
                true
            });
        }
        self.note_written(&runs, session);
        self.checker.settle();
        self.urings.pending.extend(advice);
        true
    }

    /// Handles the return of `io_uring_enter`. `returned` is the number of submitted entries.
    pub(crate) fn uring_entered(&mut self, returned: i64, who: Who, session: &mut Session) {
        // A call that fails has submitted nothing.
        let count = u64::try_from(returned).unwrap_or(0);
        let mut until = Instant::now();
        self.urings.pending.retain_mut(|advice| {
            let Some((_, number)) = advice.submits.take_if(|(tid, _)| *tid == who.tid) else {
                return true;
            };
            if advice.ring.completes_alone() {
                until = Instant::now() + PATIENCE;
            }
            number < count
        });
        loop {
            self.settle_advice(who, session);
            if self.urings.pending.is_empty() || Instant::now() >= until {
                return;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Performs the advice whose completion shows, in the order of completion.
    pub(super) fn settle_advice(&mut self, who: Who, session: &mut Session) {
        if self.urings.pending.is_empty() || self.holder.is_some() {
            return;
        }
        let mut done = Vec::new();
        self.urings
            .pending
            .retain(|advice| match advice.result(who.tid) {
                Some((place, result)) => {
                    done.push((place.wrapping_sub(advice.from), result, advice.call.clone()));
                    false
                }
                None => true,
            });
        done.sort_by_key(|(place, ..)| *place);
        let last = match self.urings.pending.is_empty() {
            true => done.len().saturating_sub(1),
            // The kernel's map may contain more of them.
            false => done.len(),
        };
        for (number, (_, result, call)) in done.into_iter().enumerate() {
            self.samples
                .take(self.checker.engine(), &call, &mut self.pagemap);
            self.ambiguous = false;
            // The kernel's map contains all of them, so it is compared after the last one.
            self.finish(call, who, result, number < last, session);
        }
    }

    /// Returns `true` if advice may or may not have been given. A difference is then undecided.
    pub(super) fn is_advice_open(&mut self) -> bool {
        self.urings.open |= !self.urings.pending.is_empty();
        self.urings.blind || self.urings.open
    }

    /// Notes that the maps have agreed, which decides all open advice.
    pub(super) fn advice_decided(&mut self) {
        self.urings.open = !self.urings.pending.is_empty();
    }

    /// Records, for replays, the ranges in which a difference may be due to advice.
    pub(super) fn doubt_advice(&mut self, session: &mut Session) {
        let ranges = match self.urings.blind || self.urings.pending.is_empty() {
            true => vec![(0, u64::MAX)],
            false => self.urings.pending.iter().map(Advice::range).collect(),
        };
        for (start, end) in ranges {
            if let Some(record) = &mut session.record {
                record.unknown(self.number, (start, end), Unknown::Advice);
            }
        }
    }

    /// Returns the rings of a child. It may have the same rings mapped, but their use there is not
    /// seen.
    pub(super) fn forked_urings(&mut self) -> Rings {
        Rings {
            open: self.is_advice_open(),
            ..Rings::default()
        }
    }
}
