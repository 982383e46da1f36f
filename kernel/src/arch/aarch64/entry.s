// Entry to and exit from the kernel.
//
// Exceptions, interrupts and system calls save a `Frame` (frame.rs) on the thread's kernel stack
// and call `trap_entered`.

.section .text
.arch_extension fp
.arch_extension simd

.set FRAME, 288

// Stores or loads a program's registers from x2 on, except x30.
.macro registers instruction
    \instruction x2, x3, [sp, 16]
    \instruction x4, x5, [sp, 32]
    \instruction x6, x7, [sp, 48]
    \instruction x8, x9, [sp, 64]
    \instruction x10, x11, [sp, 80]
    \instruction x12, x13, [sp, 96]
    \instruction x14, x15, [sp, 112]
    \instruction x16, x17, [sp, 128]
    \instruction x18, x19, [sp, 144]
    \instruction x20, x21, [sp, 160]
    \instruction x22, x23, [sp, 176]
    \instruction x24, x25, [sp, 192]
    \instruction x26, x27, [sp, 208]
    \instruction x28, x29, [sp, 224]
.endm

// Stores or loads the registers that a function preserves.
.macro kept instruction
    \instruction x19, x20, [sp]
    \instruction x21, x22, [sp, 16]
    \instruction x23, x24, [sp, 32]
    \instruction x25, x26, [sp, 48]
    \instruction x27, x28, [sp, 64]
    \instruction x29, x30, [sp, 80]
.endm

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
    registers stp
    mrs x2, sp_el0
    stp x30, x2, [sp, 240]
    mrs x2, elr_el1
    mrs x3, spsr_el1
    stp x2, x3, [sp, 256]
    ldr x2, [sp]
    stp x2, xzr, [sp, 272]
    mov x0, sp
    bl trap_entered

// Returns by the frame at the stack pointer. Interrupts are off.
leave_kernel:
    ldp x2, x3, [sp, 256]
    msr elr_el1, x2
    msr spsr_el1, x3
    ldp x30, x2, [sp, 240]
    msr sp_el0, x2
    ldp x0, x1, [sp]
    registers ldp
    add sp, sp, FRAME
    eret

// switch_stacks(save: *mut u64, load: u64): saves the stack pointer, and continues on the stack
// `load`.
.global switch_stacks
switch_stacks:
    sub sp, sp, 96
    kept stp
    mov x2, sp
    str x2, [x0]
    mov sp, x1
    kept ldp
    add sp, sp, 96
    ret

// The first instructions of a new thread, whose stack holds its frame.
.global thread_entry
thread_entry:
    bl thread_started
    mov x0, sp
    bl thread_to_user
    b leave_kernel

// Stores or loads all vector registers at x0.
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

// save_float(to: *mut FpState)
.global save_float
save_float:
    each_pair stp
    mrs x1, fpsr
    mrs x2, fpcr
    add x0, x0, 512
    stp w1, w2, [x0]
    ret

// load_float(from: *const FpState)
.global load_float
load_float:
    each_pair ldp
    add x0, x0, 512
    ldp w1, w2, [x0]
    msr fpsr, x1
    msr fpcr, x2
    ret
