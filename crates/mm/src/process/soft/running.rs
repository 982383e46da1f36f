//! Accesses of the guest, within a section.

use core::fmt;
use core::ptr::NonNull;
#[cfg(target_has_atomic = "64")]
use core::sync::atomic::AtomicU64;
use core::sync::atomic::{AtomicU8, AtomicU32};

use super::entries::{Entries, Fetch, Kind, Load, Store};
use super::tlb::Stop;
use super::vcpus::Slot;
use super::word::Word;
use crate::flags::PAGE_SIZE;
use crate::process::PAGE_BYTES;
use crate::process::atomic_ops::Operation;
use crate::process::bytes;
use crate::process::mm::Mm;
use crate::process::platform::Platform;
use crate::process::signal::Fault;

/// A virtual processor that executes the guest: see [`SoftTlb::run`](super::SoftTlb::run).
///
/// Each access first looks whether something is to be forgotten, and answers who waits for that. A hit is that look, one comparison and the access itself. A miss takes
/// what [`Process::fault`](super::super::Process::fault) takes, or walks the tables with the page's table locked.
///
/// Words may lie at any address. One that is not a multiple of its size is loaded or stored byte by byte, and a store across two pages stores nothing if either
/// of them cannot be written.
pub struct Running<'a, P: Platform> {
    entries: &'a mut Entries,
    slot: &'a Slot<P::Mutex>,
    /// The number of the last answer.
    answered: u32,
    mm: &'a Mm<P>,
    operation: &'a Operation,
}

impl<'a, P: Platform> Running<'a, P> {
    #[inline]
    pub(super) fn enter(
        mm: &'a Mm<P>,
        slot: &'a Slot<P::Mutex>,
        entries: &'a mut Entries,
        operation: &'a Operation,
    ) -> Self {
        slot.handshake.enter();
        Running {
            entries,
            slot,
            answered: slot.handshake.answered(),
            mm,
            operation,
        }
    }

    /// Forgets what calls have taken away, and lets them go on. For stretches without accesses, which do the same; takes about a nanosecond if there is nothing to forget.
    #[inline(always)]
    pub fn poll(&mut self) {
        if self.slot.handshake.asked() != self.answered {
            self.answered = self.slot.answer(self.entries);
        }
    }

    /// Loads the word at `addr`.
    ///
    /// # Errors
    /// Why the access does not succeed; the address of a fault is that of the first byte that cannot be read.
    ///
    /// An example is at [`SoftTlb`](super::SoftTlb).
    #[inline(always)]
    pub fn load<T: Word>(&mut self, addr: u64) -> Result<T, Stop> {
        self.read::<Load, T>(addr)
    }

    /// Fetches instructions at `addr`: as [`load`](Self::load), where the guest may execute.
    ///
    /// An emulator of instructions of several lengths fetches the smallest piece, and then the rest: a word that lies across two pages needs both.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    #[inline(always)]
    pub fn fetch<T: Word>(&mut self, addr: u64) -> Result<T, Stop> {
        self.read::<Fetch, T>(addr)
    }

    /// Stores a word at `addr`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    #[inline(always)]
    pub fn store<T: Word>(&mut self, addr: u64, word: T) -> Result<(), Stop> {
        self.poll();
        match self.entries.find::<Store>(addr, size_of::<T>() as u64) {
            // SAFETY: aligned, and the page is the guest's, until this virtual processor answers.
            Some(at) => unsafe { word.store(at) },
            None => self.store_slowly(addr, word)?,
        }
        Ok(())
    }

    /// Returns the word of 32 bits at `addr`, for the guest's atomic instructions. The word is in the host's order of bytes.
    ///
    /// # Errors
    /// As [`load`](Self::load), for a store; [`Fault::ADRALN`] if the address is not a multiple of 4.
    ///
    /// ```
    /// # use samara_mm::process::{Platform, Running, Stop};
    /// use core::sync::atomic::Ordering;
    ///
    /// /// The guest adds to a word, and gets what was there.
    /// fn amoadd<P: Platform>(memory: &mut Running<'_, P>, addr: u64, add: u32) -> Result<u32, Stop> {
    ///     Ok(memory.atomic_u32(addr)?.fetch_add(add, Ordering::SeqCst))
    /// }
    /// ```
    #[inline]
    pub fn atomic_u32(&mut self, addr: u64) -> Result<&AtomicU32, Stop> {
        let at = self.whole(addr, 4)?;
        // SAFETY: aligned; as in `store`, and this virtual processor does not answer while the word is borrowed.
        Ok(unsafe { at.cast().as_ref() })
    }

    /// The same for 64 bits.
    ///
    /// # Errors
    /// As [`atomic_u32`](Self::atomic_u32); the address must be a multiple of 8.
    #[cfg(target_has_atomic = "64")]
    #[inline]
    pub fn atomic_u64(&mut self, addr: u64) -> Result<&AtomicU64, Stop> {
        let at = self.whole(addr, 8)?;
        // SAFETY: as above.
        Ok(unsafe { at.cast().as_ref() })
    }

    /// Returns the bytes of the page of 4 KiB around `addr`, which may be loaded and stored: for many accesses to one page, and for generated code, which
    /// comes back to [`poll`](Self::poll).
    ///
    /// # Errors
    /// As [`load`](Self::load), for a store.
    pub fn page(&mut self, addr: u64) -> Result<&[AtomicU8; PAGE_BYTES], Stop> {
        let at = self.whole(addr & !(PAGE_SIZE - 1), PAGE_SIZE)?;
        // SAFETY: a page; as above.
        Ok(unsafe { at.cast().as_ref() })
    }

    #[inline(always)]
    fn read<K: Kind, T: Word>(&mut self, addr: u64) -> Result<T, Stop> {
        self.poll();
        match self.entries.find::<K>(addr, size_of::<T>() as u64) {
            // SAFETY: as in `store`.
            Some(at) => Ok(unsafe { T::load(at) }),
            None => self.read_slowly::<K, T>(addr),
        }
    }

    /// Returns where what a store of these bytes, a power of two, changes is.
    #[inline]
    fn whole(&mut self, addr: u64, size: u64) -> Result<NonNull<u8>, Stop> {
        if !addr.is_multiple_of(size) {
            return Err(Fault::ADRALN.into());
        }
        self.poll();
        match self.entries.find::<Store>(addr, size) {
            Some(at) => Ok(at),
            None => self.reach::<Store>(addr),
        }
    }

    #[cold]
    #[inline(never)]
    fn read_slowly<K: Kind, T: Word>(&mut self, addr: u64) -> Result<T, Stop> {
        let mut word = T::default().bytes();
        let len = word.as_mut().len();
        if addr.is_multiple_of(len as u64) {
            let at = self.reach::<K>(addr)?;
            // SAFETY: as in `store`.
            return Ok(unsafe { T::load(at) });
        }
        let (first, second) = self.reach_both::<K>(addr, len)?;
        let (low, high) = word.as_mut().split_at_mut(in_first(addr, len));
        // SAFETY: so many bytes in the page, and no more than all in the next; as in `store`.
        unsafe {
            bytes::load(first, low);
            bytes::load(second, high);
        }
        Ok(T::of_bytes(word))
    }

    #[cold]
    #[inline(never)]
    fn store_slowly<T: Word>(&mut self, addr: u64, word: T) -> Result<(), Stop> {
        let (bytes, len) = (word.bytes(), size_of::<T>());
        if addr.is_multiple_of(len as u64) {
            let at = self.reach::<Store>(addr)?;
            // SAFETY: as in `store`.
            unsafe { word.store(at) };
            return Ok(());
        }
        let (first, second) = self.reach_both::<Store>(addr, len)?;
        let (low, high) = bytes.as_ref().split_at(in_first(addr, len));
        // SAFETY: as in `read_slowly`.
        unsafe {
            bytes::store(first, low);
            bytes::store(second, high);
        }
        Ok(())
    }

    /// Returns where the byte at `addr` is, after as many misses as it takes.
    fn reach<K: Kind>(&mut self, addr: u64) -> Result<NonNull<u8>, Stop> {
        loop {
            if let Some(at) = self.entries.find::<K>(addr, 1) {
                return Ok(at);
            }
            self.miss::<K>(addr)?;
        }
    }

    /// Returns where the first byte is of so many, and where the next page begins, if they reach into it; else where the first byte is, twice.
    fn reach_both<K: Kind>(
        &mut self,
        addr: u64,
        len: usize,
    ) -> Result<(NonNull<u8>, NonNull<u8>), Stop> {
        if in_first(addr, len) == len {
            let at = self.reach::<K>(addr)?;
            return Ok((at, at));
        }
        let next = (addr & !(PAGE_SIZE - 1)).wrapping_add(PAGE_SIZE);
        loop {
            self.reach::<K>(addr)?;
            let second = self.reach::<K>(next)?;
            // A miss of the second may have made this virtual processor forget the first.
            if let Some(first) = self.entries.find::<K>(addr, 1) {
                return Ok((first, second));
            }
        }
    }

    /// Handles a miss. Afterwards the page is among the entries, if it has not been taken away again.
    fn miss<K: Kind>(&mut self, addr: u64) -> Result<(), Stop> {
        // A fault may wait for a lock whose holder waits for this virtual processor.
        let outside = Outside::new(self.slot);
        let (mm, entries) = (self.mm, &mut *self.entries);
        let result = (self.operation).outside(|| mm.refill(entries, addr, K::ACCESS));
        drop(outside);
        // The new entry is forgotten, too, if its page is asked for here.
        self.poll();
        result
    }
}

/// A section that was left, and is entered again, also when a source of pages panics: who catches that may go on with the next access, which polls.
struct Outside<'a, R>(&'a Slot<R>);

impl<'a, R> Outside<'a, R> {
    fn new(slot: &'a Slot<R>) -> Self {
        slot.handshake.leave();
        Outside(slot)
    }
}

impl<R> Drop for Outside<'_, R> {
    fn drop(&mut self) {
        self.0.handshake.enter();
    }
}

/// How many of so many bytes lie in the page of the first.
fn in_first(addr: u64, len: usize) -> usize {
    len.min((PAGE_SIZE - addr % PAGE_SIZE) as usize)
}

impl<P: Platform> Drop for Running<'_, P> {
    #[inline]
    fn drop(&mut self) {
        self.slot.handshake.leave();
    }
}

impl<P: Platform> fmt::Debug for Running<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}
