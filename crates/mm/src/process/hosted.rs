//! A machine of a program: tests, emulators, benchmarks.

use core::fmt;
use core::marker::PhantomData;

use samara_paging::format::X86_64;
use samara_paging::{Arena, Bytes, Grace, HeapBytes, Invalidate, Physical};

use crate::errno::Errno;
use crate::process::lock::HostLock;
use crate::process::machine::Machine;
use crate::process::platform::Platform;

/// The platform of a program that has page tables as x86-64 has them: frames out of one piece of memory (`S`), and locks that sleep ([`HostLock`]).
///
/// `T` is told what to forget. With `()`, nothing remembers translations; such machines are made by [`Machine::over`], all others by [`Machine::over_with`].
///
/// Every allocation may fail: where there is no memory, calls return `ENOMEM`. Waiting for a lock takes none; [`HostLock`] says on which systems.
pub struct Hosted<S = HeapBytes, T = ()>(PhantomData<fn() -> (S, T)>);

impl<S: Bytes + 'static, T: Invalidate + Send + Sync + 'static> Platform for Hosted<S, T> {
    type Format = X86_64;
    type Backing = Arena<S>;
    type Reclaim = Grace;
    type Tlb = T;
    type Mutex = HostLock;
    type RwLock = HostLock;
}

impl<S: Bytes + 'static> Machine<Hosted<S>> {
    /// A machine whose memory is this arena.
    ///
    /// # Errors
    /// `ENOMEM`.
    ///
    /// ```
    /// use samara_mm::process::Machine;
    /// use samara_paging::Arena;
    ///
    /// let machine = Machine::over(Arena::on_heap(64)?).map_err(|e| e.to_string())?;
    /// assert_eq!(machine.stats().anon, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn over(arena: Arena<S>) -> Result<Self, Errno> {
        Self::over_with(arena, ())
    }
}

impl<S: Bytes + 'static, T: Invalidate + Send + Sync + 'static> Machine<Hosted<S, T>> {
    /// Makes a machine whose memory is this arena, and which tells `tlb` what to forget: [`tlb`](Self::tlb) gives it back.
    ///
    /// # Errors
    /// `ENOMEM`.
    ///
    /// ```
    /// use core::ops::Range;
    /// use core::sync::atomic::{AtomicU64, Ordering};
    /// use samara_mm::process::{Hosted, Machine, Process};
    /// use samara_mm::{Config, Layout, Limits, MmapOptions, Prot};
    /// use samara_paging::{Arena, Changed, Context, HeapBytes, Invalidate};
    ///
    /// /// Counts invalidations: a cache of translations is stale when the number has changed.
    /// #[derive(Default)]
    /// struct Generation(AtomicU64);
    ///
    /// impl Invalidate for Generation {
    ///     fn invalidate(&self, _: &Context, _: &[Range<u64>], _: Changed) {
    ///         self.0.fetch_add(1, Ordering::SeqCst);
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// type Tracked = Hosted<HeapBytes, Generation>;
    /// let machine = Machine::<Tracked>::over_with(Arena::on_heap(64)?, Generation::default())?;
    /// let process = Process::new(&machine, Config::default(), Limits::default(), Layout::default())?;
    /// let addr = process.mmap(&MmapOptions::anonymous(0x1000).prot(Prot::READ | Prot::WRITE))?;
    /// assert_eq!(process.copy_in(addr, b"a page"), 6);
    /// let before = machine.tlb().0.load(Ordering::SeqCst);
    /// process.munmap(addr, 0x1000)?;
    /// assert_eq!(machine.tlb().0.load(Ordering::SeqCst), before + 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn over_with(arena: Arena<S>, tlb: T) -> Result<Self, Errno> {
        let frames = arena.frames();
        let physical = Physical::new(arena, Grace::new(), Arena::<S>::BASE, frames);
        Self::new(physical.map_err(|_| Errno::ENOMEM)?, tlb)
    }
}

impl<S, T> fmt::Debug for Hosted<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hosted")
    }
}
