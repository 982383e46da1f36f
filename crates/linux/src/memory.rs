//! Memory of other processes, read as the kernel reads what their calls point to.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr;

use crate::maps::Map;
use crate::proc_file;

/// Copies from a tracee's memory. Returns how many bytes there were: fewer than asked for where the
/// memory ends.
///
/// # Errors
/// `EFAULT` if the first byte is not there; `ESRCH` and `EPERM` as `process_vm_readv(2)`.
pub fn read(tid: libc::pid_t, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let read = read_readable(tid, address, buffer);
    let done = match &read {
        Ok(done) => *done,
        Err(error) if error.raw_os_error() == Some(libc::EFAULT) => 0,
        Err(_) => return read,
    };
    if done == buffer.len() {
        return read;
    }
    // What may only be written, or only be executed, programs and the kernel on their behalf read all the same: the processor knows no such pages. Where it
    // has protection keys, one keeps from reading what may only be executed.
    let rest = address.wrapping_add(done as u64);
    match read_accessible(tid, rest, &mut buffer[done..]) {
        Some(more) => Ok(done + more),
        None => read,
    }
}

/// Returns one 64-bit word of a tracee's memory.
///
/// # Errors
/// As [`read`], and `UnexpectedEof` where the memory ends within the word.
pub fn read_word(tid: libc::pid_t, address: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    if read(tid, address, &mut bytes)? < 8 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(u64::from_ne_bytes(bytes))
}

/// Returns one 32-bit word of a tracee's memory.
///
/// # Errors
/// As [`read`], and `UnexpectedEof` where the memory ends within the word.
pub fn read_half(tid: libc::pid_t, address: u64) -> io::Result<u64> {
    let mut bytes = [0; 4];
    if read(tid, address, &mut bytes)? < 4 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(u64::from(u32::from_ne_bytes(bytes)))
}

/// Copies what the tracee's areas allow to be read.
fn read_readable(tid: libc::pid_t, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let remote = libc::iovec {
        iov_base: ptr::without_provenance_mut(address as usize),
        iov_len: buffer.len(),
    };
    // SAFETY: `local` describes `buffer`; `remote` is only looked at in the tracee's address space.
    let read = unsafe { libc::process_vm_readv(tid, &local, 1, &remote, 1, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Copies from areas with any permission at all. `None` if `address` lies in no such area.
fn read_accessible(tid: libc::pid_t, address: u64, buffer: &mut [u8]) -> Option<usize> {
    let mut map = Map::default();
    map.refill(|text| {
        proc_file::read_on(&mut File::open(format!("/proc/{tid}/maps"))?, text)?;
        Ok::<(), io::Error>(())
    })
    .ok()?;
    let mut end = address;
    let keys = has_protection_keys();
    while let Some(area) = map.at(end)
        && area.perms[..3] != *b"---"
        && !(keys && area.perms[..3] == *b"--x")
        && end - address < buffer.len() as u64
    {
        end = area.end;
    }
    let length = usize::try_from(end - address).ok()?.min(buffer.len());
    if length == 0 {
        return None;
    }
    let memory = File::open(format!("/proc/{tid}/mem")).ok()?;
    memory.read_at(&mut buffer[..length], address).ok()
}

/// Returns `true` if the processor has protection keys and the kernel uses them.
pub fn has_protection_keys() -> bool {
    // Leaf 7, ECX bit 4: protection keys, switched on by the kernel.
    #[allow(unused_unsafe, reason = "the call is safe in newer releases of Rust")]
    // SAFETY: every processor of this architecture has the instruction.
    let leaf = unsafe { std::arch::x86_64::__cpuid_count(7, 0) };
    leaf.ecx & 1 << 4 != 0
}
