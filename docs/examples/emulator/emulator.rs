//! An emulator of static programs for RISC-V: their memory, their threads and a few system calls.

use std::error::Error;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::thread::{self, Scope};

use samara_mm::abi::MapFlags;
use samara_mm::process::{ForkMode, HostLock, Hosted, Machine, Process, SoftTlb, Vcpus};
use samara_mm::{Call, Config, Errno, FileArg, Layout, Limits, MmapOptions, Prot};
use samara_paging::{Arena, HeapBytes};

use crate::cpu::{Cpu, Event};

// ANCHOR: platform
/// A machine whose calls notify the virtual processors of translations to drop.
type Platform = Hosted<HeapBytes, Vcpus<HostLock>>;
// ANCHOR_END: platform

const PAGE: u64 = 4096;
/// Instructions in one section.
const BATCH: u32 = 1000;

/// A running program.
pub(crate) struct Emulator {
    process: Process<Platform>,
    /// `true` once no thread continues.
    ended: AtomicBool,
    status: AtomicI32,
    steps: AtomicU64,
    output: Mutex<Vec<u8>>,
}

/// The end of a program.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) status: i32,
    /// Instructions of all threads.
    pub(crate) steps: u64,
    pub(crate) output: Vec<u8>,
}

/// Returns the number of `bytes` bytes at an offset of a file.
fn number(file: &[u8], at: u64, bytes: usize) -> Result<u64, Box<dyn Error>> {
    let at = usize::try_from(at)?;
    let field = file.get(at..at + bytes).ok_or("the file is cut off")?;
    Ok(field
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

impl Emulator {
    /// Runs a static program with these arguments, its name first.
    pub(crate) fn run(elf: &[u8], arguments: &[&str]) -> Result<Ending, Box<dyn Error>> {
        // ANCHOR: machine
        let machine = Machine::<Platform>::over_with(Arena::on_heap(4096)?, Vcpus::new(8)?)?;
        let process = Process::new(
            &machine,
            Config::default(),
            Limits::default(),
            Layout::default(),
        )?;
        // Faults of one thread then do not wait for calls of another.
        process.expect_threads();
        // ANCHOR_END: machine
        let emulator = Emulator {
            process,
            ended: AtomicBool::new(false),
            status: AtomicI32::new(0),
            steps: AtomicU64::new(0),
            output: Mutex::default(),
        };
        let start = emulator.load(elf)?;
        let stack = emulator.stack(arguments)?;
        thread::scope(|scope| emulator.thread(scope, Cpu::new(start, stack)));
        Ok(Ending {
            status: emulator.status.into_inner(),
            steps: emulator.steps.into_inner(),
            output: emulator.output.into_inner().unwrap_or_default(),
        })
    }

    /// Maps the segments, and returns where the program begins.
    fn load(&self, elf: &[u8]) -> Result<u64, Box<dyn Error>> {
        let headers = number(elf, 32, 8)?;
        for header in (0..number(elf, 56, 2)?).map(|i| headers + 56 * i) {
            if number(elf, header, 4)? != 1 {
                continue;
            }
            let field = |at| number(elf, header + at, 8);
            let (offset, addr, in_file, size) = (field(8)?, field(16)?, field(32)?, field(40)?);
            let (start, end) = (addr & !(PAGE - 1), (addr + size).next_multiple_of(PAGE));
            let area = MmapOptions::anonymous(end - start).prot(Prot::READ | Prot::WRITE);
            self.process.mmap(&area.fixed(start))?;
            let bytes = usize::try_from(offset)?..usize::try_from(offset + in_file)?;
            let bytes = elf.get(bytes).ok_or("the file is cut off")?;
            if self.process.copy_in(addr, bytes) != bytes.len() {
                return Err("a segment has no memory".into());
            }
            let flags = number(elf, header + 4, 4)?;
            let mut prot = Prot::empty();
            for (bit, one) in [(4, Prot::READ), (2, Prot::WRITE), (1, Prot::EXEC)] {
                prot.set(one, flags & bit != 0);
            }
            self.process.mprotect(start, end - start, prot)?;
        }
        number(elf, 24, 8)
    }

    /// Maps a stack with the arguments on it, and returns its pointer.
    fn stack(&self, arguments: &[&str]) -> Result<u64, Box<dyn Error>> {
        let size = 64 * PAGE;
        let area = MmapOptions::anonymous(size).prot(Prot::READ | Prot::WRITE);
        let mut top = self.process.mmap(&area.flags(MapFlags::STACK))? + size;
        let mut words = vec![arguments.len() as u64];
        for argument in arguments {
            top -= argument.len() as u64 + 1;
            self.process.copy_in(top, argument.as_bytes());
            words.push(top);
        }
        // The terminators of the arguments, the environment and the auxiliary vector.
        words.extend([0, 0, 0, 0]);
        top = (top - 8 * words.len() as u64) & !15;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.process.copy_in(top, &bytes);
        Ok(top)
    }

    // ANCHOR: thread
    /// Runs a thread of the guest, on a virtual processor of its own, until it ends.
    fn thread<'s>(&'s self, scope: &'s Scope<'s, '_>, mut cpu: Cpu) {
        let mut vcpu = match SoftTlb::new(&self.process) {
            Ok(vcpu) => vcpu,
            Err(error) => return self.end(error.0, &format!("no virtual processor: {error}")),
        };
        while !self.ended.load(Ordering::Relaxed) {
            match vcpu.run(|memory| cpu.run(memory, BATCH)) {
                Ok(()) => {}
                // Outside of `run`: no other thread's call waits for this one.
                Err(Event::SystemCall) => self.system_call(scope, &mut cpu),
                Err(event) => self.end(128, &format!("{event:?} at {:#x}", cpu.pc)),
            }
        }
        self.steps.fetch_add(cpu.steps, Ordering::Relaxed);
    }
    // ANCHOR_END: thread

    fn end(&self, status: i32, why: &str) {
        self.write(why.as_bytes());
        self.status.store(status, Ordering::Relaxed);
        self.ended.store(true, Ordering::Relaxed);
    }

    fn write(&self, bytes: &[u8]) {
        if let Ok(mut output) = self.output.lock() {
            output.extend(bytes);
        }
    }

    fn system_call<'s>(&'s self, scope: &'s Scope<'s, '_>, cpu: &mut Cpu) {
        let [addr, len, prot, flags] = [cpu.x[10], cpu.x[11], cpu.x[12], cpu.x[13]];
        let (file, offset, pkey) = (FileArg::None, 0, -1);
        let result = match cpu.x[17] {
            64 => {
                let mut bytes = vec![0; (prot as usize).min(4096)];
                let copied = self.process.copy_out(len, &mut bytes);
                self.write(&bytes[..copied]);
                Ok(copied as u64)
            }
            93 | 94 => {
                self.end(addr as i32, "");
                Ok(0)
            }
            215 => self.call(&Call::Munmap { addr, len }),
            220 if addr & 0x100 != 0 => {
                // A thread shares the memory and has its own stack.
                let mut child = cpu.clone();
                (child.x[2], child.x[10], child.steps) = (len, 0, 0);
                scope.spawn(move || self.thread(scope, child));
                Ok(2)
            }
            // A child that exits at once.
            220 => self.process.fork(ForkMode::Copy).map(|_| 3),
            222 => self.call(&Call::Mmap {
                addr,
                len,
                prot,
                flags,
                file,
                offset,
            }),
            226 => self.call(&Call::Mprotect {
                addr,
                len,
                prot,
                pkey,
            }),
            233 => self.call(&Call::Madvise {
                addr,
                len,
                advice: prot as i32,
            }),
            _ => Err(Errno::ENOSYS),
        };
        cpu.x[10] = result.unwrap_or_else(|errno| (-i64::from(errno.0)) as u64);
    }

    /// Performs a call, and retries while there is no memory.
    ///
    /// Retired tables wait for a thread that was preempted in a page walk. Until then memory may be short.
    fn call(&self, call: &Call) -> Result<u64, Errno> {
        loop {
            match self.process.perform(call) {
                Err(Errno::ENOMEM) if !self.ended.load(Ordering::Relaxed) => {
                    thread::yield_now();
                    self.process.machine().physical().reclaim();
                }
                result => return result,
            }
        }
    }
}
