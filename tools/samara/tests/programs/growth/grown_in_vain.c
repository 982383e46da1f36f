/* An area that a limit keeps from growing has an owner of private pages from then on: it does not join what it continues when it is moved there.
 * With an argument, the kernel accesses what lies below for the program: that leaves the same, and no trace. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "areas_in.h"

enum { PAGE = 4096, LIMIT = 16 * PAGE };

static sigjmp_buf back;
static int zero;

static void on_signal(int number) { siglongjmp(back, number); }

/* Two areas of one kind with a hole between them; the upper one is accessed in vain DISTANCE pages below, and moved to the end of the lower one. */
static void try(const char *what, char *room, int protection, int pages, int distance, int way) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN;
    munmap(room, 1024 * PAGE);
    char *low = mmap(room, 4 * PAGE, protection, flags, -1, 0);
    char *high = mmap(room + 800 * PAGE, pages * PAGE, protection, flags, -1, 0);
    volatile char *at = high - distance * PAGE;
    int signal = sigsetjmp(back, 1);
    if (signal == 0) {
        if (way == 1) (void)*at;
        if (way == 2) *at = 1;
        if (way == 3) signal = -(int)read(zero, (char *)at, 1);
    }
    mremap(high, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, low + 4 * PAGE);
    printf("%s, way %d: %d, %d\n", what, way, signal, areas_in(room, 8 * PAGE));
}

int main(int argc, char **argv) {
    struct sigaction action = {.sa_handler = on_signal};
    struct rlimit limit;
    sigaction(SIGSEGV, &action, 0);
    zero = open("/dev/zero", O_RDONLY);
    char *room = mmap(0, 1024 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = LIMIT;
    setrlimit(RLIMIT_STACK, &limit);
    int told = argc == 1;
    for (int way = told ? 0 : 3; way <= (told ? 2 : 3); way++) {
        try("no access, grown by a page", room, PROT_NONE, 4, 1, way);
        try("no access, at the limit", room, PROT_NONE, 16, 1, way);
        try("no access, far below", room, PROT_NONE, 4, 300, way);
        try("to be written, at the limit", room, PROT_READ | PROT_WRITE, 16, 1, way);
        try("to be read, at the limit", room, PROT_READ, 16, 1, way);
    }
    return 0;
}
