//! The signal frame: `struct rt_sigframe` of the ABI, which a handler finds on its stack and `rt_sigreturn(2)` reads back (`asm/ucontext.h`, `asm/sigcontext.h`).
//!
//! ```text
//! 0    siginfo (128 bytes)
//! 128  ucontext: flags, link, alternate stack (3 words), mask of signals (room for 128 bytes)
//! 304  address of the fault, x0 to x30, stack pointer, program counter, flags
//! 592  records, each with its kind and size: floating-point registers, syndrome, end
//! 4688 frame pointer and return address, as a function that was called would keep them
//! ```

use super::context::Float;
use super::frame::{CLASS, Frame};
use crate::process::signals::Interrupted;

const INFO: usize = 0;
const CONTEXT: usize = 128;
const ALTERNATE: usize = 144;
const MASK: usize = 168;
const FAULT: usize = 304;
const REGISTERS: usize = 312;
const FLOAT: usize = 592;
const FLOAT_SIZE: usize = 528;
const SYNDROME: usize = FLOAT + FLOAT_SIZE;
/// The rest is zero, as are the kind and the size of the last record.
const WRITTEN: usize = SYNDROME + 32;
const SIZE: usize = 4688;
/// With the frame pointer and the return address.
pub(super) const WITH_RECORD: usize = SIZE + 16;

const FLOAT_RECORD: u64 = 0x4650_8001 | (FLOAT_SIZE as u64) << 32;
const SYNDROME_RECORD: u64 = 0x4553_5201 | 16 << 32;

unsafe extern "C" {
    static signal_return: u8;
}

fn put(bytes: &mut [u8; WRITTEN], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

fn get(bytes: &[u8; WRITTEN], at: usize) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))
}

pub fn push_signal(
    frame: &mut Frame,
    interrupted: &Interrupted,
    write: &mut dyn FnMut(u64, &[u8]) -> bool,
) -> bool {
    let record = (interrupted.stack.wrapping_sub(16)) & !15;
    let at = record.wrapping_sub(SIZE as u64);
    let mut bytes = [0; WRITTEN];
    bytes[INFO..CONTEXT].copy_from_slice(&interrupted.info);
    let (base, flags, size) = interrupted.alternate;
    put(&mut bytes, ALTERNATE, base);
    put(&mut bytes, ALTERNATE + 8, flags as u32 as u64);
    put(&mut bytes, ALTERNATE + 16, size);
    put(&mut bytes, MASK, interrupted.mask);
    // Aborts of instructions and data.
    if matches!(frame.class(), 0x20 | 0x24) {
        put(&mut bytes, SYNDROME, SYNDROME_RECORD);
        put(&mut bytes, SYNDROME + 8, frame.syndrome);
        let address = get(&bytes, INFO + 16);
        put(&mut bytes, FAULT, address);
    }
    for (i, &register) in frame.x.iter().enumerate() {
        put(&mut bytes, REGISTERS + 8 * i, register);
    }
    for (i, word) in [frame.sp, frame.pc, frame.pstate].into_iter().enumerate() {
        put(&mut bytes, REGISTERS + 8 * (31 + i), word);
    }
    let float = Float::of_processor();
    put(&mut bytes, FLOAT, FLOAT_RECORD);
    put(&mut bytes, FLOAT + 8, u64::from(float.status) | u64::from(float.control) << 32);
    for (i, vector) in float.vectors.iter().enumerate() {
        put(&mut bytes, FLOAT + 16 + 16 * i, *vector as u64);
        put(&mut bytes, FLOAT + 24 + 16 * i, (*vector >> 64) as u64);
    }
    let mut kept = [0; 16];
    kept[..8].copy_from_slice(&frame.x[29].to_le_bytes());
    kept[8..].copy_from_slice(&frame.x[30].to_le_bytes());
    let end = [0; 16];
    if !write(record, &kept) || !write(at + WRITTEN as u64, &end) || !write(at, &bytes) {
        return false;
    }
    frame.x[0] = interrupted.signal as u64;
    frame.x[1] = at + INFO as u64;
    frame.x[2] = at + CONTEXT as u64;
    frame.x[29] = record;
    frame.x[30] = match interrupted.restorer {
        0 => &raw const signal_return as u64,
        restorer => restorer,
    };
    frame.sp = at;
    frame.pc = interrupted.handler;
    frame.set_flags(0);
    true
}

pub fn pop_signal(
    frame: &mut Frame,
    read: &mut dyn FnMut(u64, &mut [u8]) -> bool,
) -> Option<(u64, (u64, i32, u64))> {
    let mut bytes = [0; WRITTEN];
    if !frame.sp.is_multiple_of(16) || !read(frame.sp, &mut bytes) {
        return None;
    }
    for (i, register) in frame.x.iter_mut().enumerate() {
        *register = get(&bytes, REGISTERS + 8 * i);
    }
    frame.sp = get(&bytes, REGISTERS + 8 * 31);
    frame.pc = get(&bytes, REGISTERS + 8 * 32);
    frame.set_flags(get(&bytes, REGISTERS + 8 * 33));
    // No call to restart, whatever x0 holds.
    frame.syndrome = 0x3f << CLASS;
    if get(&bytes, FLOAT) != FLOAT_RECORD {
        return None;
    }
    let word = |at: usize| u128::from(get(&bytes, FLOAT + 16 + at));
    let modes = get(&bytes, FLOAT + 8);
    let vectors = core::array::from_fn(|i| word(16 * i) | word(16 * i + 8) << 64);
    Float { vectors, status: modes as u32, control: (modes >> 32) as u32 }.load();
    let alternate =
        (get(&bytes, ALTERNATE), get(&bytes, ALTERNATE + 8) as i32, get(&bytes, ALTERNATE + 16));
    Some((get(&bytes, MASK), alternate))
}
