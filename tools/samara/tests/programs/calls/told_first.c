// Calls that fail for their arguments before, or after, they have looked at the areas; and arguments in memory that may not be read.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, BOTH = PROT_READ | PROT_WRITE, PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS };

// A vector that cannot be written, for ranges with a hole at the start, in the middle, behind, and beyond all addresses.
static void which_pages(void) {
    static unsigned char good[4096];
    char *at = mmap(0, 16 * PAGE, BOTH, PRIVATE, -1, 0);
    char *fixed = mmap(0, PAGE, PROT_READ, PRIVATE, -1, 0);
    munmap(at + 4 * PAGE, 4 * PAGE);
    void *vectors[] = {good, 0, fixed, at + 4 * PAGE, (void *)-1ul, (void *)0x7fffffffffff, (void *)0x8000000000000000};
    for (int vector = 0; vector < 7; vector++)
        for (int from = 0; from < 16; from++) {
            static const unsigned long lengths[] = {0, 1, PAGE, 3 * PAGE, 9 * PAGE, 1ul << 20, 1ul << 46, 1ul << 47, -1ul, -(1ul << 40)};
            for (int i = 0; i < 10; i++) {
                if (vector == 0 && lengths[i] > PAGE * sizeof good) continue;
                mincore(at + from * PAGE, lengths[i], vectors[vector]);
                mincore(at + from * PAGE + 1, lengths[i], vectors[vector]);
            }
        }
}

// The default policy is content with each node, a local one with none; to be strict about that leaves the areas alone if no page is to be moved.
static void strays(void) {
    for (int flags = 0; flags < 8; flags++)
        for (int mode = 0; mode < 6; mode++) {
            unsigned long node = 1;
            char *at = mmap(0, 8 * PAGE, BOTH, PRIVATE, -1, 0);
            at[2 * PAGE] = 1;
            syscall(SYS_mbind, at + PAGE, 3 * PAGE, mode, mode % 4 ? &node : 0, 64, flags);
            munmap(at, 8 * PAGE);
        }
}

// A socket and a ring have nothing to be written back to; what is locked may not be forgotten; behind them is a hole.
static void written_back(void) {
    char event[128] = {1, 0, 0, 0, 128}, *room = mmap(0, 16 * PAGE, PROT_NONE, PRIVATE, -1, 0);
    int files[] = {socket(AF_INET, SOCK_STREAM, 0), memfd_create("data", 0), syscall(SYS_perf_event_open, event, 0, -1, -1, 0)};
    ftruncate(files[1], PAGE);
    for (int i = 0; i < 3; i++) mmap(room + (1 + 3 * i) * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, files[i], 0);
    mlock(room + 12 * PAGE, PAGE);
    munmap(room + 14 * PAGE, PAGE);
    for (int flags = 0; flags < 8; flags++)
        for (int from = 0; from < 16; from++)
            for (int pages = 1; pages < 17; pages += 3) msync(room + from * PAGE, pages * PAGE, flags);
}

// In memory that may only be written, or only be executed, the kernel reads them.
static void unreadable(void) {
    static const int protections[] = {PROT_WRITE, PROT_EXEC, PROT_READ, PROT_NONE, BOTH};
    int self = syscall(SYS_pidfd_open, getpid(), 0);
    char *memory = mmap(0, 16 * PAGE, BOTH, PRIVATE, -1, 0), *arguments = mmap(0, 2 * PAGE, BOTH, PRIVATE, -1, 0);
    struct iovec ranges[] = {{memory, PAGE}, {memory + 2 * PAGE, PAGE}};
    unsigned long node = 1;
    // Across two pages, of which the second is protected otherwise.
    char *across = arguments + PAGE - sizeof *ranges;
    memcpy(across, ranges, sizeof ranges);
    memcpy(arguments, &node, sizeof node);
    strcpy(arguments + 64, "name");
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++) {
            mprotect(arguments, PAGE, protections[i]);
            mprotect(arguments + PAGE, PAGE, protections[j]);
            syscall(SYS_process_madvise, self, across, 2, j % 2 ? MADV_DONTDUMP : MADV_DODUMP, 0);
            syscall(SYS_mbind, memory + 8 * PAGE, PAGE, i % 2 ? 2 : 0x8002, arguments, 64, 0);
            prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, memory + (10 + i) * PAGE, PAGE, arguments + 64);
        }
}

int main(void) {
    which_pages();
    strays();
    written_back();
    unreadable();
    return 0;
}
