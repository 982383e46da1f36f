// Threads of several processes that make all kinds of calls at the same time, on memory that they share. What it prints is always the same: what is looked for is
// a kernel that stands still or breaks, and what it finds wrong when it counts at its end.
//
// storm THREADS ROUNDS SEED
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 512, FILE_PAGES = 64 };

static char *arena;
static int file, go[2];
static int rounds;
static const char *self;
static atomic_int word;
static __thread sigjmp_buf back;
static __thread volatile sig_atomic_t touching;

static void fault(int signal, siginfo_t *info, void *context) {
    (void)info;
    (void)context;
    if (!touching) {
        static const char text[] = "a fault where none may be\n";
        write(2, text, sizeof text - 1);
        _exit(100 + signal);
    }
    siglongjmp(back, 1);
}

static void nothing(int signal) { (void)signal; }

static unsigned long next(unsigned long *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

// Reads or writes a page that may be there or not, and may go at any time.
static void touch(char *at, int writes) {
    touching = 1;
    if (sigsetjmp(back, 1) == 0) {
        if (writes)
            *(volatile char *)at = 1;
        else
            (void)*(volatile char *)at;
    }
    touching = 0;
}

static void child(unsigned long state, int deep);

static void wait_for(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
}

static void one(unsigned long *state, int deep) {
    static const int advice[] = {MADV_DONTNEED, MADV_FREE,  MADV_WILLNEED, MADV_COLD,          MADV_PAGEOUT,       MADV_HUGEPAGE,
                                 MADV_REMOVE,   MADV_DOFORK, MADV_DONTFORK, MADV_POPULATE_READ, MADV_POPULATE_WRITE};
    unsigned long r = next(state);
    char *at = arena + r / 64 % PAGES * PAGE;
    size_t len = (1 + r / 65536 % 16) * PAGE;
    if (at + len > arena + PAGES * PAGE)
        len = PAGE;
    int protection = (int)(r >> 40 & 3);
    switch (r % 26) {
    case 0:
    case 1:
        mmap(at, len, protection, MAP_FIXED | MAP_ANONYMOUS | (r >> 44 & 1 ? MAP_SHARED : MAP_PRIVATE), -1, 0);
        break;
    case 2:
        mmap(at, len, protection, MAP_FIXED | (r >> 44 & 1 ? MAP_SHARED : MAP_PRIVATE), file, r >> 45 & 15 * PAGE);
        break;
    case 3:
        munmap(at, len);
        break;
    case 4:
    case 5:
        mprotect(at, len, protection);
        break;
    case 6:
        madvise(at, len, advice[(r >> 44) % (sizeof advice / sizeof *advice)]);
        break;
    case 7:
        mremap(at, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, arena + (r >> 44) % (PAGES - 16) * PAGE);
        break;
    case 8:
        r >> 44 & 1 ? mlock(at, len) : munlock(at, len);
        break;
    case 9:
        msync(at, len, MS_SYNC);
        break;
    case 10: {
        char *own = mmap(NULL, len, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (own != MAP_FAILED) {
            memset(own, 7, len);
            char *more = mremap(own, len, 2 * len, MREMAP_MAYMOVE);
            if (more != MAP_FAILED) {
                for (size_t i = 0; i < 2 * len; i += PAGE)
                    if (more[i] != (i < len ? 7 : 0))
                        printf("moved bytes are wrong\n");
                munmap(more, 2 * len);
            } else {
                munmap(own, len);
            }
        }
        break;
    }
    case 11:
        ftruncate(file, (r >> 44) % FILE_PAGES * PAGE);
        break;
    case 12: {
        char text[64];
        lseek(file, 0, SEEK_CUR);
        pwrite(file, "text", 4, (r >> 44) % FILE_PAGES * PAGE);
        pread(file, text, sizeof text, (r >> 44) % FILE_PAGES * PAGE);
        break;
    }
    case 13:
        if (deep < 2) {
            pid_t pid = fork();
            if (pid == 0)
                child(r, deep + 1);
            if (pid > 0)
                wait_for(pid);
        }
        break;
    case 14:
        syscall(SYS_futex, &word, 1, 1 << 20, NULL, NULL, 0);
        break;
    case 15: {
        struct timespec soon = {.tv_nsec = 100000};
        syscall(SYS_futex, &word, 0, atomic_load(&word), &soon, NULL, 0);
        break;
    }
    case 16:
        kill(getpid(), SIGUSR1);
        break;
    case 17: {
        int ends[2];
        if (pipe(ends) == 0) {
            char bytes[100];
            write(ends[1], bytes, sizeof bytes);
            read(ends[0], bytes, sizeof bytes);
            close(ends[0]);
            close(ends[1]);
        }
        break;
    }
    case 18: {
        char bytes[8];
        read(go[0], bytes, sizeof bytes);
        write(go[1], bytes, sizeof bytes);
        break;
    }
    case 19: {
        int maps = open("/proc/self/maps", O_RDONLY);
        char text[512];
        while (maps >= 0 && read(maps, text, sizeof text) > 0) {
        }
        close(maps);
        break;
    }
    case 20: {
        unsigned char there[PAGES];
        mincore(arena, PAGES * PAGE, there);
        break;
    }
    case 21:
        sched_yield();
        break;
    default:
        touch(at, r >> 44 & 1);
    }
    atomic_fetch_add(&word, 1);
}

static void *work(void *seed) {
    unsigned long state = (unsigned long)seed;
    for (int i = 0; i < rounds; i++)
        one(&state, 0);
    return NULL;
}

static void *short_work(void *seed) {
    unsigned long state = (unsigned long)seed;
    for (int i = 0; i < 20; i++)
        one(&state, 3);
    return NULL;
}

// Some of them end while others of their threads run, and some become another program.
static void child(unsigned long state, int deep) {
    if (state >> 50 & 1) {
        pthread_t other[2];
        for (int i = 0; i < 2; i++)
            if (pthread_create(&other[i], NULL, short_work, (void *)(state + i)) != 0)
                _exit(0);
        if (state >> 51 & 1)
            for (int i = 0; i < 2; i++)
                pthread_join(other[i], NULL);
    }
    for (int i = 0; i < 10; i++)
        one(&state, deep);
    if (state >> 52 & 1)
        execl(self, self, NULL);
    _exit(0);
}

int main(int count, char **arguments) {
    if (count < 4)
        return 0;
    self = arguments[0];
    int threads = atoi(arguments[1]);
    rounds = atoi(arguments[2]);
    unsigned long seed = strtoul(arguments[3], NULL, 10);
    struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    signal(SIGUSR1, nothing);
    // Far below where mappings without an address go: stacks must not lie in its holes.
    arena = mmap((void *)0x1000000000, PAGES * PAGE, 3, MAP_FIXED_NOREPLACE | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    file = memfd_create("storm", 0);
    ftruncate(file, FILE_PAGES * PAGE);
    pipe2(go, O_NONBLOCK);
    pthread_t workers[64];
    for (long i = 0; i < threads; i++)
        if (pthread_create(&workers[i], NULL, work, (void *)(seed * 1000003 + i * 7919 + 88172645463325252)) != 0)
            return 1;
    for (int i = 0; i < threads; i++)
        pthread_join(workers[i], NULL);
    printf("storm is over\n");
    return 0;
}
