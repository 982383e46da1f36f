// Policies with nodes that the machine does not have, above 63, too: which ones they are keeps areas apart, or joins them.
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, STATIC = 0x8000, RELATIVE = 0x4000, HOME = 450 };

int main(void) {
    static const int modes[] = {0, 1, 2, 3, 5};
    for (int flag = 0; flag < 3; flag++)
        for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++)
            for (int shared = 0; shared < 2; shared++) {
                char *at = mmap((void *)0x10000000, 16 * PAGE, 3, (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
                int mode = modes[i] | (flag == 1 ? STATIC : flag == 2 ? RELATIVE : 0);
                unsigned long sets[][4] = {{1, 1}, {1, 2}, {1, 1}, {1}, {3}, {0, 1}, {0, 0, 1}, {1, 0, 1}, {1, 1, 1}, {5, 0, 0, 1}};
                for (unsigned page = 0; page < sizeof sets / sizeof *sets; page++)
                    syscall(SYS_mbind, at + page * PAGE, PAGE, mode, sets[page], 257, 0);
                syscall(HOME, at, 4 * PAGE, 0, 0);
                mprotect(at, 16 * PAGE, PROT_READ);
                syscall(SYS_mbind, at + 2 * PAGE, 3 * PAGE, mode, sets[1], 70 + i, 0);
                syscall(SYS_mbind, at + 6 * PAGE, 2 * PAGE, 0, 0, 0, 0);
                munmap(at, 16 * PAGE);
            }
}
