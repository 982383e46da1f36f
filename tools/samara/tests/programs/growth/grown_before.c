/* Areas that have grown under limits which do not allow it any more, when that shows. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };

static void limit(int which, unsigned long most) {
    struct rlimit limit;
    getrlimit(which, &limit);
    limit.rlim_cur = most;
    setrlimit(which, &limit);
}

static void deep(int pages) {
    volatile char room[pages * PAGE];
    room[0] = 1;
}

/* Bytes that a line of the process's status tells. */
static unsigned long told(const char *name) {
    char line[200];
    unsigned long size = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name))) sscanf(line + strlen(name), "%lu", &size);
    fclose(file);
    return size * 1024;
}

/* Maps so many pages, and takes them away again. */
static int fits(int pages) {
    void *at = mmap(0, pages * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return 0;
    munmap(at, pages * PAGE);
    return 1;
}

/* What the stack has grown by counts, though no call came near it. */
static void counted(void) {
    // The first reading makes the heap.
    told("VmSize:");
    limit(RLIMIT_AS, told("VmSize:") + 100 * PAGE);
    int before = fits(100);
    deep(90);
    int after = fits(80);
    printf("%d %d %d\n", before, after, fits(8));
    limit(RLIMIT_AS, RLIM_INFINITY);
    syscall(SYS_setresuid, 65534, 65534, 65534);
    mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
    limit(RLIMIT_MEMLOCK, told("VmLck:") + 100 * PAGE);
    before = fits(100);
    deep(180);
    after = fits(80);
    printf("%d %d %d\n", before, after, fits(8));
    munlockall();
}

int main(void) {
    if (!fork()) {
        counted();
        return 0;
    }
    wait(0);
    char *room = mmap(0, 1024 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(room, 1024 * PAGE);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN;
    volatile char *high = mmap(room + 1000 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    high[-12 * PAGE] = 1;
    limit(RLIMIT_STACK, 8 * PAGE);
    munmap(room, PAGE);
    limit(RLIMIT_STACK, 1 << 20);
    high[-20 * PAGE] = 1;
    limit(RLIMIT_AS, 1 << 20);
    munmap(room, PAGE);
    limit(RLIMIT_AS, RLIM_INFINITY);
    high[-30 * PAGE] = 1;
    munmap(room, PAGE);
    puts("done");
    return 0;
}
