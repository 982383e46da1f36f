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
/// Each access first checks for invalidation requests, and answers them. A hit is that check, one
/// comparison and the access itself. A miss costs as much as
/// [`Process::fault`](super::super::Process::fault), or a walk with the page's table locked.
///
/// Words may lie at any address. A misaligned word is loaded or stored byte by byte. A store across
/// two pages stores nothing if either of them cannot be written.
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

    /// Answers invalidation requests, so that waiting calls can continue. For stretches without
    /// accesses, which do the same. Takes about a nanosecond if there is no request.
    #[inline(always)]
    pub fn poll(&mut self) {
        if self.slot.handshake.asked() != self.answered {
            self.answered = self.slot.answer(self.entries);
        }
    }

    /// Loads the word at `addr`.
    ///
    /// An example is at [`SoftTlb`](super::SoftTlb).
    ///
    /// # Errors
    /// The reason why the access fails. The address of a fault is that of the first byte that
    /// cannot be read.
    #[inline(always)]
    pub fn load<T: Word>(&mut self, addr: u64) -> Result<T, Stop> {
        self.read::<Load, T>(addr)
    }

    /// Fetches instructions at `addr`: as [`load`](Self::load), from executable pages.
    ///
    /// An emulator of instructions of several lengths fetches the smallest piece first, and then
    /// the rest, because a word across two pages needs both.
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
            // SAFETY: aligned, and the guest has the page until this virtual processor answers.
            Some(at) => unsafe { word.store(at) },
            None => self.store_slowly(addr, word)?,
        }
        Ok(())
    }

    /// Returns the word of 32 bits at `addr`, for the guest's atomic instructions. The word is in
    /// the host's byte order.
    ///
    /// # Errors
    /// As [`load`](Self::load), for a store. [`Fault::ADRALN`] if the address is not a multiple of
    /// 4.
    ///
    /// ```
    /// # use samara_mm::process::{Platform, Running, Stop};
    /// use core::sync::atomic::Ordering;
    ///
    /// /// Adds to a word of the guest, and returns the old value.
    /// fn amoadd<P: Platform>(memory: &mut Running<'_, P>, addr: u64, add: u32) -> Result<u32, Stop> {
    ///     Ok(memory.atomic_u32(addr)?.fetch_add(add, Ordering::SeqCst))
    /// }
    /// ```
    #[inline]
    pub fn atomic_u32(&mut self, addr: u64) -> Result<&AtomicU32, Stop> {
        let at = self.whole(addr, 4)?;
        // SAFETY: aligned, as in `store`. This virtual processor does not answer while the word is
        // borrowed.
        Ok(unsafe { at.cast().as_ref() })
    }

    /// Returns the word of 64 bits at `addr`, as [`atomic_u32`](Self::atomic_u32).
    ///
    /// # Errors
    /// As [`atomic_u32`](Self::atomic_u32). The address must be a multiple of 8.
    #[cfg(target_has_atomic = "64")]
    #[inline]
    pub fn atomic_u64(&mut self, addr: u64) -> Result<&AtomicU64, Stop> {
        let at = self.whole(addr, 8)?;
        // SAFETY: as above.
        Ok(unsafe { at.cast().as_ref() })
    }

    /// Returns the bytes of the 4 KiB page around `addr`, for loads and stores. It serves many
    /// accesses to one page, and generated code, which returns to [`poll`](Self::poll).
    ///
    /// # Errors
    /// As [`load`](Self::load), for a store.
    pub fn page(&mut self, addr: u64) -> Result<&[AtomicU8; PAGE_BYTES], Stop> {
        let at = self.whole(addr & !(PAGE_SIZE - 1), PAGE_SIZE)?;
        // SAFETY: a whole page, as above.
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

    /// Returns the address in the host of these bytes, a power of two, for a store.
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
        // SAFETY: these bytes are in the first page, and the rest in the next. As in `store`.
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

    /// Returns the address in the host of the byte at `addr`, after misses if necessary.
    fn reach<K: Kind>(&mut self, addr: u64) -> Result<NonNull<u8>, Stop> {
        loop {
            if let Some(at) = self.entries.find::<K>(addr, 1) {
                return Ok(at);
            }
            self.miss::<K>(addr)?;
        }
    }

    /// Returns the addresses in the host of the first byte, and of the next page if the bytes reach
    /// into it. Otherwise returns the first address twice.
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
            // A miss of the second page may have removed the first.
            if let Some(first) = self.entries.find::<K>(addr, 1) {
                return Ok((first, second));
            }
        }
    }

    /// Handles a miss. Afterwards the page has an entry, unless it was taken away again.
    fn miss<K: Kind>(&mut self, addr: u64) -> Result<(), Stop> {
        // A fault may wait for a lock whose holder waits for this virtual processor.
        let outside = Outside::new(self.slot);
        let (mm, entries) = (self.mm, &mut *self.entries);
        let result = (self.operation).outside(|| mm.refill(entries, addr, K::ACCESS));
        drop(outside);
        // This removes the new entry, too, if its page was invalidated.
        self.poll();
        result
    }
}

/// A section that was left. Dropping it enters again, also when a source of pages panics. A caller
/// that catches the panic may continue with the next access, which polls.
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

/// Returns the number of the bytes that lie in the page of the first.
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
