/* The parent of a vfork goes to sleep late, when its child is in a call already: it is idle, and another process has its processor. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, ROUNDS = 5, CALLS = 2 };
static char stack[65536] __attribute__((aligned(16)));

static int child(void *argument) {
    (void)argument;
    for (int i = 0; i < CALLS; i++) {
        char *at = mmap(0, 3 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(at + PAGE, PAGE);
        munmap(at, 3 * PAGE);
    }
    _exit(0);
}

int main(void) {
    struct sched_param none = {0};
    cpu_set_t one;
    pid_t busy;

    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    busy = fork();
    if (busy == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            ;
    }
    /* What it clones is not idle. */
    sched_setscheduler(0, SCHED_IDLE | SCHED_RESET_ON_FORK, &none);
    for (int i = 0; i < ROUNDS; i++) {
        pid_t pid = clone(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
        if (pid < 0 || waitpid(pid, NULL, 0) != pid)
            return 1;
    }
    kill(busy, SIGKILL);
    waitpid(busy, NULL, 0);
    puts("done");
    return 0;
}
