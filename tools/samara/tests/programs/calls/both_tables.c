// Calls of i386's table (`int 0x80`) among those of x86-64's, in a program with 64-bit addresses.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, BOTH = 3, PRIVATE = 0x22, BRK = 45, OLD_MMAP = 90, MUNMAP = 91, IPC = 117, MPROTECT = 125, MREMAP = 163, MMAP2 = 192 };

static long narrow(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long sixth __asm__("r12") = f;
    __asm__ volatile("push %%rbp; mov %%r12, %%rbp; int $0x80; pop %%rbp"
                     : "=a"(result)
                     : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e), "r"(sixth)
                     : "memory", "r8", "r9", "r10", "r11");
    return result;
}

static long map(long at, long len, long flags) { return narrow(MMAP2, at, len, BOTH, flags, -1, 0); }

int main(void) {
    // A hint that nothing can be done about shows where placement begins as well as none does.
    map(0x4000, PAGE, PRIVATE);
    // The last pages below 4 GiB: whether there is room for both depends on the direction in which places are sought.
    for (unsigned at = 0xffffa000; at != 0; at += PAGE) map(at, 2 * PAGE, PRIVATE);
    long last = 0;
    for (int round = 0; round < 5; round++) {
        long at = map(0, 2 * PAGE * (round + 1), PRIVATE);
        *(char *)at = 1;
        narrow(MPROTECT, at, PAGE, 1, 0, 0, 0);
        if (round == 2) narrow(MUNMAP, at, PAGE, 0, 0, 0, 0);
        mmap(0, PAGE, BOTH, PRIVATE, -1, 0);
        last = at;
    }
    // Nobody has cut off what the end of the heap has above 32 bits.
    printf("heap %d\n", narrow(BRK, 0, 0, 0, 0, 0, 0) == (long)sbrk(0));
    map(0x70000000, PAGE, PRIVATE | MAP_FIXED);
    printf("moved %d\n", narrow(MREMAP, 0x70000000, PAGE, 16 * PAGE, 1, 0, 0) > 0);
    printf("too large %ld\n", map(0, 0xf0000000, PRIVATE | MAP_NORESERVE));
    map(0, PAGE, PRIVATE | MAP_32BIT);
    for (int round = 0; round < 2; round++) {
        enum { HUGE = 2 << 20, UNPROMISED = MAP_HUGETLB | MAP_NORESERVE };
        map(0, HUGE, PRIVATE | UNPROMISED | round * MAP_32BIT);
        map(0xffe00000, HUGE, PRIVATE | UNPROMISED);
    }
    unsigned *words = (unsigned *)last;
    mprotect(words, PAGE, BOTH);
    unsigned old[6] = {0, 3 * PAGE, BOTH, PRIVATE, -1u, 0};
    for (int n = 0; n < 6; n++) words[n] = old[n];
    printf("old %d\n", narrow(OLD_MMAP, last, 0, 0, 0, 0, 0) > 0);
    int segment = shmget(IPC_PRIVATE, 2 * PAGE, 0600);
    // shmat and shmdt.
    narrow(IPC, 21, segment, 0, last, 0, 0);
    printf("attached %d\n", words[0] != 0);
    narrow(IPC, 22, 0, 0, 0, words[0], 0);
    shmctl(segment, IPC_RMID, 0);
    fflush(stdout);
    if (fork() == 0) {
        map(0, PAGE, PRIVATE);
        _exit(0);
    }
    wait(0);
    map(0, 3 << 20, PRIVATE);
    return 0;
}
