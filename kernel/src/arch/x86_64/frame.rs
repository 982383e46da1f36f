//! The registers of a program, as `entry.s` saves them on the kernel stack.

use crate::arch::UserFrame;

/// All registers, in the order in which they lie in memory.
#[derive(Clone, Default, Debug)]
#[repr(C)]
pub struct Frame {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    /// The vector of the trap, or [`SYSTEM_CALL`].
    pub vector: u64,
    /// The error code of an exception, or the number of the system call.
    pub code: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

pub const SYSTEM_CALL: u64 = 256;

const USER_CODE: u64 = 0x23;
const USER_DATA: u64 = 0x1b;
/// Interrupts are on, and bit 1 is always set.
const FLAGS: u64 = 0x202;
/// The flags that a program may set: arithmetic, direction, trap, nested task, alignment check,
/// identification.
const USER_FLAGS: u64 = 0x24_4dd5;

impl Frame {
    pub fn is_user(&self) -> bool {
        self.cs & 3 != 0
    }

    /// Sets the program counter to an address that a program has given.
    ///
    /// The address is made canonical. The processor raises the exception for a non-canonical one
    /// while it still runs the kernel. A canonical address of the kernel's half raises it in the
    /// program, which gets its signal.
    pub fn set_pc(&mut self, at: u64) {
        self.rip = ((at << 16) as i64 >> 16) as u64;
    }

    /// Sets the flags that a program may choose.
    pub fn set_flags(&mut self, flags: u64) {
        self.rflags = flags & USER_FLAGS | FLAGS;
    }
}

impl UserFrame for Frame {
    fn new(pc: u64, sp: u64) -> Self {
        Frame {
            vector: SYSTEM_CALL,
            rip: pc,
            cs: USER_CODE,
            rflags: FLAGS,
            rsp: sp,
            ss: USER_DATA,
            ..Frame::default()
        }
    }

    fn sp(&self) -> u64 {
        self.rsp
    }

    fn set_sp(&mut self, sp: u64) {
        self.rsp = sp;
    }

    fn call(&self) -> (u64, [u64; 6]) {
        let arguments = [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9];
        (self.code, arguments)
    }

    fn set_result(&mut self, result: i64) {
        self.rax = result as u64;
    }

    fn result(&self) -> Option<i64> {
        (self.vector == SYSTEM_CALL).then_some(self.rax as i64)
    }

    fn red_zone(&self) -> u64 {
        // Leaf functions use 128 bytes below the stack pointer.
        self.rsp.wrapping_sub(128)
    }

    fn restart(&mut self) {
        // `syscall` has two bytes.
        self.rip -= 2;
        self.rax = self.code;
    }
}
