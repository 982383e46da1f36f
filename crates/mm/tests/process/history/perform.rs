//! The engine's side of a step.

use samara_mm::abi::{
    MAP_ANONYMOUS, MAP_FIXED, MAP_POPULATE, MAP_PRIVATE, MAP_SHARED, MREMAP_FIXED, MREMAP_MAYMOVE,
    MS_SYNC,
};
use samara_mm::process::{Access, Fault};
use samara_mm::{Call, Errno, FileArg};

use super::op::{Op, Step};
use super::{Answer, FILE_PAGES, Failure, World, process_of};
use crate::world::PAGE;

impl World {
    pub(super) fn perform(&mut self, Step { who, from, to, op }: Step) -> Answer {
        let (addr, len) = (Self::addr(from), (to - from) as u64 * PAGE);
        let process = process_of(&self.processes, who);
        let why = |access| match process.fault(addr, access) {
            Err(Fault::Signal { .. } | Fault::Deadlock) => Err(Failure::Other),
            // Memory that was refused is there again.
            Err(Fault::NoMemory) | Ok(()) => Err(Failure::Memory),
        };
        let call = match op {
            Op::Map {
                kind,
                file_page,
                prot,
                populate,
            } => {
                let shared = if kind == 1 || kind == 2 {
                    MAP_SHARED
                } else {
                    MAP_PRIVATE
                };
                let anonymous = if kind < 2 { MAP_ANONYMOUS } else { 0 };
                let populate = if populate { MAP_POPULATE } else { 0 };
                Call::Mmap {
                    addr,
                    len,
                    prot,
                    flags: shared | anonymous | populate | MAP_FIXED,
                    file: match kind {
                        0 | 1 => FileArg::None,
                        _ => FileArg::File(self.file.clone()),
                    },
                    offset: if kind < 2 { 0 } else { file_page as u64 * PAGE },
                }
            }
            Op::Unmap => Call::Munmap { addr, len },
            Op::Protect(prot) => Call::Mprotect {
                addr,
                len,
                prot,
                pkey: -1,
            },
            Op::Advise(advice) => Call::Madvise { addr, len, advice },
            Op::Move(there) => Call::Mremap {
                old_addr: addr,
                old_len: PAGE,
                new_len: PAGE,
                flags: MREMAP_MAYMOVE | MREMAP_FIXED,
                new_addr: Self::addr(there),
            },
            Op::Sync => Call::Msync {
                addr,
                len,
                flags: MS_SYNC,
            },
            Op::Read => {
                let mut byte = [0];
                return match process.copy_out(addr, &mut byte) {
                    1 => Ok(byte[0]),
                    _ => why(Access::READ),
                };
            }
            Op::Write(value) => {
                return match process.copy_in(addr, &[value]) {
                    1 => Ok(0),
                    _ => why(Access::WRITE),
                };
            }
            Op::Fork(child, mode) => {
                let made = process.fork(mode).map_err(|_| Failure::Memory)?;
                if self.beside {
                    made.expect_threads();
                }
                self.processes[child] = Some(made);
                return Ok(0);
            }
            Op::Exit => {
                self.processes[who] = None;
                return Ok(0);
            }
            Op::Truncate(pages) => {
                self.disk.resize(pages * PAGE as usize);
                let size = pages as u64 * PAGE;
                self.machine.truncate(&self.file.object, size).unwrap();
                return Ok(0);
            }
            Op::Punch(first) => {
                let size = self.objects[0].len();
                if first < size {
                    let mut bytes = self.disk.bytes.lock().unwrap();
                    bytes[first * PAGE as usize..].fill(0);
                }
                let (start, end) = (first as u64 * PAGE, FILE_PAGES as u64 * PAGE);
                self.machine.punch(&self.file.object, start, end).unwrap();
                return Ok(0);
            }
            Op::Scan(pages) => {
                let walkers = self.walkers.as_mut().unwrap();
                return walkers.scan(pages as u64).map_err(|_| Failure::Memory);
            }
            Op::Pin { write, long } => {
                let walkers = self.walkers.as_mut().unwrap();
                let pinned = walkers.pin(process, addr, to - from, write, long);
                return pinned.map_err(|_| Failure::Memory);
            }
            Op::Unpin(pins) => {
                self.walkers.as_mut().unwrap().unpin(pins);
                return Ok(0);
            }
        };
        match process.perform(&call) {
            Ok(_) => Ok(0),
            Err(Errno::ENOMEM) => Err(Failure::Memory),
            Err(_) => Err(Failure::Other),
        }
    }
}
