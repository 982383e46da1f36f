// Mappings of drivers and files at address 0, each the first of its open file, and what moves, growth and protection make of them.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, KINDS = 6 };

// A new open file of a kind: no mapping of it has been seen.
static int opened(int kind) {
    char event[128] = {1, 0, 0, 0, 128}, ring[256] = {0};
    struct tpacket_req packets = {2 * PAGE, 1, 2048, 4};
    int file = -1;
    switch (kind) {
    case 0: file = syscall(SYS_io_uring_setup, 4, ring); break;
    case 1: file = syscall(SYS_perf_event_open, event, 0, -1, -1, 0); break;
    case 2: file = socket(AF_INET, SOCK_STREAM, 0); break;
    case 3:
        file = socket(AF_PACKET, SOCK_RAW, 0);
        setsockopt(file, SOL_PACKET, PACKET_RX_RING, &packets, sizeof packets);
        break;
    case 4:
        if ((file = syscall(SYS_memfd_secret, 0)) >= 0) ftruncate(file, 2 * PAGE);
        break;
    case 5: file = open("/dev/zero", O_RDWR); break;
    }
    return file;
}

int main(void) {
    int done = 0;
    for (int kind = 0; kind < KINDS; kind++)
        for (int step = 0; step < 6; step++) {
            int file = opened(kind), protection = kind == 2 ? PROT_READ : PROT_READ | PROT_WRITE;
            if (file < 0) continue;
            // Some drivers want one page, or two.
            long size = kind == 0 ? PAGE : 2 * PAGE;
            void *at = mmap(0, size, protection, MAP_SHARED | MAP_FIXED, file, 0);
            if (at == 0) {
                done++;
                switch (step) {
                case 0: mremap(at, 0, 4 * PAGE, MREMAP_MAYMOVE); break;
                case 1: mremap(at, -1ul, 64 * PAGE, MREMAP_MAYMOVE); break;
                case 2: mremap(at, size, size + PAGE, MREMAP_MAYMOVE); break;
                case 3: mprotect(at, PAGE, PROT_EXEC); break;
                case 4: mlock(at, size); break;
                case 5: madvise(at, PAGE, MADV_DODUMP), madvise(at, PAGE, MADV_DOFORK); break;
                }
            }
            munmap(0, 16 * PAGE);
            close(file);
        }
    puts(done ? "done" : "not at 0");
    return 0;
}
