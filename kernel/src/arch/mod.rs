//! The parts that differ between architectures.
//!
//! Each architecture has a folder with one type that implements [`Machine`]. All other code names
//! it [`Arch`] and is the same on all architectures.

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

/// The reason why a program notify_mapped the kernel.
#[derive(Clone, Copy, Debug)]
pub enum Trap {
    /// A system call. The frame holds its number and arguments.
    SystemCall,
    /// An access that the page tables do not permit.
    PageFault { address: u64, access: Access },
    /// Another exception, with the signal that Linux sends for it.
    Exception { signal: i32, code: i32, address: u64 },
    /// An interrupt that has been handled.
    Interrupt,
}

/// The boot loader's data. Its memory must stay reserved until the data has been read.
pub struct BootInfo {
    /// The physical addresses of the image, boot page tables included.
    pub image: Range<u64>,
    /// The physical addresses of the archive with the initial files.
    pub archive: Option<Range<u64>>,
    pub command_line: &'static [u8],
}

/// A part of the image with uniform permissions.
pub struct Segment {
    /// The addresses at which the part is linked.
    pub addresses: Range<u64>,
    pub physical: u64,
    pub write: bool,
    pub execute: bool,
}

/// The registers of a program while the kernel runs.
pub trait UserFrame: Clone {
    /// Returns the frame of a program that starts. All other registers are zero.
    fn new(pc: u64, sp: u64) -> Self;
    fn sp(&self) -> u64;
    fn set_sp(&mut self, sp: u64);
    /// Returns the number of the system call and its arguments.
    fn call(&self) -> (u64, [u64; 6]);
    fn set_result(&mut self, result: i64);
    /// Returns the result of the system call, or `None` if the program notify_mapped the kernel by
    /// another trap.
    fn result(&self) -> Option<i64>;
    /// Returns the highest address below which a signal frame may be written.
    fn red_zone(&self) -> u64;
    /// Makes the program execute its system call again.
    fn restart(&mut self);
}

/// The interface of an architecture, in addition to [`Context`], `push_signal` and `pop_signal`.
///
/// `push_signal` writes a signal frame and makes the program's frame run the handler. `pop_signal`
/// reads it back.
pub trait Machine {
    type Format: Format;
    type Frame: UserFrame;

    /// The machine's name for `uname(2)`.
    const NAME: &'static str;
    /// The architecture of programs.
    const ARCHITECTURE: Architecture;
    /// `AT_HWCAP` and `AT_MINSIGSTKSZ` (`getauxval(3)`).
    const HWCAP: u64 = 0;
    const MIN_SIGNAL_STACK: u64;
    /// `true` if `struct sigaction` has the address to which handlers return, between flags and
    /// mask.
    const HAS_RESTORER: bool = true;
    /// Physical address `p` is mapped at `DIRECT_MAP + p`.
    const DIRECT_MAP: u64;
    /// The distance from an address of the image to its physical address.
    const IMAGE_OFFSET: u64 = 0xffff_ffff_8000_0000;
    /// The addresses of the kernel's half that the kernel ever maps. Their top-level entries are
    /// created at boot.
    const KERNEL_HALF: &'static [Range<u64>];
    /// The addresses of the kernel's heap.
    const HEAP: Range<u64>;
    /// The physical addresses of devices that the direct map includes.
    const DEVICES: &'static [Range<u64>];
    /// The attributes of a device's page-table entries.
    const DEVICE: Attrs = Attrs::DEVICE;
    /// The first address above those of programs.
    const TASK_SIZE: u64;
    /// `true` if [`flush_tlb`](Self::flush_tlb) flushes the TLBs of all processors, so that no IPI
    /// is needed.
    const TLB_BROADCAST: bool = false;

    /// Reads the boot loader's data at `info`. Calls `entry` for each entry of the memory map.
    ///
    /// # Safety
    ///
    /// `info` is the boot loader's argument, and no code has overwritten what it points to.
    unsafe fn boot(info: u64, entry: &mut dyn FnMut(Item)) -> BootInfo;
    fn segments() -> impl Iterator<Item = Segment> {
        image::segments()
    }
    /// Returns the frame with the code that calls `rt_sigreturn(2)`, for programs whose handlers
    /// return to the kernel's code.
    fn sigreturn_page() -> Option<u64> {
        image::sigreturn_page()
    }
    /// Sets up traps, timer and interrupts of this processor, and gives it its number. The first
    /// one has 0.
    fn start_processor(number: usize);
    /// Starts the secondary processors, one after the other. Each calls `processor_main` with its
    /// number, on the kernel's page tables and its own stack, with interrupts off.
    fn start_secondaries();
    /// Returns the number of this processor.
    fn processor() -> usize;
    /// Interrupts another processor, which then calls
    /// [`shootdown::answer`](crate::memory::shootdown::answer).
    fn send_ipi(processor: usize);
    /// Loads a root table.
    ///
    /// # Safety
    ///
    /// The table maps the kernel's half, and is not freed while it is loaded.
    unsafe fn load_root(root: u64);
    /// Flushes a range from the TLB of this processor, or of [all processors](Self::TLB_BROADCAST).
    fn flush_tlb(range: Range<u64>);
    /// Makes new entries of a range visible to this processor. If they are executable, makes their
    /// instructions visible, too.
    fn notify_mapped(_: &samara_paging::Context, _range: Range<u64>, _executable: bool) {}
    fn disable_interrupts() -> bool;
    fn restore_interrupts(on: bool);
    /// Enables interrupts and waits for one. An interrupt that is pending already ends the wait.
    fn wait_for_interrupt();

    /// Writes bytes to the console, and waits until the device has taken them.
    fn console_write(bytes: &[u8]) {
        serial::write(bytes);
    }
    /// Returns the next byte of the console's input, if there is one.
    fn console_read() -> Option<u8> {
        console_input::read(serial::receive)
    }
    /// Writes bytes to the kernel log.
    fn log_write(bytes: &[u8]) {
        serial::log(bytes);
    }
    /// Returns the nanoseconds since a fixed time before or during boot.
    fn now() -> u64 {
        this::timer::now()
    }
    /// Returns the seconds since 1970.
    fn wall_clock() -> u64 {
        this::timer::wall_clock()
    }
    fn random() -> u64 {
        mix(this::timer::counter())
    }
    /// Performs a system call that only this architecture has. Returns `None` for other calls.
    fn arch_call(name: Sysno, call: &mut Call<'_>) -> Option<Outcome>;
    /// Returns the arguments of `clone(2)` in one order for all architectures: flags, stack,
    /// parent's and child's address of the thread number, thread pointer.
    fn clone_arguments([flags, stack, parent, thread_pointer, child, _]: [u64; 6]) -> [u64; 5] {
        [flags, stack, parent, child, thread_pointer]
    }
    /// Switches the machine off.
    fn power_off() -> !;
    /// Calls `frame` with the return address of each caller, innermost first.
    fn back_trace(frame: &mut dyn FnMut(u64));
}

/// Returns a device register at a physical address.
fn device<T>(physical: u64) -> *mut T {
    core::ptr::with_exposed_provenance_mut((Arch::DIRECT_MAP + physical) as usize)
}

/// Calls `body` with interrupts off.
pub fn without_interrupts<R>(body: impl FnOnce() -> R) -> R {
    let were_on = Arch::disable_interrupts();
    let result = body();
    Arch::restore_interrupts(were_on);
    result
}

/// Returns a pseudo-random number from a fast counter. QEMU's machines have no better source
/// without a device.
fn mix(counter: u64) -> u64 {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    // The counter may be the same at two calls.
    let call = CALLS.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    let mut x = counter ^ call;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
