//! The signal frame: `struct rt_sigframe` of the ABI (`asm/ucontext.h`, `asm/sigcontext.h`). A
//! handler finds it on its stack, and `rt_sigreturn(2)` reads it back.
//!
//! ```text
//! 0    siginfo (128 bytes)
//! 128  ucontext: flags, link, alternate stack (3 words), mask of signals (room for 128 bytes)
//! 304  program counter, x1 to x31
//! 560  f0 to f31, their control register; the rest of 528 bytes is zero
//! ```

use super::context::FpState;
use super::frame::{A0, Frame, SP};
use crate::arch::signal_frame::{Offsets, SigFrame};
use crate::process::signals::SigContext;

const OFFSETS: Offsets = Offsets { info: 0, altstack: 144, mask: 168 };
const CONTEXT: u64 = 128;
const REGISTERS: usize = 304;
const FLOAT: usize = 560;
pub(super) const SIZE: usize = FLOAT + 528;

const RA: usize = 0;

pub fn push_signal(
    frame: &mut Frame,
    interrupted: &SigContext,
    write: &mut dyn FnMut(u64, &[u8]) -> bool,
) -> bool {
    let at = (interrupted.stack.wrapping_sub(SIZE as u64)) & !15;
    let mut bytes = SigFrame::<SIZE>::new(&OFFSETS, interrupted);
    bytes.put(REGISTERS, frame.pc);
    bytes.put_all(REGISTERS + 8, frame.x);
    let float = FpState::of_processor();
    bytes.put_all(FLOAT, float.registers.into_iter().chain([float.control]));
    if !write(at, &bytes.0) {
        return false;
    }
    frame.x[A0] = interrupted.signal as u64;
    frame.x[A0 + 1] = at + OFFSETS.info as u64;
    frame.x[A0 + 2] = at + CONTEXT;
    frame.x[RA] = interrupted.restorer;
    frame.x[SP] = at;
    frame.pc = interrupted.handler;
    true
}

pub fn pop_signal(
    frame: &mut Frame,
    read: &mut dyn FnMut(u64, &mut [u8]) -> bool,
) -> Option<(u64, (u64, i32, u64))> {
    let mut bytes = SigFrame([0; SIZE]);
    if !read(frame.x[SP], &mut bytes.0) {
        return None;
    }
    frame.pc = bytes.get(REGISTERS);
    bytes.get_all(REGISTERS + 8, &mut frame.x);
    // No system call is restarted, whatever a0 holds.
    frame.cause = u64::MAX;
    let registers = core::array::from_fn(|i| bytes.get(FLOAT + 8 * i));
    FpState { registers, control: bytes.get(FLOAT + 256) & 0xff }.load();
    Some(bytes.mask_and_altstack(&OFFSETS))
}
