//! Processes as plain arrays of bytes, and the same history on the engine.
//!
//! The model knows neither pages nor tables: a process is, for each page, nothing, or a protection and one byte. What the engine's pages hold is looked
//! at in physical memory, so that looking changes nothing.

use samara_mm::Call;
use samara_mm::abi::{
    MADV_DONTNEED, MREMAP_FIXED, MREMAP_MAYMOVE, PROT_NONE, PROT_READ, PROT_WRITE,
};
use samara_mm::process::{Access, Fault, ForkMode, Machine, Process};

use crate::world::{Hosted, PAGE, anonymous, machine, process};

/// The result of a step on the engine.
pub(crate) type Outcome = Result<(), Refused>;

/// There was no memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Pages `from .. to` become new, empty memory.
    Map(usize, usize),
    Unmap(usize, usize),
    Protect(usize, usize, u64),
    Discard(usize, usize),
    /// One page moves.
    Move(usize, usize),
    Write(usize, u8),
    Read(usize),
    Fork(usize),
    Exit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Byte {
    prot: u64,
    value: u8,
}

type Bytes = Vec<Option<Byte>>;

pub(crate) struct World {
    pub(crate) machine: Machine<Hosted>,
    mode: ForkMode,
    /// Every process is to have its map shared with faults that take no lock.
    beside: bool,
    base: u64,
    engine: Vec<Option<Process<Hosted>>>,
    model: Vec<Option<Bytes>>,
}

impl World {
    /// Makes a world of at most `slots` processes. The first exists, with this many pages from
    /// `base` on.
    pub(crate) fn new(
        mode: ForkMode,
        slots: usize,
        base: u64,
        pages: usize,
        frames: usize,
    ) -> Self {
        let machine = machine(frames);
        let mut engine: Vec<_> = (0..slots).map(|_| None).collect();
        engine[0] = Some(process(&machine));
        let mut model = vec![None; slots];
        model[0] = Some(vec![None; pages]);
        World {
            machine,
            mode,
            beside: false,
            base,
            engine,
            model,
        }
    }

    /// Switches to lock-free faults: they find the map without its lock from now on, and calls
    /// change it concurrently.
    pub(crate) fn expect_threads(&mut self) {
        self.beside = true;
        self.engine
            .iter()
            .flatten()
            .for_each(Process::expect_threads);
    }

    /// Returns `true` if the step has a meaning in the current state.
    pub(crate) fn possible(&self, who: usize, op: Op) -> bool {
        self.model[who].is_some()
            && match op {
                Op::Fork(child) => self.model[child].is_none(),
                Op::Move(from, to) => from != to,
                _ => true,
            }
    }

    fn addr(&self, page: usize) -> u64 {
        self.base + page as u64 * PAGE
    }

    fn range(&self, from: usize, to: usize) -> (u64, u64) {
        (self.addr(from), (to - from) as u64 * PAGE)
    }

    /// Performs a step in the engine; then, unless it was refused, in the model, and compares what it gave.
    pub(crate) fn step(&mut self, who: usize, op: Op) -> Outcome {
        self.step_with(who, op, |_, _| {})
    }

    /// The same; `refusing` is told when the engine begins and when it has ended.
    pub(crate) fn step_with(
        &mut self,
        who: usize,
        op: Op,
        refusing: impl Fn(&Machine<Hosted>, bool),
    ) -> Outcome {
        let expected = self.expected(who, op);
        let machine = self.machine.clone();
        refusing(&machine, true);
        let found = self.engine_step(who, op);
        refusing(&machine, false);
        match (&expected, &found) {
            (_, Err(None)) => return Err(Refused),
            (Ok(byte), Ok(found)) => assert_eq!(byte, found, "{who} {op:?}"),
            (Err(()), Err(Some(()))) => {}
            _ => panic!("{who} {op:?}: {expected:?}, but {found:?}"),
        }
        self.model_step(who, op);
        Ok(())
    }

    fn is_mapped(&self, who: usize, page: usize) -> bool {
        let addr = self.addr(page);
        let process = self.engine[who].as_ref().unwrap();
        process.with_space(|space| space.lookup(addr).is_some())
    }

    /// Returns the expected result of a step: the byte that is read, or a failure.
    fn expected(&self, who: usize, op: Op) -> Result<u8, ()> {
        let bytes = self.model[who].as_ref().unwrap();
        let all = |from: usize, to: usize| {
            if bytes[from..to].iter().all(Option::is_some) {
                Ok(0)
            } else {
                Err(())
            }
        };
        match op {
            Op::Protect(from, to, _) | Op::Discard(from, to) => all(from, to),
            Op::Move(from, _) => all(from, from + 1),
            Op::Write(page, _) => match bytes[page] {
                Some(byte) if byte.prot & PROT_WRITE != 0 => Ok(0),
                _ => Err(()),
            },
            Op::Read(page) => match bytes[page] {
                Some(byte) if byte.prot != PROT_NONE => Ok(byte.value),
                _ => Err(()),
            },
            _ => Ok(0),
        }
    }

    fn model_step(&mut self, who: usize, op: Op) {
        if let Op::Fork(child) = op {
            self.model[child] = self.model[who].clone();
            return;
        }
        if op == Op::Exit {
            self.model[who] = None;
            return;
        }
        let bytes = self.model[who].as_mut().unwrap();
        match op {
            Op::Map(from, to) => bytes[from..to].fill(Some(Byte {
                prot: PROT_READ | PROT_WRITE,
                value: 0,
            })),
            Op::Unmap(from, to) => bytes[from..to].fill(None),
            // Up to the first hole, as the call does.
            Op::Protect(from, to, prot) => bytes[from..to]
                .iter_mut()
                .map_while(Option::as_mut)
                .for_each(|byte| byte.prot = prot),
            // Holes are passed over.
            Op::Discard(from, to) => bytes[from..to]
                .iter_mut()
                .flatten()
                .for_each(|byte| byte.value = 0),
            Op::Move(from, to) if bytes[from].is_some() => bytes[to] = bytes[from].take(),
            Op::Write(page, value) => {
                if let Some(byte) = bytes[page].as_mut().filter(|b| b.prot & PROT_WRITE != 0) {
                    byte.value = value;
                }
            }
            _ => {}
        }
    }

    /// `Err(None)`: there was no memory; `Err(Some)`: another failure.
    fn engine_step(&mut self, who: usize, op: Op) -> Result<u8, Option<()>> {
        let call = match op {
            Op::Map(from, to) => {
                anonymous(self.addr(from), (to - from) as u64, PROT_READ | PROT_WRITE)
            }
            Op::Unmap(from, to) => {
                let (addr, len) = self.range(from, to);
                Call::Munmap { addr, len }
            }
            Op::Protect(from, to, prot) => {
                let (addr, len) = self.range(from, to);
                let pkey = -1;
                Call::Mprotect {
                    addr,
                    len,
                    prot,
                    pkey,
                }
            }
            Op::Discard(from, to) => {
                let (addr, len) = self.range(from, to);
                let advice = MADV_DONTNEED;
                Call::Madvise { addr, len, advice }
            }
            Op::Move(from, to) => Call::Mremap {
                old_addr: self.addr(from),
                old_len: PAGE,
                new_len: PAGE,
                flags: MREMAP_MAYMOVE | MREMAP_FIXED,
                new_addr: self.addr(to),
            },
            Op::Write(page, value) => {
                let addr = self.addr(page);
                let process = self.engine[who].as_ref().unwrap();
                return match process.copy_in(addr, &[value]) {
                    1 => Ok(0),
                    _ => Err(why(process.fault(addr, Access::WRITE))),
                };
            }
            Op::Read(page) => {
                let addr = self.addr(page);
                let mut byte = [0];
                let process = self.engine[who].as_ref().unwrap();
                return match process.copy_out(addr, &mut byte) {
                    1 => Ok(byte[0]),
                    _ => Err(why(process.fault(addr, Access::READ))),
                };
            }
            Op::Fork(child) => {
                let parent = self.engine[who].as_ref().unwrap();
                let made = parent.fork(self.mode).map_err(|_| None)?;
                if self.beside {
                    made.expect_threads();
                }
                self.engine[child] = Some(made);
                return Ok(0);
            }
            Op::Exit => {
                self.engine[who] = None;
                return Ok(0);
            }
        };
        let process = self.engine[who].as_ref().unwrap();
        let mapped = |page: usize| self.model[who].as_ref().unwrap()[page].is_some();
        match process.perform(&call) {
            Ok(_) => Ok(0),
            // Of a hole, which the model knows, or of memory.
            Err(samara_mm::Errno::ENOMEM) => match op {
                Op::Protect(from, to, _) | Op::Discard(from, to) if !(from..to).all(mapped) => {
                    Err(Some(()))
                }
                _ => Err(None),
            },
            Err(_) => Err(Some(())),
        }
    }

    /// Compares everything, and counts everything.
    pub(crate) fn check(&self) {
        self.machine.check().unwrap();
        for (who, (process, bytes)) in self.engine.iter().zip(&self.model).enumerate() {
            assert_eq!(process.is_some(), bytes.is_some());
            let (Some(process), Some(bytes)) = (process, bytes) else {
                continue;
            };
            for (page, byte) in bytes.iter().enumerate() {
                let addr = self.addr(page);
                assert_eq!(self.is_mapped(who, page), byte.is_some(), "page {page}");
                let Some(byte) = byte else {
                    continue;
                };
                if let Some((phys, prot)) = process.translate(addr) {
                    // SAFETY: one thread; the page is mapped.
                    let value = unsafe { self.machine.physical().to_virt(phys).read() };
                    assert_eq!(value, byte.value, "page {page}");
                    assert_eq!(prot.bits() & !byte.prot & PROT_WRITE, 0, "page {page}");
                } else if process.page(addr).is_empty() {
                    assert_eq!(byte.value, 0, "page {page} has gone");
                }
            }
        }
    }
}

fn why(fault: Result<(), Fault>) -> Option<()> {
    match fault {
        Err(Fault::NoMemory) => None,
        Err(Fault::Signal { .. } | Fault::Deadlock) => Some(()),
        Ok(()) => None,
    }
}
