/* UFFDIO_MOVE gives the memory that pages are moved to an owner, even if it fails or finds nothing to move; not where its mode is unknown. What has an owner of
 * its own does not join what has another. Kernels before 6.8 know no such call, and all join. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "areas_in.h"

enum { PAGE = 4096, FLAGS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, HOLES = 2, UNKNOWN = 4 };

struct move {
    unsigned long to, from, length, mode;
    long moved;
};

/* Moves a page, then the target or the source to the end of an area that was written to. */
static void try(int watched, int written, unsigned long mode, int which) {
    int watcher = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);
    // UFFD_FEATURE_MOVE
    struct uffdio_api api = {UFFD_API, 1 << 16, 0};
    ioctl(watcher, UFFDIO_API, &api);
    char *room = mmap(0, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(room, 64 * PAGE);
    char *to = mmap(room + 8 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, FLAGS, -1, 0);
    char *from = mmap(room + 16 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, FLAGS, -1, 0);
    if (written) from[0] = 1;
    struct uffdio_register area = {{(unsigned long)to, 2 * PAGE}, UFFDIO_REGISTER_MODE_MISSING, 0};
    if (watched) ioctl(watcher, UFFDIO_REGISTER, &area);
    struct move move = {(unsigned long)to, (unsigned long)from, PAGE, mode, 0};
    int result = ioctl(watcher, _IOWR(0xAA, 5, struct move), &move);
    if (watched) ioctl(watcher, UFFDIO_UNREGISTER, &area.range);
    char *low = mmap(room + 40 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, FLAGS, -1, 0);
    low[0] = 1;
    mremap(which ? from : to, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, low + 2 * PAGE);
    printf("%d %d %lu %d: %d, %d\n", watched, written, mode, which, result, areas_in(low, 4 * PAGE));
    munmap(room, 64 * PAGE);
    close(watcher);
}

int main(void) {
    for (int which = 0; which < 2; which++)
        for (int watched = 0; watched < 2; watched++)
            for (int written = 0; written < 2; written++) {
                try(watched, written, 0, which);
                try(watched, written, HOLES, which);
                try(watched, written, UNKNOWN, which);
            }
    return 0;
}
