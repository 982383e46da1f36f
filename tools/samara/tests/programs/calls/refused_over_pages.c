// Drivers that refuse a mapping when the pages in its place have been taken away already: the area keeps their owner, and does not join one with another.
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096 };

static char *fresh(long at, long pages) {
    return mmap((void *)at, pages * PAGE, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void refused(int file, int flags) {
    char *low = fresh(0x10000000, 16), *high = fresh(0x20000000, 4);
    high[0] = low[4 * PAGE] = 1;
    mmap(low + 4 * PAGE, PAGE, 3, flags | MAP_FIXED, file, 0);
    mremap(low + 8 * PAGE, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, high + 2 * PAGE);
    // Across what was to be replaced.
    fresh((long)low + 3 * PAGE, 3);
    munmap(low, 16 * PAGE);
    munmap(high, 4 * PAGE);
}

int main(void) {
    int secret = syscall(SYS_memfd_secret, 0), packet = socket(AF_PACKET, SOCK_RAW, 0);
    if (secret >= 0 && ftruncate(secret, 8 * PAGE)) return 1;
    refused(secret, MAP_PRIVATE);
    refused(packet, MAP_SHARED);
}
