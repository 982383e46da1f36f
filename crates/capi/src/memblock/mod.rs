//! `samara/memblock.h`.
//!
//! There is one memblock, the global `memblock`, whose fields C code may read and write between
//! calls. As in a booting kernel, calls come one at a time. Nothing here is locked, and all
//! functions have this duty of their callers in common.
//!
//! The only way back into this library is a hook that is called while pages change owners. It may
//! call queries. So no unique reference to the global exists while a hook runs, and queries take a
//! shared one.

#![allow(
    non_upper_case_globals,
    reason = "C code knows the global by this name"
)]

use core::ffi::{c_int, c_ulong};
use std::io::Write;

use samara_memblock::{Error, Identity, Memblock, Notice, Storage};

/// Defines C functions that call one method of the global, which `$access` returns. They share one
/// duty and one body.
macro_rules! forward {
    ($access:path; $($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? = |$boot:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// One call at a time; the fields of the global are as the header demands.
        // SAFETY: named as in the header, with its signature.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: one call at a time is the caller's duty.
            let $boot = unsafe { $access() };
            $body
        }
    )*};
}

mod alloc;
mod query;
mod regions;
mod release;
mod walk;

pub use alloc::*;
pub use query::*;
pub use regions::*;
pub use release::*;
pub use walk::*;

/// `phys_addr_t`.
pub type PhysAddr = u64;

type Boot = Memblock<'static, Identity>;

static mut FIRST: Storage = Storage::new();

/// The single memblock. It begins with `struct memblock`. C code does not access what follows.
// SAFETY: the only symbol of this name in a program that links this library.
#[unsafe(no_mangle)]
pub static mut memblock: Boot = initial();

const fn initial() -> Boot {
    // SAFETY:
    // - Nothing else uses the storage: there is one memblock, and a new one replaces the last one.
    // - Callers of the C functions that add memory promise that it is accessible at its own
    //   address.
    let mut boot = unsafe { Memblock::from_raw_storage(&raw mut FIRST, Identity::new()) };
    boot.set_notify(Some(log_notice));
    boot
}

/// Prints warnings, as a kernel's log would.
fn log_notice(notice: &Notice) {
    if !matches!(notice, Notice::ArrayGrown { .. }) {
        log(format_args!("{notice}\n"));
    }
}

/// Writes to standard error. Ignores failures, since they cannot be reported, and `eprint!` would
/// panic.
fn log(text: core::fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_fmt(text);
}

/// Returns a unique reference to the global.
///
/// # Safety
///
/// No other reference to the global is in use: functions of this module are called one at a time.
unsafe fn global_mut<'a>() -> &'a mut Boot {
    let global = &raw mut memblock;
    // SAFETY: the caller's duty.
    unsafe { &mut *global }
}

/// Returns a shared reference to the global.
///
/// # Safety
///
/// No unique reference to the global is in use.
unsafe fn global<'a>() -> &'a Boot {
    let global = &raw const memblock;
    // SAFETY: the caller's duty.
    unsafe { &*global }
}

fn status(result: Result<(), Error>) -> c_int {
    const ENOMEM: c_int = 12;
    match result {
        Ok(()) => 0,
        Err(_) => -ENOMEM,
    }
}

/// Widens an `unsigned long`, which is as wide as the machine's words.
fn widen(n: c_ulong) -> u64 {
    #[allow(clippy::useless_conversion, reason = "narrower on 32-bit machines")]
    u64::from(n)
}

/// Narrows the number of a page frame. A number that does not fit becomes the largest one.
fn narrow(n: u64) -> c_ulong {
    #[allow(
        clippy::useless_conversion,
        clippy::unnecessary_fallible_conversions,
        reason = "narrower on 32-bit machines"
    )]
    c_ulong::try_from(n).unwrap_or(c_ulong::MAX)
}
