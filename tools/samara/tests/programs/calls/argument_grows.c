/* Arguments that lie below an area that grows: the kernel reads them there, which grows the area, and finds zeros. */
#define _GNU_SOURCE
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "areas_in.h"

enum { PAGE = 4096, LOCAL = 4, FLAGS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED };

static char *room, *other;

/* An area that begins a page above the arguments, or just in their midst. */
static char *below(int size, int protection) {
    munmap(room, 1024 * PAGE);
    mmap(room + 800 * PAGE, 4 * PAGE, protection, FLAGS | MAP_GROWSDOWN, -1, 0);
    mmap(other, 16 * PAGE, PROT_READ | PROT_WRITE, FLAGS, -1, 0);
    return room + 800 * PAGE - size;
}

static void calls(int size, int protection) {
    int self = syscall(SYS_pidfd_open, getpid(), 0), watcher = syscall(SYS_userfaultfd, 1);
    struct uffdio_api api = {UFFD_API, 0, 0};
    ioctl(watcher, UFFDIO_API, &api);
    char *at = below(size, protection);
    long policy = syscall(SYS_mbind, other + PAGE, PAGE, LOCAL, at, 64, 0);
    int areas = areas_in(other, 16 * PAGE);
    at = below(size, protection);
    // The range itself, too.
    long itself = syscall(SYS_mbind, at - (long)at % PAGE, PAGE, LOCAL, at, 64, 0);
    at = below(size, protection);
    long advice = syscall(SYS_process_madvise, self, at, 2, MADV_NORMAL, 0);
    at = below(size, protection);
    long name = prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, other + 4 * PAGE, PAGE, at);
    at = below(size, protection);
    long watched = ioctl(watcher, UFFDIO_REGISTER, at);
    printf("%ld %d, %ld, %ld, %ld, %ld; %d\n", policy, areas, itself, advice, name, watched, areas_in(room, 1024 * PAGE));
    close(self), close(watcher);
}

/* A ring goes below what has grown, as far away as others are kept from that. */
static void ring(int size) {
    char *highest = mmap(0, 1024 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(highest, 1004 * PAGE);
    char *at = mmap(highest + 1000 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE, FLAGS | MAP_GROWSDOWN, -1, 0);
    long *context = (long *)(at - size);
    long result = syscall(SYS_io_setup, 10000, context);
    printf("%ld, %ld pages below\n", result, (at - *(char **)context) / PAGE);
    syscall(SYS_io_destroy, *context);
    munmap(highest, 1024 * PAGE);
}

int main(void) {
    ring(8), ring(PAGE), ring(PAGE + 8), ring(50 * PAGE);
    other = mmap(0, 16 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mmap(0, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    room = mmap(0, 1024 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static const int sizes[] = {8, 4, 16, 24, 40, PAGE, 5 * PAGE - 8}, protections[] = {PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE};
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 3; j++) calls(sizes[i], protections[j]);
    // The area has four pages already.
    struct rlimit limit = {64 * PAGE, RLIM_INFINITY};
    setrlimit(RLIMIT_STACK, &limit);
    for (int pages = 59; pages < 63; pages++) calls(pages * PAGE, PROT_READ);
    return 0;
}
