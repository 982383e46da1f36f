# From QEMU's jump into protected mode to Rust.
#
# A boot loader that supports PVH finds the note below in the image, loads the segments at their
# physical addresses, and jumps to `pvh_start` in 32-bit mode, without paging, with flat segments.
# ebx holds the address of its start info.
#
# The boot page tables map the first 4 GiB three times, by large pages: at their physical addresses,
# which the next instruction needs; in the direct map; and the first GiB in the highest 2 GiB, where
# the image is linked. Rust replaces the tables.

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
    # The four last-level tables are adjacent: entry i maps the i-th 2 MiB, writable, present,
    # large.
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
    mov dword ptr [boot_root], offset boot_pdpt + 3
    mov dword ptr [boot_root + 256 * 8], offset boot_pdpt + 3
    mov dword ptr [boot_root + 511 * 8], offset boot_pdpt_high + 3

.global to_long_mode
to_long_mode:
    mov eax, cr4
    or eax, 0x6a0                       # PAE, global pages, fxsave, SSE exceptions
    mov cr4, eax
    mov eax, offset boot_root
    mov cr3, eax
    mov ecx, 0xc0000080                 # EFER: SCE, LME, NXE
    rdmsr
    or eax, 0x901
    wrmsr
    mov eax, cr0
    and eax, 0xfffffffb                 # no x87 emulation
    or eax, 0x80010003                  # PG, WP, PE, MP
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
    movabs rax, offset start_high
    jmp rax

.align 8
boot_gdt:
    .quad 0
    .quad 0x00209a0000000000            # 64-bit code
    .quad 0x00cf9a000000ffff            # 32-bit code
    .quad 0x00cf92000000ffff            # data
boot_gdt_pointer:
    .word 31
    .long boot_gdt

# From here on at the linked addresses, with the page tables and the stack of this processor.
.section .text
start_high:
    mov rax, [rip + start_root]
    mov cr3, rax
    mov rsp, [rip + start_stack]
    xor ebp, ebp
    mov edi, esi
    call [rip + start_entry]
    ud2

# The first instructions of a secondary processor, in real mode. `smp.rs` copies them to the page
# where the processor starts. The processor then continues like the first one.
.section .rodata
.code16
.global secondary_first
secondary_first:
    cli
    mov ax, cs
    mov ds, ax
    .byte 0x66, 0x0f, 0x01, 0x16        # lgdt with a 32-bit operand
    .word secondary_gdt_pointer - secondary_first
    mov eax, cr0
    or eax, 1
    mov cr0, eax
    .byte 0x66, 0xea                    # far jump with a 32-bit offset
    .long secondary_protected
    .word 16
secondary_gdt_pointer:
    .word 31
    .long boot_gdt
.global secondary_end
secondary_end:

.section .boot, "awx", @progbits
.code32
secondary_protected:
    mov ax, 24
    mov ds, ax
    mov es, ax
    mov ss, ax
    xor esi, esi
    jmp to_long_mode
.code64

.section .boot.bss, "aw", @nobits
.align 4096
.global boot_root
boot_root: .skip 4096
boot_pdpt: .skip 4096
boot_pdpt_high: .skip 4096
boot_pd: .skip 4 * 4096
