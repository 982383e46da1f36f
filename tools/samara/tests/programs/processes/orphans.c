#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
/* Children that make children are killed at any moment: what they had just made gets this process for a parent, which never made it. */
static void works(int n) {
  for (int i = 0; i < 6; i++) {
    char *p = mmap(0, (8 + i) * 4096, 3, 0x22, -1, 0);
    p[4096 * i] = 1;
    mprotect(p + 8192, 4096, 1);
    munmap(p + 16384, 4096);
    if ((n + i) & 1) munmap(p, (8 + i) * 4096);
  }
}
int main() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (int k = 0; k < 40; k++) {
    int child = fork();
    if (!child)
      for (int i = 0;; i++) {
        int made = fork();
        if (!made) { works(i); _exit(0); }
        if (i & 1) waitpid(made, 0, 0);
        else if (!vfork()) _exit(0);
      }
    usleep(2000 + k * 100);
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
  }
  while (wait(0) > 0);
  write(1, "all ended\n", 10);
}
