//! `mm_phys_…`: physical memory, with one of five formats behind one interface.

use core::ffi::{c_int, c_void};
use core::slice;

use samara_mm::heap::{Counted, try_box};
use samara_mm::process::{HostLock, Machine, Platform, Process};
use samara_mm::{AddressSpace, Errno, Object};
use samara_paging::{Arena, Format, Grace, PAGE_SIZE, Physical, format};

use crate::mm::abi::{
    MM_AARCH64_4K, MM_RISCV_SV39, MM_RISCV_SV48, MM_X86_64, MM_X86_64_LA57, MmFormat, MmPhysOps,
    MmPhysStats,
};
use crate::mm::activity::CallCounter;
use crate::mm::file::MmFile;
use crate::mm::invalidate::TlbHook;
use crate::mm::memory::{CallerMemory, Ram};
use crate::mm::space::{Paged, Space};
use crate::mm::{code, return_boxed};

/// The largest numbers of frames to count, in the order of attempts. The addresses of the caller's
/// frames are not known beforehand, so that the counts cover a large range. Each takes four bytes,
/// which are not touched before the frame is used. If the host refuses that much address space, a
/// smaller number is used.
const COUNTED: [u64; 5] = [(1 << 30) - 2, 1 << 28, 1 << 26, 1 << 24, 1 << 22];

/// `struct mm_phys`.
pub struct MmPhys {
    pub(crate) hardware: Box<dyn Hardware>,
    /// `true` for the formats of x86-64, which decides what programs can do.
    pub(crate) x86: bool,
    /// The first address that its page tables cannot map for a program.
    pub(crate) end: u64,
}

impl core::fmt::Debug for MmPhys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MmPhys").finish_non_exhaustive()
    }
}

/// A machine with one of the formats.
pub(crate) trait Hardware: Send + Sync {
    /// Creates a process with this map.
    fn space(&self, space: AddressSpace) -> Result<Box<dyn Space>, Errno>;
    /// Returns the frame counts.
    fn stats(&self) -> MmPhysStats;
    /// Handles that a file has become shorter.
    fn truncate(&self, file: &Object, size: u64);
    /// Handles that a file has become longer than `before` bytes.
    fn extend(&self, file: &Object, before: u64);
    /// Handles that a part of a file has become zero.
    fn punch(&self, file: &Object, start: u64, end: u64);
    /// Writes the dirty pages of a file back to it.
    fn sync(&self, file: &Object) -> Result<(), Errno>;
    /// Copies bytes from a file.
    fn read(&self, file: &Object, offset: u64, into: &mut [u8]) -> Result<usize, Errno>;
    /// Copies bytes to a file.
    fn write(&self, file: &Object, offset: u64, from: &[u8]) -> Result<usize, Errno>;
    /// Returns where the library reads and writes a frame.
    fn to_virt(&self, phys: u64) -> *mut c_void;
    /// Returns the TLB, which is notified of invalidations.
    fn tlb(&self) -> &TlbHook;
}

/// A machine, and the calls that are running on it.
struct Hosted<P: Platform> {
    machine: Machine<P>,
    calls: Counted<CallCounter>,
}

impl<P: Platform<Backing = Ram, Tlb = TlbHook>> Hardware for Hosted<P> {
    fn space(&self, space: AddressSpace) -> Result<Box<dyn Space>, Errno> {
        let _inside = self.calls.enter();
        let process = Process::of(&self.machine, space)?;
        Ok(try_box(Paged::new(process, self.calls.clone()))?)
    }

    fn stats(&self) -> MmPhysStats {
        let stats = self.machine.stats();
        MmPhysStats {
            free: self.machine.physical().backing().free_frames(),
            tables: stats.tables,
            anon: stats.anon,
            file: stats.file,
            shared_tables: stats.shared_tables,
        }
    }

    fn truncate(&self, file: &Object, size: u64) {
        let _inside = self.calls.enter();
        let _ = self.machine.truncate(file, size);
    }

    fn extend(&self, file: &Object, before: u64) {
        let _inside = self.calls.enter();
        let _ = self.machine.extend(file, before);
    }

    fn punch(&self, file: &Object, start: u64, end: u64) {
        let _inside = self.calls.enter();
        let _ = self.machine.punch(file, start, end);
    }

    fn sync(&self, file: &Object) -> Result<(), Errno> {
        let _inside = self.calls.enter();
        self.machine.sync_file(file)
    }

    fn read(&self, file: &Object, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let _inside = self.calls.enter();
        self.machine.read_file(file, offset, into)
    }

    fn write(&self, file: &Object, offset: u64, from: &[u8]) -> Result<usize, Errno> {
        let _inside = self.calls.enter();
        self.machine.write_file(file, offset, from)
    }

    fn to_virt(&self, phys: u64) -> *mut c_void {
        let (frame, inside) = (phys & !(PAGE_SIZE - 1), phys & (PAGE_SIZE - 1));
        match self.machine.physical().backing().frame(frame) {
            // Stays within the frame.
            Some(at) => at.as_ptr().wrapping_add(inside as usize).cast(),
            None => core::ptr::null_mut(),
        }
    }

    fn tlb(&self) -> &TlbHook {
        self.machine.tlb()
    }
}

macro_rules! platforms {
    ($($name:ident: $format:ident,)*) => {$(
        /// Processes with this format, in a program of the host.
        struct $name;

        impl Platform for $name {
            type Format = format::$format;
            type Backing = Ram;
            type Reclaim = Grace;
            type Tlb = TlbHook;
            type Mutex = HostLock;
            type RwLock = HostLock;
        }
    )*};
}

platforms! {
    X86: X86_64,
    X86La57: X86_64La57,
    Arm: Aarch64,
    RiscvSv39: Sv39,
    RiscvSv48: Sv48,
}

fn hardware<P: Platform<Backing = Ram, Reclaim = Grace, Tlb = TlbHook>>(
    physical: Physical<Ram, Grace>,
) -> Result<Box<dyn Hardware>, Errno> {
    Ok(try_box(Hosted::<P> {
        machine: Machine::new(physical, TlbHook::default())?,
        calls: Counted::try_new(CallCounter::default())?,
    })?)
}

fn physical(ops: Option<&MmPhysOps>, frames: u64) -> Result<Physical<Ram, Grace>, Errno> {
    let Some(ops) = ops else {
        if frames == 0 {
            return Err(Errno::EINVAL);
        }
        let count = usize::try_from(frames).map_err(|_| Errno::ENOMEM)?;
        let arena = Arena::hosted(count).map_err(|_| Errno::ENOMEM)?;
        let base = Arena::<samara_paging::HostMemory>::BASE;
        return Physical::new(Ram::Own(arena), Grace::default(), base, frames)
            .map_err(|_| Errno::ENOMEM);
    };
    for counted in COUNTED {
        let theirs = CallerMemory::new(ops, counted).ok_or(Errno::EINVAL)?;
        if let Ok(physical) = Physical::new(Ram::Caller(theirs), Grace::default(), 0, counted) {
            return Ok(physical);
        }
    }
    Err(Errno::ENOMEM)
}

/// A function that creates a machine with a format.
type Make = fn(Physical<Ram, Grace>) -> Result<Box<dyn Hardware>, Errno>;

/// Returns how a machine of this platform is created, and the first address that its page tables
/// cannot map for a program.
fn kind<P: Platform<Backing = Ram, Reclaim = Grace, Tlb = TlbHook>>() -> (Make, u64) {
    (hardware::<P>, P::Format::lower_end())
}

fn kind_of(format: MmFormat) -> Option<(Make, u64)> {
    Some(match format {
        MM_X86_64 => kind::<X86>(),
        MM_X86_64_LA57 => kind::<X86La57>(),
        MM_AARCH64_4K => kind::<Arm>(),
        MM_RISCV_SV39 => kind::<RiscvSv39>(),
        MM_RISCV_SV48 => kind::<RiscvSv48>(),
        _ => return None,
    })
}

/// Returns the first address that page tables of a format cannot map for a program.
pub(super) fn end_of(format: MmFormat) -> Option<u64> {
    kind_of(format).map(|(_, end)| end)
}

fn new(format: MmFormat, ops: Option<&MmPhysOps>, frames: u64) -> Result<MmPhys, Errno> {
    let (make, end) = kind_of(format).ok_or(Errno::EINVAL)?;
    Ok(MmPhys {
        hardware: make(physical(ops, frames)?)?,
        x86: matches!(format, MM_X86_64 | MM_X86_64_LA57),
        end,
    })
}

/// Creates physical memory: `frames` frames of the library's own, or the caller's.
///
/// # Safety
///
/// `ops` is NULL or points to functions that behave as the header says. `phys` points to a pointer.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_phys_new(
    format: MmFormat,
    ops: *const MmPhysOps,
    frames: u64,
    phys: *mut *mut MmPhys,
) -> i32 {
    // SAFETY: NULL or valid, by the caller's duty.
    let ops = unsafe { ops.as_ref() };
    // SAFETY: the caller's duty.
    unsafe { return_boxed(phys, || new(format, ops, frames)) }
}

/// Drops the caller's reference to physical memory. Its address spaces and cached pages keep it
/// alive.
///
/// # Safety
///
/// `phys` is NULL, or came from [`mm_phys_new`] and is not used afterwards.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_phys_put(phys: *mut MmPhys) {
    if !phys.is_null() {
        // SAFETY: made by `Box::into_raw`, and dropped once.
        drop(unsafe { Box::from_raw(phys) });
    }
}

/// Stores the frame counts.
///
/// # Safety
///
/// `phys` came from [`mm_phys_new`]. `stats` points to the structure.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_phys_stats(phys: *mut MmPhys, stats: *mut MmPhysStats) {
    // SAFETY: the caller's duties.
    if let (Some(phys), false) = (unsafe { phys.as_ref() }, stats.is_null()) {
        // SAFETY: as above.
        unsafe { stats.write(phys.hardware.stats()) };
    }
}

/// Returns where the library reads and writes a byte of physical memory.
///
/// # Safety
///
/// `phys` came from [`mm_phys_new`] or is NULL.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_phys_virt(phys: *mut MmPhys, addr: u64) -> *mut c_void {
    // SAFETY: the caller's duty.
    match unsafe { phys.as_ref() } {
        Some(phys) => phys.hardware.to_virt(addr),
        None => core::ptr::null_mut(),
    }
}

/// Handles that a file has become shorter.
///
/// # Safety
///
/// `phys` came from [`mm_phys_new`], `file` from [`mm_file_open`](crate::mm::mm_file_open).
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_file_truncate(phys: *mut MmPhys, file: *mut MmFile, size: u64) {
    // SAFETY: the caller's duties.
    let (Some(phys), Some(file)) = (unsafe { (phys.as_ref(), file.as_ref()) }) else {
        return;
    };
    if let Some(file) = file.file() {
        phys.hardware.truncate(&file.object, size);
    }
}

/// Handles that a file has become longer than its former `before` bytes.
///
/// # Safety
///
/// `phys` came from [`mm_phys_new`], `file` from [`mm_file_open`](crate::mm::mm_file_open).
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_file_extend(phys: *mut MmPhys, file: *mut MmFile, before: u64) {
    // SAFETY: the caller's duties.
    let (Some(phys), Some(file)) = (unsafe { (phys.as_ref(), file.as_ref()) }) else {
        return;
    };
    if let Some(file) = file.file() {
        phys.hardware.extend(&file.object, before);
    }
}

/// Handles that the pages of `[start, end)` of a file have become zero.
///
/// # Safety
///
/// `phys` came from [`mm_phys_new`], `file` from [`mm_file_open`](crate::mm::mm_file_open).
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_file_punch(phys: *mut MmPhys, file: *mut MmFile, start: u64, end: u64) {
    // SAFETY: the caller's duties.
    let (Some(phys), Some(file)) = (unsafe { (phys.as_ref(), file.as_ref()) }) else {
        return;
    };
    if let Some(file) = file.file() {
        phys.hardware.punch(&file.object, start, end);
    }
}

/// Writes a file's dirty pages out, like `fsync(2)`.
///
/// # Safety
/// As [`mm_file_punch`].
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_file_sync(phys: *mut MmPhys, file: *mut MmFile) -> c_int {
    // SAFETY: the caller's duties.
    let (Some(phys), Some(file)) = (unsafe { (phys.as_ref(), file.as_ref()) }) else {
        return code(Errno::EINVAL);
    };
    match file.file() {
        Some(file) => phys.hardware.sync(&file.object).map_or_else(code, |()| 0),
        None => code(Errno::EINVAL),
    }
}

/// Converts to the number of bytes, or to an error.
fn copied(result: Result<usize, Errno>) -> i64 {
    match result {
        Ok(bytes) => bytes as i64,
        Err(error) => code(error).into(),
    }
}

/// Copies bytes from a file, like `pread(2)`.
///
/// # Safety
///
/// `phys` came from [`mm_phys_new`], `file` from [`mm_file_open`](crate::mm::mm_file_open). `to`
/// points to space for `len` bytes.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_file_read(
    phys: *mut MmPhys,
    file: *mut MmFile,
    offset: u64,
    to: *mut c_void,
    len: usize,
) -> i64 {
    // SAFETY: the caller's duties.
    let (Some(phys), Some(file)) = (unsafe { (phys.as_ref(), file.as_ref()) }) else {
        return code(Errno::EINVAL).into();
    };
    let Some(file) = file.file().filter(|file| file.readable) else {
        return code(Errno::EBADF).into();
    };
    if to.is_null() {
        return code(Errno::EFAULT).into();
    }
    // No object is longer.
    let len = len.min(isize::MAX as usize);
    // SAFETY: the caller's duty.
    let to = unsafe { slice::from_raw_parts_mut(to.cast::<u8>(), len) };
    copied(phys.hardware.read(&file.object, offset, to))
}

/// Copies bytes to a file, like `pwrite(2)`. The file does not grow.
///
/// # Safety
///
/// `phys` came from [`mm_phys_new`], `file` from [`mm_file_open`](crate::mm::mm_file_open). `from`
/// points to `len` bytes.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_file_write(
    phys: *mut MmPhys,
    file: *mut MmFile,
    offset: u64,
    from: *const c_void,
    len: usize,
) -> i64 {
    // SAFETY: the caller's duties.
    let (Some(phys), Some(file)) = (unsafe { (phys.as_ref(), file.as_ref()) }) else {
        return code(Errno::EINVAL).into();
    };
    let Some(file) = file.file().filter(|file| file.writable) else {
        return code(Errno::EBADF).into();
    };
    if from.is_null() {
        return code(Errno::EFAULT).into();
    }
    // No object is longer.
    let len = len.min(isize::MAX as usize);
    // SAFETY: the caller's duty.
    let from = unsafe { slice::from_raw_parts(from.cast::<u8>(), len) };
    copied(phys.hardware.write(&file.object, offset, from))
}
