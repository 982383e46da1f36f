/* Brings its memory into the states that are named, then waits: `states files,threads`. What a kernel does not know is left out. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, RW = PROT_READ | PROT_WRITE, PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS, SHARED = MAP_SHARED | MAP_ANONYMOUS };

/* Memory at a place of the kernel's choice, every other page of it written. */
static char *written(int pages, int flags, int fd) {
    char *at = mmap(NULL, pages * PAGE, RW, flags, fd, 0);
    if (at == MAP_FAILED) exit(1);
    for (int page = 0; page < pages; page += 2) at[page * PAGE] = 1;
    return at;
}

static int file(int pages) {
    char name[] = "states-XXXXXX";
    int fd = mkstemp(name);
    for (int page = 0; page < pages; page++)
        if (pwrite(fd, "byte", 4, page * PAGE) != 4) exit(1);
    return fd;
}

static void *other_thread(void *unused) {
    free(malloc(100000));
    char *kept = malloc(1000);
    memset(kept, 1, 1000);
    for (;;) pause();
}

static int deep(int depth) {
    volatile char page[PAGE];
    page[0] = depth;
    return depth ? deep(depth - 1) + page[0] : 0;
}

static void do_private(void) {
    written(16, PRIVATE, -1);
    char *read = mmap(NULL, 8 * PAGE, RW, PRIVATE, -1, 0);
    volatile char byte = read[2 * PAGE];
    (void)byte;
    mmap(NULL, 1L << 36, PROT_NONE, PRIVATE | MAP_NORESERVE, -1, 0);
    munmap(written(8, PRIVATE, -1) + 3 * PAGE, 2 * PAGE);
    written(8, PRIVATE | MAP_POPULATE, -1);
}

static void do_heap(void) {
    char *at = sbrk(64 * PAGE);
    memset(at, 1, 40 * PAGE);
    sbrk(-8 * PAGE);
    mprotect(at + (PAGE - (long)at % PAGE), 4 * PAGE, PROT_READ);
}

static void do_advised(void) {
    int advice[] = {MADV_DONTFORK, MADV_DONTDUMP, MADV_WIPEONFORK, MADV_SEQUENTIAL, MADV_RANDOM, MADV_MERGEABLE, MADV_NOHUGEPAGE, MADV_DONTNEED, MADV_COLD, MADV_FREE};
    for (unsigned i = 0; i < sizeof advice / sizeof *advice; i++) madvise(written(6, PRIVATE, -1), 4 * PAGE, advice[i]);
}

static void do_files(void) {
    int fd = file(16);
    written(16, MAP_PRIVATE, fd);
    written(16, MAP_SHARED, fd);
    char *read = mmap(NULL, 16 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    volatile char byte = read[9 * PAGE];
    (void)byte;
    mmap(NULL, 4 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 2 * PAGE);
    close(fd);
    char name[] = "gone-XXXXXX";
    fd = mkstemp(name);
    if (ftruncate(fd, 4 * PAGE)) exit(1);
    written(4, MAP_SHARED, fd);
    unlink(name);
}

static void do_growing(void) {
    char *at = mmap(NULL, 64 * PAGE, PROT_NONE, PRIVATE, -1, 0);
    at = mmap(at + 48 * PAGE, 4 * PAGE, RW, PRIVATE | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
    munmap(at - 40 * PAGE, 40 * PAGE);
    at[0] = 1;
    at[-PAGE] = 1;
}

static void do_huge(void) {
    char *at = mmap(NULL, 8 << 20, RW, PRIVATE, -1, 0);
    madvise(at, 8 << 20, MADV_HUGEPAGE);
    memset(at, 1, 6 << 20);
    mprotect(at + (3 << 20), PAGE, PROT_READ);
}

static void do_locked(void) {
    mlock(written(8, PRIVATE, -1), 4 * PAGE);
    mlock(written(8, SHARED, -1), 8 * PAGE);
    written(8, PRIVATE | MAP_LOCKED, -1);
}

static void do_on_fault(void) {
    syscall(SYS_mlock2, written(8, PRIVATE, -1), 5 * PAGE, 1);
}

static void do_memfd(void) {
    int fd = memfd_create("states", MFD_ALLOW_SEALING);
    if (ftruncate(fd, 16 * PAGE)) exit(1);
    written(16, MAP_SHARED, fd);
    written(8, MAP_PRIVATE, fd);
    fcntl(fd, F_ADD_SEALS, 0x10 /* F_SEAL_FUTURE_WRITE */);
    mmap(NULL, 16 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    fd = syscall(447 /* memfd_secret */, 0);
    if (fd >= 0 && ftruncate(fd, 4 * PAGE) == 0) mmap(NULL, 4 * PAGE, RW, MAP_SHARED, fd, 0);
}

static void do_named(void) {
    prctl(0x53564d41, 0, written(8, PRIVATE, -1), 4 * PAGE, "a name");
    prctl(0x53564d41, 0, written(8, SHARED, -1), 8 * PAGE, "of shared");
    prctl(0x53564d41, 0, sbrk(0) - 2 * PAGE - (long)sbrk(0) % PAGE, PAGE, "in the heap");
}

static void do_protected(void) {
    char *at = written(64, PRIVATE, -1);
    int modes[] = {PROT_READ, PROT_NONE, RW, PROT_EXEC, PROT_READ | PROT_EXEC, RW | PROT_EXEC};
    for (int i = 0; i < 60; i++) mprotect(at + i * PAGE, (i % 3 + 1) * PAGE, modes[i * 7 % 6]);
}

static void do_moved(void) {
    char *at = mremap(written(16, PRIVATE, -1), 16 * PAGE, 32 * PAGE, MREMAP_MAYMOVE);
    char *to = mmap(NULL, 64 * PAGE, PROT_NONE, PRIVATE, -1, 0);
    mremap(at + 4 * PAGE, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to + 8 * PAGE);
    mremap(at + 10 * PAGE, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED | 4 /* DONTUNMAP */, to + 20 * PAGE);
}

static void do_shared(void) {
    written(16, SHARED, -1);
    int id = shmget(IPC_PRIVATE, 8 * PAGE, IPC_CREAT | 0600);
    char *at = shmat(id, NULL, 0);
    if (at != (char *)-1) at[PAGE] = 1;
    shmat(id, NULL, SHM_RDONLY);
    shmctl(id, IPC_RMID, NULL);
    char name[32];
    snprintf(name, sizeof name, "/states-%d", getpid());
    int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd >= 0 && ftruncate(fd, 8 * PAGE) == 0) written(8, MAP_SHARED, fd);
    shm_unlink(name);
}

static void do_threads(void) {
    pthread_t id;
    for (int i = 0; i < 5; i++)
        if (pthread_create(&id, NULL, other_thread, NULL)) exit(1);
}

static void do_guards(void) {
    char *at = written(32, PRIVATE, -1);
    madvise(at + 3 * PAGE, 6 * PAGE, 102);
    madvise(at + 5 * PAGE, 2 * PAGE, 103);
}

static void do_fork(void) {
    char *at = written(32, PRIVATE, -1), *both = written(8, SHARED, -1);
    if (fork() == 0) {
        at[4 * PAGE] = both[3 * PAGE] = 2;
        written(4, PRIVATE, -1);
        for (;;) pause();
    }
    at[8 * PAGE] = 3;
}

static void do_deep(void) { deep(300); }

static void do_zero(void) {
    int fd = open("/dev/zero", O_RDWR);
    written(8, MAP_PRIVATE, fd);
    written(8, MAP_SHARED, fd);
    fd = open("/dev/null", O_RDWR);
    mmap(NULL, 8 * PAGE, RW, MAP_PRIVATE, fd, 0);
}

static void do_sealed(void) {
    syscall(462 /* mseal */, written(8, PRIVATE, -1) + 2 * PAGE, 2 * PAGE, 0);
    mmap(NULL, 8 * PAGE, RW, 8 | MAP_ANONYMOUS /* MAP_DROPPABLE */, -1, 0);
}

static void do_policy(void) {
    unsigned long nodes = 1;
    syscall(SYS_mbind, written(8, PRIVATE, -1), 4 * PAGE, 2 /* MPOL_BIND */, &nodes, 64, 0);
}

static const struct { const char *name; void (*function)(void); } states[] = {
    {"private", do_private}, {"heap", do_heap}, {"advised", do_advised}, {"files", do_files}, {"growing", do_growing},
    {"huge", do_huge}, {"locked", do_locked}, {"on-fault", do_on_fault}, {"memfd", do_memfd}, {"named", do_named},
    {"protected", do_protected}, {"moved", do_moved}, {"shared", do_shared}, {"threads", do_threads}, {"guards", do_guards},
    {"fork", do_fork}, {"deep", do_deep}, {"zero", do_zero}, {"sealed", do_sealed}, {"policy", do_policy},
};

int main(int count, char **words) {
    for (char *word = strtok(count > 1 ? words[1] : NULL, ","); word; word = strtok(NULL, ",")) {
        unsigned known = 0;
        for (unsigned i = 0; i < sizeof states / sizeof *states; i++)
            if (strcmp(word, states[i].name) == 0) states[i].function(), known++;
        if (!known) return 2;
    }
    for (;;) pause();
}
