# From the firmware's jump (OpenSBI) to Rust.
#
# The firmware jumps to the image's first byte, in supervisor mode, without paging. a0 holds the
# number of the hart, a1 the address of the device tree.
#
# The boot page tables map the first 4 GiB three times, by pages of 1 GiB: at their physical
# addresses, which the next instruction needs; in the direct map; and the first GiB of memory in the
# highest 2 GiB, where the image is linked. Rust replaces the tables.

.option norelax

.section .boot, "awx", @progbits
.global start
start:
    mv s3, a1
    mv s1, a0
    li s2, 0                            # the processor's number
    # Clears the part of the image that the file does not hold.
    lla t0, bss_physical
    lla t1, image_end
1:  sd zero, 0(t0)
    addi t0, t0, 8
    bltu t0, t1, 1b

    lla t0, boot_root
    lla t1, boot_low
    srli t2, t1, 2
    ori t2, t2, 1
    sd t2, 0(t0)
    li t3, 256 * 8
    add t3, t3, t0
    sd t2, 0(t3)
    lla t2, boot_high
    srli t3, t2, 2
    ori t3, t3, 1
    li t4, 511 * 8
    add t4, t4, t0
    sd t3, 0(t4)
    # Valid, readable, writable, executable, global, accessed, dirty.
    li t3, 0xef
    li t4, 0x10000000                   # 1 GiB, as in an entry
    sd t3, 0(t1)
    add t3, t3, t4
    sd t3, 8(t1)
    add t3, t3, t4
    sd t3, 16(t1)
    li t5, 510 * 8
    add t5, t5, t2
    sd t3, 0(t5)
    add t3, t3, t4
    sd t3, 24(t1)

# Enables paging by the boot page tables, and jumps to the linked address with the page tables and
# the stack of this processor. s3 becomes the argument.
to_high_half:
    lla t0, boot_root
    srli t0, t0, 12
    li t1, 9 << 60                      # Sv48
    or t0, t0, t1
    sfence.vma
    csrw satp, t0
    sfence.vma
    ld t0, high
    jr t0

# The first instruction of a secondary processor. a0 holds the number of the hart, a1 that of the
# processor.
.balign 4
.global secondary_start
secondary_start:
    mv s1, a0
    mv s2, a1
    j to_high_half

.balign 8
high: .quad start_high

.section .text
start_high:
    mv tp, s2
    la t0, harts
    slli t2, s2, 3
    add t0, t0, t2
    sd s1, 0(t0)
    ld t0, start_root
    srli t0, t0, 12
    or t0, t0, t1
    csrw satp, t0
    sfence.vma
    csrw sscratch, zero
    ld sp, start_stack
    li fp, 0
    li ra, 0
    mv a0, s3
    ld t0, start_entry
    jr t0

.section .boot.bss, "aw", @nobits
.balign 4096
.global boot_root
boot_root: .skip 4096
boot_low: .skip 4096
boot_high: .skip 4096

# The code to which a handler returns: rt_sigreturn(2). Programs map this page.
.section .user, "ax", @progbits
    li a7, 139
    ecall
