// Measures operations on the kernel that runs it, in counts of the processor's clock, which QEMU's
// -icount makes instructions, and in nanoseconds. Prints a line for each: name, count, nanoseconds.
// As process 1 it mounts what it needs, and shuts the machine down at its end.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 5, PAGE = 4096 };
static const int RW = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS;

static uint64_t count(void) {
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
}

static uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void *check(void *at) {
    if (at == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return at;
}

// Small pages, because a kernel with huge ones would perform another operation.
static char *pages(size_t len) {
    char *at = check(mmap(NULL, len, RW, ANON, -1, 0));
    madvise(at, len, MADV_NOHUGEPAGE);
    return at;
}

static void touch(char *at, size_t len) {
    for (size_t i = 0; i < len; i += PAGE)
        ((volatile char *)at)[i] = 1;
}

static const char *only;
static long only_times;

static uint64_t begun[2], taken[2];
static __attribute__((noinline)) void begin(void) {
    begun[1] = nanoseconds();
    begun[0] = count();
}
static __attribute__((noinline)) void end(void) {
    taken[0] += count() - begun[0];
    taken[1] += nanoseconds() - begun[1];
}

static int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// Measures `times` operations ROUNDS times: the part of `once` between begin() and end(). Prints
// the medians.
static void measure(const char *name, long times, void (*once)(long)) {
    uint64_t all[2][ROUNDS];
    if (only && strcmp(only, name))
        return;
    if (only)
        times = only_times;
    for (int round = 0; round < ROUNDS; round++) {
        taken[0] = taken[1] = 0;
        once(times);
        for (int i = 0; i < 2; i++)
            all[i][round] = taken[i];
    }
    for (int i = 0; i < 2; i++)
        qsort(all[i], ROUNDS, sizeof all[i][0], ascending);
    printf("%s\t%.1f\t%.1f\n", name, (double)all[0][ROUNDS / 2] / times, (double)all[1][ROUNDS / 2] / times);
    fflush(stdout);
}

static void null_call(long times) {
    begin();
    for (long i = 0; i < times; i++)
        syscall(SYS_getppid);
    end();
}

static void anonymous(long times) {
    char *at = pages(times * PAGE);
    begin();
    touch(at, times * PAGE);
    end();
    munmap(at, times * PAGE);
}

static int file;
static void of_file(long times, int prot, int flags) {
    char *at = check(mmap(NULL, times * PAGE, prot, flags, file, 0));
    // Each page by a fault of its own.
    madvise(at, times * PAGE, MADV_RANDOM);
    volatile char sum = 0;
    begin();
    for (long i = 0; i < times; i++) {
        if (prot & PROT_WRITE)
            at[i * PAGE] = 1;
        else
            sum += at[i * PAGE];
    }
    end();
    munmap(at, times * PAGE);
}
static void file_read(long times) { of_file(times, PROT_READ, MAP_PRIVATE); }
static void file_shared(long times) { of_file(times, RW, MAP_SHARED); }
static void file_copied(long times) { of_file(times, RW, MAP_PRIVATE); }

static uint64_t *told;
static void in_child(void (*act)(void)) {
    if (fork() == 0) {
        act();
        told[0] = taken[0];
        told[1] = taken[1];
        _exit(0);
    }
    wait(NULL);
    taken[0] = told[0];
    taken[1] = told[1];
}

static char *area;
static size_t area_len;
static void write_area(void) {
    begin();
    touch(area, area_len);
    end();
}
static void copied(long times) {
    area_len = times * PAGE;
    area = pages(area_len);
    touch(area, area_len);
    in_child(write_area);
    munmap(area, area_len);
}
static void reused(long times) {
    area_len = times * PAGE;
    area = pages(area_len);
    touch(area, area_len);
    if (fork() == 0)
        _exit(0);
    wait(NULL);
    write_area();
    munmap(area, area_len);
}

static void forks(long times) {
    begin();
    for (long i = 0; i < times; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    }
    end();
}

// This many adjacent VMAs that do not merge.
static char *many(int areas) {
    char *at = check(mmap(NULL, (size_t)areas * PAGE, PROT_NONE, ANON, -1, 0));
    for (int i = 0; i < areas; i += 2)
        mprotect(at + (size_t)i * PAGE, PAGE, RW);
    return at;
}

static void map_unmap(long times) {
    begin();
    for (long i = 0; i < times; i++)
        munmap(mmap(NULL, PAGE, RW, ANON, -1, 0), PAGE);
    end();
}
static void map_write_unmap(long times) {
    begin();
    for (long i = 0; i < times; i++) {
        char *at = mmap(NULL, PAGE, RW, ANON, -1, 0);
        *(volatile char *)at = 1;
        munmap(at, PAGE);
    }
    end();
}
static void protect(long times) {
    char *at = pages(16 * PAGE);
    touch(at, 16 * PAGE);
    begin();
    for (long i = 0; i < times; i++)
        mprotect(at + 4 * PAGE, PAGE, i & 1 ? RW : PROT_READ);
    end();
    munmap(at, 16 * PAGE);
}
static void heap(long times) {
    char *at = sbrk(0);
    begin();
    for (long i = 0; i < times; i++)
        syscall(SYS_brk, i & 1 ? at : at + PAGE);
    end();
}

static void executes(long times) {
    begin();
    for (long i = 0; i < times; i++) {
        pid_t child = vfork();
        if (child == 0) {
            char *args[] = {"/init", "exit", NULL}, *none[] = {NULL};
            execve("/init", args, none);
            _exit(1);
        }
        waitpid(child, NULL, 0);
    }
    end();
}

static int to[2], from[2];
static void switches(long times) {
    char byte = 0;
    if (pipe(to) || pipe(from))
        exit(1);
    pid_t child = fork();
    if (child == 0) {
        close(to[1]);
        while (read(to[0], &byte, 1) == 1)
            write(from[1], &byte, 1);
        _exit(0);
    }
    begin();
    // There and back are two switches.
    for (long i = 0; i < times; i += 2) {
        write(to[1], &byte, 1);
        read(from[0], &byte, 1);
    }
    end();
    for (int i = 0; i < 2; i++) {
        close(to[i]);
        close(from[i]);
    }
    waitpid(child, NULL, 0);
}

static void *nothing(void *arg) { return arg; }
static void threads(long times) {
    begin();
    for (long i = 0; i < times; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, nothing, NULL);
        pthread_join(thread, NULL);
    }
    end();
}

// The operations that will-it-scale's programs of these names are described to perform, written
// anew.
enum { LARGE = 8 << 20 };
static void mmap1(long times) {
    begin();
    for (long i = 0; i < times; i++)
        munmap(mmap(NULL, 128 << 20, RW, ANON, -1, 0), 128 << 20);
    end();
}
static void mmap2(long times) {
    begin();
    for (long i = 0; i < times; i++)
        munmap(mmap(NULL, LARGE, RW, MAP_SHARED, file, 0), LARGE);
    end();
}
static void malloc1(long times) {
    begin();
    for (long i = 0; i < times; i++) {
        volatile char *at = malloc(128 << 20);
        at[0] = 1;
        free((void *)at);
    }
    end();
}
static void faults(long times, int flags, int fd) {
    begin();
    for (long done = 0; done < times; done += LARGE / PAGE) {
        char *at = check(mmap(NULL, LARGE, RW, flags, fd, 0));
        madvise(at, LARGE, MADV_NOHUGEPAGE);
        touch(at, LARGE);
        munmap(at, LARGE);
    }
    end();
}
static void page_fault1(long times) { faults(times, ANON, -1); }
static void page_fault2(long times) { faults(times, MAP_PRIVATE, file); }
static void page_fault3(long times) { faults(times, MAP_SHARED, file); }

enum { PAIRED = 16384 };
static pthread_barrier_t together;
static void (*paired)(void);
static void *in_pair(void *processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((long)processor, &set);
    sched_setaffinity(0, sizeof set, &set);
    pthread_barrier_wait(&together);
    for (long done = 0; done < PAIRED; done += LARGE / PAGE)
        paired();
    return NULL;
}
static double in_threads(int count) {
    pthread_t all[2];
    pthread_barrier_init(&together, NULL, count + 1);
    for (long i = 0; i < count; i++)
        pthread_create(&all[i], NULL, in_pair, (void *)i);
    pthread_barrier_wait(&together);
    uint64_t begun = nanoseconds();
    for (int i = 0; i < count; i++)
        pthread_join(all[i], NULL);
    return nanoseconds() - begun;
}
static int rising(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
// Prints how much two threads on two processors do, compared with one: the median of some pairs of
// runs.
static void pair(const char *name, void (*once)(void)) {
    double all[ROUNDS + 2];
    paired = once;
    for (int i = 0; i < ROUNDS + 2; i++) {
        double one = in_threads(1);
        all[i] = 2 * one / in_threads(2);
    }
    qsort(all, ROUNDS + 2, sizeof *all, rising);
    printf("%s, two threads / one\t%.3f\t0\n", name, all[(ROUNDS + 2) / 2]);
    fflush(stdout);
}
static void fault_pair1(void) { page_fault1(LARGE / PAGE); }
static void fault_pair2(void) { page_fault2(LARGE / PAGE); }
static void fault_pair3(void) { page_fault3(LARGE / PAGE); }
static void pairs(void) {
    pair("page_fault1", fault_pair1);
    pair("page_fault2", fault_pair2);
    pair("page_fault3", fault_pair3);
}

static void script(long times) {
    static const char text[] = "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i + 1)); done";
    begin();
    for (long i = 0; i < times; i++) {
        pid_t child = vfork();
        if (child == 0) {
            // As a program, not as a builtin of the shell.
            char *args[] = {"sh", "-c", (char *)text, NULL}, *none[] = {NULL};
            execve("/bin/sh", args, none);
            _exit(1);
        }
        waitpid(child, NULL, 0);
    }
    end();
}

// The machine's memory.
static const long WHOLE = 1 << 20;

static void memory(void) {
    FILE *info = fopen("/proc/meminfo", "r");
    char name[64];
    long value, total = 0, available = 0;
    while (info && fscanf(info, "%63s %ld kB\n", name, &value) == 2) {
        if (!strcmp(name, "MemTotal:"))
            total = value;
        if (!strcmp(name, "MemFree:"))
            available = value;
    }
    if (info)
        fclose(info);
    printf("memory in use, KiB\t%ld\t0\nmemory taken before, KiB\t%ld\t0\n", total - available, WHOLE - total);
}

int main(int argc, char **argv) {
    uint64_t start = count();
    if (argc > 1 && !strcmp(argv[1], "exit"))
        return 0;
    // One operation, `times` times, for a profile.
    if (argc > 3 && !strcmp(argv[1], "only")) {
        only = argv[2];
        only_times = atol(argv[3]);
    }
    printf("boot\t%llu\t0\n", (unsigned long long)start);
    fflush(stdout);
    mkdir("/proc", 0755);
    mount("proc", "/proc", "proc", 0, NULL);
    memory();
    // After its boot, a kernel has more to do next to the first process.
    if (!only)
        sleep(5);
    told = check(mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    mkdir("/tmp", 0777);
    file = open("/tmp/file", O_RDWR | O_CREAT, 0600);
    static char bytes[65536];
    for (int i = 0; i < LARGE; i += sizeof bytes)
        if (write(file, bytes, sizeof bytes) != sizeof bytes)
            perror("write");

    if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
        pairs();
        goto ended;
    }
    measure("null call", 10000, null_call);
    measure("fault, anonymous", 2048, anonymous);
    measure("fault, file, read", 2048, file_read);
    measure("fault, file, shared write", 2048, file_shared);
    measure("fault, file, private copy", 2048, file_copied);
    measure("fault, copy on write", 2048, copied);
    measure("fault, page reused", 2048, reused);
    measure("mmap + munmap", 2000, map_unmap);
    measure("mmap + write + munmap", 2000, map_write_unmap);
    measure("mprotect", 2000, protect);
    measure("brk", 2000, heap);
    measure("fork + exit, few areas", 50, forks);
    char *areas = many(24 - 8);
    measure("fork + exit, 24 areas", 50, forks);
    munmap(areas, (24 - 8) * PAGE);
    areas = many(223 - 8);
    measure("fork + exit, 223 areas", 20, forks);
    munmap(areas, (223 - 8) * PAGE);
    areas = many(4022);
    measure("fork + exit, 4022 areas", 5, forks);
    munmap(areas, 4022ul * PAGE);
    size_t much = 256 << 20;
    area = pages(much);
    touch(area, much);
    measure("fork + exit, 256 MiB", 2, forks);
    munmap(area, much);
    measure("vfork + exec + exit", 30, executes);
    measure("switch by pipe", 2000, switches);
    measure("thread create + join", 200, threads);
    measure("mmap1", 1000, mmap1);
    measure("mmap2", 1000, mmap2);
    measure("malloc1", 500, malloc1);
    measure("page_fault1", 4096, page_fault1);
    measure("page_fault2", 4096, page_fault2);
    measure("page_fault3", 4096, page_fault3);
    measure("script of 200 processes", 1, script);
ended:
    printf("end\t0\t0\n");
    fflush(stdout);
    if (getpid() == 1)
        reboot(RB_AUTOBOOT);
    return 0;
}
