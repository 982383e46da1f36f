//! An interpreter of RV64IMA in user mode.

use std::sync::atomic::{Ordering, fence};

use samara_mm::process::{Fault, Platform, Running, Stop};

/// Registers and the address of the next instruction.
#[derive(Clone)]
pub(crate) struct Cpu {
    pub(crate) x: [u64; 32],
    pub(crate) pc: u64,
    /// Executed instructions.
    pub(crate) steps: u64,
    /// The reservation of LR: the address and the loaded value.
    reserved: Option<(u64, u64)>,
}

/// The reason why the interpreter stops.
#[derive(Debug, PartialEq)]
pub(crate) enum Event {
    /// ECALL. `pc` points after it.
    SystemCall,
    /// The instruction at `pc` raises a signal, or reaches a device.
    Stop(Stop),
    Illegal(u32),
}

impl From<Stop> for Event {
    fn from(stop: Stop) -> Self {
        Event::Stop(stop)
    }
}

/// Returns some bits of an instruction, with the highest one as a sign.
fn signed(instruction: u32, from: u32, bits: u32) -> i64 {
    i64::from(((instruction << (32 - from - bits)) as i32) >> (32 - bits))
}

fn bits(instruction: u32, from: u32, bits: u32) -> usize {
    (instruction >> from & ((1 << bits) - 1)) as usize
}

impl Cpu {
    pub(crate) fn new(pc: u64, stack: u64) -> Self {
        let mut x = [0; 32];
        x[2] = stack;
        Cpu {
            x,
            pc,
            steps: 0,
            reserved: None,
        }
    }

    // ANCHOR: run
    /// Executes `steps` instructions in one section of the soft TLB. Each fetch, load and store polls.
    pub(crate) fn run<P: Platform>(
        &mut self,
        memory: &mut Running<'_, P>,
        steps: u32,
    ) -> Result<(), Event> {
        for _ in 0..steps {
            let instruction = memory.fetch::<u32>(self.pc)?;
            self.step(memory, instruction)?;
            self.x[0] = 0;
            self.steps += 1;
        }
        Ok(())
    }
    // ANCHOR_END: run

    fn step<P: Platform>(&mut self, memory: &mut Running<'_, P>, i: u32) -> Result<(), Event> {
        let (rd, a, b) = (
            bits(i, 7, 5),
            self.x[bits(i, 15, 5)],
            self.x[bits(i, 20, 5)],
        );
        let immediate = signed(i, 20, 12) as u64;
        let mut next = self.pc.wrapping_add(4);
        match i & 0x7f {
            0x37 => self.x[rd] = signed(i, 12, 20).wrapping_shl(12) as u64,
            0x17 => self.x[rd] = self.pc.wrapping_add((signed(i, 12, 20) << 12) as u64),
            0x6f => {
                let offset = signed(i, 31, 1) << 20
                    | (bits(i, 12, 8) << 12 | bits(i, 20, 1) << 11 | bits(i, 21, 10) << 1) as i64;
                self.x[rd] = next;
                next = self.pc.wrapping_add(offset as u64);
            }
            0x67 => {
                self.x[rd] = next;
                next = a.wrapping_add(immediate) & !1;
            }
            0x63 => {
                let taken = match bits(i, 12, 3) {
                    0 => a == b,
                    1 => a != b,
                    4 => (a as i64) < b as i64,
                    5 => a as i64 >= b as i64,
                    6 => a < b,
                    7 => a >= b,
                    _ => return Err(Event::Illegal(i)),
                };
                let offset = signed(i, 31, 1) << 12
                    | (bits(i, 7, 1) << 11 | bits(i, 25, 6) << 5 | bits(i, 8, 4) << 1) as i64;
                if taken {
                    next = self.pc.wrapping_add(offset as u64);
                }
            }
            // ANCHOR: load
            0x03 => {
                let addr = a.wrapping_add(immediate);
                self.x[rd] = match bits(i, 12, 3) {
                    0 => memory.load::<u8>(addr)? as i8 as u64,
                    1 => memory.load::<u16>(addr)? as i16 as u64,
                    2 => memory.load::<u32>(addr)? as i32 as u64,
                    3 => memory.load::<u64>(addr)?,
                    4 => memory.load::<u8>(addr)?.into(),
                    5 => memory.load::<u16>(addr)?.into(),
                    6 => memory.load::<u32>(addr)?.into(),
                    _ => return Err(Event::Illegal(i)),
                };
            }
            // ANCHOR_END: load
            0x23 => {
                let addr = a.wrapping_add((signed(i, 25, 7) << 5) as u64 | bits(i, 7, 5) as u64);
                match bits(i, 12, 3) {
                    0 => memory.store(addr, b as u8)?,
                    1 => memory.store(addr, b as u16)?,
                    2 => memory.store(addr, b as u32)?,
                    3 => memory.store(addr, b)?,
                    _ => return Err(Event::Illegal(i)),
                }
            }
            0x13 => self.x[rd] = arithmetic(i, a, immediate, bits(i, 20, 6) as u32, false)?,
            0x1b => self.x[rd] = arithmetic_32(i, a, immediate, bits(i, 20, 5) as u32, false)?,
            0x33 if bits(i, 25, 7) == 1 => self.x[rd] = multiply(i, a, b),
            0x33 => self.x[rd] = arithmetic(i, a, b, b as u32 & 63, true)?,
            0x3b if bits(i, 25, 7) == 1 => self.x[rd] = multiply_32(i, a, b)?,
            0x3b => self.x[rd] = arithmetic_32(i, a, b, b as u32 & 31, true)?,
            0x0f => fence(Ordering::SeqCst),
            0x2f => self.x[rd] = self.atomic(memory, i, a, b)?,
            0x73 if i == 0x73 => {
                self.pc = next;
                return Err(Event::SystemCall);
            }
            _ => return Err(Event::Illegal(i)),
        }
        self.pc = next;
        Ok(())
    }

    // ANCHOR: atomic
    /// Executes LR, SC and the atomic operations.
    ///
    /// They act on the guest's own word, so they are atomic for all virtual processors. SC compares the
    /// word with the value that LR loaded.
    fn atomic<P: Platform>(
        &mut self,
        memory: &mut Running<'_, P>,
        i: u32,
        addr: u64,
        b: u64,
    ) -> Result<u64, Event> {
        let wide = match bits(i, 12, 3) {
            2 => false,
            3 => true,
            _ => return Err(Event::Illegal(i)),
        };
        let operation = bits(i, 27, 5);
        let reserved = self.reserved.take();
        // LR needs no writable page.
        if operation == 2 {
            if !addr.is_multiple_of(if wide { 8 } else { 4 }) {
                return Err(Stop::Fault(Fault::ADRALN).into());
            }
            let found = if wide {
                memory.load(addr)?
            } else {
                memory.load::<u32>(addr)? as i32 as u64
            };
            fence(Ordering::SeqCst);
            self.reserved = Some((addr, found));
            return Ok(found);
        }
        if operation == 3 {
            let Some((_, old)) = reserved.filter(|reserved| reserved.0 == addr) else {
                return Ok(1);
            };
            let (order, failed) = (Ordering::SeqCst, Ordering::SeqCst);
            let stored = if wide {
                memory
                    .atomic_u64(addr)?
                    .compare_exchange(old, b, order, failed)
                    .is_ok()
            } else {
                memory
                    .atomic_u32(addr)?
                    .compare_exchange(old as u32, b as u32, order, failed)
                    .is_ok()
            };
            return Ok(u64::from(!stored));
        }
        // Both operands are sign-extended, so comparing 64 bits compares 32.
        let new = |old: u64, b: u64| match operation {
            0 => Some(old.wrapping_add(b)),
            1 => Some(b),
            4 => Some(old ^ b),
            8 => Some(old | b),
            12 => Some(old & b),
            16 => Some((old as i64).min(b as i64) as u64),
            20 => Some((old as i64).max(b as i64) as u64),
            24 => Some(old.min(b)),
            28 => Some(old.max(b)),
            _ => None,
        };
        let (order, failed) = (Ordering::SeqCst, Ordering::SeqCst);
        let old = if wide {
            memory
                .atomic_u64(addr)?
                .fetch_update(order, failed, |old| new(old, b))
                .ok()
        } else {
            let extended = |word: u32| word as i32 as u64;
            let word = memory.atomic_u32(addr)?;
            let old = word.fetch_update(order, failed, |old| {
                Some(new(extended(old), extended(b as u32))? as u32)
            });
            old.ok().map(extended)
        };
        old.ok_or(Event::Illegal(i))
    }
    // ANCHOR_END: atomic
}

fn arithmetic(i: u32, a: u64, b: u64, shift: u32, registers: bool) -> Result<u64, Event> {
    let other = i >> 30 & 1 == 1;
    Ok(match bits(i, 12, 3) {
        0 if registers && other => a.wrapping_sub(b),
        0 => a.wrapping_add(b),
        1 => a << shift,
        2 => u64::from((a as i64) < b as i64),
        3 => u64::from(a < b),
        4 => a ^ b,
        5 if other => (a as i64 >> shift) as u64,
        5 => a >> shift,
        6 => a | b,
        _ => a & b,
    })
}

fn arithmetic_32(i: u32, a: u64, b: u64, shift: u32, registers: bool) -> Result<u64, Event> {
    let (a, b, other) = (a as u32, b as u32, i >> 30 & 1 == 1);
    let result = match bits(i, 12, 3) {
        0 if registers && other => a.wrapping_sub(b),
        0 => a.wrapping_add(b),
        1 => a << shift,
        5 if other => (a as i32 >> shift) as u32,
        5 => a >> shift,
        _ => return Err(Event::Illegal(i)),
    };
    Ok(result as i32 as u64)
}

fn multiply(i: u32, a: u64, b: u64) -> u64 {
    let (signed, unsigned) = (|x: u64| i128::from(x as i64), |x: u64| i128::from(x));
    match bits(i, 12, 3) {
        0 => a.wrapping_mul(b),
        1 => ((signed(a) * signed(b)) >> 64) as u64,
        2 => (signed(a).wrapping_mul(unsigned(b)) >> 64) as u64,
        3 => ((u128::from(a) * u128::from(b)) >> 64) as u64,
        4 if b == 0 => u64::MAX,
        4 => (a as i64).wrapping_div(b as i64) as u64,
        5 => a.checked_div(b).unwrap_or(u64::MAX),
        6 if b == 0 => a,
        6 => (a as i64).wrapping_rem(b as i64) as u64,
        _ => a.checked_rem(b).unwrap_or(a),
    }
}

fn multiply_32(i: u32, a: u64, b: u64) -> Result<u64, Event> {
    let (a, b) = (a as u32, b as u32);
    let result = match bits(i, 12, 3) {
        0 => a.wrapping_mul(b),
        4 if b == 0 => u32::MAX,
        4 => (a as i32).wrapping_div(b as i32) as u32,
        5 => a.checked_div(b).unwrap_or(u32::MAX),
        6 if b == 0 => a,
        6 => (a as i32).wrapping_rem(b as i32) as u32,
        7 => a.checked_rem(b).unwrap_or(a),
        _ => return Err(Event::Illegal(i)),
    };
    Ok(result as i32 as u64)
}
