// The ring of a perf event, each time a new one: calls on parts of it and on all of it. Prints how many calls failed, or nothing where there are no perf events.
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 9 };

static int failed;

static char *ring(int *event) {
    struct perf_event_attr attributes = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof attributes,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_period = 1000000,
        .disabled = 1,
    };
    *event = syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0);
    if (*event < 0) return MAP_FAILED;
    return mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, *event, 0);
}

#define ON_A_RING(call)                                                        \
    do {                                                                       \
        int event;                                                             \
        char *p = ring(&event);                                                \
        if (p == MAP_FAILED) return 0;                                         \
        failed += (long)(call) == -1;                                          \
        munmap(p, PAGES * PAGE);                                               \
        close(event);                                                          \
    } while (0)

int main(void) {
    const int all = PAGES * PAGE, move = MREMAP_MAYMOVE | MREMAP_FIXED;
    ON_A_RING(munmap(p, PAGE));
    ON_A_RING(munmap(p + PAGE, PAGE));
    ON_A_RING(munmap(p + all - PAGE, PAGE));
    ON_A_RING(munmap(p, all));
    ON_A_RING(mprotect(p, PAGE, PROT_READ));
    ON_A_RING(mprotect(p, PAGE, PROT_READ | PROT_WRITE));
    ON_A_RING(mprotect(p + PAGE, all - PAGE, PROT_READ));
    ON_A_RING(mprotect(p, all, PROT_READ));
    ON_A_RING(madvise(p, PAGE, MADV_DONTDUMP));
    ON_A_RING(madvise(p, PAGE, MADV_DODUMP));
    ON_A_RING(madvise(p, PAGE, MADV_DOFORK));
    ON_A_RING(madvise(p, PAGE, MADV_SEQUENTIAL));
    ON_A_RING(madvise(p, all, MADV_SEQUENTIAL));
    ON_A_RING(mlock(p, PAGE));
    ON_A_RING(mremap(p, all, PAGE, 0));
    ON_A_RING(mremap(p, PAGE, PAGE, move, p + (1 << 24)));
    ON_A_RING(mremap(p, all, all, move, p + (1 << 24)));
    ON_A_RING(mremap(p, PAGE, 2 * PAGE, MREMAP_MAYMOVE));
    ON_A_RING(mmap(p, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    printf("%d failed\n", failed);
    return 0;
}
