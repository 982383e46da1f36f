//! The signal frame: `struct rt_sigframe` of the ABI. A handler finds it on its stack, and
//! `rt_sigreturn(2)` reads it back.
//!
//! ```text
//! 0    address of the restorer, to which the handler returns
//! 8    ucontext: flags, link, alternate stack (3 words)
//! 48   registers (23 words): r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags,
//!      segments, code, vector, mask, address
//! 232  address of the floating-point registers; 8 words reserved
//! 304  mask of signals
//! 312  siginfo (128 bytes)
//! ```

use super::context::FpState;
use super::frame::Frame;
use crate::arch::signal_frame::{Offsets, SigFrame};
use crate::process::signals::SigContext;

const SIZE: usize = 440;
const OFFSETS: Offsets = Offsets { info: 312, altstack: 24, mask: 304 };
const REGISTERS: usize = 48;
const FLOAT: usize = 232;
const FLOAT_SIZE: u64 = 512;

/// Returns the registers in the order of the ABI.
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
    interrupted: &SigContext,
    write: &mut dyn FnMut(u64, &[u8]) -> bool,
) -> bool {
    let float_at = (interrupted.stack.wrapping_sub(FLOAT_SIZE)) & !63;
    // The alignment after a call: 8 bytes below a multiple of 16.
    let at = (float_at.wrapping_sub(SIZE as u64) & !15).wrapping_sub(8);
    let mut bytes = SigFrame::<SIZE>::new(&OFFSETS, interrupted);
    bytes.put(0, interrupted.restorer);
    let mut saved = frame.clone();
    bytes.put_all(REGISTERS, registers(&mut saved).map(|register| *register));
    let segments = frame.cs | frame.ss << 48;
    let rest = [frame.rflags, segments, frame.code, frame.vector, interrupted.mask];
    bytes.put_all(REGISTERS + 8 * 17, rest);
    let address = if frame.vector == 14 { bytes.get(OFFSETS.info + 16) } else { 0 };
    bytes.put(REGISTERS + 8 * 22, address);
    bytes.put(FLOAT, float_at);
    if !write(float_at, &FpState::of_processor().0) || !write(at, &bytes.0) {
        return false;
    }
    frame.rsp = at;
    frame.set_pc(interrupted.handler);
    frame.rdi = interrupted.signal as u64;
    frame.rsi = at + OFFSETS.info as u64;
    frame.rdx = at + 8;
    frame.rax = 0;
    frame.set_flags(frame.rflags & !0x500);
    true
}

pub fn pop_signal(
    frame: &mut Frame,
    read: &mut dyn FnMut(u64, &mut [u8]) -> bool,
) -> Option<(u64, (u64, i32, u64))> {
    let mut bytes = SigFrame([0; SIZE]);
    // The handler's return has popped the restorer's address.
    if !read(frame.rsp.wrapping_sub(8), &mut bytes.0) {
        return None;
    }
    bytes.get_all(REGISTERS, registers(frame));
    frame.set_pc(frame.rip);
    frame.set_flags(bytes.get(REGISTERS + 8 * 17));
    // No system call is restarted, whatever rax holds.
    frame.vector = 0;
    let float_at = bytes.get(FLOAT);
    if float_at != 0 {
        let mut float = FpState([0; 512]);
        if !read(float_at, &mut float.0) {
            return None;
        }
        // Bits that the processor does not support would raise an exception.
        float.0[26..28].fill(0);
        float.load();
    }
    Some(bytes.mask_and_altstack(&OFFSETS))
}
