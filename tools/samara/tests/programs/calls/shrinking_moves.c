/* Moves to a fixed place of less than there was, whose old length names more than the machine has. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

#define PAGE 4096UL
#define ANYWHERE (MAP_ANONYMOUS | MAP_PRIVATE)

static int moved, refused;

static void move(int flags, int prot, unsigned long old, unsigned long pages, int how) {
    /* What lies above the area, up to its old length, goes: nothing else may be there. */
    char *area = (char *)0x10000000, *to = (char *)0x8000000;
    mmap(area, 4 * PAGE, prot, flags | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    mmap(area + 8 * PAGE, 4 * PAGE, PROT_READ, ANYWHERE | MAP_FIXED, -1, 0);
    mmap(to, 4 * PAGE, PROT_READ | PROT_EXEC, ANYWHERE | MAP_FIXED, -1, 0);
    if (mremap(area, old, pages * PAGE, how, to) == MAP_FAILED) refused++;
    else moved++;
    munmap(area, 16 * PAGE);
    munmap(to, 16 * PAGE);
}

int main(void) {
    static const int kinds[] = {MAP_PRIVATE, MAP_PRIVATE | MAP_NORESERVE, MAP_SHARED};
    static const unsigned long lengths[] = {2 * PAGE, 4 * PAGE, 7 * PAGE, 1UL << 30, 1UL << 43};
    for (unsigned kind = 0; kind < 3; kind++)
        for (unsigned length = 0; length < 5; length++)
            for (int prot = 0; prot < 4; prot++)
                for (unsigned long pages = 1; pages < 4; pages++) {
                    move(kinds[kind], prot, lengths[length], pages, MREMAP_MAYMOVE | MREMAP_FIXED);
                    move(kinds[kind], prot, lengths[length], pages, MREMAP_MAYMOVE);
                }
    printf("%d moved, %d refused\n", moved, refused);
    return 0;
}
