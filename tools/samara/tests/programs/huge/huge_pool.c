// Huge pages of the pool: promised, written, shared with children, moved, given up; and more of them than there are.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define HUGE (2ul << 20)
#define AT ((char *)0x200000000)

static char *map(unsigned long page, unsigned long pages, int flags, int fd, long offset) {
    return mmap(AT + page * HUGE, pages * HUGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, offset);
}

int main(void) {
    int private = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, shared = MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB;
    int rest = MAP_PRIVATE | MAP_ANONYMOUS;
    // Whatever is there goes, whether or not there are pages.
    map(0, 2, rest, -1, 0);
    int have = map(0, 2, private, -1, 0) != MAP_FAILED;
    map(2, 1, private | MAP_NORESERVE, -1, 0);
    map(0, 1ul << 20, private, -1, 0);
    puts(have ? "some" : "none");
    int file = memfd_create("huge", MFD_HUGETLB);
    for (int round = 0; round < 3; round++) {
        char *some = map(0, 3, private | MAP_NORESERVE * (round == 1), -1, 0);
        map(4, 2, shared | MAP_POPULATE, -1, 0);
        if (have && some != MAP_FAILED && round != 1) {
            memset(some, 1, HUGE);
        }
        pid_t child = fork();
        if (child == 0) {
            munmap(AT + HUGE, HUGE);
            mprotect(AT + 2 * HUGE, HUGE, PROT_READ);
            _exit(0);
        }
        waitpid(child, 0, 0);
        mmap(0, 100, PROT_READ, shared, -1, 0);
        mmap(AT + 4096, HUGE, PROT_READ, shared, -1, 0);
        mmap(0, 3 * HUGE, PROT_READ, private | MAP_NORESERVE | MAP_32BIT, -1, 0);
        if (file >= 0) {
            ftruncate(file, 4 * HUGE);
            map(8, 4, MAP_SHARED, file, 0);
            map(9, 2, MAP_PRIVATE, file, HUGE);
            map(10, 2, MAP_PRIVATE, file, 4096);
            map(12, 2, MAP_SHARED | MAP_HUGETLB, file, HUGE);
        }
        mprotect(AT, HUGE + 4096, PROT_READ);
        mprotect(AT + HUGE, HUGE, PROT_READ);
        munmap(AT + 4096, HUGE);
        mlock(AT + 4 * HUGE, HUGE);
        madvise(AT, 2 * HUGE, MADV_DONTNEED);
        madvise(AT + 4 * HUGE, 2 * HUGE, MADV_REMOVE);
        madvise(AT + 4 * HUGE, HUGE, MADV_DONTFORK);
        mremap(AT + 4 * HUGE, 2 * HUGE, 2 * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, AT + 20 * HUGE);
        mremap(AT + 20 * HUGE, 2 * HUGE, 4096, MREMAP_MAYMOVE);
        mremap(AT + 20 * HUGE, HUGE, 2 * HUGE, MREMAP_MAYMOVE);
        munmap(AT + 2 * HUGE, 1);
        munmap(AT + 2 * HUGE, HUGE);
        map(1, 1, rest, -1, 0);
        map(0, 30, rest, -1, 0);
        munmap(AT, 30 * HUGE);
    }
    return 0;
}
