//! 64-bit RISC-V, on QEMU's machine `virt` with OpenSBI.
//!
//! | file | concept |
//! |---|---|
//! | `boot.s` | from the firmware to Rust |
//! | `entry.s`, `frame`, `traps` | entry to and exit from the kernel |
//! | `context` | the saved state of a thread |
//! | `signal` | signal frames |
//! | `timer`, `console` | devices |
//!
//! The kernel is compiled without floating point, so a program's registers stay in place while the
//! kernel runs. A processor's number is not its hart's, because any hart may boot first.

pub(super) mod console;
pub(super) mod context;
pub(super) mod frame;
pub(super) mod signal;
pub(super) mod timer;
mod traps;

use core::arch::{asm, global_asm};
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

use ::syscalls::Sysno;
use riscv::register::satp::{self, Mode};
use riscv::register::{sie, sstatus};
use samara_memblock::firmware::Item;
use samara_mm::exec::Architecture;
use samara_paging::{Attrs, Context, PAGE_SIZE, format};
use sbi_rt::HartMask;

use super::{BootInfo, Machine, device_tree, image, smp};
use crate::process::scheduler::MAX_CPUS;
use crate::syscalls::{Call, Outcome, paths};

global_asm!(include_str!("boot.s"));
global_asm!(include_str!("entry.s"));

const DIRECT_MAP: u64 = 0xffff_8000_0000_0000;

/// The hart of each processor, which `boot.s` sets.
#[unsafe(export_name = "harts")]
static HARTS: [AtomicUsize; MAX_CPUS] = [const { AtomicUsize::new(0) }; MAX_CPUS];

unsafe extern "C" {
    static trap_entry: u8;
}

fn hart(processor: usize) -> usize {
    HARTS[processor].load(Ordering::Relaxed)
}

pub struct Arch;

impl Machine for Arch {
    type Format = format::Sv48;
    type Frame = frame::Frame;

    const NAME: &'static str = "riscv64";
    const ARCHITECTURE: Architecture = Architecture::Riscv64;
    /// The letters of IMAFDC.
    const HWCAP: u64 = 1 << 8 | 1 << 12 | 1 | 1 << 5 | 1 << 3 | 1 << 2;
    const MIN_SIGNAL_STACK: u64 = signal::SIZE as u64;
    const HAS_RESTORER: bool = false;
    const DIRECT_MAP: u64 = DIRECT_MAP;
    const IMAGE_OFFSET: u64 = 0xffff_ffff_0000_0000;
    const KERNEL_HALF: &'static [Range<u64>] =
        &[DIRECT_MAP..DIRECT_MAP + (512 << 30), Self::HEAP, 0xffff_ffff_8000_0000..u64::MAX];
    const HEAP: Range<u64> = 0xffff_c000_0000_0000..0xffff_c000_0000_0000 + (512 << 30);
    const DEVICES: &'static [Range<u64>] =
        &[timer::CLOCK, console::PRIORITIES, console::ENABLED, console::CLAIMS, console::REGISTERS];
    /// Without Svpbmt, entries have no memory type: the physical address decides.
    const DEVICE: Attrs = Attrs::empty();
    const TASK_SIZE: u64 = 1 << 47;

    unsafe fn boot(info: u64, entry: &mut dyn FnMut(Item)) -> BootInfo {
        set_trap_entry();
        console::start();
        // SAFETY: the caller's promise.
        unsafe { device_tree::read(info, image::physical(), entry) }
    }

    fn start_processor(number: usize) {
        set_trap_entry();
        if number == 0 {
            console::start_interrupts();
        }
        timer::start();
        // SAFETY: `trap_entry` handles these interrupts. The processor has floating-point
        // registers.
        unsafe {
            sie::set_ssoft();
            sie::set_stimer();
            sie::set_sext();
            sstatus::set_fs(sstatus::FS::Dirty);
        }
    }

    fn start_secondaries() {
        smp::start(MAX_CPUS, |number, entry| {
            let hart = if number <= hart(0) { number - 1 } else { number };
            sbi_rt::hart_start(hart, entry as usize, number).is_ok()
        });
    }

    fn processor() -> usize {
        let number: usize;
        // SAFETY: reads a register.
        unsafe { asm!("mv {}, tp", out(reg) number, options(nostack, nomem)) };
        number
    }

    fn send_ipi(processor: usize) {
        sbi_rt::send_ipi(HartMask::from_mask_base(1, hart(processor)));
    }

    unsafe fn load_root(root: u64) {
        // SAFETY: the caller's promise.
        unsafe { satp::set(Mode::Sv48, 0, (root / PAGE_SIZE) as usize) };
        riscv::asm::sfence_vma_all();
    }

    fn flush_tlb(range: Range<u64>) {
        // Above some pages, a flush of the whole TLB is cheaper.
        if range.end - range.start > 32 * PAGE_SIZE {
            return riscv::asm::sfence_vma_all();
        }
        for page in range.step_by(PAGE_SIZE as usize) {
            // SAFETY: the processor walks the page tables again, those of the kernel included.
            unsafe { asm!("sfence.vma {}, zero", in(reg) page, options(nostack)) };
        }
    }

    fn notify_mapped(context: &Context, range: Range<u64>, executable: bool) {
        Self::flush_tlb(range);
        if executable {
            riscv::asm::fence_i();
            let here = Self::processor();
            let running = context.cpus().load(Ordering::SeqCst);
            for other in (0..MAX_CPUS).filter(|&it| it != here && running & 1 << it != 0) {
                sbi_rt::remote_fence_i(HartMask::from_mask_base(1, hart(other)));
            }
        }
    }

    fn disable_interrupts() -> bool {
        let were_on = sstatus::read().sie();
        // SAFETY: a bit of this processor's state.
        unsafe { sstatus::clear_sie() };
        were_on
    }

    fn restore_interrupts(on: bool) {
        if on {
            // SAFETY: as above.
            unsafe { sstatus::set_sie() };
        }
    }

    fn wait_for_interrupt() {
        // A pending interrupt ends the wait, but is taken only when interrupts are enabled.
        riscv::asm::wfi();
        Self::restore_interrupts(true);
    }

    fn arch_call(name: Sysno, call: &mut Call<'_>) -> Option<Outcome> {
        let [a, _, c, d, ..] = call.args;
        match name {
            Sysno::newfstatat => Some(paths::stat_at(call, (a, 1), c, d)),
            // Pages of files are fenced when they are mapped. Here a program has written
            // instructions itself.
            Sysno::riscv_flush_icache => {
                let memory = call.memory();
                Self::notify_mapped(memory.context(), 0..PAGE_SIZE, true);
                Some(Ok(0))
            }
            _ => None,
        }
    }

    fn power_off() -> ! {
        sbi_rt::system_reset(sbi_rt::Shutdown, sbi_rt::NoReason);
        loop {
            riscv::asm::wfi();
        }
    }

    fn back_trace(frame: &mut dyn FnMut(u64)) {
        let at: u64;
        // SAFETY: reads a register.
        unsafe { asm!("mv {}, fp", out(reg) at, options(nostack, nomem)) };
        image::back_trace(at, -16, frame);
    }
}

/// Sets the entry of traps.
fn set_trap_entry() {
    let entry = &raw const trap_entry as u64;
    // SAFETY: `entry.s` handles all traps there. The address's lowest bits are zero, which selects
    // one entry for all.
    unsafe { asm!("csrw stvec, {}", in(reg) entry, options(nostack)) };
}
