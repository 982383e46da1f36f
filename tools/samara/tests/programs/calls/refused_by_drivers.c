// Mappings that a driver refuses: some are refused before what was in their place is unmapped, some after. So are moves that shrink: what lies behind the shorter
// area is gone by then.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, BOTH = PROT_READ | PROT_WRITE, ANONYMOUS = MAP_PRIVATE | MAP_ANONYMOUS };

/* A ring of io_uring goes nowhere that it is told to go. */
static void shrink_in_vain(void) {
    char ring[256] = {0};
    int file = syscall(SYS_io_uring_setup, 256, ring);
    char *to = mmap(0, 16 * PAGE, PROT_NONE, ANONYMOUS, -1, 0);
    for (int from = 1; file >= 0 && from < 6; from++)
        for (int pages = 1; pages <= from; pages++) {
            mmap(to, 16 * PAGE, BOTH, ANONYMOUS | MAP_FIXED, -1, 0);
            char *at = mmap(0, 5 * PAGE, PROT_READ, MAP_SHARED, file, 0x10000000);
            if (at == MAP_FAILED) return;
            mremap(at, from * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to + 2 * PAGE);
            mprotect(to + PAGE, PAGE, PROT_READ);
            munmap(at, 5 * PAGE);
        }
}

int main(void) {
    shrink_in_vain();
    char event[128] = {1, 0, 0, 0, 128}, ring[256] = {0};
    int secret = syscall(SYS_memfd_secret, 0);
    if (secret >= 0) ftruncate(secret, 4 * PAGE);
    int files[] = {
        socket(AF_INET, SOCK_STREAM, 0), socket(AF_UNIX, SOCK_STREAM, 0), socket(AF_NETLINK, SOCK_RAW, 0), socket(AF_PACKET, SOCK_RAW, 0),
        syscall(SYS_perf_event_open, event, 0, -1, -1, 0), syscall(SYS_io_uring_setup, 4, ring), secret,
        open("/dev/null", O_RDWR), open("/proc/self/net/dev", O_RDONLY), open("/proc/self/maps", O_RDONLY), open("/dev/zero", O_RDWR),
    };
    static const unsigned long offsets[] = {0, PAGE, 0x8000000, 0x10000000};
    char *room = mmap(0, 16 * PAGE, PROT_NONE, ANONYMOUS, -1, 0);
    for (int file = 0; file < sizeof files / sizeof *files; file++)
        for (int protection = 0; files[file] >= 0 && protection < 4; protection++)
            for (int shared = 0; shared < 2; shared++)
                for (int offset = 0; offset < 4; offset++)
                    for (int pages = 1; pages < 8; pages += 3) {
                        mmap(room, 12 * PAGE, BOTH, ANONYMOUS | MAP_FIXED, -1, 0);
                        mprotect(room + 6 * PAGE, 3 * PAGE, PROT_READ);
                        room[5 * PAGE] = 1;
                        int flags = MAP_FIXED | (shared ? MAP_SHARED : MAP_PRIVATE);
                        mmap(room + 4 * PAGE, pages * PAGE - 1, protection, flags, files[file], offsets[offset]);
                        remap_file_pages(room + 4 * PAGE, PAGE + 1, 0, 5, 0);
                        remap_file_pages(room + 4 * PAGE, pages * PAGE, 0, 0, 0);
                        madvise(room + 4 * PAGE, 8 * PAGE, MADV_REMOVE);
                        munmap(room, 16 * PAGE);
                    }
    return 0;
}
