/* Parts of the stack that grow apart from it: cut off below a hole, moved elsewhere, or where the kernel was told that the stack is somewhere else.
 * Each has grown just before a call that concerns where to. */
#define _GNU_SOURCE
#include <alloca.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, ROOM = 256, CASES = 7 };

static char *lowest;

/* Makes the stack this long, and tells how far it reaches. */
static __attribute__((noinline)) void deepen(void) {
    volatile char *at = alloca(ROOM * PAGE);
    for (int page = ROOM - 1; page >= 0; page--) at[page * PAGE] = 1;
    lowest = (char *)((unsigned long)at & -PAGE);
}

/* Below an area that grows: an access, and a call on what has come to be there. */
static void grow(char *start, int call) {
    char *at = start - 12 * PAGE;
    *(volatile char *)at = 1;
    switch (call) {
    case 0: mlock(at, PAGE); break;
    case 1: mprotect(at, 2 * PAGE, PROT_READ); break;
    case 2: mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, start - 4096 * PAGE); break;
    case 3: madvise(at, PAGE, MADV_DONTDUMP); break;
    }
}

static void parts(int number, char *room, int call) {
    /* What lies below may belong to somebody. */
    char *start = lowest, *there = room + 512 * PAGE, line[256];
    unsigned long first, last;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &first, &last) == 2 && first <= (unsigned long)lowest && (unsigned long)lowest < last) start = (char *)first;
    fclose(maps);
    switch (number) {
    case 0:
        munmap(start + 16 * PAGE, PAGE);
        grow(start, call);
        break;
    case 1:
        mprotect(start + 16 * PAGE, PAGE, PROT_READ);
        grow(start, call);
        break;
    case 2:
        mremap(start, 16 * PAGE, 16 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, there);
        grow(there, call);
        break;
    case 3:
        mremap(start + 4 * PAGE, 16 * PAGE, 16 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, there);
        grow(there, call);
        grow(start, call);
        break;
    case 4:
        mremap(start, 16 * PAGE, 16 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, there);
        grow(there, call);
        break;
    case 5: {
        char *moved = mremap(start, 16 * PAGE, 32 * PAGE, MREMAP_MAYMOVE);
        if (moved != MAP_FAILED && munmap(moved - 64 * PAGE, 64 * PAGE) == 0) grow(moved, call);
        break;
    }
    case 6:
        if (prctl(PR_SET_MM, PR_SET_MM_START_STACK, there, 0, 0) == 0) grow(start, call);
    }
}

int main(void) {
    deepen();
    setvbuf(stdout, 0, _IONBF, 0);
    for (int number = 0; number < CASES; number++)
        for (int call = 0; call < 4; call++) {
            if (fork() == 0) {
                char *room = mmap(0, 1024 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                mmap(room + 1000 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
                munmap(room, 900 * PAGE);
                parts(number, room, call);
                _exit(0);
            }
            int status;
            wait(&status);
            if (status) printf("case %d, call %d: %d\n", number, call, status);
        }
    puts("done");
    return 0;
}
