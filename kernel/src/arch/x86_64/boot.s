# From QEMU's jump into protected mode to the first line of Rust.
#
# A loader that knows PVH finds the note below in the image, loads the segments at their physical addresses and jumps to `pvh_start`: 32 bits, no paging, flat
# segments, the address of its start info in ebx. The tables made here map the first 4 GiB three times, by large pages: where they are, which the next
# instruction needs; in the direct map; and of these the first GiB in the highest 2 GiB, where the image is linked. Rust replaces them.

.section .note.pvh, "a", @note
.align 4
.long 4                                 # length of the name
.long 8                                 # length of the address
.long 18                                # XEN_ELFNOTE_PHYS32_ENTRY
.asciz "Xen"
.quad pvh_start

.section .boot, "awx", @progbits
.code32
.global pvh_start
pvh_start:
    cld
    mov esi, ebx
    # The four tables of the last level are neighbours: entry i maps the i-th 2 MiB, writable, present, large.
    mov edi, offset boot_pd
    xor ecx, ecx
1:  mov eax, ecx
    shl eax, 21
    or eax, 0x83
    mov [edi + ecx * 8], eax
    mov dword ptr [edi + ecx * 8 + 4], 0
    inc ecx
    cmp ecx, 2048
    jne 1b
    mov eax, offset boot_pd + 3
    mov edi, offset boot_pdpt
    mov ecx, 4
2:  mov [edi], eax
    add eax, 0x1000
    add edi, 8
    loop 2b
    mov dword ptr [boot_pdpt_high + 510 * 8], offset boot_pd + 3
    mov dword ptr [boot_pml4], offset boot_pdpt + 3
    mov dword ptr [boot_pml4 + 256 * 8], offset boot_pdpt + 3
    mov dword ptr [boot_pml4 + 511 * 8], offset boot_pdpt_high + 3

.global to_long_mode
to_long_mode:
    mov eax, cr4
    or eax, 0x6a0                       # PAE, global pages, fxsave, SSE exceptions
    mov cr4, eax
    mov eax, offset boot_pml4
    mov cr3, eax
    mov ecx, 0xc0000080                 # EFER: system calls, long mode, no-execute
    rdmsr
    or eax, 0x901
    wrmsr
    mov eax, cr0
    and eax, 0xfffffffb                 # no emulation of the coprocessor
    or eax, 0x80010003                  # paging, write protection, protection; wait with the coprocessor
    mov cr0, eax
    lgdt [boot_gdt_pointer]
    ljmp 8, offset long_mode

.code64
long_mode:
    xor eax, eax
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov fs, eax
    mov gs, eax
    movabs rsp, offset boot_stack_end
    xor ebp, ebp
    mov edi, esi
    movabs rax, offset kernel_main
    call rax
    ud2

.align 8
boot_gdt:
    .quad 0
    .quad 0x00209a0000000000            # code of 64 bits
boot_gdt_pointer:
    .word 15
    .long boot_gdt

.section .boot.bss, "aw", @nobits
.align 4096
boot_pml4: .skip 4096
boot_pdpt: .skip 4096
boot_pdpt_high: .skip 4096
boot_pd: .skip 4 * 4096

.section .bss
.align 16
.skip 65536
boot_stack_end:
