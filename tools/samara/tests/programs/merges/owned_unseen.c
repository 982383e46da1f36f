/* What gives an area of private memory an owner, though the program may not write there, or no page shows: it does not join what it continues when it is
 * moved there. And a userfaultfd that is told to watch from the lowest address on. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "areas_in.h"

typedef unsigned long word;
enum { PAGE = 4096, FIXED = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED };
enum { NOTHING, MEM_WRITE, MEM_READ, COPY, ZEROES, POISON, PROTECT, BAD_SOURCE, UNWATCHED, READ, VM_WRITE, WATCHED, GUARD, WAYS };

static const char *const names[] = {"nothing", "/proc/self/mem written", "/proc/self/mem read", "UFFDIO_COPY", "UFFDIO_ZEROPAGE", "UFFDIO_POISON",
                                    "UFFDIO_WRITEPROTECT", "UFFDIO_COPY from nowhere", "UFFDIO_COPY to what is not watched", "MADV_POPULATE_READ", "process_vm_writev", "UFFDIO_REGISTER", "MADV_GUARD_INSTALL"};
static char bytes[PAGE] __attribute__((aligned(4096)));
static int self;

static int watcher(word features) {
    struct uffdio_api api = {UFFD_API, features, 0};
    int file = syscall(SYS_userfaultfd, O_NONBLOCK | 1);
    if (file >= 0) ioctl(file, UFFDIO_API, &api);
    return file;
}

static void try(char *room, int protection, int way) {
    munmap(room, 1024 * PAGE);
    mmap(room, 4 * PAGE, protection, FIXED, -1, 0);
    char *high = mmap(room + 512 * PAGE, 4 * PAGE, protection, FIXED, -1, 0);
    int file = -1;
    if (way >= COPY && way <= UNWATCHED || way == WATCHED) {
        file = watcher(way == PROTECT ? 1 << 13 | 1 : 0);
        struct uffdio_register area = {{(word)high, 4 * PAGE}, way == PROTECT ? 2 : 1, 0};
        if (way != UNWATCHED) ioctl(file, UFFDIO_REGISTER, &area);
    }
    struct uffdio_copy copy = {(word)high, way == BAD_SOURCE ? PAGE : (word)bytes, PAGE, 0, 0};
    struct uffdio_zeropage zeroes = {{(word)high, PAGE}, 0, 0};
    struct { struct uffdio_range range; word mode, done; } poison = {{(word)high, PAGE}, 0, 0};
    struct uffdio_writeprotect protect = {{(word)high, 4 * PAGE}, 1};
    struct iovec from = {bytes, 5}, to = {high, 5};
    switch (way) {
    case MEM_WRITE: pwrite(self, bytes, 5, (off_t)high); break;
    case MEM_READ: pread(self, bytes, 5, (off_t)high); break;
    case COPY: case BAD_SOURCE: case UNWATCHED: ioctl(file, UFFDIO_COPY, &copy); break;
    case ZEROES: ioctl(file, UFFDIO_ZEROPAGE, &zeroes); break;
    case POISON: ioctl(file, _IOWR(0xAA, 8, poison), &poison); break;
    case PROTECT: ioctl(file, UFFDIO_WRITEPROTECT, &protect); break;
    case READ: madvise(high, PAGE, 22); break;
    case VM_WRITE: process_vm_writev(getpid(), &from, 1, &to, 1, 0); break;
    case GUARD: madvise(high, PAGE, 102); break;
    }
    if (file >= 0) close(file);
    if (way == GUARD) madvise(high, PAGE, 103);
    mremap(high, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room + 4 * PAGE);
    printf("%d %s: %d\n", protection, names[way], areas_in(room, 8 * PAGE));
}

int main(void) {
    self = open("/proc/self/mem", O_RDWR);
    char *room = mmap(0, 1024 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int protection = 0; protection < 4; protection++)
        for (int way = 0; way < WAYS; way++) try(room, protection, way);
    int file = watcher(0);
    for (int times = 0; times < 2; times++) {
        for (word from = 0; from <= 0x10000; from += 0x8000) {
            struct uffdio_register area = {{from, 0x200000 - from}, 1, 0};
            int begun = ioctl(file, UFFDIO_REGISTER, &area);
            printf("from %lx: %d %d\n", from, begun, ioctl(file, UFFDIO_UNREGISTER, &area.range));
        }
        mmap((void *)0x10000, PAGE, PROT_READ, FIXED, -1, 0);
    }
    return 0;
}
