/* Moves to a fixed place that begin in a driver's area, or another that may move with others or not, and reach beyond it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, KINDS = 9 };
static char *room = (char *)0x200000000000;

static long length(char *at) {
    char line[300];
    unsigned long start, end, found = PAGE;
    FILE *maps = fopen("/proc/self/maps", "r");

    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start == (unsigned long)at)
            found = end - start;
    if (maps)
        fclose(maps);
    return found;
}

static char *shared(int fd, long pages) {
    return mmap(room, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
}

/* An area with nothing behind it; at `room` if it may be there. */
static char *area(int kind) {
    struct perf_event_attr perf = {.type = PERF_TYPE_SOFTWARE, .size = sizeof perf, .config = PERF_COUNT_SW_DUMMY};
    struct tpacket_req packets = {2 * PAGE, 1, 2048, 4};
    char params[120] = {0};
    unsigned long ring = 0;
    int fd;

    switch (kind) {
    case 0:
        return mmap(room, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    case 1:
        if (syscall(SYS_io_setup, 1, &ring))
            return MAP_FAILED;
        return mremap((void *)ring, length((void *)ring), length((void *)ring), MREMAP_MAYMOVE | MREMAP_FIXED, room);
    case 2:
        fd = shmget(IPC_PRIVATE, 2 * PAGE, 0600);
        char *at = shmat(fd, room, 0);
        shmctl(fd, IPC_RMID, NULL);
        return at;
    case 3:
        return shared(open("/dev/zero", O_RDWR), 2);
    case 4:
        return mmap(room, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, open("/dev/zero", O_RDWR), 0);
    case 5:
        return shared(syscall(SYS_perf_event_open, &perf, 0, -1, -1, 0), 2);
    case 6:
        fd = memfd_create("file", 0);
        return ftruncate(fd, 2 * PAGE) ? MAP_FAILED : shared(fd, 2);
    case 7:
        fd = socket(AF_PACKET, SOCK_RAW, 0);
        setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &packets, sizeof packets);
        return shared(fd, 2);
    default:
        /* Where it likes to be. */
        fd = syscall(SYS_io_uring_setup, 8, params);
        return mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
}

int main(void) {
    int done = 0;

    /* What lies behind a ring is moved, too: it is placed below this, and not below what the program needs. */
    mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int number = 0; number < KINDS * 32; number++) {
        int kind = number / 32, behind = number & 1, copies = number & 2, within = number & 4, more = (number >> 3) % 3;

        room += 1 << 24;
        char *at = area(kind);
        if (at == MAP_FAILED)
            continue;
        long size = length(at), from = within ? PAGE : 0;
        if (behind && at == room)
            mmap(at + size, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        /* Something is there. */
        char *to = mmap(room + (1 << 23), PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        size_t moved = size - from + more * PAGE;
        mremap(at + from, moved, moved, MREMAP_MAYMOVE | MREMAP_FIXED | (copies ? MREMAP_DONTUNMAP : 0), to);
        done++;
    }
    puts(done ? "done" : "none");
    return 0;
}
