//! x86-64, on QEMU's machines `q35` and `microvm`.
//!
//! | file | concept |
//! |---|---|
//! | `boot.s` | from the boot loader to Rust |
//! | `start_info` | the boot loader's data |
//! | `cpu` | segments, gates, model-specific registers |
//! | `smp` | the start of secondary processors |
//! | `entry.s`, `frame`, `traps` | entry to and exit from the kernel |
//! | `context` | the saved state of a thread |
//! | `signal` | signal frames |
//! | `legacy` | system calls that only this architecture has |
//! | `pic`, `local_apic`, `timer`, `console` | devices |

pub(super) mod console;
pub(super) mod context;
mod cpu;
pub(super) mod frame;
mod legacy;
mod local_apic;
mod pic;
pub(super) mod signal;
mod smp;
mod start_info;
pub(super) mod timer;
mod traps;

use core::arch::{asm, global_asm};
use core::ops::Range;

use samara_memblock::firmware::Item;
use samara_mm::exec::Architecture;
use samara_paging::{PAGE_SIZE, format};
use x86_64::VirtAddr;
use x86_64::instructions::{interrupts as flag, tlb};

use ::syscalls::Sysno;

use super::{BootInfo, Machine, image};
use crate::syscalls::{Call, Outcome};

global_asm!(include_str!("boot.s"));
global_asm!(include_str!("entry.s"));

const DIRECT_MAP: u64 = 0xffff_8000_0000_0000;

pub struct Arch;

impl Machine for Arch {
    type Format = format::X86_64;
    type Frame = frame::Frame;

    const NAME: &'static str = "x86_64";
    const ARCHITECTURE: Architecture = Architecture::X86_64;
    const MIN_SIGNAL_STACK: u64 = 2048;
    const DIRECT_MAP: u64 = DIRECT_MAP;
    const KERNEL_HALF: &'static [Range<u64>] = &[
        DIRECT_MAP..DIRECT_MAP + (512 << 30),
        Self::HEAP,
        Self::IMAGE_OFFSET..Self::IMAGE_OFFSET + (1 << 30),
    ];
    const HEAP: Range<u64> = 0xffff_c000_0000_0000..0xffff_c000_0000_0000 + (512 << 30);
    const DEVICES: &'static [Range<u64>] = &[local_apic::REGISTERS];
    const TASK_SIZE: u64 = 0x7fff_ffff_f000;

    unsafe fn boot(info: u64, entry: &mut dyn FnMut(Item)) -> BootInfo {
        /// The words of a `Cpu` with the first processor's number.
        static FIRST: [u64; 3] = [0; 3];
        cpu::begin(&FIRST);
        console::start();
        // SAFETY: the caller's promise.
        unsafe { start_info::read(info, image::physical(), entry) }
    }

    fn start_processor(number: usize) {
        cpu::start(number);
        if number == 0 {
            pic::start();
            timer::start();
        } else {
            timer::start_here();
        }
    }

    fn start_secondaries() {
        smp::start();
    }

    fn processor() -> usize {
        cpu::number()
    }

    fn send_ipi(processor: usize) {
        local_apic::send_ipi(processor);
    }

    unsafe fn load_root(root: u64) {
        // SAFETY: the caller's promise.
        unsafe { asm!("mov cr3, {}", in(reg) root) };
    }

    fn flush_tlb(range: Range<u64>) {
        // Above some pages, a flush of the whole TLB is cheaper.
        if range.end - range.start > 32 * PAGE_SIZE {
            return tlb::flush_all();
        }
        range.step_by(PAGE_SIZE as usize).for_each(|page| tlb::flush(VirtAddr::new_truncate(page)));
    }

    fn disable_interrupts() -> bool {
        let were_on = flag::are_enabled();
        flag::disable();
        were_on
    }

    fn restore_interrupts(on: bool) {
        if on {
            flag::enable();
        }
    }

    fn wait_for_interrupt() {
        flag::enable_and_hlt();
    }

    fn arch_call(name: Sysno, call: &mut Call<'_>) -> Option<Outcome> {
        legacy::dispatch(name, call)
    }

    fn clone_arguments([flags, stack, parent, child, thread_pointer, _]: [u64; 6]) -> [u64; 5] {
        [flags, stack, parent, child, thread_pointer]
    }

    fn power_off() -> ! {
        // SAFETY: the port of QEMU's device `isa-debug-exit`, which ends QEMU.
        unsafe { x86_64::instructions::port::Port::<u32>::new(0xf4).write(0) };
        loop {
            flag::disable();
            x86_64::instructions::hlt();
        }
    }

    fn back_trace(frame: &mut dyn FnMut(u64)) {
        let at: u64;
        // SAFETY: reads a register.
        unsafe { asm!("mov {}, rbp", out(reg) at) };
        image::back_trace(at, 0, frame);
    }
}
