// Limits that a child changes for its parent, again and again, until it is killed: perhaps within the call.
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LENGTH = 256 << 20, ROUNDS = 300 };

int main(void) {
    pid_t parent = getpid();
    srand(1);
    for (int i = 0; i < ROUNDS; i++) {
        pid_t child = fork();
        if (child < 0) return 1;
        if (!child)
            for (int j = 0;; j++) {
                struct rlimit limit = {j % 2 ? RLIM_INFINITY : LENGTH, RLIM_INFINITY};
                prlimit(parent, RLIMIT_AS, &limit, 0);
            }
        usleep(rand() % 2000);
        kill(child, SIGKILL);
        waitpid(child, 0, 0);
        char *at = mmap(0, LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at != MAP_FAILED) munmap(at, LENGTH);
    }
}
