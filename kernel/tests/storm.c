// A stress test: threads of several processes make all kinds of calls at the same time, on memory
// that they share. The output is always the same. The test finds a kernel that hangs or panics, and
// leaks that the kernel reports when it shuts down.
//
// storm THREADS ROUNDS SEED: each thread makes ROUNDS calls; with an s after ROUNDS, it makes calls
// for ROUNDS seconds
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 512, FILE_PAGES = 64, NAMES = 6 };

static char *arena;
static int file, go[2];
static int rounds;
static time_t seconds;
static pthread_mutex_t *robust;
extern char **environ;
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

// Reads or writes a page that may be unmapped, now or at any time.
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

static const int advice[] = {MADV_DONTNEED,  MADV_FREE,     MADV_WILLNEED,   MADV_COLD,   MADV_PAGEOUT,     MADV_HUGEPAGE,   MADV_NOHUGEPAGE,
                             MADV_REMOVE,    MADV_DOFORK,   MADV_DONTFORK,   MADV_RANDOM, MADV_SEQUENTIAL,  MADV_WIPEONFORK, MADV_KEEPONFORK,
                             MADV_MERGEABLE, MADV_DONTDUMP, MADV_UNMERGEABLE, MADV_DODUMP, MADV_POPULATE_READ, MADV_POPULATE_WRITE,
                             /* MADV_COLLAPSE, GUARD_INSTALL, GUARD_REMOVE */ 25, 102, 103};

static int any_advice(unsigned long r) { return advice[r % (sizeof advice / sizeof *advice)]; }

// Returns a name whose file other threads may create, change or remove.
static const char *name(unsigned long r) {
    static const char *const names[NAMES] = {"/tmp/a", "/tmp/b", "/tmp/c", "/tmp/a/d", "/tmp/b/e", "/tmp/c/f"};
    return names[r % NAMES];
}

static void names(unsigned long r) {
    const char *from = name(r >> 5), *to = name(r >> 9);
    struct stat stat_of;
    struct statfs system;
    char text[256];
    switch (r % 20) {
    case 0: mkdir(from, 0777); break;
    case 1: rmdir(from); break;
    case 2: rename(from, to); break;
    case 3: link(from, to); break;
    case 4: symlink(from, to); break;
    case 5: unlink(from); break;
    case 6: stat(from, &stat_of); break;
    case 7: lstat(from, &stat_of); break;
    case 8: chmod(from, r >> 13 & 0777); break;
    case 9: access(from, R_OK); break;
    case 10: readlink(from, text, sizeof text); break;
    case 11: truncate(from, (r >> 13) % (8 * PAGE)); break;
    case 12: utimensat(AT_FDCWD, from, NULL, 0); break;
    case 13: statfs(from, &system); break;
    case 14: chown(from, 0, 0); break;
    case 15: mkfifo(from, 0666); break;
    case 16:
        chdir(from);
        getcwd(text, sizeof text);
        chdir("/");
        break;
    case 17: syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, r >> 13 & 1); break;
    default: {
        int open_file = open(from, O_RDWR | (r >> 13 & 1 ? O_CREAT : 0) | (r >> 14 & 1 ? O_TRUNC : 0) | (r >> 15 & 1 ? O_APPEND : 0) | O_NONBLOCK, 0666);
        if (open_file < 0)
            open_file = open(from, O_RDONLY | O_NONBLOCK);
        syscall(SYS_getdents64, open_file, text, sizeof text);
        write(open_file, text, sizeof text);
        fstat(open_file, &stat_of);
        if (r >> 16 & 1) {
            char *mapped = mmap(NULL, PAGE, 3, MAP_SHARED, open_file, 0);
            if (mapped != MAP_FAILED) {
                touch(mapped, r >> 17 & 1);
                munmap(mapped, PAGE);
            }
        }
        close(open_file);
    }
    }
}

static void observe(unsigned long r) {
    static const char *const files[] = {"maps", "smaps", "smaps_rollup", "pagemap", "stat", "statm", "status", "cmdline", "fd", "task", "oom_score"};
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/%s", r >> 8 & 1 ? getpid() : getppid(), files[(r >> 9) % (sizeof files / sizeof *files)]);
    int observed = open(path, O_RDONLY);
    if (strstr(path, "pagemap"))
        pread(observed, text, sizeof text, (unsigned long)arena / PAGE * 8);
    else if (syscall(SYS_getdents64, observed, text, sizeof text) < 0)
        for (int i = 0; i < 16 && read(observed, text, sizeof text) > 0; i++) {
        }
    close(observed);
    readlink("/proc/self/exe", text, sizeof text);
}

static void ask(unsigned long r) {
    struct rlimit limit;
    struct rusage usage;
    struct sysinfo info;
    struct utsname system;
    struct tms ticks;
    struct timeval now;
    cpu_set_t processors;
    switch (r % 10) {
    case 0:
        getrlimit(r >> 5 & 15, &limit);
        setrlimit(r >> 5 & 15, &limit);
        break;
    case 1: getrusage(r >> 5 & 1 ? RUSAGE_SELF : RUSAGE_CHILDREN, &usage); break;
    case 2: sysinfo(&info); break;
    case 3: uname(&system); break;
    case 4: times(&ticks); break;
    case 5: gettimeofday(&now, NULL); break;
    case 6: syscall(SYS_getrandom, arena + r / 64 % PAGES * PAGE, 100, 0); break;
    case 7:
        sched_getaffinity(0, sizeof processors, &processors);
        for (int i = 0; i < 4; i++)
            if (r >> (5 + i) & 1)
                CPU_SET(i, &processors);
            else if (CPU_COUNT(&processors) > 1)
                CPU_CLR(i, &processors);
        sched_setaffinity(0, sizeof processors, &processors);
        break;
    case 8: syscall(SYS_membarrier, 1 << (r >> 5 & 7), 0, 0); break;
    default: syscall(SYS_getcpu, NULL, NULL, NULL);
    }
}

static void wait_a_little(unsigned long r) {
    struct timespec soon = {.tv_nsec = 100000};
    struct timeval soon_too = {.tv_usec = 100};
    struct pollfd ready = {.fd = go[0], .events = POLLIN};
    sigset_t set;
    siginfo_t info;
    fd_set read_from;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    switch (r % 12) {
    case 0: nanosleep(&soon, NULL); break;
    case 1: clock_nanosleep(CLOCK_MONOTONIC, 0, &soon, NULL); break;
    case 2: ppoll(&ready, 1, &soon, NULL); break;
    case 3:
        FD_ZERO(&read_from);
        FD_SET(go[0], &read_from);
        select(go[0] + 1, &read_from, NULL, NULL, &soon_too);
        break;
    case 4: sigtimedwait(&set, &info, &soon); break;
    case 5: {
        // With a deadline, because a thread that is moved to another futex is not woken there.
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += 1;
        syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, atomic_load(&word), &until, NULL, 1);
        break;
    }
    case 6: {
        struct itimerval timer = {.it_value = {.tv_usec = 1000}};
        setitimer(ITIMER_REAL, &timer, NULL);
        break;
    }
    case 7: syscall(SYS_futex, &word, FUTEX_CMP_REQUEUE, 1, 1, arena, atomic_load(&word)); break;
    case 8:
        if (pthread_mutex_trylock(robust) == EOWNERDEAD)
            pthread_mutex_consistent(robust);
        else if (r >> 8 & 1)
            break;
        pthread_mutex_unlock(robust);
        break;
    case 9: pthread_sigmask(r >> 8 & 1 ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL); break;
    case 10: tgkill(getpid(), gettid(), r >> 8 & 1 ? SIGUSR1 : SIGUSR2); break;
    default: sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 1});
    }
}

static void describe(unsigned long r) {
    char text[64];
    struct iovec parts[2] = {{text, 10}, {arena + r / 64 % PAGES * PAGE, 100}};
    off_t place = (r >> 20) % FILE_PAGES * PAGE;
    switch (r % 12) {
    case 0: close(dup(go[0])); break;
    case 1: close(fcntl(file, F_DUPFD_CLOEXEC, 100)); break;
    case 2: preadv(file, parts, 2, place); break;
    case 3: pwritev(file, parts, 2, place); break;
    case 4: fallocate(file, r >> 8 & 1 ? 0 : FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, place, 2 * PAGE); break;
    case 5: sendfile(file, file, &place, 1000); break;
    case 6: {
        loff_t to = 0;
        copy_file_range(file, &place, file, &to, 100, 0);
        break;
    }
    case 7: fsync(file); break;
    case 8: {
        int other = memfd_create("other", MFD_CLOEXEC);
        write(other, text, sizeof text);
        close(other);
        break;
    }
    case 9: syscall(SYS_close_range, 500, 600, 0); break;
    case 10: umask(r >> 8 & 0777); break;
    default: lseek(file, place, SEEK_DATA);
    }
}

static void start(unsigned long r) {
    static char *no_arguments[] = {"storm", NULL};
    pid_t pid;
    siginfo_t info;
    switch (r % 4) {
    case 0:
        if (posix_spawn(&pid, self, NULL, NULL, no_arguments, environ) == 0)
            wait_for(pid);
        break;
    case 1:
        pid = vfork();
        if (pid == 0)
            _exit(0);
        if (pid > 0)
            wait_for(pid);
        break;
    case 2:
        pid = (pid_t)syscall(SYS_clone, (r >> 8 & 1 ? 0x400 /* CLONE_FILES */ : 0x200 /* CLONE_FS */) | SIGCHLD, 0, 0, 0, 0);
        if (pid == 0)
            _exit(0);
        while (pid > 0 && waitid(P_PID, pid, &info, WEXITED) < 0 && errno == EINTR) {
        }
        break;
    default:
        pid = fork();
        if (pid == 0)
            for (;;)
                pause();
        if (pid > 0) {
            kill(pid, SIGSTOP);
            kill(pid, SIGCONT);
            kill(pid, SIGKILL);
            wait_for(pid);
        }
    }
}

// Calls on memory that are rarely made.
static void seldom(unsigned long r, char *at, size_t len, int deep) {
    unsigned long nodes = 1;
    switch (r % 8) {
    case 0: syscall(SYS_remap_file_pages, at, len, 0, r >> 8 & 15, 0); break;
    case 1: syscall(SYS_mbind, at, len, r >> 8 & 3, &nodes, 64, r >> 10 & 3); break;
    case 2: syscall(SYS_pkey_mprotect, at, len, r >> 8 & 3, -1); break;
    case 3: {
        int own = (int)syscall(SYS_pidfd_open, getpid(), 0);
        struct iovec part = {at, len};
        syscall(SYS_process_madvise, own, &part, 1, any_advice(r >> 8), 0);
        close(own);
        break;
    }
    case 4: prctl(0x53564d41 /* PR_SET_VMA */, 0, at, len, "storm"); break;
    case 5: syscall(SYS_mlock2, at, len, 1); break;
    case 6:
        if (deep == 1 || deep == 2) {
            // Only in a process with one thread that allocates.
            long end = syscall(SYS_brk, 0);
            syscall(SYS_brk, end + PAGE);
            syscall(462 /* mseal */, at, len, 0);
            mlockall(MCL_FUTURE | MCL_ONFAULT);
            munlockall();
        }
        break;
    default: mremap(at, len, PAGE, 0);
    }
}

static void one(unsigned long *state, int deep) {
    unsigned long r = next(state);
    char *at = arena + r / 64 % PAGES * PAGE;
    size_t len = (1 + r / 65536 % 16) * PAGE;
    if (at + len > arena + PAGES * PAGE)
        len = PAGE;
    int protection = (int)(r >> 40 & 3);
    switch (r % 34) {
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
        madvise(at, len, any_advice(r >> 44));
        break;
    case 7:
        mremap(at, r >> 60 & 7 ? len : 0, len, MREMAP_MAYMOVE | MREMAP_FIXED | (r >> 58 & 3 ? 0 : 4 /* MREMAP_DONTUNMAP */), arena + (r >> 44) % (PAGES - 16) * PAGE);
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
    case 22: names(r >> 20); break;
    case 23: observe(r >> 20); break;
    case 24: ask(r >> 20); break;
    case 25: wait_a_little(r >> 20); break;
    case 26: describe(r >> 20); break;
    case 27:
        if (deep < 2)
            start(r >> 20);
        break;
    case 28: seldom(r >> 20, at, len, deep); break;
    default:
        touch(at, r >> 44 & 1);
    }
    atomic_fetch_add(&word, 1);
}

static void *work(void *seed) {
    unsigned long state = (unsigned long)seed;
    struct timespec now = {0};
    for (int i = 0; seconds ? now.tv_sec < seconds : i < rounds; i++) {
        one(&state, 0);
        if (i % 16 == 0 && seconds)
            clock_gettime(CLOCK_MONOTONIC, &now);
    }
    return NULL;
}

static void *short_work(void *seed) {
    unsigned long state = (unsigned long)seed;
    for (int i = 0; i < 20; i++)
        one(&state, 3);
    return NULL;
}

// Some children exit while others of their threads run, and some execute a program.
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
    if (strchr(arguments[2], 's'))
        seconds = rounds;
    unsigned long seed = strtoul(arguments[3], NULL, 10);
    struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    signal(SIGUSR1, nothing);
    signal(SIGUSR2, nothing);
    signal(SIGALRM, nothing);
    // Far below the addresses that mmap chooses, so that stacks never lie in the arena's holes.
    arena = mmap((void *)0x1000000000, PAGES * PAGE, 3, MAP_FIXED_NOREPLACE | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    file = memfd_create("storm", 0);
    ftruncate(file, FILE_PAGES * PAGE);
    pipe2(go, O_NONBLOCK);
    robust = mmap(NULL, PAGE, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(robust, &kind);
    pthread_t workers[64];
    for (long i = 0; i < threads; i++)
        if (pthread_create(&workers[i], NULL, work, (void *)(seed * 1000003 + i * 7919 + 88172645463325252)) != 0)
            return 1;
    for (int i = 0; i < threads; i++)
        pthread_join(workers[i], NULL);
    printf("storm is over\n");
    return 0;
}
