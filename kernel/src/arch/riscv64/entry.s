# How the processor enters the kernel and leaves it.
#
# Exceptions, interrupts and system calls all leave a `Frame` (frame.rs) on the kernel stack of the thread and call `trap_entered`. While a program runs, sscratch has
# the top of that stack, and the frame's last word the processor's number; while the kernel runs, sscratch is 0, and tp the number.

.option norelax
.attribute arch, "rv64imafdc_zicsr_zifencei"

.set FRAME, 288

# A program's registers, but for sp.
.macro registers access
.irp n, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    \access x\n, (\n - 1) * 8(sp)
.endr
.endm

# Registers that a function keeps: s0, s1, s2 to s11.
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
    # From the kernel.
    csrr sp, sscratch
1:  addi sp, sp, -FRAME
    registers sd
    csrrw t0, sscratch, zero
    csrr t1, sstatus
    andi t2, t1, 0x100                  # the level that it came from
    bnez t2, 2f
    ld tp, 280(sp)
2:  sd t0, 8(sp)
    csrr t0, sepc
    sd t0, 248(sp)
    sd t1, 256(sp)
    sd a0, 272(sp)
    mv a0, sp
    call trap_entered

# Leaves by the frame that the stack pointer is at. Interrupts are off.
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

# switch_stacks(save: *mut u64, load: u64): goes on where `load` was saved.
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

# save_float(to: *mut Float)
.global save_float
save_float:
    floats fsd
    frcsr t0
    sd t0, 256(a0)
    ret

# load_float(from: *const Float)
.global load_float
load_float:
    floats fld
    ld t0, 256(a0)
    fscsr t0
    ret
