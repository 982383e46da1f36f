// From the boot loader's jump to Rust.
//
// The image begins with the header of Linux's boot protocol for AArch64
// (Documentation/arch/arm64/booting.rst). A boot loader puts it 2 MiB above the start of memory and
// jumps to its first byte, at EL1, without paging. x0 holds the address of the device tree.
//
// The boot page tables map the first 4 GiB three times, by pages of 1 GiB: at their physical
// addresses, which the next instruction needs; in the direct map; and the first GiB of memory in
// the highest 2 GiB, where the image is linked. Rust replaces the tables.

.section .boot, "awx", %progbits
.global start
start:
    b 1f
    .long 0
    .quad 0                             // offset from a multiple of 2 MiB
    .quad image_size
    .quad 0xa                           // little-endian, pages of 4 KiB, anywhere in memory
    .quad 0, 0, 0
    .ascii "ARM\x64"
    .long 0

1:  mov x19, x0
    msr tpidr_el1, xzr                  // the processor's number
    // Clears the part of the image that the file does not hold.
    adrp x1, bss_physical
    add x1, x1, :lo12:bss_physical
    adrp x2, image_end
2:  stp xzr, xzr, [x1], #16
    cmp x1, x2
    b.lo 2b

    adrp x1, boot_root
    adrp x2, boot_low
    adrp x3, boot_high
    orr x4, x2, 3
    str x4, [x1]
    orr x4, x3, 3
    str x4, [x1, 511 * 8]
    ldr x4, =0x60000000000401           // device memory, not executable
    str x4, [x2]
    ldr x4, =0x40000705                 // normal memory, shareable
    str x4, [x3, 511 * 8]
    mov x5, 0x40000000
    str x4, [x2, 8]
    add x4, x4, x5
    str x4, [x2, 16]
    add x4, x4, x5
    str x4, [x2, 24]

// Enables paging by the boot page tables, and jumps to the linked address with the page tables and
// the stack of this processor. x19 becomes the argument.
to_high_half:
    adrp x1, boot_root
    // Both halves: 48 bits, 4 KiB, tables in cached shareable memory. Physical addresses have 40
    // bits.
    ldr x4, =0x2b5103510
    msr tcr_el1, x4
    // Index 0: device memory. Index 1: normal memory, cached.
    mov x4, 0xff04
    msr mair_el1, x4
    msr ttbr0_el1, x1
    msr ttbr1_el1, x1
    mov x4, 3 << 20                     // floating point
    msr cpacr_el1, x4
    dsb sy
    tlbi vmalle1
    dsb sy
    isb
    // Paging, caches, stack alignment checks. Programs may clean caches, zero cache lines, and
    // wait.
    ldr x4, =0x34d5d81d
    msr sctlr_el1, x4
    isb

    ldr x4, =start_high
    br x4

// The first instruction of a secondary processor.
.global secondary_start
secondary_start:
    mov x19, x0
    b to_high_half
    .ltorg

.section .text
start_high:
    adrp x4, start_root
    ldr x4, [x4, :lo12:start_root]
    msr ttbr1_el1, x4
    isb
    tlbi vmalle1
    dsb nsh
    isb
    msr spsel, 1
    adrp x4, start_stack
    ldr x4, [x4, :lo12:start_stack]
    mov sp, x4
    mov x29, xzr
    mov x30, xzr
    mov x0, x19
    adrp x4, start_entry
    ldr x4, [x4, :lo12:start_entry]
    br x4

.section .boot.bss, "aw", %nobits
.align 12
.global boot_root
boot_root: .skip 4096
boot_low: .skip 4096
boot_high: .skip 4096

// The code to which a handler returns if it names no function of its own: rt_sigreturn(2). Programs
// map this page.
.section .user, "ax", %progbits
    mov x8, 139
    svc 0
