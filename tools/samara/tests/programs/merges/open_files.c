// Which open file is mapped; files with seals; paths that are longer than a link of /proc can tell; drivers that set flags.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };
static char *place = (char *)0x200000000;

static void *map(int fd, int page) {
    return mmap(place + page * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, page * PAGE);
}

static void *seal_without_leader(void *unused) {
    // The first thread is gone when this one goes on.
    usleep(100000);
    int fd = memfd_create("sealed", MFD_ALLOW_SEALING);
    ftruncate(fd, 4 * PAGE);
    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE);
    int refused = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED;
    char *read = mmap(0, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    int kept = mprotect(read, PAGE, PROT_READ | PROT_WRITE) != 0;
    _exit(refused && kept ? 0 : 1);
}

static void driver(int fd, int length) {
    char *at = mmap(place + 64 * PAGE, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    if (at == MAP_FAILED) return;
    mremap(at, length, 2 * length, MREMAP_MAYMOVE);
    madvise(at, length, MADV_DOFORK);
    madvise(at, length, MADV_DODUMP);
    munlock(at, PAGE);
    if (fork() == 0) {
        mmap(place + 80 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        _exit(0);
    }
    wait(0);
    munmap(at, length);
}

int main(void) {
    char name[] = "/tmp/samara-open-XXXXXX";
    int fd = mkstemp(name);
    ftruncate(fd, 64 * PAGE);
    // What dup makes is the same open file.
    map(fd, 0);
    map(dup(fd), 1);
    int far = fcntl(fd, F_DUPFD, 100);
    map(far, 2);
    // Closed and opened at the same number, it is another.
    close(far);
    int again = open(name, O_RDWR);
    dup2(again, far);
    map(far, 3);
    map(again, 4);
    map(fd, 5);
    // Held by nobody but the mapping, and then by nobody at all: the lock must go with it.
    int lock = open(name, O_RDWR);
    flock(lock, LOCK_EX);
    char *locked = mmap(0, PAGE, PROT_READ, MAP_SHARED, lock, 0);
    close(lock);
    munmap(locked, PAGE);
    printf("lock %d\n", flock(open(name, O_RDWR), LOCK_EX));
    // Mapped while more files are mapped than a tracer may wish to keep open, and again when they are not.
    enum { MANY = 200 };
    for (int i = 0; i < MANY; i++) {
        int one = open(name, O_RDONLY);
        mmap(place + (128 + 2 * i) * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, one, 0);
        close(one);
    }
    int late = open(name, O_RDWR);
    map(late, 32);
    munmap(place + 128 * PAGE, 2 * MANY * PAGE);
    map(late, 33);
    map(late, 34);
    unlink(name);

    // 20 times 240 bytes.
    char part[241] = {0};
    memset(part, 'p', 240);
    char back[64];
    int start = open("/tmp", O_RDONLY);
    snprintf(back, sizeof back, "samara-long-%d", getpid());
    mkdirat(start, back, 0700);
    int folder = openat(start, back, O_RDONLY), top = folder;
    for (int depth = 0; depth < 20; depth++) {
        mkdirat(folder, part, 0700);
        folder = openat(folder, part, O_RDONLY);
    }
    int deep = openat(folder, "file", O_RDWR | O_CREAT, 0600);
    ftruncate(deep, 8 * PAGE);
    char *first = mmap(place + 32 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, deep, 0);
    char *second = mmap(place + 33 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, deep, PAGE);
    printf("deep %d\n", first == MAP_FAILED || second == MAP_FAILED);
    munmap(first, PAGE);
    char command[80];
    snprintf(command, sizeof command, "rm -rf /tmp/%s", back);
    (void)top;
    system(command);

    int secret = syscall(447, 0);
    if (secret >= 0) {
        ftruncate(secret, 16 * PAGE);
        driver(secret, 2 * PAGE);
        mmap(place + 96 * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, secret, 0);
        mmap(place + 97 * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, secret, PAGE);
    }
    char parameters[120] = {0};
    int ring = syscall(425, 4, parameters);
    if (ring >= 0) driver(ring, PAGE);
    struct { unsigned type, size; unsigned long config; char rest[112]; } event = {1, 64, 0};
    int perf = syscall(298, &event, 0, -1, -1, 0);
    if (perf >= 0) driver(perf, 2 * PAGE);
    struct { unsigned type, key, value, entries, flags; char rest[100]; } array = {2, 4, 8, 512, 1 << 10};
    int map_fd = syscall(321, 0, &array, sizeof array);
    if (map_fd >= 0) driver(map_fd, PAGE);

    fflush(stdout);
    pthread_t thread;
    pthread_create(&thread, 0, seal_without_leader, 0);
    pthread_exit(0);
}
