//! `samara/memblock.h`.
//!
//! There is one memblock, the global `memblock`, whose fields C code may read and write between calls. As in a kernel that
//! boots, calls come one at a time: nothing here is locked, and every function has that duty of its callers in common.
//!
//! The one way back into this library is a hook that is called while pages change hands. It may ask questions. So nothing holds a
//! unique reference to the global while a hook runs, and functions that only ask take a shared one.

#![allow(
    non_upper_case_globals,
    reason = "C code knows the global by this name"
)]

use core::ffi::{c_int, c_ulong};
use std::io::Write;

use samara_memblock::{Error, Identity, Memblock, Notice, Storage};

/// Defines C functions that call one method of the global, reached by `$access`: one duty, one body.
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

/// The one state. Its beginning is `struct memblock`; what follows is not C's business.
// SAFETY: the only symbol of this name in a program that links this library.
#[unsafe(no_mangle)]
pub static mut memblock: Boot = initial();

const fn initial() -> Boot {
    // SAFETY:
    // - the storage is used by nothing else: there is one memblock, and it is put in the place of the last one;
    // - callers of the C functions that add memory state that it is accessible at its own address.
    let mut boot = unsafe { Memblock::from_raw_storage(&raw mut FIRST, Identity::new()) };
    boot.set_notify(Some(log_notice));
    boot
}

/// Warnings go where a kernel's log would be.
fn log_notice(notice: &Notice) {
    if !matches!(notice, Notice::ArrayGrown { .. }) {
        log(format_args!("{notice}\n"));
    }
}

/// Writes to standard error. Where that fails nobody can be told, and `eprint!` would panic.
fn log(text: core::fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_fmt(text);
}

/// The global, to be changed.
///
/// # Safety
/// No other reference to the global is in use: functions of this module are called one at a time.
unsafe fn global_mut<'a>() -> &'a mut Boot {
    let global = &raw mut memblock;
    // SAFETY: the caller's duty.
    unsafe { &mut *global }
}

/// The global, to be asked.
///
/// # Safety
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

/// `unsigned long` is as wide as the machine's words.
fn widen(n: c_ulong) -> u64 {
    #[allow(clippy::useless_conversion, reason = "narrower on 32-bit machines")]
    u64::from(n)
}

/// The number of a page frame. One that no word can hold is the largest that does.
fn narrow(n: u64) -> c_ulong {
    #[allow(
        clippy::useless_conversion,
        clippy::unnecessary_fallible_conversions,
        reason = "narrower on 32-bit machines"
    )]
    c_ulong::try_from(n).unwrap_or(c_ulong::MAX)
}
