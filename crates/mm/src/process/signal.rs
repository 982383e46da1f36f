//! Kinds of accesses, and the signals of faults.

use bitflags::bitflags;
use core::fmt;

bitflags! {
    /// The kinds of an access.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Access: u32 {
        /// A load.
        const READ = 1;
        /// A store.
        const WRITE = 2;
        /// An instruction fetch.
        const EXEC = 4;
    }
}

/// A signal that Linux sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `SIGBUS`.
    Bus,
    /// `SIGSEGV`.
    Segv,
}

impl Signal {
    /// Returns its number on Linux: 7 or 11.
    pub const fn number(self) -> i32 {
        match self {
            Signal::Bus => 7,
            Signal::Segv => 11,
        }
    }
}

/// The reason why an access fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The program gets a signal with this `si_code` (`sigaction(2)`).
    Signal {
        /// The signal.
        signal: Signal,
        /// `SEGV_MAPERR` 1, `SEGV_ACCERR` 2, `SEGV_PKUERR` 4; `BUS_ADRALN` 1, `BUS_ADRERR` 2.
        code: i32,
    },
    /// Lack of memory.
    NoMemory,
    /// The thread is within an [atomic operation](crate::process::Process::atomic_u32) on this
    /// process, or a [run](crate::process::SoftTlb::run) of it, and would wait for itself.
    Deadlock,
}

impl Fault {
    /// Nothing is mapped there (`SEGV_MAPERR`), or there is a guard marker.
    pub const MAPERR: Fault = segv(1);
    /// The VMA forbids the access (`SEGV_ACCERR`).
    pub const ACCERR: Fault = segv(2);
    /// The VMA's protection key forbids it (`SEGV_PKUERR`).
    pub const PKUERR: Fault = segv(4);
    /// The object has no page there, or it cannot be read (`BUS_ADRERR`).
    pub const ADRERR: Fault = bus(2);
    /// The address is not aligned to the access (`BUS_ADRALN`).
    pub const ADRALN: Fault = bus(1);
}

const fn bus(code: i32) -> Fault {
    Fault::Signal {
        signal: Signal::Bus,
        code,
    }
}

const fn segv(code: i32) -> Fault {
    Fault::Signal {
        signal: Signal::Segv,
        code,
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NoMemory => f.write_str("no memory"),
            Fault::Deadlock => f.write_str("within an atomic operation on the same process"),
            Fault::Signal { signal, code } => {
                let name = match signal {
                    Signal::Bus => "SIGBUS",
                    Signal::Segv => "SIGSEGV",
                };
                write!(f, "{name} with code {code}")
            }
        }
    }
}

impl core::error::Error for Fault {}

impl From<samara_paging::Error> for Fault {
    /// Tables refuse a change for good only for lack of memory.
    fn from(_: samara_paging::Error) -> Self {
        Fault::NoMemory
    }
}
