//! The signal frame: `struct rt_sigframe` of the ABI (`asm/ucontext.h`, `asm/sigcontext.h`). A
//! handler finds it on its stack, and `rt_sigreturn(2)` reads it back.
//!
//! ```text
//! 0    siginfo (128 bytes)
//! 128  ucontext: flags, link, alternate stack (3 words), mask of signals (room for 128 bytes)
//! 304  address of the fault, x0 to x30, stack pointer, program counter, flags
//! 592  records, each with its kind and size: floating-point registers, syndrome, end
//! 4688 frame record: frame pointer and return address, as of a called function
//! ```

use super::context::FpState;
use super::frame::{CLASS, Frame};
use crate::arch::signal_frame::{Offsets, SigFrame};
use crate::process::signals::SigContext;

const OFFSETS: Offsets = Offsets { info: 0, altstack: 144, mask: 168 };
const CONTEXT: u64 = 128;
const FAULT: usize = 304;
const REGISTERS: usize = 312;
const FLOAT: usize = 592;
const FLOAT_SIZE: usize = 528;
const SYNDROME: usize = FLOAT + FLOAT_SIZE;
/// The number of bytes that are written. The rest is zero, including the kind and size of the last
/// record.
const WRITTEN: usize = SYNDROME + 32;
const SIZE: usize = 4688;
/// The size with the frame record.
pub(super) const WITH_RECORD: usize = SIZE + 16;

const FLOAT_RECORD: u64 = 0x4650_8001 | (FLOAT_SIZE as u64) << 32;
const SYNDROME_RECORD: u64 = 0x4553_5201 | 16 << 32;

pub fn push_signal(
    frame: &mut Frame,
    interrupted: &SigContext,
    write: &mut dyn FnMut(u64, &[u8]) -> bool,
) -> bool {
    let record = (interrupted.stack.wrapping_sub(16)) & !15;
    let at = record.wrapping_sub(SIZE as u64);
    let mut bytes = SigFrame::<WRITTEN>::new(&OFFSETS, interrupted);
    // Instruction and data aborts.
    if matches!(frame.class(), 0x20 | 0x24) {
        bytes.put(SYNDROME, SYNDROME_RECORD);
        bytes.put(SYNDROME + 8, frame.syndrome);
        bytes.put(FAULT, bytes.get(OFFSETS.info + 16));
    }
    bytes.put_all(REGISTERS, frame.x);
    bytes.put_all(REGISTERS + 8 * 31, [frame.sp, frame.pc, frame.pstate]);
    let float = FpState::of_processor();
    bytes.put(FLOAT, FLOAT_RECORD);
    bytes.put(FLOAT + 8, u64::from(float.status) | u64::from(float.control) << 32);
    let halves = float.vectors.iter().flat_map(|&vector| [vector as u64, (vector >> 64) as u64]);
    bytes.put_all(FLOAT + 16, halves);
    let mut kept = [0; 16];
    kept[..8].copy_from_slice(&frame.x[29].to_le_bytes());
    kept[8..].copy_from_slice(&frame.x[30].to_le_bytes());
    let end = [0; 16];
    if !write(record, &kept) || !write(at + WRITTEN as u64, &end) || !write(at, &bytes.0) {
        return false;
    }
    frame.x[0] = interrupted.signal as u64;
    frame.x[1] = at + OFFSETS.info as u64;
    frame.x[2] = at + CONTEXT;
    frame.x[29] = record;
    frame.x[30] = interrupted.restorer;
    frame.sp = at;
    frame.pc = interrupted.handler;
    frame.set_flags(0);
    true
}

pub fn pop_signal(
    frame: &mut Frame,
    read: &mut dyn FnMut(u64, &mut [u8]) -> bool,
) -> Option<(u64, (u64, i32, u64))> {
    let mut bytes = SigFrame([0; WRITTEN]);
    if !frame.sp.is_multiple_of(16) || !read(frame.sp, &mut bytes.0) {
        return None;
    }
    bytes.get_all(REGISTERS, &mut frame.x);
    frame.sp = bytes.get(REGISTERS + 8 * 31);
    frame.pc = bytes.get(REGISTERS + 8 * 32);
    frame.set_flags(bytes.get(REGISTERS + 8 * 33));
    // No system call is restarted, whatever x0 holds.
    frame.syndrome = 0x3f << CLASS;
    if bytes.get(FLOAT) != FLOAT_RECORD {
        return None;
    }
    let word = |at: usize| u128::from(bytes.get(FLOAT + 16 + at));
    let modes = bytes.get(FLOAT + 8);
    let vectors = core::array::from_fn(|i| word(16 * i) | word(16 * i + 8) << 64);
    FpState { vectors, status: modes as u32, control: (modes >> 32) as u32 }.load();
    Some(bytes.mask_and_altstack(&OFFSETS))
}
