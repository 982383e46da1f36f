// Mappings of huge pages that are promised nothing, at and near hints, beside what is in the way there; then the same without randomisation, and with the legacy layout.
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIZE_2M (21UL << 26)
#define SIZE_1G (30UL << 26)
#define PAGE 0x1000UL
#define BASE 0x100000000000UL
#define TOP 0x800000000000UL

static void map(unsigned long hint, unsigned long len, unsigned long flags) {
    unsigned long huge = (flags & SIZE_1G) == SIZE_1G ? 1UL << 30 : 2UL << 20;
    long at = syscall(SYS_mmap, hint, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_HUGETLB | flags, -1, 0);
    if (at != -1) munmap((void *)at, (len + huge - 1) & -huge);
}

// At all hints near BASE, with something there.
static void beside(unsigned long at, unsigned long len, int flags, unsigned long huge, unsigned long size) {
    unsigned long offsets[] = {0, 5, PAGE, huge - PAGE, huge, huge + 1};
    if (len) mmap((void *)at, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED | flags, -1, 0);
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        map(BASE + offsets[i], huge, size);
        map(BASE + offsets[i], 1, size);
        map(BASE + offsets[i], 2 * huge, size | MAP_32BIT);
    }
    if (len) munmap((void *)at, len);
}

static void all(unsigned long huge, unsigned long size) {
    unsigned long hints[] = {
        0, 1, PAGE, 0x10000, 0x20000, huge - 1, huge, huge + 1, 0x50001000, 0x70001000, 0x7fe00000, 0x7ff00000, 0x80000000, 0xf0000000,
        TOP - 2 * huge, TOP - huge, TOP - 2 * PAGE, TOP - PAGE, TOP - 1, TOP, TOP + PAGE, 0x900000000000, 0xff000000000000,
        0x100000000000000 - huge, 0x100000000000000, 1UL << 63, -PAGE, -1UL,
    };
    beside(BASE, 0, 0, huge, size);
    beside(BASE, PAGE, 0, huge, size);
    beside(BASE + huge - PAGE, PAGE, 0, huge, size);
    beside(BASE + huge, PAGE, 0, huge, size);
    beside(BASE + 2 * huge, 2 * PAGE, MAP_GROWSDOWN, huge, size);
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) {
        map(hints[i], huge, size);
        map(hints[i], huge, size | MAP_32BIT);
        map(hints[i], PAGE, size | MAP_32BIT | MAP_LOCKED);
    }
    map(0, 1UL << 47, size);
    map(0, 2UL << 30, size | MAP_32BIT);
    map(BASE + PAGE, huge, size | MAP_FIXED);
    map(BASE, huge, size | MAP_FIXED);
    map(TOP - huge, huge, size | MAP_FIXED_NOREPLACE);
    map(BASE, huge, size | MAP_FIXED_NOREPLACE);
    // A page offset at which no huge page begins.
    syscall(SYS_mmap, BASE + PAGE, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_32BIT | size, -1, 0x3000);
}

int main(int count, char **arguments) {
    all(2UL << 20, SIZE_2M);
    all(1UL << 30, SIZE_1G);
    if (count == 1 && personality(ADDR_NO_RANDOMIZE) != -1) execl("/proc/self/exe", *arguments, "once", NULL);
    if (count == 2 && personality(ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT) != -1) execl("/proc/self/exe", *arguments, "once", "more", NULL);
    return 0;
}
