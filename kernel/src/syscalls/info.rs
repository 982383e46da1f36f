//! System calls about the system, and random bytes.

use linux_raw_sys::system::{new_utsname, sysinfo};
use samara_mm::Errno;
use syscalls::Sysno;

use super::{Call, Outcome, user};
use crate::arch::{Arch, Machine};
use crate::{fs, memory, process};

pub(super) fn dispatch(name: Sysno, call: &mut Call<'_>) -> Option<Outcome> {
    let [a, b, c, ..] = call.args;
    Some(match name {
        Sysno::uname => uname(call, a),
        Sysno::sysinfo => info(call, a),
        Sysno::getrandom => random(call, a, b, c),
        Sysno::sethostname | Sysno::setdomainname => Err(Errno::EPERM),
        Sysno::reboot => Err(Errno::EPERM),
        _ => return None,
    })
}

fn uname(call: &Call<'_>, to: u64) -> Outcome {
    // SAFETY: arrays of bytes, for which zero is a valid value.
    let mut names: new_utsname = unsafe { core::mem::zeroed() };
    let fields = [
        (&mut names.sysname, "Linux"),
        (&mut names.nodename, "samara"),
        (&mut names.release, "6.18.0-samara"),
        (&mut names.version, "#1 SMP Samara"),
        (&mut names.machine, Arch::NAME),
        (&mut names.domainname, "(none)"),
    ];
    for (field, text) in fields {
        for (to, &byte) in field.iter_mut().zip(text.as_bytes()) {
            *to = byte as _;
        }
    }
    user::write(&call.memory(), to, &names)?;
    Ok(0)
}

fn info(call: &Call<'_>, to: u64) -> Outcome {
    let (free, total) = (memory::free_frames(), memory::managed_frames());
    // SAFETY: integers, for which zero is a valid value.
    let mut all: sysinfo = unsafe { core::mem::zeroed() };
    all.uptime = (Arch::now() / 1_000_000_000) as _;
    all.totalram = (total * 4096) as _;
    all.freeram = (free * 4096) as _;
    all.procs = process::processes().len() as u16;
    all.mem_unit = 1;
    user::write(&call.memory(), to, &all)?;
    Ok(0)
}

fn random(call: &Call<'_>, to: u64, len: u64, flags: u64) -> Outcome {
    if flags & !7 != 0 {
        return Err(Errno::EINVAL);
    }
    let mut bytes = user::buffer(len)?;
    fs::fill_random(&mut bytes);
    user::copy_to(&call.memory(), to, &bytes)?;
    Ok(bytes.len() as i64)
}
