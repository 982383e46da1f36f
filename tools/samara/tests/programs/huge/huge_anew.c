// Memory of the pool of huge pages before and behind calls that no engine knows: what it is must still be known behind them.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HUGE (2ul << 20)
#define AT ((char *)0x200000000)

// The engine starts anew after this: a userfaultfd that follows moves lets go of what it never watched.
static void unknown(void) {
    int watcher = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_EVENT_REMAP};
    char *page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_range range = {(unsigned long)page, 4096};
    if (ioctl(watcher, UFFDIO_API, &api) || ioctl(watcher, UFFDIO_UNREGISTER, &range)) puts("all is known");
    close(watcher);
}

int main(void) {
    for (int shared = 0; shared < 2; shared++) {
        // Nothing is promised, so that a pool without pages will do.
        int flags = (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE | MAP_FIXED;
        char *area = mmap(AT + shared * 64 * HUGE, 8 * HUGE, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (area == MAP_FAILED) return 0;
        unsigned long node = 1;
        mprotect(area + 2 * HUGE, HUGE, PROT_READ);
        syscall(SYS_mbind, area + 4 * HUGE, HUGE, 2, &node, 64, 0);
        unknown();
        mmap(area + 8 * HUGE, HUGE, PROT_READ | PROT_WRITE, flags, -1, 0);
        mprotect(area + 2 * HUGE, HUGE, PROT_READ | PROT_WRITE);
        mprotect(area, HUGE + 4096, PROT_READ);
        munmap(area + 4096, HUGE);
        munmap(area + 5 * HUGE, HUGE);
        mremap(area + 3 * HUGE, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, area + 20 * HUGE);
        mremap(area + 20 * HUGE, HUGE, 4096, MREMAP_MAYMOVE);
        mremap(area + 6 * HUGE, HUGE, 3 * HUGE, MREMAP_MAYMOVE);
        madvise(area, HUGE, MADV_DONTFORK);
        syscall(SYS_mbind, area + 4 * HUGE, HUGE, 0, 0, 0, 0);
        unknown();
        if (fork() == 0) {
            mprotect(area + HUGE, HUGE, PROT_READ);
            unknown();
            munmap(area, HUGE);
            mprotect(area + HUGE, HUGE, PROT_READ | PROT_WRITE);
            _exit(0);
        }
        wait(0);
        munmap(area + 4 * HUGE, HUGE);
    }
    return 0;
}
