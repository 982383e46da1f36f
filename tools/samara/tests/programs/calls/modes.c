// Memory that is not written and executed, pages merged by contents, strict mode, filters of a program's own.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS };

static int status_of(int child) {
    int status;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void deny(int bits) {
    char *old = mmap(0, 2 * PAGE, 7, PRIVATE, -1, 0);
    char *data = mmap(0, 2 * PAGE, 3, PRIVATE, -1, 0);
    prctl(65, 2, 0, 0, 0);
    prctl(65, bits, 1, 0, 0);
    prctl(65, bits, 0, 0, 0);
    prctl(65, bits ^ 2, 0, 0, 0);
    prctl(65, 0, 0, 0, 0);
    mmap(0, PAGE, 7, PRIVATE, -1, 0);
    mprotect(data, PAGE, 5);
    mprotect(old, PAGE, 7);
    mprotect(old, PAGE, 5);
    mprotect(old, PAGE, 1);
    mprotect(old, PAGE, 5);
    if (fork() == 0) {
        mmap(0, PAGE, 7, PRIVATE, -1, 0);
        execl("/bin/sh", "sh", "-c", "true", NULL);
    }
    wait(0);
}

static void merge(void) {
    char *base = (char *)0x300000000;
    mmap(base, PAGE, 3, PRIVATE | MAP_FIXED, -1, 0);
    mmap(base + 2 * PAGE, PAGE, 3, PRIVATE | MAP_FIXED, -1, 0);
    madvise(base, PAGE, MADV_MERGEABLE);
    prctl(67, 1, 0, 0, 0);
    prctl(67, 1, 1, 0, 0);
    mmap(base + PAGE, PAGE, 3, PRIVATE | MAP_FIXED, -1, 0);
    madvise(base + PAGE, PAGE, MADV_UNMERGEABLE);
    prctl(67, 1, 0, 0, 0);
    sbrk(PAGE);
    sbrk(64 * PAGE);
    if (fork() == 0) {
        mmap(base + 3 * PAGE, PAGE, 3, PRIVATE | MAP_FIXED, -1, 0);
        execl("/bin/sh", "sh", "-c", "true", NULL);
    }
    wait(0);
    prctl(67, 0, 0, 0, 0);
    mmap(base + 4 * PAGE, PAGE, 3, PRIVATE | MAP_FIXED, -1, 0);
    prctl(67, 0, 0, 0, 0);
}

static void strict(int number) {
    // The call itself: the library's exit is another.
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    write(1, "strict\n", 7);
    if (number) syscall(number, 0);
    syscall(SYS_exit, 5);
}

static int filter(unsigned action, int number, int flags) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static void traced(int number) {
    filter(SECCOMP_RET_TRACE | 1, number, 0);
    errno = 0;
    long got = syscall(number, 0, PAGE, 3, PRIVATE, -1, 0);
    _exit(got == -1 && errno == ENOSYS ? 0 : 1);
}

int main(int argc, char **argv) {
    // Whoever asks for it gets a filter by which another process decides.
    if (argc > 1) {
        if (filter(SECCOMP_RET_USER_NOTIF, SYS_getppid, SECCOMP_FILTER_FLAG_NEW_LISTENER) < 0) return 1;
        free(malloc(1 << 20));
        return 0;
    }
    for (int bits = 1; bits < 4; bits += 2) {
        int child = fork();
        if (child == 0) { deny(bits); _exit(0); }
        status_of(child);
    }
    merge();
    int child = fork();
    if (child == 0) strict(0);
    int plain = status_of(child);
    child = fork();
    if (child == 0) strict(SYS_brk);
    int map = status_of(child);
    child = fork();
    if (child == 0) strict(SYS_getpid);
    printf("strict %d %d %d\n", plain, map, status_of(child));
    fflush(stdout);
    child = fork();
    if (child == 0) traced(SYS_getppid);
    int other = status_of(child);
    child = fork();
    if (child == 0) traced(SYS_mmap);
    printf("traced %d %d\n", other, status_of(child));
    fflush(stdout);
    // A segment that one may not attach leaves nothing behind.
    int segment = shmget(IPC_PRIVATE, 4 * PAGE, 0);
    child = fork();
    if (child == 0) {
        setresuid(65534, 65534, 65534);
        int refused = shmat(segment, 0, 0) == (void *)-1;
        mmap(0, PAGE, 3, PRIVATE, -1, 0);
        _exit(refused);
    }
    printf("refused %d\n", status_of(child));
    shmctl(segment, IPC_RMID, 0);
    return 0;
}
