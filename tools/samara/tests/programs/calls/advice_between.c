// Advice through the descriptor of another process, which has the same memory, or had it when it was made; and of another thread.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };
static char *memory;
static int parent, page;

static void advise(int whom) {
    struct iovec ranges[] = {{memory + page * PAGE, PAGE}, {memory + (page + 2) * PAGE, PAGE}};
    page += 4;
    syscall(SYS_process_madvise, whom, ranges, 2, MADV_DONTFORK, 0);
    syscall(SYS_process_madvise, whom, ranges, 1, MADV_WILLNEED, 0);
}

static int shares(void *unused) {
    advise(parent);
    advise(syscall(SYS_pidfd_open, getpid(), 0));
    _exit(0);
}

static void *thread(void *unused) {
    // PIDFD_THREAD
    int whom = syscall(SYS_pidfd_open, gettid(), O_EXCL);
    advise(whom);
    return (void *)(long)whom;
}

int main(void) {
    static char stack[64 << 10] __attribute__((aligned(16)));
    void *other;
    pthread_t id;
    parent = syscall(SYS_pidfd_open, getpid(), 0);
    memory = mmap(0, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    waitpid(clone(shares, stack + sizeof stack, CLONE_VM | SIGCHLD, 0), 0, 0);
    waitpid(clone(shares, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, 0), 0, 0);
    waitpid(clone(shares, stack + sizeof stack, SIGCHLD, 0), 0, 0);
    pthread_create(&id, 0, thread, 0);
    pthread_join(id, &other);
    advise((long)other);
    advise(parent);
    advise(0);
    return 0;
}
