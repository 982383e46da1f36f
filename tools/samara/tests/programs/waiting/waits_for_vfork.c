/* A child of vfork waits for a line before it ends, and its parent for the child. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static char stack[65536] __attribute__((aligned(16)));

static int child(void *argument) {
    char byte;
    (void)argument;
    if (write(STDOUT_FILENO, "ready\n", 6) != 6) _exit(1);
    _exit(read(STDIN_FILENO, &byte, 1) == 1 ? 0 : 2);
}

int main(void) {
    int status;
    pid_t made = clone(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    if (made < 0 || waitpid(made, &status, 0) != made || status != 0) return 1;
    return mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}
