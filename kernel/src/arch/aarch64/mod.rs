//! AArch64, on QEMU's machine `virt`.
//!
//! | file | concept |
//! |---|---|
//! | `boot.s` | from the boot loader to Rust |
//! | `entry.s`, `frame`, `traps` | entry to and exit from the kernel |
//! | `context` | the saved state of a thread |
//! | `signal` | signal frames |
//! | `gic`, `timer`, `console` | devices |
//!
//! The kernel's half has a root of its own (TTBR1). All address spaces have ASID 0, so each switch
//! flushes the TLB. TLB invalidation is broadcast to all processors.

pub(super) mod console;
pub(super) mod context;
pub(super) mod frame;
mod gic;
pub(super) mod signal;
pub(super) mod timer;
mod traps;

use core::arch::{asm, global_asm};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use ::syscalls::Sysno;
use aarch64_cpu::registers::{
    DAIF, FP, Readable, TPIDR_EL1, TTBR0_EL1, TTBR1_EL1, VBAR_EL1, Writeable,
};
use samara_memblock::firmware::Item;
use samara_mm::exec::Architecture;
use samara_paging::{Context, PAGE_SIZE, format};

use super::{BootInfo, Machine, device_tree, image, smp};
use crate::syscalls::{Call, Outcome, paths};

global_asm!(include_str!("boot.s"));
global_asm!(include_str!("entry.s"));

const DIRECT_MAP: u64 = 0xffff_0000_0000_0000;

/// Flushes a page from this processor's TLB only.
fn flush_local_page(address: u64) {
    let page = address << 8 >> 20;
    // SAFETY: the processor walks the page tables again.
    unsafe {
        asm!("dsb nshst", "tlbi vaae1, {}", "dsb nsh", "isb", in(reg) page, options(nostack))
    };
}

#[repr(align(4096))]
struct EmptyTable(#[expect(dead_code, reason = "the processor reads it")] [u64; 512]);

/// The root table for programs while none runs.
static EMPTY_ROOT: EmptyTable = EmptyTable([0; 512]);

/// The kernel's root table, once it is loaded.
static KERNEL_ROOT: AtomicU64 = AtomicU64::new(0);

/// Returns the physical address of [`EMPTY_ROOT`].
fn empty_root() -> u64 {
    &raw const EMPTY_ROOT as u64 - Arch::IMAGE_OFFSET
}

/// Loads the root table for programs, and flushes this processor's TLB. With ASID 0 for all, it
/// would keep translations of other programs and of the boot page tables.
fn load_user_root(root: u64) {
    TTBR0_EL1.set(root);
    // SAFETY: the processor walks the kernel's page tables again.
    unsafe { asm!("isb", "tlbi vmalle1", "dsb nsh", "isb", options(nostack)) };
}

/// Calls the firmware (PSCI). Returns its result, 0 for success.
fn psci(function: u64, arguments: [u64; 3]) -> i64 {
    let [a, b, c] = arguments;
    let result: i64;
    // SAFETY: the only call that runs code is that for a processor, which runs the kernel by the
    // caller's arguments.
    unsafe {
        asm!("hvc 0", inout("x0") function => result, in("x1") a, in("x2") b, in("x3") c, options(nostack));
    }
    result
}

unsafe extern "C" {
    static vectors: u8;
}

pub struct Arch;

impl Machine for Arch {
    type Format = format::Aarch64;
    type Frame = frame::Frame;

    const NAME: &'static str = "aarch64";
    const ARCHITECTURE: Architecture = Architecture::Aarch64;
    /// Floating point and vectors.
    const HWCAP: u64 = 3;
    const MIN_SIGNAL_STACK: u64 = signal::WITH_RECORD as u64;
    const DIRECT_MAP: u64 = DIRECT_MAP;
    const KERNEL_HALF: &'static [Range<u64>] =
        &[DIRECT_MAP..DIRECT_MAP + (512 << 30), Self::HEAP, Self::IMAGE_OFFSET..u64::MAX];
    const HEAP: Range<u64> = 0xffff_8000_0000_0000..0xffff_8000_0000_0000 + (512 << 30);
    const DEVICES: &'static [Range<u64>] =
        &[gic::DISTRIBUTOR, gic::INTERFACE, console::REGISTERS, timer::CLOCK];
    const TASK_SIZE: u64 = 1 << 48;
    const TLB_BROADCAST: bool = true;

    unsafe fn boot(info: u64, entry: &mut dyn FnMut(Item)) -> BootInfo {
        VBAR_EL1.set(&raw const vectors as u64);
        console::start();
        // SAFETY: the caller's promise.
        unsafe { device_tree::read(info, image::physical(), entry) }
    }

    fn start_processor(number: usize) {
        VBAR_EL1.set(&raw const vectors as u64);
        TPIDR_EL1.set(number as u64);
        // The lower half of the boot page tables is no longer needed.
        load_user_root(empty_root());
        let all = [timer::INTERRUPT, gic::IPI, console::INTERRUPT];
        gic::start(if number == 0 { &all } else { &all[..2] });
        timer::start();
    }

    fn start_secondaries() {
        /// The most processors of the interrupt controller.
        const MOST: usize = 8;
        const CPU_ON: u64 = 0xc400_0003;
        smp::start(MOST, |number, entry| psci(CPU_ON, [number as u64, entry, 0]) == 0);
    }

    fn processor() -> usize {
        TPIDR_EL1.get() as usize
    }

    fn send_ipi(processor: usize) {
        gic::send_ipi(processor);
    }

    unsafe fn load_root(root: u64) {
        // The first root is the kernel's.
        let kernel = KERNEL_ROOT.load(Ordering::Relaxed);
        if kernel == 0 {
            KERNEL_ROOT.store(root, Ordering::Relaxed);
            TTBR1_EL1.set(root);
        }
        load_user_root(if kernel == 0 || root == kernel { empty_root() } else { root });
    }

    fn flush_tlb(range: Range<u64>) {
        // SAFETY: the processors walk the page tables again. The first barrier makes changes of the
        // tables visible to them.
        unsafe {
            asm!("dsb ishst", options(nostack));
            // Above some pages, a flush of the whole TLB is cheaper.
            if range.end - range.start > 32 * PAGE_SIZE {
                asm!("tlbi vmalle1is", options(nostack));
            } else {
                for page in range.step_by(PAGE_SIZE as usize) {
                    asm!("tlbi vaae1is, {}", in(reg) page << 8 >> 20, options(nostack));
                }
            }
            asm!("dsb ish", "isb", options(nostack));
        }
    }

    fn notify_mapped(_: &Context, _: Range<u64>, executable: bool) {
        // SAFETY: only barriers and instruction fetches again.
        unsafe {
            asm!("dsb ishst", "isb", options(nostack));
            if executable {
                asm!("ic ialluis", "dsb ish", "isb", options(nostack));
            }
        }
    }

    fn disable_interrupts() -> bool {
        let were_on = DAIF.read(DAIF::I) == 0;
        // SAFETY: a bit of this processor's state.
        unsafe { asm!("msr daifset, 2", options(nostack)) };
        were_on
    }

    fn restore_interrupts(on: bool) {
        if on {
            // SAFETY: as above.
            unsafe { asm!("msr daifclr, 2", options(nostack)) };
        }
    }

    fn wait_for_interrupt() {
        // A pending interrupt ends the wait, but is taken only when interrupts are enabled.
        // SAFETY: as above.
        unsafe { asm!("dsb sy", "wfi", "msr daifclr, 2", "isb", options(nostack)) };
    }

    fn arch_call(name: Sysno, call: &mut Call<'_>) -> Option<Outcome> {
        let [a, _, c, d, ..] = call.args;
        match name {
            Sysno::fstatat => Some(paths::stat_at(call, (a, 1), c, d)),
            Sysno::renameat => Some(paths::rename_at(call, (a, 1), (c, 3), 0)),
            _ => None,
        }
    }

    fn power_off() -> ! {
        const SYSTEM_OFF: u64 = 0x8400_0008;
        psci(SYSTEM_OFF, [0; 3]);
        loop {
            aarch64_cpu::asm::wfi();
        }
    }

    fn back_trace(frame: &mut dyn FnMut(u64)) {
        image::back_trace(FP.get(), 0, frame);
    }
}
