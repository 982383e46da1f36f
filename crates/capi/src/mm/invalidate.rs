//! `mm_phys_on_invalidate`, `mm_asid`, `mm_generation`: for callers that keep translations.

use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::sync::atomic::Ordering;
use std::sync::OnceLock;

use samara_mm::Errno;
use samara_paging::{Changed, Context, Invalidate};

use crate::mm::code;
use crate::mm::lifecycle::Mm;
use crate::mm::phys::MmPhys;

/// The caller's function. Its arguments are its context, the number of the address space, and the
/// range.
pub type MmInvalidate = unsafe extern "C" fn(*mut c_void, u32, u64, u64);

/// A machine's TLB. It counts invalidations, and calls the caller's function, if there is one.
#[derive(Debug, Default)]
pub(crate) struct TlbHook(OnceLock<Hook>);

#[derive(Debug)]
struct Hook {
    call: MmInvalidate,
    ctx: *mut c_void,
}

// SAFETY: the header says that any thread may call it. The context is only passed on.
unsafe impl Send for Hook {}
// SAFETY: as above.
unsafe impl Sync for Hook {}

impl Invalidate for TlbHook {
    fn invalidate(&self, context: &Context, ranges: &[Range<u64>], _: Changed) {
        // The platform's word of the context is the generation. It rises after the tables have
        // changed. A caller that reads the new number reads the new tables, and one that read the
        // old number finds that it has changed.
        context.tag().fetch_add(1, Ordering::SeqCst);
        let Some(hook) = self.0.get() else {
            return;
        };
        for range in ranges {
            // SAFETY: the caller's function with the caller's context.
            unsafe { (hook.call)(hook.ctx, context.asid(), range.start, range.end) };
        }
    }
}

impl TlbHook {
    /// Sets the caller's function.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is one.
    fn set(&self, call: MmInvalidate, ctx: *mut c_void) -> Result<(), Errno> {
        self.0.set(Hook { call, ctx }).map_err(|_| Errno::EBUSY)
    }
}

/// Sets the function that is notified of invalid translations.
///
/// # Safety
///
/// `phys` came from [`mm_phys_new`](crate::mm::mm_phys_new). The function behaves as the header
/// says.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_phys_on_invalidate(
    phys: *mut MmPhys,
    invalidate: Option<MmInvalidate>,
    ctx: *mut c_void,
) -> c_int {
    // SAFETY: the caller's duty.
    let (Some(phys), Some(call)) = (unsafe { phys.as_ref() }, invalidate) else {
        return code(Errno::EINVAL);
    };
    phys.hardware.tlb().set(call, ctx).map_or_else(code, |()| 0)
}

/// Returns the number of an address space that invalidations carry, or 0 without pages.
///
/// # Safety
///
/// `mm` is an address space or NULL.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_asid(mm: *mut Mm) -> u32 {
    // SAFETY: the caller's duty.
    let context = unsafe { mm.as_ref() }.and_then(|mm| mm.space.context());
    context.map_or(0, Context::asid)
}

/// Returns the number of invalidations of an address space, or 0 without pages.
///
/// # Safety
///
/// `mm` is an address space or NULL.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_generation(mm: *mut Mm) -> u64 {
    // SAFETY: the caller's duty.
    let context = unsafe { mm.as_ref() }.and_then(|mm| mm.space.context());
    context.map_or(0, |context| context.tag().load(Ordering::SeqCst))
}
