# Entry to and exit from the kernel.
#
# Exceptions, interrupts and system calls save a `Frame` (frame.rs) on the thread's kernel stack and
# call `trap_entered`.
#
# While a program runs, sscratch holds the top of that stack, and the frame's last word the
# processor's number. While the kernel runs, sscratch is 0, and tp holds the number.

.option norelax
.attribute arch, "rv64imafdc_zicsr_zifencei"

.set FRAME, 288

# A program's registers, except sp.
.macro registers access
.irp n, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    \access x\n, (\n - 1) * 8(sp)
.endr
.endm

# The registers that a function preserves.
.macro kept access
    \access ra, 0(sp)
    \access s0, 8(sp)
    \access s1, 16(sp)
.irp n, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
    \access s\n, (\n + 1) * 8(sp)
.endr
.endm

.macro floats access
.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    \access f\n, \n * 8(a0)
.endr
.endm

.section .text
.balign 4
.global trap_entry
trap_entry:
    csrrw sp, sscratch, sp
    bnez sp, 1f
    # The trap came from the kernel.
    csrr sp, sscratch
1:  addi sp, sp, -FRAME
    registers sd
    csrrw t0, sscratch, zero
    csrr t1, sstatus
    andi t2, t1, 0x100                  # the previous mode
    bnez t2, 2f
    ld tp, 280(sp)
2:  sd t0, 8(sp)
    csrr t0, sepc
    sd t0, 248(sp)
    sd t1, 256(sp)
    sd a0, 272(sp)
    mv a0, sp
    call trap_entered

# Returns by the frame at the stack pointer. Interrupts are off.
leave_kernel:
    ld t0, 248(sp)
    csrw sepc, t0
    ld t0, 256(sp)
    csrw sstatus, t0
    andi t0, t0, 0x100
    bnez t0, 3f
    sd tp, 280(sp)
    addi t0, sp, FRAME
    csrw sscratch, t0
3:
    registers ld
    ld sp, 8(sp)
    sret

# switch_stacks(save: *mut u64, load: u64): saves the stack pointer, and continues on the stack
# `load`.
.global switch_stacks
switch_stacks:
    addi sp, sp, -112
    kept sd
    sd sp, 0(a0)
    mv sp, a1
    kept ld
    addi sp, sp, 112
    ret

# The first instructions of a new thread, whose stack holds its frame.
.global thread_entry
thread_entry:
    call thread_started
    mv a0, sp
    call thread_to_user
    j leave_kernel

# save_float(to: *mut FpState)
.global save_float
save_float:
    floats fsd
    frcsr t0
    sd t0, 256(a0)
    ret

# load_float(from: *const FpState)
.global load_float
load_float:
    floats fld
    ld t0, 256(a0)
    fscsr t0
    ret
