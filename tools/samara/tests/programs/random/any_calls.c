/* Random calls on memory, with arguments as no real program has them: SEED CHILDREN CALLS [FEATURES]. Each child begins as the parent was, and
 * draws its own history. A child may hit its own code, and dies then. Features, by default all: 1 threads, 2 forks and programs anew, 4 files that
 * change, 8 privileges and settings that change, 16 direct accesses, 32 calls of i386, 64 calls that mostly succeed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long word;
enum { PAGE = 4096, PAGES = 64, HUGE = 2 << 20 };
enum { THREADS = 1, PROCESSES = 2, FILES = 4, SETTINGS = 8, ACCESSES = 16, NARROW = 32, DIRECTED = 64 };

static __thread word state;
static __thread sigjmp_buf back;
static __thread int guarded;
static word window, roomy, heap, features = -1;
static int files[40], count_of_files, self, zero, null_device, memory, sealed, data, watcher = -1, large, depth;
static word ring;
static int patience = 1;
static char **program;

static word draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545F4914F6CDD1Dul >> 3;
}
static word below(word n) { return draw() % n; }
static int one_in(int n) { return below(n) == 0; }
static word page(void) { return window + below(PAGES) * PAGE; }

static word address(void) {
    switch (below(28)) {
    case 0: return 0;
    case 1: return -1ul;
    case 2: return -1ul << 12;
    case 3: return 0x7ffffffff000;
    case 4: return 0x7fffffffe000;
    case 5: return draw();
    case 6: return window + below(PAGES * PAGE);
    case 7: return 0x10000;
    case 8: return 0xffful << below(20);
    case 9: return 1ul << 63 | window;
    case 10: return heap + below(16) * PAGE;
    case 11: return 0x7fffffffffffffff;
    case 12: return (word)&state & -PAGE;
    case 13: return (word)&window & -PAGE;
    case 14: return roomy + below(8) * HUGE;
    case 15: return roomy + below(4 * HUGE / PAGE) * PAGE;
    default: return page();
    }
}

static word any_length(void) {
    switch (below(26)) {
    case 0: return 0;
    case 1: return -1ul;
    case 2: return -1ul << 12;
    case 3: return 1;
    case 4: return PAGE - 1;
    case 5: return PAGE + 1;
    case 6: return -1ul - PAGE + 1;
    case 7: return 1ul << below(64);
    case 8: return 0x7ffffffff000 - window;
    case 9: return -window;
    case 10: return HUGE;
    case 11: return 0x7fffffffffffffff;
    case 12: return 2 * HUGE;
    case 13: return PAGES * PAGE;
    default: return (1 + below(9)) * PAGE;
    }
}

/* Only children that never lock nor fill draw such as would take the machine's memory. */
static word length(void) {
    word drawn = any_length();
    return !large && drawn > 64ul << 20 && drawn < 1ul << 47 ? (1 + below(9)) * PAGE : drawn;
}

/* The upper half of what the kernel takes for 32 bits. */
static word upper(word value) { return one_in(12) ? value | draw() << 32 : value; }

static word protection(void) {
    switch (below(16)) {
    case 0: return draw();
    case 1: return 1ul << below(64);
    case 2: return PROT_GROWSDOWN | 1;
    case 3: return PROT_GROWSUP | 3;
    case 4: return 8;
    default: return upper(below(8));
    }
}

static word mapping_flags(void) {
    static const struct { int one_in; word flag; } more[] = {
        {2, MAP_FIXED}, {8, MAP_FIXED_NOREPLACE}, {8, MAP_GROWSDOWN}, {8, MAP_NORESERVE}, {8, MAP_LOCKED}, {8, MAP_POPULATE}, {10, MAP_32BIT},
        {10, MAP_STACK}, {10, MAP_SYNC}, {20, MAP_DENYWRITE | MAP_EXECUTABLE}, {20, MAP_NONBLOCK}, {30, 0x200000}, {30, 0x80}, {30, 0x4000000},
    };
    word flags = one_in(10) ? below(16) : one_in(10) ? 3 : one_in(20) ? 8 : one_in(4) ? MAP_SHARED : MAP_PRIVATE;
    if (below(3)) flags |= MAP_ANONYMOUS;
    for (int i = 0; i < sizeof more / sizeof *more; i++)
        if (one_in(more[i].one_in)) flags |= more[i].flag;
    if (one_in(30)) flags |= 1ul << below(64);
    if (one_in(60)) flags |= MAP_HUGETLB | (one_in(3) ? 30ul : 21ul) << 26;
    if (one_in(20)) flags = draw();
    return upper(large ? flags & ~(word)(MAP_POPULATE | MAP_LOCKED) : flags);
}

static word offset(void) {
    switch (below(11)) {
    case 0: return draw();
    case 1: return 1;
    case 2: return -1ul << 12;
    case 3: return 0x7ffffffffffff000;
    case 4: return 1ul << 63;
    case 5: return 0xfffffffff000;
    case 6: return below(3) * 0x8000000;
    default: return below(8) * PAGE;
    }
}

static int any_file(void) { return one_in(20) ? -1 : one_in(20) ? 99 : files[below(count_of_files)]; }

/* Arguments lie where the caller has put them, or where there may be nothing. */
static void *argument(const void *bytes, word size) {
    word at = page() + PAGE - (one_in(2) ? size : size / 2);
    if (!one_in(6)) return (void *)bytes;
    struct iovec from = {(void *)bytes, size}, to = {(void *)at, size};
    process_vm_writev(getpid(), &from, 1, &to, 1, 0);
    return (void *)at;
}

static void caught(int signal) {
    if (!guarded) _exit(3);
    // Here already: where it cannot be written, the program ends with the room for handlers.
    guarded = 0;
    siglongjmp(back, 1);
}

static void access_at(word address) {
    volatile char *at = (char *)address;
    int how = below(features & ACCESSES ? 4 : 2);
    if (how == 0) pread(zero, (void *)at, 8, 0);
    if (how == 1) pwrite(null_device, (void *)at, 8, 0);
    if (how < 2) return;
    guarded = 1;
    if (sigsetjmp(back, 1) == 0) {
        if (how == 2) *at;
        if (how == 3) *at = 1;
    }
    guarded = 0;
}

static void access_memory(void) { access_at(one_in(8) ? address() : page() + below(PAGE)); }

static void advise_several(void) {
    static const word advices[] = {0, 1, 2, 3, 4, 8, 9, 10, 12, 13, 14, 15, 18, 20, 21, 25, 102, 103};
    struct iovec ranges[4];
    int count = below(5);
    for (int i = 0; i < 4; i++) ranges[i] = (struct iovec){(void *)address(), length()};
    int whose = one_in(6) ? -10000 - (int)below(2) : one_in(12) ? any_file() : self;
    word advice = advices[below(sizeof advices / sizeof *advices)];
    syscall(SYS_process_madvise, whose, argument(ranges, sizeof ranges), count, upper(one_in(20) ? draw() : advice), upper(one_in(9)));
}

static void policies(void) {
    word nodes[20] = {one_in(4) ? draw() : one_in(8) ? 0 : 1};
    if (one_in(6)) nodes[1 + below(19)] = 1ul << below(64);
    word mode = below(8) | (one_in(8) ? 0x8000 : 0) | (one_in(8) ? 0x4000 : 0) | (one_in(8) ? 0x2000 : 0);
    word bits = one_in(4) ? below(70) : one_in(12) ? below(1200) : 64;
    void *at = one_in(3) ? 0 : argument(nodes, sizeof nodes);
    switch (below(5)) {
    case 0: syscall(SYS_set_mempolicy, mode, at, bits); break;
    case 1: syscall(450, address(), length(), one_in(3) ? draw() : 0, one_in(4) ? draw() : 0); break;
    default: syscall(SYS_mbind, address(), length(), upper(mode), at, bits, upper(one_in(3) ? below(8) : one_in(9) ? draw() : 0));
    }
}

static void segments(void) {
    static word attached;
    if (one_in(3)) {
        syscall(SYS_shmdt, one_in(3) ? address() : attached);
        return;
    }
    int id = shmget(IPC_PRIVATE, (1 + below(4)) * PAGE - below(2), (one_in(4) ? 0400 : 0600) | IPC_CREAT | (one_in(30) ? SHM_HUGETLB : 0));
    word flags = one_in(4) ? draw() : below(2) * SHM_REMAP | (one_in(3) ? SHM_RND : 0) | (one_in(3) ? SHM_RDONLY : 0) | (one_in(3) ? SHM_EXEC : 0);
    word at = one_in(2) ? 0 : address();
    word got = syscall(SYS_shmat, one_in(20) ? below(99) : id, at, upper(flags));
    if (got < -4095ul) {
        attached = got;
        if (one_in(2)) syscall(SYS_shmat, id, got + below(3) * PAGE, SHM_REMAP);
    }
    shmctl(id, IPC_RMID, 0);
}

static void name(void) {
    static const char *names[] = {"good", "bad[name]", "", "also good", "\xff", "one that is so long that it would not fit into any room which the kernel has for names of this kind"};
    const char *text = names[below(6)];
    prctl(PR_SET_VMA, one_in(30) ? below(4) : PR_SET_VMA_ANON_NAME, address(), length(), one_in(3) ? 0 : argument(text, strlen(text) + 1));
}

static void limits(void) {
    static const int which[] = {RLIMIT_AS, RLIMIT_DATA, RLIMIT_STACK, RLIMIT_MEMLOCK};
    int i = below(4);
    word most = i == 3 ? below(20) * PAGE / 2 : i == 2 ? below(9) * 64 * 1024 : i == 1 ? below(300) * PAGE : (2300 + below(4000)) * PAGE;
    struct rlimit limit = {one_in(4) ? RLIM_INFINITY : most, RLIM_INFINITY};
    if (one_in(2)) prlimit(depth && one_in(2) ? getppid() : 0, which[i], &limit, 0);
    else setrlimit(which[i], &limit);
}

static void settings(void) {
    static const word personalities[] = {0, READ_IMPLIES_EXEC, ADDR_COMPAT_LAYOUT, MMAP_PAGE_ZERO, ADDR_NO_RANDOMIZE, ADDR_LIMIT_3GB, ADDR_LIMIT_32BIT, STICKY_TIMEOUTS};
    static const int bounds[] = {PR_SET_MM_START_CODE, PR_SET_MM_END_CODE, PR_SET_MM_START_DATA, PR_SET_MM_END_DATA, PR_SET_MM_START_STACK, PR_SET_MM_START_BRK, PR_SET_MM_BRK, PR_SET_MM_ARG_START, 99};
    switch (below(9)) {
    case 0: syscall(SYS_personality, one_in(9) ? draw() : personalities[below(8)] | personalities[below(8)]); break;
    case 1: prctl(PR_SET_MM, bounds[below(9)], one_in(2) ? heap + below(8) * PAGE : address(), 0, 0); break;
    case 2: prctl(PR_SET_THP_DISABLE, below(2), 0, 0, 0); break;
    case 3: if (one_in(4)) prctl(65, below(4), 0, 0, 0); break;
    case 4: prctl(67, below(2), 0, 0, 0); break;
    case 5: if (one_in(6)) syscall(SYS_setresuid, 65534, 65534, 65534); break;
    case 6: if (one_in(8)) { int header[2] = {0x20080522, 0}, none[6] = {0}; syscall(SYS_capset, header, none); } break;
    case 7: syscall(SYS_arch_prctl, one_in(2) ? 0x2001 : 0x2003, address()); break;
    case 8: if (one_in(9)) unshare(CLONE_NEWIPC); break;
    }
}

static void change_files(void) {
    switch (below(9)) {
    case 0: ftruncate(one_in(2) ? data : memory, below(8) * PAGE + below(2) * 100); break;
    case 1: fallocate(one_in(2) ? data : memory, one_in(2) ? 3 : 0, below(6) * PAGE, (1 + below(3)) * PAGE); break;
    case 2: fcntl(one_in(2) ? sealed : memory, F_ADD_SEALS, (int)below(32)); break;
    case 3: dup2(any_file(), files[below(count_of_files)]); break;
    case 4: pwrite(data, "x", 1, below(6 * PAGE)); break;
    case 5: {
        struct uffdio_api api = {UFFD_API, 0, 0};
        if (watcher < 0 && (watcher = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | (one_in(2) ? 1 : 0))) >= 0) ioctl(watcher, UFFDIO_API, &api);
        break;
    }
    case 6: {
        struct uffdio_register area = {{address(), length()}, one_in(9) ? draw() : 1 + below(7), 0};
        ioctl(watcher, UFFDIO_REGISTER, argument(&area, sizeof area));
        break;
    }
    case 7: {
        struct uffdio_range range = {address(), length()};
        ioctl(watcher, UFFDIO_UNREGISTER, argument(&range, sizeof range));
        if (one_in(4)) { close(watcher); watcher = -1; }
        break;
    }
    case 8:
        if (ring) { syscall(SYS_io_destroy, ring); ring = 0; }
        else syscall(SYS_io_setup, 1 + below(300), argument(&ring, sizeof ring));
    }
}

/* mmap2, munmap, mprotect, mremap, brk, madvise, mlock of i386, through its own gate. */
static void narrow_call(void) {
    static const int numbers[] = {192, 91, 125, 163, 45, 219, 150, 151, 144, 257};
    int number = numbers[below(10)], result;
    unsigned first = one_in(4) ? address() : 0x40000000 + below(32) * PAGE, second = length(), third = number == 192 ? protection() : below(9);
    unsigned fourth = mapping_flags(), fifth = any_file();
    if (number == 192 && (fourth & MAP_TYPE) == 0) fourth |= MAP_PRIVATE;
    __asm__ volatile("push %%rbp\n\tmov %[sixth], %%ebp\n\tint $0x80\n\tpop %%rbp"
                     : "=a"(result)
                     : "a"(number), "b"(first), "c"(second), "d"(third), "S"(fourth), "D"(fifth), [sixth] "r"((unsigned)(offset() >> 12))
                     : "memory", "r8", "r9", "r10", "r11");
}

static void one_call(void);

static void *thread(void *seed) {
    state = (word)seed | 1;
    for (int i = below(30); i; i--) one_call();
    if (one_in(20) && depth < 2 && features & PROCESSES) execv("/proc/self/exe", program);
    return 0;
}

static int shares(void *seed) {
    word kept = state;
    alarm(patience);
    for (int i = 0; i < 3; i++) one_call();
    state = kept;
    _exit(0);
}

static void others(void) {
    if (features & THREADS && one_in(2)) {
        pthread_t ids[3];
        int count = 1 + below(3), made = 0;
        for (int i = 0; i < count; i++) made += pthread_create(&ids[made], 0, thread, (void *)draw()) == 0;
        for (int i = 0; i < made; i++) pthread_join(ids[i], 0);
        return;
    }
    if (!(features & PROCESSES)) return;
    int child = 0;
    if (one_in(3)) {
        static char stack[64 << 10] __attribute__((aligned(16)));
        child = clone(shares, stack + sizeof stack, CLONE_VM | (one_in(2) ? CLONE_VFORK : 0) | SIGCHLD, (void *)draw());
    } else if (depth < 2) {
        child = fork();
        if (child == 0) {
            depth++;
            alarm(patience);
            state += 2;
            for (int i = below(20); i; i--) one_call();
            if (one_in(3)) execv("/proc/self/exe", program);
            _exit(0);
        }
    }
    if (child > 0) waitpid(child, 0, 0);
}

#include "directed_calls.h"

static void one_call(void) {
    static unsigned char present[1 << 16];
    if (features & DIRECTED && one_in(2)) return directed_call();
    word kind = below(112), size;
    if (kind < 26) syscall(SYS_mmap, address(), length(), protection(), mapping_flags(), upper((unsigned)any_file()) | (one_in(9) ? -1ul << 32 : 0), offset());
    else if (kind < 33) syscall(SYS_munmap, address(), length());
    else if (kind < 42) syscall(SYS_mprotect, address(), length(), protection());
    else if (kind < 43) syscall(SYS_pkey_mprotect, address(), length(), protection(), one_in(2) ? -1 : one_in(2) ? below(17) : upper(0));
    else if (kind < 56) syscall(SYS_mremap, address(), length(), length(), upper(one_in(20) ? 1ul << below(64) : below(8)), address());
    else if (kind < 60) syscall(SYS_brk, one_in(3) ? address() : heap + below(32) * PAGE + (one_in(3) ? below(PAGE) : 0) - 4 * PAGE);
    else if (kind < 70) {
        word advice = one_in(10) ? draw() : one_in(2) ? below(26) : below(121);
        if (advice == 100 || advice == 101 || large && (advice == 22 || advice == 23)) advice = 4;
        syscall(SYS_madvise, address(), length(), upper(advice));
    } else if (kind < 75) {
        if (large) return;
        if (one_in(2)) syscall(SYS_mlock, address(), length());
        else syscall(SYS_mlock2, address(), length(), upper(one_in(9) ? draw() : below(3)));
    } else if (kind < 78) syscall(SYS_munlock, address(), length());
    else if (kind < 80) { if (!large) syscall(SYS_mlockall, upper(one_in(6) ? draw() : below(9))); }
    else if (kind < 81) syscall(SYS_munlockall);
    else if (kind < 84) syscall(SYS_msync, address(), length(), upper(one_in(5) ? draw() : below(8)));
    else if (kind < 86) {
        size = length();
        if (size > 1ul << 27 && size < 1ul << 46) size = PAGE;
        syscall(SYS_mincore, address(), size, one_in(9) ? 0 : one_in(9) ? address() : (word)present);
    } else if (kind < 88) { if (one_in(3)) syscall(462, page(), one_in(4) ? length() : PAGE * (1 + below(3)), upper(one_in(6) ? draw() : 0)); }
    else if (kind < 90) syscall(SYS_remap_file_pages, address(), length(), one_in(3) ? protection() : 0, one_in(3) ? offset() : below(9), upper(one_in(3) ? mapping_flags() : 0));
    else if (kind < 93) advise_several();
    else if (kind < 94) { if (one_in(2)) syscall(SYS_pkey_alloc, upper(one_in(4)), upper(one_in(3) ? draw() : below(4))); else syscall(SYS_pkey_free, upper(one_in(3) ? draw() : below(16))); }
    else if (kind < 95) name();
    else if (kind < 96) limits();
    else if (kind < 99) policies();
    else if (kind < 101) segments();
    else if (kind < 104) { if (features & FILES) change_files(); }
    else if (kind < 106) { if (features & SETTINGS && one_in(2)) settings(); }
    else if (kind < 107) { others(); }
    else if (kind < 109) { if (features & NARROW) narrow_call(); }
    else access_memory();
    if (one_in(4)) access_memory();
}

static void keep(int file) {
    if (file >= 0) files[count_of_files++] = file;
}

static void open_files(void) {
    char path[64], rings[4096] = {0}, event[128] = {1, 0, 0, 0, 128};
    sprintf(path, "any_calls.%d", getpid());
    data = open(path, O_RDWR | O_CREAT, 0644);
    ftruncate(data, 5 * PAGE / 2 + 100);
    memory = memfd_create("memory", MFD_ALLOW_SEALING);
    ftruncate(memory, 6 * PAGE);
    sealed = memfd_create("sealed", MFD_ALLOW_SEALING);
    ftruncate(sealed, 6 * PAGE);
    fcntl(sealed, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK);
    int ends[2], secret = syscall(SYS_memfd_secret, 0);
    if (secret >= 0) ftruncate(secret, 4 * PAGE);
    pipe(ends);
    keep(zero = open("/dev/zero", O_RDWR));
    keep(null_device = open("/dev/null", O_RDWR));
    keep(open("/dev/zero", O_RDONLY));
    keep(data), keep(open(path, O_RDONLY)), keep(open(path, O_WRONLY)), keep(open(path, O_RDWR)), keep(open(path, O_PATH));
    keep(memory), keep(sealed), keep(secret), keep(memfd_create("huge", MFD_HUGETLB)), keep(memfd_create("not executable", 8));
    keep(open("/", O_RDONLY)), keep(open("/proc/self/maps", O_RDONLY)), keep(open("/proc/self/exe", O_RDONLY)), keep(ends[0]), keep(eventfd(0, 0));
    keep(socket(AF_INET, SOCK_STREAM, 0)), keep(socket(AF_UNIX, SOCK_STREAM, 0));
    keep(syscall(SYS_io_uring_setup, 4, rings));
    keep(syscall(SYS_perf_event_open, event, 0, -1, -1, 0));
    unlink(path);
}

static void child(word seed, int calls) {
    state = seed * 0x9E3779B97F4A7C15ul | 1;
    for (int i = 0; i < 5; i++) draw();
    static char stack[64 << 10];
    stack_t other = {stack, 0, sizeof stack};
    struct sigaction action = {.sa_handler = caught, .sa_flags = SA_ONSTACK | SA_NODEFER};
    sigaltstack(&other, 0);
    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGBUS, &action, 0);
    self = syscall(SYS_pidfd_open, getpid(), 0);
    alarm(patience);
    large = one_in(3);
    if (one_in(3)) {
        setgroups(0, 0);
        setresgid(65534, 65534, 65534);
        setresuid(65534, 65534, 65534);
    }
    if (one_in(2)) syscall(SYS_munmap, window, PAGES * PAGE);
    if (one_in(2)) syscall(SYS_munmap, roomy, 8 * HUGE);
    if (one_in(8)) prctl(65, 1, 0, 0, 0);
    if (one_in(8)) prctl(67, 1, 0, 0, 0);
    for (int i = 0; i < calls; i++) one_call();
    _exit(0);
}

int main(int argc, char **argv) {
    static char again[24], *arguments[] = {"any_calls", again, "0", "20", "0", "again", 0};
    word seed = atol(argv[1]);
    int children = atoi(argv[2]), calls = atoi(argv[3]);
    if (argc > 4) features = atol(argv[4]);
    program = arguments;
    sprintf(again, "%lu", seed * 7 + 1);
    static char flags[24];
    sprintf(flags, "%lu", features);
    arguments[4] = flags;
    depth = argc > 5;
    const char *seconds = getenv("ANY_CALLS_SECONDS");
    if (seconds) patience = atoi(seconds);
    open_files();
    window = (word)mmap(0, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    roomy = (word)mmap(0, 10 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + HUGE - 1 & -HUGE;
    heap = (word)sbrk(0);
    if (children == 0) {
        depth = 2;
        child(seed, calls);
    }
    for (int i = 0; i < children; i++) {
        int pid = fork();
        if (pid == 0) child(seed + i, calls);
        waitpid(pid, 0, 0);
    }
    return 0;
}
