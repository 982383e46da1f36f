// Calls that no engine knows come between others: what holds from before them must still be known behind them.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, HOME_NODE = 450 };
static char *base = (char *)0x300000000;

static char *page(int number) { return base + number * PAGE; }

// The engine starts anew after this: a userfaultfd that follows moves lets go of what it never watched.
static void unknown(void) {
    int watcher = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_EVENT_REMAP};
    struct uffdio_range range = {(unsigned long)page(200), PAGE};
    if (ioctl(watcher, UFFDIO_API, &api) || ioctl(watcher, UFFDIO_UNREGISTER, &range)) puts("all is known");
    close(watcher);
}

static void anonymous(int number, int pages) {
    mmap(page(number), pages * PAGE, PROT_READ | PROT_WRITE, PRIVATE, -1, 0);
}

int main(void) {
    anonymous(200, 1);
    // Two that were written apart have two owners and stay apart; halves of one have the same and join again.
    anonymous(0, 1);
    anonymous(2, 1);
    page(0)[0] = page(2)[0] = 1;
    anonymous(1, 1);
    anonymous(10, 4);
    for (int n = 10; n < 14; n++) page(n)[0] = 1;
    mprotect(page(11), PAGE, PROT_READ);
    // Moved: its offsets are no longer its addresses.
    anonymous(20, 2);
    page(20)[0] = 1;
    mremap(page(20), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page(24));
    mremap(page(21), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page(25));
    // Two open files of one file.
    char name[] = "/tmp/samara-anew-XXXXXX";
    int one = mkstemp(name), two = open(name, O_RDWR);
    unlink(name);
    ftruncate(one, 8 * PAGE);
    mmap(page(30), PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, one, 0);
    mmap(page(31), PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, two, PAGE);
    int segment = shmget(IPC_PRIVATE, 4 * PAGE, 0600);
    char *attached = shmat(segment, page(40), 0);
    mprotect(attached + PAGE, PAGE, PROT_READ);
    char *shared = mmap(page(50), 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    mprotect(shared + PAGE, PAGE, PROT_READ);
    anonymous(60, 3);
    unsigned long node = 1;
    syscall(SYS_mbind, page(61), PAGE, 1, &node, 64, 0);
    anonymous(110, 3);
    syscall(SYS_mbind, page(110), 3 * PAGE, 2, &node, 64, 0);
    syscall(HOME_NODE, page(111), PAGE, 0, 0);
    mmap(page(120), 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    syscall(SYS_mbind, page(122), 2 * PAGE, 2, &node, 64, 0);
    int key = pkey_alloc(0, 0);
    anonymous(70, 3);
    pkey_mprotect(page(71), PAGE, PROT_READ | PROT_WRITE, key);
    anonymous(80, 2);
    prctl(0x53564d41, 0, page(80), PAGE, "named");
    anonymous(90, 2);
    madvise(page(90), PAGE, 102);
    mlockall(MCL_FUTURE);

    unknown();

    mprotect(page(11), PAGE, PROT_READ | PROT_WRITE);
    mprotect(page(0), 2 * PAGE, PROT_READ);
    mprotect(page(0), 3 * PAGE, PROT_READ);
    mprotect(page(24), PAGE, PROT_READ);
    mprotect(page(24), PAGE, PROT_READ | PROT_WRITE);
    mprotect(page(30), 2 * PAGE, PROT_NONE);
    mmap(page(32), PAGE, PROT_NONE, MAP_SHARED | MAP_FIXED, two, 2 * PAGE);
    mprotect(page(30), 3 * PAGE, PROT_READ);
    mprotect(attached + PAGE, PAGE, PROT_READ | PROT_WRITE);
    mprotect(shared + PAGE, PAGE, PROT_READ | PROT_WRITE);
    // The policy of a part of what is shared keeps it apart.
    mprotect(page(120), 4 * PAGE, PROT_READ);
    unknown();
    mprotect(page(120), 4 * PAGE, PROT_READ | PROT_WRITE);
    syscall(SYS_mbind, page(120), 4 * PAGE, 0, 0, 0, 0);
    shmdt(attached);
    syscall(SYS_mbind, page(60), 3 * PAGE, 0, 0, 0, 0);
    mprotect(page(112), PAGE, PROT_READ);
    mprotect(page(112), PAGE, PROT_READ | PROT_WRITE);
    syscall(HOME_NODE, page(110), 3 * PAGE, 0, 0);
    pkey_mprotect(page(70), 3 * PAGE, PROT_READ | PROT_WRITE, 0);
    pkey_alloc(0, 0);
    prctl(0x53564d41, 0, page(80), 2 * PAGE, "named");
    prctl(0x53564d41, 0, page(80), PAGE, 0);
    mlock(page(90), 2 * PAGE);
    anonymous(100, 2);
    munlock(page(100), PAGE);
    if (fork() == 0) {
        unknown();
        mprotect(page(0), 3 * PAGE, PROT_READ | PROT_WRITE);
        anonymous(102, 1);
        mprotect(page(10), 4 * PAGE, PROT_READ);
        _exit(0);
    }
    wait(0);
    shmctl(segment, IPC_RMID, 0);
    return 0;
}
