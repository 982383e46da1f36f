// How the processor enters the kernel and leaves it.
//
// Exceptions, interrupts and system calls all leave a `Frame` (frame.rs) on the kernel stack of the thread and call `trap_entered`.

.section .text
.arch_extension fp
.arch_extension simd

.set FRAME, 288

// One of the sixteen vectors.
.macro vector number
    .align 7
    sub sp, sp, FRAME
    stp x0, x1, [sp]
    mov x1, \number
    b trap_common
.endm

.align 11
.global vectors
vectors:
    .set number, 0
    .rept 16
    vector number
    .set number, number + 1
    .endr

trap_common:
    stp x2, x3, [sp, 16]
    stp x4, x5, [sp, 32]
    stp x6, x7, [sp, 48]
    stp x8, x9, [sp, 64]
    stp x10, x11, [sp, 80]
    stp x12, x13, [sp, 96]
    stp x14, x15, [sp, 112]
    stp x16, x17, [sp, 128]
    stp x18, x19, [sp, 144]
    stp x20, x21, [sp, 160]
    stp x22, x23, [sp, 176]
    stp x24, x25, [sp, 192]
    stp x26, x27, [sp, 208]
    stp x28, x29, [sp, 224]
    mrs x2, sp_el0
    stp x30, x2, [sp, 240]
    mrs x2, elr_el1
    mrs x3, spsr_el1
    stp x2, x3, [sp, 256]
    ldr x2, [sp]
    stp x2, xzr, [sp, 272]
    mov x0, sp
    bl trap_entered

// Leaves by the frame that the stack pointer is at. Interrupts are off.
leave_kernel:
    ldp x2, x3, [sp, 256]
    msr elr_el1, x2
    msr spsr_el1, x3
    ldp x30, x2, [sp, 240]
    msr sp_el0, x2
    ldp x0, x1, [sp]
    ldp x2, x3, [sp, 16]
    ldp x4, x5, [sp, 32]
    ldp x6, x7, [sp, 48]
    ldp x8, x9, [sp, 64]
    ldp x10, x11, [sp, 80]
    ldp x12, x13, [sp, 96]
    ldp x14, x15, [sp, 112]
    ldp x16, x17, [sp, 128]
    ldp x18, x19, [sp, 144]
    ldp x20, x21, [sp, 160]
    ldp x22, x23, [sp, 176]
    ldp x24, x25, [sp, 192]
    ldp x26, x27, [sp, 208]
    ldp x28, x29, [sp, 224]
    add sp, sp, FRAME
    eret

// switch_stacks(save: *mut u64, load: u64): goes on where `load` was saved.
.global switch_stacks
switch_stacks:
    sub sp, sp, 96
    stp x19, x20, [sp]
    stp x21, x22, [sp, 16]
    stp x23, x24, [sp, 32]
    stp x25, x26, [sp, 48]
    stp x27, x28, [sp, 64]
    stp x29, x30, [sp, 80]
    mov x2, sp
    str x2, [x0]
    mov sp, x1
    ldp x19, x20, [sp]
    ldp x21, x22, [sp, 16]
    ldp x23, x24, [sp, 32]
    ldp x25, x26, [sp, 48]
    ldp x27, x28, [sp, 64]
    ldp x29, x30, [sp, 80]
    add sp, sp, 96
    ret

// The first instructions of a new thread, whose stack holds its frame.
.global thread_entry
thread_entry:
    bl thread_started
    mov x0, sp
    bl thread_to_user
    b leave_kernel

// stp or ldp of all vector registers at x0.
.macro each_pair instruction
    \instruction q0, q1, [x0]
    \instruction q2, q3, [x0, 32]
    \instruction q4, q5, [x0, 64]
    \instruction q6, q7, [x0, 96]
    \instruction q8, q9, [x0, 128]
    \instruction q10, q11, [x0, 160]
    \instruction q12, q13, [x0, 192]
    \instruction q14, q15, [x0, 224]
    \instruction q16, q17, [x0, 256]
    \instruction q18, q19, [x0, 288]
    \instruction q20, q21, [x0, 320]
    \instruction q22, q23, [x0, 352]
    \instruction q24, q25, [x0, 384]
    \instruction q26, q27, [x0, 416]
    \instruction q28, q29, [x0, 448]
    \instruction q30, q31, [x0, 480]
.endm

// save_float(to: *mut Float)
.global save_float
save_float:
    each_pair stp
    mrs x1, fpsr
    mrs x2, fpcr
    add x0, x0, 512
    stp w1, w2, [x0]
    ret

// load_float(from: *const Float)
.global load_float
load_float:
    each_pair ldp
    add x0, x0, 512
    ldp w1, w2, [x0]
    msr fpsr, x1
    msr fpcr, x2
    ret
