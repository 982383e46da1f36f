//! A processor's segments, interrupt gates and model-specific registers.

use alloc::boxed::Box;
use core::arch::asm;
use core::mem::offset_of;

use spin::Once;
use x86_64::VirtAddr;
use x86_64::instructions::segmentation::{CS, DS, ES, SS, Segment};
use x86_64::instructions::tables::load_tss;
use x86_64::registers::model_specific::{
    Efer, EferFlags, GsBase, KernelGsBase, LStar, Msr, SFMask,
};
use x86_64::registers::rflags::RFlags;
use x86_64::structures::DescriptorTablePointer;
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable, SegmentSelector};
use x86_64::structures::tss::TaskStateSegment;

/// The data that a processor finds through GS while it runs the kernel. `entry.s` and [`number`]
/// use the offsets of the first three fields.
#[repr(C)]
pub(super) struct Cpu {
    /// The top of the running thread's kernel stack.
    kernel_stack: u64,
    /// Scratch space of the system call entry for the program's stack pointer.
    user_stack: u64,
    number: u64,
    gdt: GlobalDescriptorTable,
    tss: TaskStateSegment,
    /// The stack on which a double fault is handled. The interrupted stack may be unusable.
    fault_stack: [u64; 512],
}

/// The interrupt descriptor table: gates of 16 bytes for all vectors.
static GATES: Once<[u128; 256]> = Once::new();

const KERNEL_CODE: u16 = 0x08;
const KERNEL_DATA: u16 = 0x10;

unsafe extern "C" {
    static trap_stubs: u8;
    static system_call_entry: u8;
}

/// Returns an interrupt gate: present, with interrupts off. `level` is the lowest privilege that
/// may raise it by an instruction.
fn gate(handler: u64, stack: u128, level: u128) -> u128 {
    let handler = u128::from(handler);
    (handler & 0xffff)
        | u128::from(KERNEL_CODE) << 16
        | stack << 32
        | (0x8e | level << 5) << 40
        | (handler >> 16 & 0xffff) << 48
        | (handler >> 32) << 64
}

/// Makes [`number`] return the third of these words until [`start`] has created the processor's
/// `Cpu`.
pub(super) fn begin(words: &[u64; 3]) {
    GsBase::write(VirtAddr::from_ptr(words));
}

/// Sets up this processor. Must be called once, with interrupts off.
pub(super) fn start(number: usize) {
    // Allocating the `Cpu` needs the processor's number.
    let words = [0, 0, number as u64];
    begin(&words);
    let cpu = Box::leak(Box::new(Cpu {
        kernel_stack: 0,
        user_stack: 0,
        number: number as u64,
        gdt: GlobalDescriptorTable::empty(),
        tss: TaskStateSegment::new(),
        fault_stack: [0; 512],
    }));
    cpu.tss.interrupt_stack_table[0] =
        VirtAddr::from_ptr(&cpu.fault_stack) + size_of_val(&cpu.fault_stack) as u64;
    let tss: *const TaskStateSegment = &raw const cpu.tss;
    // The order that `syscall` and `sysret` expect: kernel code, kernel data, program data, program
    // code.
    cpu.gdt.append(Descriptor::kernel_code_segment());
    cpu.gdt.append(Descriptor::kernel_data_segment());
    cpu.gdt.append(Descriptor::user_data_segment());
    cpu.gdt.append(Descriptor::user_code_segment());
    // SAFETY: the segment is never freed.
    let selector = cpu.gdt.append(unsafe { Descriptor::tss_segment_unchecked(tss) });
    // SAFETY: the tables are never freed, and their entries match the selectors below and in
    // `entry.s`.
    unsafe {
        cpu.gdt.load_unsafe();
        CS::set_reg(SegmentSelector(KERNEL_CODE));
        SS::set_reg(SegmentSelector(KERNEL_DATA));
        DS::set_reg(SegmentSelector::NULL);
        ES::set_reg(SegmentSelector::NULL);
        load_tss(SegmentSelector(selector.0));
    }
    let stubs = &raw const trap_stubs as u64;
    let gates = GATES.call_once(|| {
        core::array::from_fn(|vector| {
            // A double fault has a stack of its own. Programs may raise breakpoints.
            let level = if vector == 3 { 3 } else { 0 };
            gate(stubs + 16 * vector as u64, u128::from(vector == 8), level)
        })
    });
    let pointer = DescriptorTablePointer {
        limit: (size_of::<[u128; 256]>() - 1) as u16,
        base: VirtAddr::from_ptr(gates),
    };
    // SAFETY: the table has gates for all vectors, and is never freed.
    unsafe { x86_64::instructions::tables::lidt(&pointer) };
    GsBase::write(VirtAddr::from_ptr(cpu));
    KernelGsBase::write(VirtAddr::new(0));
    LStar::write(VirtAddr::from_ptr(&raw const system_call_entry));
    SFMask::write(
        RFlags::INTERRUPT_FLAG
            | RFlags::DIRECTION_FLAG
            | RFlags::TRAP_FLAG
            | RFlags::ALIGNMENT_CHECK,
    );
    // SAFETY: STAR has the bases of the selectors above. EFER keeps the bits that the boot code has
    // set.
    unsafe {
        Msr::new(0xc000_0081).write(u64::from(KERNEL_CODE) << 32 | 0x13 << 48);
        Efer::update(|efer| efer.insert(EferFlags::SYSTEM_CALL_EXTENSIONS));
    }
}

/// Sets the stack on which traps from programs start. Interrupts must be off.
pub(super) fn set_kernel_stack(top: u64) {
    let cpu = GsBase::read().as_mut_ptr::<Cpu>();
    // SAFETY: this processor's `Cpu`, and interrupts are off.
    unsafe {
        (*cpu).kernel_stack = top;
        (*cpu).tss.privilege_stack_table[0] = VirtAddr::new(top);
    }
}

/// Returns the number of this processor.
pub(super) fn number() -> usize {
    let number: u64;
    // SAFETY: reads the third word of the `Cpu` to which GS points. Not `pure`, because after a
    // switch of threads it may be another processor's.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) number, const offset_of!(Cpu, number), options(nostack, preserves_flags, readonly));
    }
    number as usize
}
