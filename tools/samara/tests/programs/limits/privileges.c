// Privileges, limits and namespaces belong to threads and processes, not to the memory that they share.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MEGABYTE = 1 << 20 };
static char *memory;

static int locks(void) {
    int done = mlock(memory, MEGABYTE) == 0;
    munlock(memory, MEGABYTE);
    return done;
}

static void *stripped_thread(void *unused) {
    syscall(SYS_setresuid, 65534, 65534, 65534);
    return (void *)(long)locks();
}

static int in_child(int (*body)(void *), int flags) {
    static char stack[64 << 10];
    int status = 0;
    int child = clone(body, stack + sizeof stack, flags | SIGCHLD, 0);
    if (child < 0) return -1;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

static int strips(void *unused) {
    syscall(SYS_setresuid, 65534, 65534, 65534);
    return locks();
}

static int lowers(void *unused) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_AS, &none);
    return mmap(0, MEGABYTE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}

static int new_user(void *unused) {
    if (unshare(CLONE_NEWUSER)) return 2;
    return locks();
}

static int born_in_new_user(void *unused) { return locks(); }

static int other_segments(void *unused) {
    if (unshare(CLONE_NEWIPC)) return 2;
    int failed = 0;
    for (int pages = 3; pages < 6; pages++) {
        int segment = shmget(IPC_PRIVATE, pages << 12, 0600);
        char *at = shmat(segment, 0, 0);
        failed |= at == (void *)-1;
        mprotect(at + 4096, 4096, PROT_READ);
        failed |= shmdt(at);
        shmctl(segment, IPC_RMID, 0);
    }
    // Refused for a limit, though it exists.
    struct rlimit none = {0, RLIM_INFINITY};
    int segment = shmget(IPC_PRIVATE, MEGABYTE, 0600);
    setrlimit(RLIMIT_AS, &none);
    failed |= shmat(segment, 0, 0) != (void *)-1;
    shmctl(segment, IPC_RMID, 0);
    return failed;
}

int main(void) {
    struct rlimit little = {64 << 10, 64 << 10};
    setrlimit(RLIMIT_MEMLOCK, &little);
    memory = mmap(0, MEGABYTE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;
    void *result;
    int before = locks();
    int strip = in_child(strips, CLONE_VM | CLONE_VFORK);
    printf("locks %d, stripped child %d, still %d\n", before, strip, locks());
    pthread_create(&thread, 0, stripped_thread, 0);
    pthread_join(thread, &result);
    printf("stripped thread %ld, still %d\n", (long)result, locks());
    int lower = in_child(lowers, CLONE_VM | CLONE_VFORK);
    void *more = mmap(0, MEGABYTE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("limited child fails %d, parent %d\n", lower, more == MAP_FAILED);
    int user = in_child(new_user, 0);
    int born = in_child(born_in_new_user, CLONE_NEWUSER);
    printf("in a new user namespace %d, born in one %d\n", user, born);
    printf("segments of another namespace %d\n", in_child(other_segments, 0));
    return 0;
}
