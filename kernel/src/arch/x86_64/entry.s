# Entry to and exit from the kernel.
#
# Exceptions, interrupts and system calls save a `Frame` (frame.rs) on the thread's kernel stack and
# call `trap_entered`. GS points to the processor's `Cpu` (cpu.rs) in the kernel, and is the
# program's own otherwise.

.section .text
.code64

# The part of a `Frame` that software saves.
.macro push_registers
.irp register, rdi, rsi, rdx, rcx, rax, r8, r9, r10, r11, rbx, rbp, r12, r13, r14, r15
    push \register
.endr
.endm

# One stub for each vector. A stub pushes 0 for an exception without an error code.
.align 16
.global trap_stubs
trap_stubs:
.set vector, 0
.rept 256
    .align 16
    .if (vector == 8) || (vector >= 10 && vector <= 14) || (vector == 17) || (vector == 21)
    .else
        push 0
    .endif
    push vector
    jmp trap_common
    .set vector, vector + 1
.endr

trap_common:
    cld
    test qword ptr [rsp + 24], 3
    jz 1f
    swapgs
1:  push_registers
    mov rdi, rsp
    mov rbp, rsp
    call trap_entered

# Returns by the frame at the stack pointer. Interrupts are off.
.global leave_kernel
leave_kernel:
.irp register, r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi
    pop \register
.endr
    test qword ptr [rsp + 24], 3
    jz 1f
    swapgs
1:  add rsp, 16
    iretq

# `syscall`: the return address is in rcx, the flags are in r11, and the stack is still the
# program's.
.global system_call_entry
system_call_entry:
    swapgs
    mov gs:[8], rsp
    mov rsp, gs:[0]
    push 0x1b
    push qword ptr gs:[8]
    push r11
    push 0x23
    push rcx
    push rax
    push 256
    push_registers
    mov rdi, rsp
    mov rbp, rsp
    call trap_entered
    jmp leave_kernel

# switch_stacks(save: *mut u64, load: u64): saves the stack pointer, and continues on the stack
# `load`.
.global switch_stacks
switch_stacks:
.irp register, rbx, rbp, r12, r13, r14, r15
    push \register
.endr
    mov [rdi], rsp
    mov rsp, rsi
.irp register, r15, r14, r13, r12, rbp, rbx
    pop \register
.endr
    ret

# The first instructions of a new thread, whose stack holds its frame.
.global thread_entry
thread_entry:
    call thread_started
    mov rdi, rsp
    call thread_to_user
    jmp leave_kernel
