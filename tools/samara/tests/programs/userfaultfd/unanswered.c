/* Memory that a userfaultfd watches and nobody fills in: a fault of the kernel's there fails at once, if it is not to wait for an answer. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096UL
#define RW (PROT_READ | PROT_WRITE)

enum { LOCK, LOCK_ON_FAULT, LOCK_ALL, POPULATE_READ, POPULATE_WRITE, PROTECT, STORE, WAYS };

static int failed, answered;

static void *map(char *at, unsigned long pages, int prot, int flags) {
    return mmap(at, pages * PAGE, prot, flags | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
}

static void attempt(int way, int shared, int signals, int minor, unsigned long there) {
    /* Only those that are asked by the program itself, or those that raise SIGBUS. */
    int by = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | (signals ? 0 : 1));
    struct uffdio_api api = {UFFD_API, (signals ? UFFD_FEATURE_SIGBUS : 0) | (minor ? UFFD_FEATURE_MINOR_SHMEM : 0), 0};
    if (by < 0 || ioctl(by, UFFDIO_API, &api) != 0) {
        if (by >= 0) close(by);
        return;
    }
    char *room = map(NULL, 16, PROT_NONE, MAP_PRIVATE);
    char *area = room + 4 * PAGE;
    map(area, 4, RW, shared ? MAP_SHARED : MAP_PRIVATE);
    memset(area, 1, there * PAGE);
    if (minor) madvise(area, 4 * PAGE, MADV_DONTNEED);
    struct uffdio_register watched = {{(unsigned long)area, 4 * PAGE}, minor ? UFFDIO_REGISTER_MODE_MINOR : UFFDIO_REGISTER_MODE_MISSING, 0};
    if (ioctl(by, UFFDIO_REGISTER, &watched) == 0) {
        int result = 0;
        switch (way) {
        case LOCK: result = mlock(area, 4 * PAGE); break;
        case LOCK_ON_FAULT: result = (int)syscall(SYS_mlock2, area, 4 * PAGE, 1); break;
        case LOCK_ALL: result = mlockall(MCL_CURRENT); break;
        case POPULATE_READ: result = madvise(area, 4 * PAGE, 22); break;
        case POPULATE_WRITE: result = madvise(area, 4 * PAGE, 23); break;
        case PROTECT:
            mprotect(area, 4 * PAGE, PROT_READ);
            syscall(SYS_mlock2, area, 4 * PAGE, 1);
            mlock(area, 4 * PAGE);
            result = mprotect(area, 4 * PAGE, RW);
            break;
        case STORE: {
            int random = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
            result = read(random, area, 4 * PAGE) == 4 * (long)PAGE ? 0 : -1;
            close(random);
        }
        }
        if (result != 0) failed++;
        else answered++;
        ioctl(by, UFFDIO_UNREGISTER, &watched.range);
    }
    close(by);
    munlockall();
    /* What has an owner joins no neighbour that has another. */
    map(area + 5 * PAGE, 2, RW, MAP_PRIVATE);
    area[5 * PAGE] = 1;
    map(area + 4 * PAGE, 1, RW, MAP_PRIVATE);
    munmap(room, 16 * PAGE);
}

int main(void) {
    for (int way = 0; way < WAYS; way++)
        for (int kind = 0; kind < 8; kind++)
            for (unsigned long there = 0; there <= 4; there += 2) {
                int shared = kind & 1, signals = kind >> 1 & 1, minor = kind >> 2;
                if (!minor || shared) attempt(way, shared, signals, minor, there);
            }
    printf("%d failed, %d answered\n", failed, answered);
    return 0;
}
