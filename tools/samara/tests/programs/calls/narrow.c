// What a program does with its memory, whichever the width of its addresses: maps at hints and at the edges, segments, a heap, threads, children,
// other programs. It becomes the program that it is given, with the rest as arguments.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, BOTH = PROT_READ | PROT_WRITE, PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS };

static char *map(unsigned long at, size_t len, int more) { return mmap((void *)at, len, BOTH, PRIVATE | more, -1, 0); }

static void *work(void *ignored) {
    for (int round = 0; round < 40; round++) {
        size_t len = PAGE * (round % 7 + 1);
        char *at = map(0, len, 0);
        at[0] = 1;
        if (round % 3) munmap(at, len);
    }
    char *block = malloc(300000);
    memset(block, 1, 300000);
    free(block);
    return ignored;
}

static void places(void) {
    char *at = map(0, 2 * PAGE, 0);
    at[0] = 1;
    mprotect(at, PAGE, PROT_READ);
    mprotect(at, PAGE, BOTH);
    at = mremap(at, 2 * PAGE, 16 * PAGE, MREMAP_MAYMOVE);
    mlock(at, PAGE);
    munlock(at, PAGE);
    madvise(at, PAGE, MADV_DONTNEED);
    map(0, 5 << 20, 0)[5] = 1;
    map(0x50000000, PAGE, 0);
    map(0, PAGE, MAP_32BIT);
    // At the end of what 32 bits can have, and beyond.
    for (unsigned page = 0xffffa000; page != 0; page += PAGE) {
        map(page, PAGE, 0);
        if (page > 0xffffb000) map(page, PAGE, MAP_FIXED_NOREPLACE);
    }
    map(0, 0xf0000000, MAP_NORESERVE);
    map(0xbfffe000, PAGE, 0);
    map(0xc0000000, PAGE, 0);
}

static void objects(void) {
    int file = open("/proc/self/exe", O_RDONLY);
    mmap(0, 3 * PAGE, PROT_READ, MAP_PRIVATE, file, 0);
    mmap(0, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, PAGE);
    int segment = shmget(IPC_PRIVATE, 2 * PAGE, 0600);
    char *at = shmat(segment, 0, 0);
    if (at != (char *)-1) at[0] = 1;
    shmctl(segment, IPC_RMID, 0);
    shmdt(at);
    sbrk(100000);
    sbrk(-50000);
}

int main(int count, char **words) {
    places();
    objects();
    pthread_t threads[3];
    for (int n = 0; n < 3; n++) pthread_create(&threads[n], 0, work, 0);
    for (int n = 0; n < 3; n++) pthread_join(threads[n], 0);
    if (fork() == 0) {
        work(0);
        _exit(0);
    }
    wait(0);
    if (vfork() == 0) {
        execl("/bin/true", "true", (char *)0);
        _exit(1);
    }
    wait(0);
    printf("%d bits\n", (int)sizeof(long) * 8);
    fflush(stdout);
    if (count > 1) execv(words[1], words + 1);
    return 0;
}
