//! The kernel's own areas while a program moves, cuts and unmaps them, compared with a process that
//! does so.

use std::fs::File as Disk;
use std::io::Read;
use std::os::fd::FromRawFd;

use samara_mm::observe::Special;
use samara_mm::{AddressSpace, Call, NoPages};

use super::kernel::model_of;
use super::{PAGE, Random};

/// The place to which the child moves areas: it is free.
const BASE: u64 = 0x40_0000_0000;
const PLACES: u64 = 8;
const STEPS: usize = 40;

/// Returns the ranges of the areas of this name.
fn lines(maps: &str, name: &str) -> Vec<(u64, u64)> {
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let named = maps.lines().filter(|line| line.ends_with(name));
    named
        .map(|line| line.split_once(' ').unwrap().0.split_once('-').unwrap())
        .map(|(start, end)| (hex(start), hex(end)))
        .collect()
}

/// A call that has to do with a special area, wherever that is now.
fn call(random: &mut Random, (start, end): (u64, u64)) -> Call {
    let pages = (end - start) / PAGE;
    let to = BASE + random.below(PLACES) * 64 * PAGE;
    let part = start + random.below(pages) * PAGE;
    match random.below(8) {
        0..4 => Call::Mremap {
            old_addr: start,
            old_len: end - start,
            new_len: end - start,
            flags: 3,
            new_addr: to,
        },
        4 => Call::Mremap {
            old_addr: part,
            old_len: PAGE,
            new_len: PAGE * (1 + random.below(2)),
            flags: 3,
            new_addr: to,
        },
        5 => Call::Munmap {
            addr: part,
            len: PAGE,
        },
        6 => Call::Mprotect {
            addr: part,
            len: PAGE,
            prot: 1 + random.below(2) * 4,
            pkey: -1,
        },
        // Seldom, since it does not come back.
        _ if random.below(12) == 0 => Call::Munmap {
            addr: start,
            len: end - start,
        },
        _ => Call::Mremap {
            old_addr: start,
            old_len: end - start,
            new_len: end - start + PAGE,
            flags: 1,
            new_addr: 0,
        },
    }
}

/// A call's number and its arguments.
fn raw(call: &Call) -> [i64; 6] {
    let (number, arguments) = match *call {
        Call::Mremap {
            old_addr,
            old_len,
            new_len,
            flags,
            new_addr,
        } => (
            libc::SYS_mremap,
            [old_addr, old_len, new_len, flags, new_addr],
        ),
        Call::Munmap { addr, len } => (libc::SYS_munmap, [addr, len, 0, 0, 0]),
        Call::Mprotect {
            addr, len, prot, ..
        } => (libc::SYS_mprotect, [addr, len, prot, 0, 0]),
        _ => unreachable!(),
    };
    let [a, b, c, d, e] = arguments.map(u64::cast_signed);
    [number, a, b, c, d, e]
}

/// A child that does what it is told, with no code of the vdso.
struct Child {
    pid: i32,
    orders: i32,
    answers: Disk,
}

impl Child {
    fn new() -> Self {
        let (mut orders, mut answers) = ([0; 2], [0; 2]);
        // SAFETY: room for two descriptors each; the child only makes system calls, and ends.
        unsafe {
            assert_eq!(libc::pipe2(orders.as_mut_ptr(), libc::O_CLOEXEC), 0);
            assert_eq!(libc::pipe2(answers.as_mut_ptr(), libc::O_CLOEXEC), 0);
            let pid = libc::fork();
            if pid == 0 {
                let mut call = [0i64; 6];
                libc::close(orders[1]);
                while libc::read(orders[0], call.as_mut_ptr().cast(), 48) == 48 {
                    let [number, a, b, c, d, e] = call;
                    let mut returned = libc::syscall(number, a, b, c, d, e);
                    if returned == -1 {
                        returned = -i64::from(*libc::__errno_location());
                    }
                    libc::write(answers[1], (&raw const returned).cast(), 8);
                }
                libc::_exit(0);
            }
            libc::close(orders[0]);
            libc::close(answers[1]);
            Child {
                pid,
                orders: orders[1],
                answers: Disk::from_raw_fd(answers[0]),
            }
        }
    }

    fn perform(&mut self, call: &Call) -> i64 {
        let words = raw(call);
        // SAFETY: as many bytes as there are.
        let written = unsafe { libc::write(self.orders, words.as_ptr().cast(), 48) };
        assert_eq!(written, 48);
        let mut answer = [0; 8];
        self.answers.read_exact(&mut answer).unwrap();
        i64::from_ne_bytes(answer)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.pid)).unwrap()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the own child.
        unsafe {
            libc::close(self.orders);
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

#[test]
fn what_the_kernel_has_installed_is_followed() {
    let mut random = Random(5);
    let (mut moved, mut failed, mut gone) = (0, 0, 0);
    for _ in 0..12 {
        let mut child = Child::new();
        let mut space: AddressSpace = model_of(&child.text("smaps"));
        let Some(mut vdso) = Special::find(&space, "[vdso]") else {
            println!("skipped: this kernel installs no vdso");
            return;
        };
        for step in 0..STEPS {
            let all: Vec<_> = space
                .specials()
                .map(|area| (area.start, area.end))
                .collect();
            if all.is_empty() {
                break;
            }
            let chosen = all[random.below(all.len() as u64) as usize];
            let call = call(&mut random, chosen);
            let before = vdso.place();
            let result = if step % 2 == 0 {
                space.perform_with(&call, &mut vdso)
            } else {
                // Found again although the engine was not told.
                let result = space.perform_with(&call, &mut NoPages);
                match Special::find(&space, "[vdso]") {
                    Some(found) => vdso = found,
                    None => {
                        gone += 1;
                        break;
                    }
                }
                result
            };
            let own = result.map_or_else(|errno| -i64::from(errno.0), |value| value as i64);
            assert_eq!(own, child.perform(&call), "step {step}: {call:x?}");
            failed += u32::from(own < 0);
            let maps = child.text("maps");
            let real: Vec<_> = lines(&maps, "[vdso]");
            let found = space.special("[vdso]").map(|area| (area.start, area.end));
            let place = vdso.place().map(|place| (place.start, place.end));
            assert_eq!(
                (real.first().copied(), real.len()),
                (found, usize::from(found.is_some()))
            );
            assert_eq!(place, found, "step {step}: {call:x?}");
            moved += u32::from(before != vdso.place());
            let specials = |name| {
                let all = space.specials().filter(|area| {
                    space
                        .area_at(area.start)
                        .is_some_and(|line| line.name == name)
                });
                all.map(|area| (area.start, area.end)).collect::<Vec<_>>()
            };
            for name in ["[vvar]", "[vvar_vclock]"] {
                assert_eq!(lines(&maps, name), specials(name), "step {step}: {call:x?}");
            }
            if place.is_none() {
                gone += 1;
                break;
            }
        }
    }
    assert!(
        moved > 20 && failed > 20 && gone > 0,
        "{moved}, {failed}, {gone}"
    );
}
