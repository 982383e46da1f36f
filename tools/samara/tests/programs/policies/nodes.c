// Sets of nodes, most of which this machine does not have: which policies are one, so that areas join; which sets the kernel refuses to read.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, BOTH = PROT_READ | PROT_WRITE, PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS };

static const unsigned modes[] = {0, 1, 2, 3, 4, 5, 7, 0x2002, 0x4001, 0x4002, 0x4003, 0x8001, 0x8002, 0x8003, 0xc002};
enum { MODES = sizeof modes / sizeof *modes };

static long bind(char *at, unsigned mode, const void *nodes, unsigned long count) { return syscall(SYS_mbind, at, PAGE, mode, nodes, count, 0); }

// Two pages beside each other, in the middle of an area.
static void neighbours(void) {
    static const unsigned long sets[] = {1, 2, 3, 5, 6, ~(-1ul >> 1), ~(-1ul >> 1) | 1};
    enum { SETS = sizeof sets / sizeof *sets };
    for (int mode = 0; mode < MODES; mode++)
        for (int one = 0; one < SETS; one++)
            for (int other = 0; other < SETS; other++) {
                char *at = mmap(0, 4 * PAGE, BOTH, PRIVATE, -1, 0);
                bind(at + PAGE, modes[mode], sets + one, 65);
                bind(at + 2 * PAGE, modes[mode], sets + other, 65);
                munmap(at, 4 * PAGE);
            }
}

// Nodes above 63, which count as long as none of the mode's flags keeps them.
static void long_sets(void) {
    static const unsigned long counts[] = {0, 1, 2, 64, 65, 66, 129, 1025, 1026, 32769, 32770, -1ul};
    unsigned long words[512] = {1};
    char *at = mmap(0, 8 * PAGE, BOTH, PRIVATE, -1, 0);
    char *edge = mmap(0, 2 * PAGE, BOTH, PRIVATE, -1, 0);
    munmap(edge + PAGE, PAGE);
    unsigned long *last = (unsigned long *)(edge + PAGE) - 1;
    *last = 3;
    for (int mode = 0; mode < 7; mode++)
        for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) {
            bind(at + PAGE, modes[mode], words, counts[i]);
            bind(at + 2 * PAGE, modes[mode], 0, counts[i]);
            bind(at + 3 * PAGE, modes[mode], last, counts[i]);
            bind(at + 4 * PAGE, modes[mode], edge + PAGE, counts[i]);
            for (int high = 1; high < 18; high += 5) {
                words[high] = 2;
                bind(at + 5 * PAGE, modes[mode], words, counts[i]);
                words[0] = 0;
                bind(at + 6 * PAGE, modes[mode], words, counts[i]);
                words[0] = 1;
                words[high] = 0;
            }
        }
    // What is refused first.
    bind(at + 1, 2, edge + PAGE, 65);
    bind(at + 1, 77, edge + PAGE, 65);
    syscall(SYS_mbind, at, 0, 2, edge + PAGE, 65, 0);
    syscall(SYS_mbind, at, PAGE, 2, words, 0, 0x100);
    syscall(SYS_mbind, at, PAGE, 2, edge + PAGE, 65, 4);
}

int main(void) {
    neighbours();
    long_sets();
    return 0;
}
