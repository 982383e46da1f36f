//! The system calls, as in their manual pages. Arguments are what a program would put in registers.

use core::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_ulong};
use core::slice;

use samara_mm::heap::try_str;
use samara_mm::{Call, Errno, FileArg, abi};

use crate::mm::code;
use crate::mm::file::MmFile;
use crate::mm::lifecycle::Mm;

/// Performs a call and notifies the backend.
fn perform(mm: &Mm, call: &Call) -> Result<u64, Errno> {
    match &mm.backend {
        Some(told) => mm.space.perform(call, Some(&mut told.backend())),
        None => mm.space.perform(call, None),
    }
}

fn number(result: Result<u64, Errno>) -> c_int {
    match result {
        // A protection key. All other calls that return an int return 0.
        Ok(number) => number as c_int,
        Err(error) => code(error),
    }
}

fn address(result: Result<u64, Errno>) -> i64 {
    match result {
        Ok(address) => address as i64,
        Err(error) => i64::from(code(error)),
    }
}

/// Sign-extends an `int` to a register of 64 bits.
fn widen(argument: c_int) -> u64 {
    i64::from(argument) as u64
}

/// Defines calls that only pass on their arguments.
macro_rules! calls {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) = $call:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// `mm` is an address space.
        // SAFETY: named as in the header, with its signature.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(mm: *mut Mm, $($arg: $ty),*) -> c_int {
            // SAFETY: the caller's duty.
            match unsafe { mm.as_ref() } {
                Some(mm) => number(perform(mm, &$call)),
                None => code(Errno::EINVAL),
            }
        }
    )*};
}

calls! {
    /// `munmap(2)`.
    fn mm_munmap(addr: u64, len: u64) = Call::Munmap { addr, len };
    /// `mprotect(2)`.
    fn mm_mprotect(addr: u64, len: u64, prot: c_int) = Call::Mprotect { addr, len, prot: widen(prot), pkey: -1 };
    /// `pkey_mprotect(2)`.
    fn mm_pkey_mprotect(addr: u64, len: u64, prot: c_int, pkey: c_int) = Call::Mprotect { addr, len, prot: widen(prot), pkey };
    /// `pkey_alloc(2)`: returns the key.
    fn mm_pkey_alloc(flags: c_uint, rights: c_uint) = Call::PkeyAlloc { flags: flags.into(), rights: rights.into() };
    /// `pkey_free(2)`.
    fn mm_pkey_free(pkey: c_int) = Call::PkeyFree { pkey };
    /// `madvise(2)`.
    fn mm_madvise(addr: u64, len: u64, advice: c_int) = Call::Madvise { addr, len, advice };
    /// `mlock2(2)`.
    fn mm_mlock2(addr: u64, len: u64, flags: c_int) = Call::Mlock { addr, len, flags: widen(flags) };
    /// `munlock(2)`.
    fn mm_munlock(addr: u64, len: u64) = Call::Munlock { addr, len };
    /// `mlockall(2)`.
    fn mm_mlockall(flags: c_int) = Call::Mlockall { flags: widen(flags) };
    /// `munlockall(2)`.
    fn mm_munlockall() = Call::Munlockall;
    /// `msync(2)`.
    fn mm_msync(addr: u64, len: u64, flags: c_int) = Call::Msync { addr, len, flags: widen(flags) };
    /// `mseal(2)`.
    fn mm_mseal(addr: u64, len: u64, flags: c_ulong) = Call::Mseal { addr, len, flags: u64_of(flags) };
    /// `remap_file_pages(2)`.
    fn mm_remap_file_pages(addr: u64, len: u64, prot: c_int, pgoff: u64, flags: c_int) = Call::RemapFilePages { addr, len, prot: widen(prot), pgoff, flags: widen(flags) };
    /// `mbind(2)`, for the first 64 nodes.
    fn mm_mbind(addr: u64, len: u64, mode: c_int, nodes: u64, flags: c_uint) = Call::Mbind { addr, len, mode: widen(mode), nodes, flags: flags.into() };
    /// `set_mempolicy_home_node(2)`.
    fn mm_set_mempolicy_home_node(addr: u64, len: u64, home: c_ulong, flags: c_ulong) = Call::SetMempolicyHomeNode { addr, len, home: u64_of(home), flags: u64_of(flags) };
}

/// Widens an `unsigned long`, which is as wide as the machine's words.
fn u64_of(n: c_ulong) -> u64 {
    #[allow(clippy::useless_conversion, reason = "narrower on 32-bit machines")]
    u64::from(n)
}

/// `mmap(2)`.
///
/// # Safety
/// `mm` is an address space; `file` is NULL or a file.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_mmap(
    mm: *mut Mm,
    addr: u64,
    len: u64,
    prot: c_int,
    flags: c_int,
    file: *mut MmFile,
    offset: u64,
) -> i64 {
    let (prot, flags) = (widen(prot), widen(flags));
    let shared = matches!(
        flags & abi::MAP_TYPE,
        abi::MAP_SHARED | abi::MAP_SHARED_VALIDATE
    );
    // SAFETY: the caller's duty.
    let (Some(mm), file) = (unsafe { (mm.as_ref(), file.as_ref()) }) else {
        return address(Err(Errno::EINVAL));
    };
    let file = match file {
        _ if flags & abi::MAP_ANONYMOUS != 0 => FileArg::None,
        Some(file) => file.for_mapping(shared).map_or(FileArg::Bad, FileArg::File),
        None => FileArg::Bad,
    };
    address(perform(
        mm,
        &Call::Mmap {
            addr,
            len,
            prot,
            flags,
            file,
            offset,
        },
    ))
}

/// `mremap(2)`.
///
/// # Safety
/// `mm` is an address space.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_mremap(
    mm: *mut Mm,
    old_addr: u64,
    old_len: u64,
    new_len: u64,
    flags: c_int,
    new_addr: u64,
) -> i64 {
    let call = Call::Mremap {
        old_addr,
        old_len,
        new_len,
        flags: widen(flags),
        new_addr,
    };
    // SAFETY: the caller's duty.
    match unsafe { mm.as_ref() } {
        Some(mm) => address(perform(mm, &call)),
        None => address(Err(Errno::EINVAL)),
    }
}

/// `brk(2)`, as the system call: returns the new program break, or 0 without a heap.
///
/// # Safety
/// `mm` is an address space.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_brk(mm: *mut Mm, addr: u64) -> u64 {
    // SAFETY: the caller's duty.
    let Some(mm) = (unsafe { mm.as_ref() }).filter(|mm| mm.heap) else {
        return 0;
    };
    perform(mm, &Call::Brk { addr }).unwrap_or_else(|_| {
        // After a refusal, the break is unchanged.
        let mut brk = 0;
        mm.space.with_map(&mut |map| brk = map.layout().brk);
        brk
    })
}

/// `mincore(2)`.
///
/// # Safety
/// `mm` is an address space; `vec` has a byte for each page of the range.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_mincore(mm: *mut Mm, addr: u64, len: u64, vec: *mut c_uchar) -> c_int {
    // SAFETY: the caller's duty.
    let Some(mm) = (unsafe { mm.as_ref() }) else {
        return code(Errno::EINVAL);
    };
    // First checks that the range is valid: then it is no larger than an address space.
    if let Err(error) = mm.space.perform(&Call::Mincore { addr, len }, None) {
        return code(error);
    }
    let pages = len.div_ceil(4096);
    let Ok(count) = usize::try_from(pages) else {
        return code(Errno::ENOMEM);
    };
    if count == 0 {
        return 0;
    }
    if vec.is_null() {
        return code(Errno::EFAULT);
    }
    // SAFETY: the caller's duty.
    let vec = unsafe { slice::from_raw_parts_mut(vec, count) };
    match mm.space.mincore(addr, len, vec) {
        Ok(()) => 0,
        Err(error) => code(error),
    }
}

/// `prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, …)`. NULL removes the name.
///
/// # Safety
/// `mm` is an address space; `name` is NULL or a string.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_set_vma_name(
    mm: *mut Mm,
    addr: u64,
    len: u64,
    name: *const c_char,
) -> c_int {
    // SAFETY: the caller's duty.
    let Some(mm) = (unsafe { mm.as_ref() }) else {
        return code(Errno::EINVAL);
    };
    let name = if name.is_null() {
        Ok(None)
    } else {
        // SAFETY: the caller's duty.
        let name = unsafe { CStr::from_ptr(name) }.to_str();
        // An invalid name is not printable ASCII.
        name.map_err(|_| Errno::EINVAL).and_then(try_str).map(Some)
    };
    number(name.and_then(|name| perform(mm, &Call::SetVmaName { addr, len, name })))
}
