//! The signal frame: `struct rt_sigframe` of the ABI, which a handler finds on its stack and `rt_sigreturn(2)` reads back (`asm/ucontext.h`, `asm/sigcontext.h`).
//!
//! ```text
//! 0    siginfo (128 bytes)
//! 128  ucontext: flags, link, alternate stack (3 words), mask of signals (room for 128 bytes)
//! 304  program counter, x1 to x31
//! 560  f0 to f31, their control register; the rest of 528 bytes is zero
//! ```

use super::context::Float;
use super::frame::{A0, Frame, SP};
use crate::process::signals::Interrupted;

const INFO: usize = 0;
const CONTEXT: usize = 128;
const ALTERNATE: usize = 144;
const MASK: usize = 168;
const REGISTERS: usize = 304;
const FLOAT: usize = 560;
pub(super) const SIZE: usize = FLOAT + 528;

const RA: usize = 0;

unsafe extern "C" {
    static signal_return: u8;
}

fn put(bytes: &mut [u8; SIZE], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

fn get(bytes: &[u8; SIZE], at: usize) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))
}

pub fn push_signal(
    frame: &mut Frame,
    interrupted: &Interrupted,
    write: &mut dyn FnMut(u64, &[u8]) -> bool,
) -> bool {
    let at = (interrupted.stack.wrapping_sub(SIZE as u64)) & !15;
    let mut bytes = [0; SIZE];
    bytes[INFO..CONTEXT].copy_from_slice(&interrupted.info);
    let (base, flags, size) = interrupted.alternate;
    put(&mut bytes, ALTERNATE, base);
    put(&mut bytes, ALTERNATE + 8, flags as u32 as u64);
    put(&mut bytes, ALTERNATE + 16, size);
    put(&mut bytes, MASK, interrupted.mask);
    put(&mut bytes, REGISTERS, frame.pc);
    for (i, &register) in frame.x.iter().enumerate() {
        put(&mut bytes, REGISTERS + 8 + 8 * i, register);
    }
    let float = Float::of_processor();
    for (i, &register) in float.registers.iter().chain([&float.control]).enumerate() {
        put(&mut bytes, FLOAT + 8 * i, register);
    }
    if !write(at, &bytes) {
        return false;
    }
    frame.x[A0] = interrupted.signal as u64;
    frame.x[A0 + 1] = at + INFO as u64;
    frame.x[A0 + 2] = at + CONTEXT as u64;
    frame.x[RA] = match interrupted.restorer {
        0 => &raw const signal_return as u64,
        restorer => restorer,
    };
    frame.x[SP] = at;
    frame.pc = interrupted.handler;
    true
}

pub fn pop_signal(
    frame: &mut Frame,
    read: &mut dyn FnMut(u64, &mut [u8]) -> bool,
) -> Option<(u64, (u64, i32, u64))> {
    let mut bytes = [0; SIZE];
    if !read(frame.x[SP], &mut bytes) {
        return None;
    }
    frame.pc = get(&bytes, REGISTERS);
    for (i, register) in frame.x.iter_mut().enumerate() {
        *register = get(&bytes, REGISTERS + 8 + 8 * i);
    }
    // No call to restart, whatever a0 holds.
    frame.cause = u64::MAX;
    let registers = core::array::from_fn(|i| get(&bytes, FLOAT + 8 * i));
    Float { registers, control: get(&bytes, FLOAT + 256) & 0xff }.load();
    let alternate =
        (get(&bytes, ALTERNATE), get(&bytes, ALTERNATE + 8) as i32, get(&bytes, ALTERNATE + 16));
    Some((get(&bytes, MASK), alternate))
}
