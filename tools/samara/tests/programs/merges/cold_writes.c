// Writes that take long: to private pages of a file that is not in the page cache, while another thread maps memory between their area and one that was
// written before. The kernel gives the area its owner at once; the page shows only when it has been read.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PART = 4 * PAGE, ROUNDS = 300 };

static char *place;
static volatile int begun, done;
static volatile long delay;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000l + time.tv_nsec;
}

static void *write_late(void *unused) {
    for (int round = 1; round <= ROUNDS; round++) {
        while (begun != round)
            ;
        for (long end = now() + delay; now() < end;)
            ;
        place[2 * PART] = 1;
        done = round;
    }
    return unused;
}

int main(int argc, char **argv) {
    int file = open(argv[1], O_RDWR | O_CREAT, 0600);
    static char zeroes[3 * PART];
    if (argc < 2 || file < 0 || write(file, zeroes, sizeof zeroes) != sizeof zeroes) return 1;
    char *base = mmap(0, ROUNDS * 4l * PART, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pthread_t writer;
    pthread_create(&writer, 0, write_late, 0);
    for (int round = 1; round <= ROUNDS; round++) {
        int how = MAP_PRIVATE | MAP_FIXED, rw = PROT_READ | PROT_WRITE;
        place = base + (round - 1) * 4l * PART;
        mmap(place, PART, rw, how, file, 0);
        mmap(place + 2 * PART, PART, rw, how, file, 2 * PART);
        munmap(place + PART, PART);
        place[0] = 1;
        fsync(file);
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        delay = rand() % 300000;
        begun = round;
        mmap(place + PART, PART, rw, how, file, PART);
        while (done != round)
            ;
    }
    pthread_join(writer, 0);
    unlink(argv[1]);
    return 0;
}
