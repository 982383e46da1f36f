/* Pages that a userfaultfd has poisoned, and what calls make of them: locking and populating fail there, advice, guards and new pages take the poison away, it moves
 * with its area, and goes to a child in private memory. Each result is checked. Kernels before 6.6 know no UFFDIO_POISON. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long word;
enum { PAGE = 4096, PAGES = 8, POPULATE_READ = 22, POPULATE_WRITE = 23, DONTNEED_LOCKED = 24, GUARD_INSTALL = 102, GUARD_REMOVE = 103 };
enum { PRIVATE, SHARED, PRIVATE_FILE, SHARED_FILE, KINDS };
static const char *const kinds[] = {"private", "shared", "private file", "shared file"};

struct poison {
    struct uffdio_range range;
    word mode;
    long done;
};

static int watcher, wrong, kind, guards;
static char bytes[PAGES * PAGE] __attribute__((aligned(4096)));
static sigjmp_buf after;
static volatile int code;

static void expect_at(int line, long got, long wanted) {
    if (got == wanted) return;
    printf("line %d, %s: %ld instead of %ld\n", line, kinds[kind], got, wanted);
    wrong = 1;
}

#define expect(got, wanted) expect_at(__LINE__, got, wanted)

static int failed(long result) { return result == -1 ? errno : 0; }

static int advise(char *at, int pages, int advice) { return failed(madvise(at, pages * PAGE, advice)); }

/* What populating one page fails with. */
static int filling(char *at) { return advise(at, 1, POPULATE_READ); }

static void on_signal(int number, siginfo_t *information, void *context) {
    code = number * 10 + information->si_code;
    siglongjmp(after, 1);
}

/* The signal, and its code. */
static int touched(char *at, int write) {
    code = 0;
    if (!sigsetjmp(after, 1)) {
        if (write) *(volatile char *)at = 1;
        else (void)*(volatile char *)at;
    }
    return code;
}

static char *area(void) {
    if (kind == PRIVATE || kind == SHARED)
        return mmap(0, PAGES * PAGE, 3, (kind == PRIVATE ? MAP_PRIVATE : MAP_SHARED) | MAP_ANONYMOUS, -1, 0);
    int file = memfd_create("poisoned", 0);
    if (ftruncate(file, PAGES * PAGE)) _exit(1);
    char *at = mmap(0, PAGES * PAGE, 3, kind == PRIVATE_FILE ? MAP_PRIVATE : MAP_SHARED, file, 0);
    close(file);
    return at;
}

static int is_private(void) { return kind == PRIVATE || kind == PRIVATE_FILE; }

static int watch(char *at, word mode) {
    struct uffdio_register all = {{(word)at, PAGES * PAGE}, mode, 0};
    return failed(ioctl(watcher, UFFDIO_REGISTER, &all));
}

static int unwatch(char *at) {
    struct uffdio_range all = {(word)at, PAGES * PAGE};
    return failed(ioctl(watcher, UFFDIO_UNREGISTER, &all));
}

static struct poison last;

static int poison(char *at, int pages) {
    last = (struct poison){{(word)at, pages * PAGE}, 0, 0};
    return failed(ioctl(watcher, _IOWR(0xAA, 8, struct poison), &last));
}

static int copy(char *at, int pages) {
    struct uffdio_copy made = {(word)at, (word)bytes, pages * PAGE, 0, 0};
    return failed(ioctl(watcher, UFFDIO_COPY, &made));
}

static int zero(char *at, int pages) {
    struct uffdio_zeropage made = {{(word)at, pages * PAGE}, 0, 0};
    return failed(ioctl(watcher, UFFDIO_ZEROPAGE, &made));
}

/* An area whose second and third pages are poisoned; nothing watches it any more. */
static char *poisoned(void) {
    char *at = area();
    expect(watch(at, UFFDIO_REGISTER_MODE_MISSING), 0);
    expect(poison(at + PAGE, 2), 0);
    expect(last.done, 2 * PAGE);
    expect(unwatch(at), 0);
    return at;
}

static void filled_and_locked(void) {
    char *at = poisoned();
    unsigned char there[PAGES];
    expect(touched(at + PAGE, 0), 72);
    expect(touched(at + PAGE, 1), 72);
    expect(advise(at, PAGES, POPULATE_READ), EHWPOISON);
    expect(advise(at, PAGES, POPULATE_WRITE), EHWPOISON);
    expect(filling(at + 3 * PAGE), 0);
    expect(failed(mlock(at, PAGES * PAGE)), ENOMEM);
    expect(failed(mlock(at + PAGE, PAGE)), ENOMEM);
    expect(failed(mlock(at + 4 * PAGE, PAGE)), 0);
    expect(failed(munlock(at, PAGES * PAGE)), 0);
    expect(failed(syscall(SYS_mlock2, at, PAGES * PAGE, 1)), 0);
    expect(advise(at, PAGES, MADV_DONTNEED), EINVAL);
    expect(filling(at + PAGE), EHWPOISON);
    expect(failed(munlock(at, PAGES * PAGE)), 0);
    expect(failed(mlockall(MCL_CURRENT)), 0);
    expect(failed(munlockall()), 0);
    expect(failed(mincore(at, PAGES * PAGE, there)), 0);
    expect(failed(msync(at, PAGES * PAGE, MS_SYNC)), 0);
    expect(failed(mprotect(at + PAGE, PAGE, PROT_READ)), 0);
    expect(touched(at + PAGE, 0), 72);
    expect(failed(mprotect(at + PAGE, PAGE, PROT_NONE)), 0);
    expect(touched(at + PAGE, 0), 112);
    expect(failed(mprotect(at + PAGE, PAGE, 3)), 0);
    expect(filling(at + PAGE), EHWPOISON);
    expect(failed(syscall(SYS_mlock2, at, PAGES * PAGE, 1)), 0);
    expect(advise(at + PAGE, 1, DONTNEED_LOCKED), 0);
    expect(filling(at + PAGE), 0);
    expect(failed(munmap(at + 2 * PAGE, PAGE)), 0);
    char *anew = mmap(at + 2 * PAGE, PAGE, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    expect(failed(mlock(anew, PAGE)), 0);
    munmap(at, PAGES * PAGE);
    at = poisoned();
    mmap(at + PAGE, PAGE, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    expect(filling(at + PAGE), 0);
    expect(filling(at + 2 * PAGE), EHWPOISON);
    munmap(at, PAGES * PAGE);
}

static void advised(void) {
    static const struct { int advice, result[KINDS], then; } all[] = {
        {MADV_WILLNEED, {0}, EHWPOISON},
        {MADV_COLD, {0}, EHWPOISON},
        {MADV_PAGEOUT, {0}, EHWPOISON},
        {MADV_REMOVE, {EINVAL, 0, EACCES, 0}, EHWPOISON},
        {MADV_DONTNEED, {0}, 0},
        {DONTNEED_LOCKED, {0}, 0},
        {GUARD_REMOVE, {0}, EHWPOISON},
        {GUARD_INSTALL, {0}, EFAULT},
    };
    for (unsigned i = 0; i < sizeof all / sizeof *all - (guards ? 0 : 2); i++) {
        char *at = poisoned();
        expect(advise(at, 2, all[i].advice), all[i].result[kind]);
        expect(filling(at + PAGE), all[i].then);
        expect(filling(at + 2 * PAGE), EHWPOISON);
        munmap(at, PAGES * PAGE);
    }
    char *at = poisoned();
    expect(advise(at, 2, MADV_FREE), kind == PRIVATE ? 0 : EINVAL);
    expect(filling(at + PAGE), kind == PRIVATE ? 0 : EHWPOISON);
    munmap(at, PAGES * PAGE);
}

static void beside_guards(void) {
    char *at = poisoned();
    expect(advise(at + 3 * PAGE, 1, GUARD_INSTALL), 0);
    expect(advise(at, PAGES, POPULATE_READ), EHWPOISON);
    expect(advise(at + 3 * PAGE, 1, POPULATE_READ), EFAULT);
    expect(failed(mlock(at + 3 * PAGE, PAGE)), ENOMEM);
    munlock(at + 3 * PAGE, PAGE);
    expect(advise(at, PAGES, MADV_DONTNEED), 0);
    expect(filling(at + PAGE), 0);
    expect(filling(at + 3 * PAGE), EFAULT);
    munmap(at, PAGES * PAGE);
    // A guard takes the place of poison, not the other way round.
    at = poisoned();
    expect(advise(at + PAGE, 1, GUARD_INSTALL), 0);
    expect(advise(at + PAGE, 1, GUARD_REMOVE), 0);
    expect(filling(at + PAGE), 0);
    munmap(at, PAGES * PAGE);
    at = area();
    advise(at + 2 * PAGE, 1, GUARD_INSTALL);
    watch(at, UFFDIO_REGISTER_MODE_MISSING);
    expect(poison(at + PAGE, 3), EAGAIN);
    expect(last.done, PAGE);
    expect(poison(at + 2 * PAGE, 1), EEXIST);
    unwatch(at);
    expect(filling(at + PAGE), EHWPOISON);
    expect(filling(at + 2 * PAGE), EFAULT);
    expect(filling(at + 3 * PAGE), 0);
    munmap(at, PAGES * PAGE);
    // New pages take the place of guards.
    at = area();
    advise(at, 2, GUARD_INSTALL);
    watch(at, UFFDIO_REGISTER_MODE_MISSING);
    expect(copy(at, 1), 0);
    expect(zero(at + PAGE, 1), is_private() ? EEXIST : 0);
    unwatch(at);
    expect(filling(at), 0);
    expect(filling(at + PAGE), is_private() ? EFAULT : 0);
    munmap(at, PAGES * PAGE);
}

static void brought(void) {
    char *at = area();
    at[3 * PAGE] = 1;
    watch(at, UFFDIO_REGISTER_MODE_MISSING);
    expect(poison(at + PAGE, 4), EAGAIN);
    expect(last.done, 2 * PAGE);
    expect(poison(at + 3 * PAGE, 1), EEXIST);
    expect(poison(at + PAGE, 1), EEXIST);
    expect(poison(at + 5 * PAGE, 1), 0);
    expect(copy(at + PAGE, 1), 0);
    expect(copy(at + 2 * PAGE, 2), EAGAIN);
    expect(zero(at + 5 * PAGE, 1), is_private() ? EEXIST : 0);
    unwatch(at);
    expect(filling(at + PAGE), 0);
    expect(filling(at + 2 * PAGE), 0);
    expect(filling(at + 4 * PAGE), 0);
    expect(filling(at + 5 * PAGE), is_private() ? EHWPOISON : 0);
    munmap(at, PAGES * PAGE);
    if (is_private()) return;
    // The page is in the object, but not mapped.
    at = area();
    at[PAGE] = 1;
    advise(at, PAGES, MADV_DONTNEED);
    watch(at, UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR);
    expect(poison(at + PAGE, 1), 0);
    struct uffdio_continue mapped = {{(word)at + PAGE, PAGE}, 0, 0};
    expect(failed(ioctl(watcher, UFFDIO_CONTINUE, &mapped)), 0);
    unwatch(at);
    expect(filling(at + PAGE), 0);
    munmap(at, PAGES * PAGE);
}

static void moved(void) {
    char *at = poisoned();
    char *room = mmap(0, 4 * PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *there = mremap(at, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room + PAGE);
    expect(failed(mlock(there + PAGE, PAGE)), ENOMEM);
    expect(failed(mlock(there + 3 * PAGE, PAGE)), 0);
    munlock(there, PAGES * PAGE);
    // A part of it, and back.
    at = mremap(there + 2 * PAGE, 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room + 20 * PAGE);
    expect(filling(at), EHWPOISON);
    expect(filling(at + PAGE), 0);
    expect(filling(there + PAGE), EHWPOISON);
    munmap(room, 4 * PAGES * PAGE);
    at = poisoned();
    there = mremap(at, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
    expect(filling(there + PAGE), EHWPOISON);
    expect(filling(at + PAGE), 0);
    munmap(at, PAGES * PAGE);
    munmap(there, PAGES * PAGE);
}

/* What a child finds in the second page. */
static int in_child(char *at) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        int found = filling(at + PAGE);
        if (fork() == 0) _exit(filling(at + PAGE) != found);
        wait(&status);
        _exit(status ? 1 : found);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

static void inherited(void) {
    char *at = poisoned();
    expect(in_child(at), is_private() ? EHWPOISON : 0);
    if (guards) {
        // Page tables with guards are copied, whatever else is in them.
        advise(at + 5 * PAGE, 1, GUARD_INSTALL);
        expect(in_child(at), EHWPOISON);
    }
    munmap(at, PAGES * PAGE);
    if (kind == PRIVATE) {
        at = poisoned();
        expect(advise(at, PAGES, MADV_WIPEONFORK), 0);
        expect(in_child(at), 0);
        expect(filling(at + PAGE), EHWPOISON);
        munmap(at, PAGES * PAGE);
    }
    // A child's poison comes to its parent, whose userfaultfd it is.
    at = area();
    watch(at, UFFDIO_REGISTER_MODE_MISSING);
    pid_t child = fork();
    if (child == 0) {
        int result = poison(at + PAGE, 1);
        _exit(result || filling(at + PAGE));
    }
    int status;
    waitpid(child, &status, 0);
    expect(status, 0);
    unwatch(at);
    expect(filling(at + PAGE), EHWPOISON);
    expect(failed(mlock(at, PAGES * PAGE)), ENOMEM);
    munmap(at, PAGES * PAGE);
}

static void in_vain(void) {
    char *at = area();
    expect(poison(at, 1), ENOENT);
    expect(poison(at + 1, 1), EINVAL);
    watch(at, UFFDIO_REGISTER_MODE_MISSING);
    expect(failed(mprotect(at + 2 * PAGE, PAGE, PROT_READ)), 0);
    expect(poison(at, 4), ENOENT);
    expect(poison(at + 2 * PAGE, 1), 0);
    unwatch(at);
    expect(filling(at), 0);
    expect(filling(at + 2 * PAGE), EHWPOISON);
    // The number of bytes cannot be stored.
    watch(at, UFFDIO_REGISTER_MODE_MISSING);
    struct poison *argument = mmap(0, PAGE, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *argument = (struct poison){{(word)at + 4 * PAGE, 2 * PAGE}, 0, 0};
    mprotect(argument, PAGE, PROT_READ);
    expect(failed(ioctl(watcher, _IOWR(0xAA, 8, struct poison), argument)), EFAULT);
    unwatch(at);
    expect(filling(at + 4 * PAGE), EHWPOISON);
    expect(filling(at + 5 * PAGE), EHWPOISON);
    munmap(at, PAGES * PAGE);
    munmap(argument, PAGE);
}

/* A huge page of the object takes the place of page tables and of the poison in them. */
static void collapsed(void) {
    enum { HUGE = 2 << 20, COLLAPSE = 25 };
    char *room = mmap(0, 4 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *at = (char *)(((word)room + HUGE - 1) & -(word)HUGE);
    int file = kind == SHARED_FILE || kind == PRIVATE_FILE ? memfd_create("collapsed", 0) : -1;
    if (file >= 0 && ftruncate(file, 2 * HUGE)) _exit(1);
    int flags = (is_private() ? MAP_PRIVATE : MAP_SHARED) | (file < 0 ? MAP_ANONYMOUS : 0) | MAP_FIXED;
    mmap(at, 2 * HUGE, 3, flags, file, 0);
    for (int i = 0; i < 2 * HUGE / PAGE; i++) if (i != 7 && i != 520) at[i * (long)PAGE] = 1;
    struct uffdio_register all = {{(word)at, 2 * HUGE}, UFFDIO_REGISTER_MODE_MISSING, 0};
    expect(failed(ioctl(watcher, UFFDIO_REGISTER, &all)), 0);
    expect(poison(at + 7 * PAGE, 1), 0);
    expect(poison(at + 520 * PAGE, 1), 0);
    expect(failed(ioctl(watcher, UFFDIO_UNREGISTER, &all.range)), 0);
    int result = failed(madvise(at + PAGE, 2 * HUGE - PAGE, COLLAPSE));
    expect(filling(at + 7 * PAGE), EHWPOISON);
    expect(filling(at + 520 * PAGE), result == 0 ? 0 : EHWPOISON);
    munmap(room, 4 * HUGE);
    if (file >= 0) close(file);
}

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, 0);
    sigaction(SIGSEGV, &action, 0);
    watcher = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    struct uffdio_api api = {UFFD_API, UFFD_FEATURE_MINOR_SHMEM, 0};
    if (watcher < 0 || ioctl(watcher, UFFDIO_API, &api) || !(api.features & 1 << 14)) {
        puts("no poison here");
        return 0;
    }
    char *any = mmap(0, PAGE, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    guards = advise(any, 1, GUARD_INSTALL) == 0;
    for (kind = PRIVATE; kind < KINDS; kind++) {
        filled_and_locked();
        advised();
        if (guards) beside_guards();
        brought();
        moved();
        inherited();
        in_vain();
        collapsed();
    }
    puts(wrong ? "not as expected" : "all as expected");
    return wrong;
}
