// Tests the mmap family: the map and the bytes after each call.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static char *base;

// Prints the VMAs from `base` on, by their distance from it.
static void areas(const char *after) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    printf("%s:\n", after);
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        char permissions[8];
        unsigned long offset;
        sscanf(line, "%lx-%lx %7s %lx", &start, &end, permissions, &offset);
        if (start >= (unsigned long)base && end <= (unsigned long)base + (64 << 12))
            printf("  %3ld-%3ld %s %lx\n", (long)((start - (unsigned long)base) >> 12),
                   (long)((end - (unsigned long)base) >> 12), permissions, offset);
    }
    fclose(maps);
}

static void *at(int page) { return base + ((long)page << 12); }

static void result(const char *call, long value) {
    if (value == -1)
        printf("%s: %s\n", call, strerror(errno));
    else
        printf("%s: ok\n", call);
}

int main(void) {
    base = mmap(NULL, 64 << 12, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    munmap(base, 64 << 12);
    int rw = PROT_READ | PROT_WRITE, fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    mmap(at(0), 8 << 12, rw, fixed, -1, 0);
    memset(at(0), 1, 8 << 12);
    mprotect(at(2), 2 << 12, PROT_READ);
    areas("mprotect");
    mprotect(at(2), 2 << 12, rw);
    areas("mprotect back");
    munmap(at(5), 1 << 12);
    areas("munmap");
    mmap(at(5), 1 << 12, rw, fixed, -1, 0);
    areas("mmap in the hole");
    result("noreplace", (long)mmap(at(5), 1 << 12, rw, fixed | MAP_FIXED_NOREPLACE, -1, 0));
    result("bad alignment", (long)mmap(base + 5, 4096, rw, fixed, -1, 0));
    result("no length", (long)mmap(NULL, 0, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    result("move", (long)mremap(at(0), 2 << 12, 4 << 12, MREMAP_MAYMOVE | MREMAP_FIXED, at(20)));
    areas("mremap");
    printf("bytes %d %d %d\n", *(char *)at(20), *(char *)at(21), *(char *)at(22));
    madvise(at(20), 1 << 12, MADV_DONTNEED);
    printf("after DONTNEED %d\n", *(char *)at(20));
    result("mlock", mlock(at(20), 2 << 12));
    areas("mlock");
    munlock(at(20), 2 << 12);

    int file = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < 4; i++) {
        char page[4096];
        memset(page, 'a' + i, sizeof page);
        write(file, page, sizeof page);
    }
    mmap(at(30), 4 << 12, rw, MAP_SHARED | MAP_FIXED, file, 0);
    mmap(at(40), 4 << 12, rw, MAP_PRIVATE | MAP_FIXED, file, 0);
    areas("files");
    *(char *)at(30) = 'X';
    printf("private sees %c\n", *(char *)at(40));
    *(char *)at(41) = 'Y';
    char byte;
    pread(file, &byte, 1, 4096);
    printf("file has %c, shared sees %c\n", byte, *(char *)at(31));
    pread(file, &byte, 1, 0);
    printf("file has %c\n", byte);
    pwrite(file, "Z", 1, 8192);
    printf("shared sees %c, private sees %c\n", *(char *)at(32), *(char *)at(42));

    char *shared = mmap(NULL, 4096, rw, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        *shared = 5;
        *(char *)at(21) = 99;
        *(char *)at(30) = 'C';
        _exit(*(char *)at(41));
    }
    int status;
    waitpid(child, &status, 0);
    printf("child %c; shared %d, private %d, file %c\n", WEXITSTATUS(status), *shared, *(char *)at(21), *(char *)at(30));

    char *heap = sbrk(0);
    result("brk", (long)sbrk(100 << 12));
    memset(heap, 3, 100 << 12);
    printf("heap %d\n", heap[(100 << 12) - 1]);
    sbrk(-(100 << 12));
    unsigned char there[4];
    mincore(at(20), 4 << 12, there);
    printf("in core %d %d %d\n", there[0] & 1, there[1] & 1, there[3] & 1);
    result("mseal of a hole", madvise(at(63), 4096, MADV_WILLNEED));
    unlink("mapped");

    // More forks than memory could hold without sharing.
    size_t much = 64 << 20;
    char *big = mmap(NULL, much, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(big, 1, much);
    fflush(stdout);
    int sum = 0;
    for (int i = 0; i < 20; i++) {
        child = fork();
        if (child == 0) {
            big[(size_t)i << 12] = (char)i;
            _exit(big[(size_t)i << 12] + big[much - 1]);
        }
        waitpid(child, &status, 0);
        sum += WEXITSTATUS(status);
    }
    printf("forks %d\n", sum);
    return 0;
}
