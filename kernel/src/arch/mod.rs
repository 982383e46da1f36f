//! What differs from processor to processor.
//!
//! Each architecture has a folder, and in it one type that implements [`Machine`]. All other code names [`Arch`] and is the same everywhere.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod console_input;
mod context;
#[cfg(not(target_arch = "x86_64"))]
mod device_tree;
mod image;
#[cfg(target_arch = "riscv64")]
mod riscv64;
mod serial;
mod signal_frame;
mod smp;
mod stack;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as this;
#[cfg(target_arch = "riscv64")]
use riscv64 as this;
#[cfg(target_arch = "x86_64")]
use x86_64 as this;

pub use context::{Context, switch};
pub use this::Arch;
pub use this::signal::{pop_signal, push_signal};

use stack::KernelStack;

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use samara_memblock::firmware::Item;
use samara_mm::exec::Architecture;
use samara_mm::process::Access;
use samara_paging::{Attrs, Format};

use syscalls::Sysno;

use crate::syscalls::{Call, Outcome};

/// What a program did that made the processor enter the kernel.
#[derive(Clone, Copy, Debug)]
pub enum Trap {
    /// A system call; its number and arguments are in the frame.
    SystemCall,
    /// An access that the page tables refused.
    PageFault { address: u64, access: Access },
    /// Another exception, with the signal that Linux sends.
    Exception { signal: i32, code: i32, address: u64 },
    /// An interrupt, which has been answered.
    Interrupt,
}

/// What the loader tells: the memory map, the initial file system and the command line. All of it lies in memory that must stay reserved until it was read.
pub struct BootInfo {
    /// Physical addresses of the image, tables of the start included.
    pub image: Range<u64>,
    /// Physical addresses of the initial file system's archive.
    pub archive: Option<Range<u64>>,
    pub command_line: &'static [u8],
}

/// A piece of the image, and what its pages allow.
pub struct Segment {
    /// Where it is linked.
    pub addresses: Range<u64>,
    pub physical: u64,
    pub write: bool,
    pub execute: bool,
}

/// The registers of a program, as they were when it entered the kernel and will be when it goes on.
pub trait UserFrame: Clone {
    /// Starts a program: all other registers are zero.
    fn new(pc: u64, sp: u64) -> Self;
    fn sp(&self) -> u64;
    fn set_sp(&mut self, sp: u64);
    /// The number of the system call and its arguments.
    fn call(&self) -> (u64, [u64; 6]);
    fn set_result(&mut self, result: i64);
    /// The result of the system call that the program is in; `None` if another trap brought it here.
    fn result(&self) -> Option<i64>;
    /// The highest address at which a handler's stack may begin.
    fn red_zone(&self) -> u64;
    /// Makes the program perform its system call once more.
    fn restart(&mut self);
}

/// What the rest of the kernel asks of an architecture, besides [`Context`], `push_signal`, which makes a frame run a signal's handler, and `pop_signal`, which ends that.
pub trait Machine {
    type Format: Format;
    type Frame: UserFrame;

    /// The name that `uname(2)` gives.
    const NAME: &'static str;
    /// The processor that programs are for.
    const ARCHITECTURE: Architecture;
    /// `AT_HWCAP` and `AT_MINSIGSTKSZ` (`getauxval(3)`).
    const HWCAP: u64 = 0;
    const MIN_SIGNAL_STACK: u64;
    /// `struct sigaction` has a word for what a handler returns to, between flags and mask.
    const HAS_RESTORER: bool = true;
    /// Physical address `p` is mapped at `DIRECT_MAP + p`.
    const DIRECT_MAP: u64;
    /// The image is linked at its physical address plus this.
    const IMAGE_OFFSET: u64 = 0xffff_ffff_8000_0000;
    /// Addresses of the kernel's half that its tables map: top-level entries for all of them are made at the start.
    const KERNEL_HALF: &'static [Range<u64>];
    /// Addresses of the kernel's half for the heap.
    const HEAP: Range<u64>;
    /// Physical addresses of devices that the direct map has, too.
    const DEVICES: &'static [Range<u64>];
    /// What entries say of them.
    const DEVICE: Attrs = Attrs::DEVICE;
    /// First address beyond those of programs.
    const TASK_SIZE: u64;
    /// `true` if [`forget`](Self::flush_tlb) is for all processors, so that none has to be interrupted.
    const TLB_BROADCAST: bool = false;

    /// Reads what the loader left at `info`. Calls `entry` for each entry of the memory map.
    ///
    /// # Safety
    /// `info` is what the loader gave, and nothing has been overwritten.
    unsafe fn boot(info: u64, entry: &mut dyn FnMut(Item)) -> BootInfo;
    fn segments() -> impl Iterator<Item = Segment> {
        image::segments()
    }
    /// The frame with the code to which handlers return, if programs bring none: `rt_sigreturn(2)`.
    fn sigreturn_page() -> Option<u64> {
        image::program_page()
    }
    /// Traps, timer and interrupts of this processor, which gets this number. The first has 0.
    fn start_processor(number: usize);
    /// Starts the other processors, one after the other. Each calls `processor_main` with its number, by the kernel's tables and on a stack of its own, with interrupts off.
    fn start_secondaries();
    /// The number of the processor that runs this.
    fn processor() -> usize;
    /// Interrupts another processor, which calls [`shootdown::answer`](crate::memory::shootdown::answer).
    fn send_ipi(processor: usize);
    /// Loads a root table.
    ///
    /// # Safety
    /// The table maps the kernel, and stays as long as it is loaded.
    unsafe fn load_root(root: u64);
    /// Makes this processor, or [all](Self::TLB_BROADCAST), forget translations of a range.
    fn flush_tlb(range: Range<u64>);
    /// Makes this processor find entries of a range that have become valid, and, if they may be executed, what they map.
    fn entered(_: &samara_paging::Context, _range: Range<u64>, _executable: bool) {}
    fn disable_interrupts() -> bool;
    fn restore_interrupts(on: bool);
    /// Waits for an interrupt, which are on meanwhile.
    fn wait_for_interrupt();

    /// Writes bytes to the console; waits until the device has taken them.
    fn console_write(bytes: &[u8]) {
        serial::write(bytes);
    }
    /// Returns the next byte of the console's input, if one has come.
    fn console_read() -> Option<u8> {
        console_input::read(serial::receive)
    }
    /// Writes bytes to the kernel's log.
    fn log_write(bytes: &[u8]) {
        serial::log(bytes);
    }
    /// Nanoseconds since some moment before the start.
    fn now() -> u64 {
        this::timer::now()
    }
    /// Seconds since 1970.
    fn wall_clock() -> u64 {
        this::timer::wall_clock()
    }
    fn random() -> u64 {
        mixed(this::timer::counter())
    }
    /// A call that only this architecture has.
    fn arch_call(name: Sysno, call: &mut Call<'_>) -> Option<Outcome>;
    /// Arguments of `clone(2)` in one order: flags, stack, parent's and child's place of the number, thread pointer.
    fn clone_arguments([flags, stack, parent, thread_pointer, child, _]: [u64; 6]) -> [u64; 5] {
        [flags, stack, parent, child, thread_pointer]
    }
    /// Ends the machine.
    fn power_off() -> !;
    /// Calls `frame` with the return address of each caller, innermost first.
    fn back_trace(frame: &mut dyn FnMut(u64));
}

/// A register of a device, at a physical address.
fn device<T>(physical: u64) -> *mut T {
    core::ptr::with_exposed_provenance_mut((Arch::DIRECT_MAP + physical) as usize)
}

/// Runs `body` with interrupts off.
pub fn without_interrupts<R>(body: impl FnOnce() -> R) -> R {
    let were_on = Arch::disable_interrupts();
    let result = body();
    Arch::restore_interrupts(were_on);
    result
}

/// A number that is hard to tell from the last one, made of a fast counter: a machine in QEMU has no better source without a device.
fn mixed(counter: u64) -> u64 {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    // Some counters are slower than calls follow one another.
    let call = CALLS.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    let mut x = counter ^ call;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
