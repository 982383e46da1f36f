#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
/* Processes that share this one's memory are killed within their calls, and this one goes on. */
static char stack[65536] __attribute__((aligned(16)));
static int works(void *unused) {
  for (int i = 0;; i++) {
    char *p = mmap(0, (2 + i % 5) * 4096, 3, 0x22, -1, 0);
    mprotect(p + 4096, 4096, 1);
    if (i & 1) munmap(p, 4096);
    munmap(p, (2 + i % 5) * 4096);
  }
}
int main() {
  for (int k = 0; k < 60; k++) {
    int other = clone(works, stack + sizeof stack, CLONE_VM | SIGCHLD, 0);
    for (int i = 0; i < 20; i++) { char *p = mmap(0, 12288, 3, 0x22, -1, 0); munmap(p + 4096, 4096); munmap(p, 12288); }
    kill(other, SIGKILL);
    for (int i = 0; i < 20; i++) { char *p = mmap(0, 12288, 3, 0x22, -1, 0); munmap(p + 4096, 4096); munmap(p, 12288); }
    waitpid(other, 0, 0);
  }
  write(1, "goes on\n", 8);
}
