#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
/* In a namespace of processes of its own: limits are set of those that have other numbers outside. */
static int refused(void) {
  void *p = mmap(0, 150 << 20, 3, 0x22, -1, 0);
  if (p != MAP_FAILED) munmap(p, 150 << 20);
  return p == MAP_FAILED;
}
int main() {
  if (unshare(CLONE_NEWPID)) return puts("may not") < 0;
  if (!fork()) {
    struct rlimit few = { 100 << 20, RLIM_INFINITY }, many = { RLIM_INFINITY, RLIM_INFINITY };
    int before = refused();
    prlimit(getpid(), RLIMIT_AS, &few, 0);
    int own = refused();
    prlimit(0, RLIMIT_AS, &many, 0);
    if (!fork()) { prlimit(1, RLIMIT_AS, &few, 0); refused(); _exit(0); }
    wait(0);
    printf("%d %d %d\n", before, own, refused());
    fflush(stdout);
    _exit(0);
  }
  wait(0);
}
