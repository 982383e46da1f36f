//! The signal frame: `struct rt_sigframe` of the ABI, which a handler finds on its stack and `rt_sigreturn(2)` reads back.
//!
//! ```text
//! 0    address of the restorer, to which the handler returns
//! 8    ucontext: flags, link, alternate stack (3 words)
//! 48   registers (23 words): r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags, segments, code, vector, mask, address
//! 232  address of the floating-point registers; 8 words reserved
//! 304  mask of signals
//! 312  siginfo (128 bytes)
//! ```

use super::context::Float;
use super::frame::Frame;
use crate::process::signals::Interrupted;

const SIZE: usize = 440;
const ALTERNATE: usize = 24;
const REGISTERS: usize = 48;
const FLOAT: usize = 232;
const MASK: usize = 304;
const INFO: usize = 312;
const FLOAT_SIZE: u64 = 512;

fn put(bytes: &mut [u8; SIZE], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

fn get(bytes: &[u8; SIZE], at: usize) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))
}

/// Registers in the order of the ABI.
fn registers(frame: &mut Frame) -> [&mut u64; 17] {
    [
        &mut frame.r8,
        &mut frame.r9,
        &mut frame.r10,
        &mut frame.r11,
        &mut frame.r12,
        &mut frame.r13,
        &mut frame.r14,
        &mut frame.r15,
        &mut frame.rdi,
        &mut frame.rsi,
        &mut frame.rbp,
        &mut frame.rbx,
        &mut frame.rdx,
        &mut frame.rax,
        &mut frame.rcx,
        &mut frame.rsp,
        &mut frame.rip,
    ]
}

pub fn push_signal(
    frame: &mut Frame,
    interrupted: &Interrupted,
    write: &mut dyn FnMut(u64, &[u8]) -> bool,
) -> bool {
    let float_at = (interrupted.stack.wrapping_sub(FLOAT_SIZE)) & !63;
    // As after a call: 8 bytes below a multiple of 16.
    let at = (float_at.wrapping_sub(SIZE as u64) & !15).wrapping_sub(8);
    let mut bytes = [0; SIZE];
    put(&mut bytes, 0, interrupted.restorer);
    let (base, flags, size) = interrupted.alternate;
    put(&mut bytes, ALTERNATE, base);
    put(&mut bytes, ALTERNATE + 8, flags as u32 as u64);
    put(&mut bytes, ALTERNATE + 16, size);
    let mut saved = frame.clone();
    for (i, register) in registers(&mut saved).into_iter().enumerate() {
        put(&mut bytes, REGISTERS + 8 * i, *register);
    }
    put(&mut bytes, REGISTERS + 8 * 17, frame.rflags);
    put(&mut bytes, REGISTERS + 8 * 18, frame.cs | frame.ss << 48);
    put(&mut bytes, REGISTERS + 8 * 19, frame.code);
    put(&mut bytes, REGISTERS + 8 * 20, frame.vector);
    put(&mut bytes, REGISTERS + 8 * 21, interrupted.mask);
    put(
        &mut bytes,
        REGISTERS + 8 * 22,
        if frame.vector == 14 {
            u64::from_le_bytes(core::array::from_fn(|i| interrupted.info[16 + i]))
        } else {
            0
        },
    );
    put(&mut bytes, FLOAT, float_at);
    put(&mut bytes, MASK, interrupted.mask);
    bytes[INFO..].copy_from_slice(&interrupted.info);
    if !write(float_at, &Float::of_processor().0) || !write(at, &bytes) {
        return false;
    }
    frame.rsp = at;
    frame.set_pc(interrupted.handler);
    frame.rdi = interrupted.signal as u64;
    frame.rsi = at + INFO as u64;
    frame.rdx = at + 8;
    frame.rax = 0;
    frame.set_flags(frame.rflags & !0x500);
    true
}

pub fn pop_signal(
    frame: &mut Frame,
    read: &mut dyn FnMut(u64, &mut [u8]) -> bool,
) -> Option<(u64, (u64, i32, u64))> {
    let mut bytes = [0; SIZE];
    // The handler's return has taken the restorer's address.
    if !read(frame.rsp.wrapping_sub(8), &mut bytes) {
        return None;
    }
    for (i, register) in registers(frame).into_iter().enumerate() {
        *register = get(&bytes, REGISTERS + 8 * i);
    }
    frame.set_pc(frame.rip);
    frame.set_flags(get(&bytes, REGISTERS + 8 * 17));
    // No call to restart, whatever the accumulator holds.
    frame.vector = 0;
    let float_at = get(&bytes, FLOAT);
    if float_at != 0 {
        let mut float = Float([0; 512]);
        if !read(float_at, &mut float.0) {
            return None;
        }
        float.load();
    }
    let alternate =
        (get(&bytes, ALTERNATE), get(&bytes, ALTERNATE + 8) as i32, get(&bytes, ALTERNATE + 16));
    Some((get(&bytes, MASK), alternate))
}
