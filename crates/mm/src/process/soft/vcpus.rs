//! The slots of virtual processors, and invalidation.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use lock_api::{Mutex, RawMutex};
use samara_paging::{Asid, Changed, Context, Invalidate};

use super::entries::Entries;
use super::handshake::Handshake;
use crate::atomic::{AtomicU32, Ordering, fence};
use crate::errno::Errno;

/// The most ranges in a request. With more, the virtual processor removes all entries.
const RANGES: usize = 8;

/// The value of a free slot: the kernel's number, which no process has.
const FREE: Asid = 0;

/// The virtual processors of a machine, which receive its invalidations.
///
/// It is the `Tlb` of the machine's [`Platform`](super::super::Platform), as
/// [`Machine::over_with`](super::super::Machine::over_with) takes it.
/// [`SoftTlb::new`](super::SoftTlb::new) takes one of its slots.
/// [`context().cpus()`](samara_paging::Context::cpus) of the process says which are taken: one bit
/// for each slot modulo 64. An invalidation visits only those, so a process without a `SoftTlb`
/// pays only a fence.
///
/// An invalidation waits for the virtual processors within [`SoftTlb::run`](super::SoftTlb::run) of
/// that address space, until each comes to its next access or [`poll`](super::Running::poll). It
/// waits for no other. A client that wants the invalidations, too, wraps this in a type of its own,
/// which passes the calls on and implements [`TellsVcpus`].
///
/// An example is at [`SoftTlb`](super::SoftTlb).
pub struct Vcpus<R: RawMutex> {
    slots: Vec<Slot<R>>,
}

/// The slot of one virtual processor, alone in its cache lines.
#[repr(align(128))]
pub(super) struct Slot<R> {
    pub(super) handshake: Handshake,
    /// The address space that it runs, or [`FREE`]. Atomic.
    asid: AtomicU32,
    requests: Mutex<R, Requests>,
    /// Its bit in [`Context::cpus`].
    bit: u64,
}

/// The unanswered requests, protected by the slot's mutex.
struct Requests {
    ranges: [Range<u64>; RANGES],
    len: usize,
    /// `true` if there were more ranges than fit.
    all: bool,
}

impl Requests {
    const NONE: Requests = Requests {
        ranges: [const { 0..0 }; RANGES],
        len: 0,
        all: false,
    };

    fn add(&mut self, range: &Range<u64>) {
        match self.ranges.get_mut(self.len) {
            Some(place) => {
                *place = range.clone();
                self.len += 1;
            }
            None => self.all = true,
        }
    }
}

impl<R: RawMutex> Vcpus<R> {
    /// Creates slots for `count` virtual processors, of about 256 bytes each.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn new(count: usize) -> Result<Self, Errno> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
        slots.extend((0..count).map(|index| Slot {
            handshake: Handshake::new(),
            asid: AtomicU32::new(FREE),
            requests: Mutex::new(Requests::NONE),
            bit: 1 << (index % u64::BITS as usize),
        }));
        Ok(Vcpus { slots })
    }

    /// Returns the number of slots.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns `true` if there is no slot.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Takes a free slot for an address space.
    ///
    /// # Errors
    /// `EAGAIN` if none is free.
    pub(super) fn take(&self, context: &Context) -> Result<&Slot<R>, Errno> {
        let take = |slot: &&Slot<R>| {
            let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            let was = (slot.asid).compare_exchange(FREE, context.asid(), success, failure);
            was.is_ok()
        };
        let slot = self.slots.iter().find(take).ok_or(Errno::EAGAIN)?;
        slot.begin();
        context.cpus().fetch_or(slot.bit, Ordering::SeqCst);
        // Before the first look at the tables, as the fence of `invalidate` is between the change
        // of the tables and the read of `cpus`. If this fence comes first, the invalidation sees
        // the bit. Otherwise the look-ups see the change.
        fence(Ordering::SeqCst);
        Ok(slot)
    }

    /// Frees a slot.
    ///
    /// Preconditions: the virtual processor is outside of its section.
    pub(super) fn give_back(&self, slot: &Slot<R>, context: &Context) {
        // With more than 64 slots, another virtual processor may have the same bit.
        if self.slots.len() <= u64::BITS as usize {
            context.cpus().fetch_and(!slot.bit, Ordering::SeqCst);
        }
        slot.asid.store(FREE, Ordering::Release);
    }

    /// Calls `each` with the slots of an address space. `cpus` has the bits of the slots to visit.
    fn each(&self, asid: Asid, mut cpus: u64, each: impl Fn(&Slot<R>)) {
        while cpus != 0 {
            let first = cpus.trailing_zeros() as usize;
            cpus &= cpus - 1;
            let slots = self.slots.iter().skip(first).step_by(u64::BITS as usize);
            (slots.filter(|slot| slot.asid.load(Ordering::Acquire) == asid)).for_each(&each);
        }
    }
}

impl<R: RawMutex> Slot<R> {
    /// Resets the slot, with nothing to remove. Concurrent requests concern another address space.
    fn begin(&self) {
        let mut requests = self.requests.lock();
        *requests = Requests::NONE;
        self.handshake.answer(self.handshake.asked());
    }

    fn ask(&self, ranges: &[Range<u64>]) {
        let mut requests = self.requests.lock();
        ranges.iter().for_each(|range| requests.add(range));
        self.handshake.ask();
    }

    /// Removes the requested entries, answers, and returns the number of the answer.
    #[cold]
    #[inline(never)]
    pub(super) fn answer(&self, entries: &mut Entries) -> u32 {
        let (requests, number) = {
            let mut requests = self.requests.lock();
            // Not further than the list: requests are numbered with the list locked.
            let number = self.handshake.asked();
            (core::mem::replace(&mut *requests, Requests::NONE), number)
        };
        match requests.all {
            true => entries.forget_all(),
            false => requests.ranges[..requests.len]
                .iter()
                .for_each(|range| entries.forget(range)),
        }
        self.handshake.answer(number);
        number
    }
}

impl<R: RawMutex> Invalidate for Vcpus<R> {
    fn invalidate(&self, context: &Context, ranges: &[Range<u64>], _: Changed) {
        // Required by `Context::cpus`.
        fence(Ordering::SeqCst);
        let cpus = context.cpus().load(Ordering::SeqCst);
        // All are asked before the first is waited for.
        self.each(context.asid(), cpus, |slot| slot.ask(ranges));
        self.each(context.asid(), cpus, |slot| slot.handshake.wait());
    }
}

/// A machine's `Tlb` that contains a [`Vcpus`]: `Vcpus` itself, or a client's type around it.
///
/// # Safety
/// [`vcpus`](Self::vcpus) returns the same `Vcpus` each time. It lives as long as `self`, and does
/// not move before it is dropped. [`invalidate`](Invalidate::invalidate) calls that of these `Vcpus` with the
/// same arguments before it returns.
pub unsafe trait TellsVcpus<R: RawMutex>: Invalidate {
    /// Returns the virtual processors.
    fn vcpus(&self) -> &Vcpus<R>;
}

// SAFETY: it is itself.
unsafe impl<R: RawMutex> TellsVcpus<R> for Vcpus<R> {
    fn vcpus(&self) -> &Vcpus<R> {
        self
    }
}

impl<R: RawMutex> fmt::Debug for Vcpus<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vcpus")
            .field("places", &self.slots.len())
            .finish_non_exhaustive()
    }
}
