/* Areas that have grown under limits which do not allow it any more, when that shows. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { PAGE = 4096 };

static void limit(int which, unsigned long most) {
    struct rlimit limit;
    getrlimit(which, &limit);
    limit.rlim_cur = most;
    setrlimit(which, &limit);
}

int main(void) {
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
