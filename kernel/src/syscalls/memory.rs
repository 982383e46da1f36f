//! The mmap family. Each call is a call of samara-mm.

use alloc::boxed::Box;
use alloc::string::String;

use samara_mm::{Call as Request, Errno, FileArg};
use syscalls::Sysno;

use super::{Call, Outcome, files, user};
use crate::trace;

pub(super) fn dispatch(name: Sysno, call: &mut Call<'_>) -> Option<Outcome> {
    let [a, b, c, d, e, _] = call.args;
    let request = match name {
        Sysno::mmap => return Some(mmap(call)),
        Sysno::munmap => Request::Munmap { addr: a, len: b },
        Sysno::mprotect => Request::Mprotect { addr: a, len: b, prot: c, pkey: -1 },
        Sysno::pkey_mprotect => Request::Mprotect { addr: a, len: b, prot: c, pkey: d as i32 },
        Sysno::mremap => {
            Request::Mremap { old_addr: a, old_len: b, new_len: c, flags: d, new_addr: e }
        }
        Sysno::brk => Request::Brk { addr: a },
        Sysno::madvise => Request::Madvise { addr: a, len: b, advice: c as i32 },
        Sysno::process_madvise => return Some(advise(call)),
        Sysno::mlock => Request::Mlock { addr: a, len: b, flags: 0 },
        Sysno::mlock2 => Request::Mlock { addr: a, len: b, flags: c },
        Sysno::munlock => Request::Munlock { addr: a, len: b },
        Sysno::mlockall => Request::Mlockall { flags: a },
        Sysno::munlockall => Request::Munlockall,
        Sysno::msync => Request::Msync { addr: a, len: b, flags: c },
        Sysno::mbind => return Some(bind(call)),
        Sysno::mincore => return Some(mincore(call)),
        Sysno::mseal => Request::Mseal { addr: a, len: b, flags: c },
        Sysno::remap_file_pages => {
            Request::RemapFilePages { addr: a, len: b, prot: c, pgoff: d, flags: e }
        }
        Sysno::prctl if a == PR_SET_VMA && b == PR_SET_VMA_ANON_NAME => {
            return Some(set_name(call, c, d, e));
        }
        _ => return None,
    };
    Some(perform(call, &request))
}

fn perform(call: &Call<'_>, request: &Request) -> Outcome {
    trace::perform(call.thread.tid, &call.memory(), request).map(|value| value as i64)
}

const PR_SET_VMA: u64 = 0x5356_4d41;
const PR_SET_VMA_ANON_NAME: u64 = 0;
const LONGEST_NAME: usize = 80;

// ANCHOR: mmap
fn mmap(call: &Call<'_>) -> Outcome {
    let [addr, len, prot, flags, descriptor, offset] = call.args;
    let open = call.thread.process.files.lock().get(descriptor).ok();
    let file = match &open {
        _ if flags & samara_mm::abi::MAP_ANONYMOUS != 0 => FileArg::None,
        Some(open) => open.file().map_or(FileArg::Bad, FileArg::File),
        None => FileArg::Bad,
    };
    // The descriptor is valid, but its file cannot be mapped.
    if file == FileArg::Bad && open.is_some() {
        return Err(Errno::ENODEV);
    }
    let request = Request::Mmap { addr, len, prot, flags, file, offset };
    perform(call, &request)
}
// ANCHOR_END: mmap

/// Performs `process_madvise(2)` on the process that a pidfd names. For another process than the
/// caller's, only advice that does not change its bytes is allowed.
fn advise(call: &Call<'_>) -> Outcome {
    const OF_OTHERS: [i32; 4] = [3, 20, 21, 25];
    let [descriptor, at, count, advice, flags, _] = call.args;
    let process = files::open(call, descriptor)?.inode().process().ok_or(Errno::EBADF)?;
    let ranges = user::iovecs(&call.memory(), at, count)?.into_boxed_slice();
    let advice = advice as i32;
    if process.pid != call.thread.process.pid && !OF_OTHERS.contains(&advice) {
        return Err(Errno::EINVAL);
    }
    let memory = process.memory.lock().clone().ok_or(Errno::ESRCH)?;
    let request = Request::ProcessMadvise { ranges, advice, flags };
    trace::perform(call.thread.tid, &memory, &request).map(|value| value as i64)
}

fn bind(call: &Call<'_>) -> Outcome {
    let [addr, len, mode, mask, bits, flags] = call.args;
    let nodes = if mask == 0 || bits < 2 { 0 } else { user::read(&call.memory(), mask)? };
    perform(call, &Request::Mbind { addr, len, mode, nodes, flags })
}

const NOT_WRITTEN: u8 = 0xff;

fn mincore(call: &Call<'_>) -> Outcome {
    let [addr, len, to, ..] = call.args;
    let memory = call.memory();
    let mut bytes = user::buffer(len.div_ceil(4096))?;
    bytes.fill(NOT_WRITTEN);
    let result = memory.mincore(addr, len.min(user::MAX_CHUNK as u64 * 4096), &mut bytes);
    // The pages before the first hole are reported even if the call fails there.
    let written = bytes.iter().position(|&byte| byte == NOT_WRITTEN).unwrap_or(bytes.len());
    user::copy_to(&memory, to, &bytes[..written])?;
    result.map(|()| 0)
}

fn set_name(call: &Call<'_>, addr: u64, len: u64, name: u64) -> Outcome {
    let memory = call.memory();
    let name: Option<Box<str>> = match name {
        0 => None,
        at => {
            let bytes = user::string(&memory, at, LONGEST_NAME, Errno::EINVAL)?;
            Some(String::from_utf8(bytes).map_err(|_| Errno::EINVAL)?.into())
        }
    };
    perform(call, &Request::SetVmaName { addr, len, name })
}
