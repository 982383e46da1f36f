//! A machine within a program: for tests, emulators and benchmarks.

use core::fmt;
use core::marker::PhantomData;

use samara_paging::format::X86_64;
use samara_paging::{Arena, Bytes, Grace, HeapBytes, Invalidate, Physical};

use crate::errno::Errno;
use crate::process::lock::HostLock;
use crate::process::machine::Machine;
use crate::process::platform::Platform;

/// The platform of a program: page tables of x86-64, frames from one piece of memory (`S`), and
/// locks that sleep ([`HostLock`]).
///
/// `T` receives invalidations. With `()`, nothing caches translations. [`Machine::over`] creates
/// such machines, and [`Machine::over_with`] all others.
///
/// Every allocation may fail, and then calls return `ENOMEM`. Waiting for a lock takes no memory on
/// the systems that [`HostLock`] lists.
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
    /// Creates a machine whose memory is this arena.
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
    /// Creates a machine whose memory is this arena, and which sends invalidations to `tlb`.
    /// [`tlb`](Self::tlb) returns it.
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
