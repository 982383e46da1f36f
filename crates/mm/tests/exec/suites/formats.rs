//! Files that a format of `binfmt_misc` names an interpreter for, and a descriptor.

use std::ffi::CString;
use std::fs;

use crate::elf::{Elf, load};

use super::Run;

/// Files of formats that hand their interpreter a descriptor.
///
/// The engine does not know formats. But the kernel executes such a file as it executes a script
/// that names the same interpreter, except for the descriptor in the auxiliary vector. So the files
/// are scripts, too, and have the mark of a format behind their first line.
///
/// Comes last: this process is in namespaces of its own from then on.
pub(super) fn formats(run: &mut Run) {
    let folder = run.folder.join("formats");
    fs::create_dir_all(&folder).unwrap();
    let folder = folder.to_str().unwrap();
    if !mount(folder) {
        return println!(
            "formats: skipped, this kernel does not let a user namespace have its own"
        );
    }
    let code = load(0, 0x40_0000, 0x1000, 0x1000, 5);
    let elf = Elf::new(false, &[code]);
    let mut interpreters = vec![run.write("interpreter", &elf.bytes())];
    if run.narrow {
        interpreters.push(run.write("interpreter32", &elf.narrow().bytes()));
    }
    for (index, interpreter) in interpreters.iter().enumerate() {
        for flags in ["", "O", "OC"] {
            let line = format!("#!{interpreter}\n");
            let offset = line.len();
            let mark = format!("mark{index}{flags}");
            let format = format!(":{mark}:M:{offset}:{mark}::{interpreter}:{flags}");
            fs::write(format!("{folder}/register"), format).unwrap();
            let path = run.write(&mark, format!("{line}{mark}\n").as_bytes());
            run.all_ways(&path, &|| {
                format!("{interpreter}, as a format with the flags {flags:?}")
            });
        }
    }
    let folder = CString::new(folder).unwrap();
    // SAFETY: the path ends with a zero.
    unsafe { libc::umount2(folder.as_ptr(), libc::MNT_DETACH) };
}

/// Mounts formats of a user namespace of its own. Tells whether that may be done.
fn mount(folder: &str) -> bool {
    // SAFETY: plain system calls.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: this process has one thread.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) } != 0 {
        return false;
    }
    let maps = [
        ("uid_map", format!("0 {user} 1")),
        ("setgroups", "deny".into()),
        ("gid_map", format!("0 {group} 1")),
    ];
    for (name, text) in maps {
        if fs::write(format!("/proc/self/{name}"), text).is_err() {
            return false;
        }
    }
    let (name, folder) = (c"binfmt_misc", CString::new(folder).unwrap());
    let none = std::ptr::null();
    // SAFETY: strings that end with a zero, and no data.
    unsafe { libc::mount(name.as_ptr(), folder.as_ptr(), name.as_ptr(), 0, none) == 0 }
}
