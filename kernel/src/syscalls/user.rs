//! Accesses to the memory of programs.

use alloc::vec::Vec;

use samara_mm::Errno;

use super::Call;
use crate::memory::Memory;
use crate::process::oom;

/// The most bytes that one step of a read or a write copies.
pub const MAX_CHUNK: usize = 64 << 10;
const LONGEST_PATH: usize = 4096;

/// Plain data of the ABI. Padding has no bytes of the kernel's.
///
/// # Safety
///
/// Any bytes are a valid value.
pub unsafe trait Pod {}

macro_rules! plain {
    ($($type:ty),*) => { $(
        // SAFETY: integers, or structures and arrays of integers.
        unsafe impl Pod for $type {}
    )* };
}

plain!(
    u8, u16, i32, u32, i64, u64, [u8; 8], [u8; 16], [u8; 64], [u8; 128], [u64; 2], [u64; 3],
    [u64; 4], [u64; 5], [u64; 8], [u64; 11], [u64; 14], [u32; 3]
);
plain!(
    linux_raw_sys::general::stat,
    linux_raw_sys::general::termios,
    linux_raw_sys::general::statfs,
    linux_raw_sys::general::statx,
    linux_raw_sys::system::new_utsname,
    linux_raw_sys::system::sysinfo,
    linux_raw_sys::general::rusage,
    linux_raw_sys::general::pollfd
);

pub fn read<T: Pod>(memory: &Memory, at: u64) -> Result<T, Errno> {
    let mut value = core::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: the value's bytes, which are initialised to zero.
    let bytes =
        unsafe { core::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>()) };
    copy_from(memory, at, bytes)?;
    // SAFETY: any bytes are a valid value.
    Ok(unsafe { value.assume_init() })
}

pub fn write<T: Pod>(memory: &Memory, at: u64, value: &T) -> Result<(), Errno> {
    // SAFETY: the bytes of a plain value.
    let bytes =
        unsafe { core::slice::from_raw_parts((&raw const *value).cast::<u8>(), size_of::<T>()) };
    copy_to(memory, at, bytes)
}

/// Writes a value like [`write`], unless the address is null.
pub fn write_if<T: Pod>(memory: &Memory, at: u64, value: &T) -> Result<(), Errno> {
    if at == 0 { Ok(()) } else { write(memory, at, value) }
}

pub fn copy_to(memory: &Memory, at: u64, bytes: &[u8]) -> Result<(), Errno> {
    if oom::copy_in(memory, at, bytes) == bytes.len() { Ok(()) } else { Err(Errno::EFAULT) }
}

pub fn copy_from(memory: &Memory, at: u64, bytes: &mut [u8]) -> Result<(), Errno> {
    if oom::copy_out(memory, at, bytes) == bytes.len() { Ok(()) } else { Err(Errno::EFAULT) }
}

/// Reads a string, without its zero byte.
///
/// # Errors
///
/// `EFAULT`, `ENOMEM`; `too_long` if the string has `most` bytes or more.
pub fn string(memory: &Memory, at: u64, most: usize, too_long: Errno) -> Result<Vec<u8>, Errno> {
    let mut text = Vec::new();
    loop {
        let mut piece = [0; 256];
        let from = at.wrapping_add(text.len() as u64);
        let done = oom::copy_out(memory, from, &mut piece);
        let end = piece[..done].iter().position(|&byte| byte == 0);
        text.try_reserve(done).map_err(|_| Errno::ENOMEM)?;
        text.extend_from_slice(&piece[..end.unwrap_or(done)]);
        match end {
            _ if text.len() >= most => return Err(too_long),
            Some(_) => return Ok(text),
            None if done < piece.len() => return Err(Errno::EFAULT),
            None => {}
        }
    }
}

impl Call<'_> {
    pub fn memory(&self) -> alloc::sync::Arc<Memory> {
        self.thread.process.memory()
    }

    /// Reads the path whose address is in an argument.
    pub fn path(&self, argument: usize) -> Result<Vec<u8>, Errno> {
        string(&self.memory(), self.args[argument], LONGEST_PATH, Errno::ENAMETOOLONG)
    }
}

/// Allocates a buffer of `len` bytes, at most [`MAX_CHUNK`].
pub fn buffer(len: u64) -> Result<Vec<u8>, Errno> {
    let len = usize::try_from(len).unwrap_or(MAX_CHUNK).min(MAX_CHUNK);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| Errno::ENOMEM)?;
    bytes.resize(len, 0);
    Ok(bytes)
}

/// Reads an array of `struct iovec`, as pairs of address and length.
pub fn iovecs(memory: &Memory, at: u64, count: u64) -> Result<Vec<(u64, u64)>, Errno> {
    if count > 1024 {
        return Err(Errno::EINVAL);
    }
    let mut parts = Vec::new();
    let mut all = 0u64;
    for i in 0..count {
        let [base, len] = read::<[u64; 2]>(memory, at + 16 * i)?;
        all = all.checked_add(len).filter(|&all| all <= i64::MAX as u64).ok_or(Errno::EINVAL)?;
        parts.push((base, len));
    }
    Ok(parts)
}
