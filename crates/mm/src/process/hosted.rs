//! A machine of a program: tests, emulators, benchmarks.

use core::fmt;
use core::marker::PhantomData;

use samara_paging::format::X86_64;
use samara_paging::{Arena, Bytes, Grace, HeapBytes, Physical};

use crate::errno::Errno;
use crate::process::lock::HostLock;
use crate::process::machine::Machine;
use crate::process::platform::Platform;

/// The platform of a program that has page tables as x86-64 has them, and no processor that would remember them: frames out of one piece of memory,
/// and locks that sleep ([`HostLock`]). Machines with it are made by [`Machine::over`].
///
/// Every allocation may fail: where there is no memory, calls return `ENOMEM`. Waiting for a lock takes none; [`HostLock`] says on which systems.
pub struct Hosted<S = HeapBytes>(PhantomData<fn() -> S>);

impl<S: Bytes + 'static> Platform for Hosted<S> {
    type Format = X86_64;
    type Backing = Arena<S>;
    type Reclaim = Grace;
    type Tlb = ();
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
        let frames = arena.frames();
        let physical = Physical::new(arena, Grace::new(), Arena::<S>::BASE, frames);
        Self::new(physical.map_err(|_| Errno::ENOMEM)?, ())
    }
}

impl<S> fmt::Debug for Hosted<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hosted")
    }
}
