#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
/* Children that ask not to be traced map memory: one that shares the address space, one that copies it, and one by clone3. */
static char stack[65536] __attribute__((aligned(16)));
static int maps(void *unused) { char *p = mmap(0, 8192, 3, 0x22, -1, 0); if (p == MAP_FAILED) return 1; p[4096] = 1; return munmap(p, 8192); }
static int ended(int child) { int status = 1; return child < 0 || waitpid(child, &status, __WALL) != child || status; }
int main() {
  int wrong = ended(clone(maps, stack + sizeof stack, CLONE_VM | CLONE_UNTRACED, 0));
  long child = syscall(SYS_clone, CLONE_UNTRACED | 17, 0, 0, 0, 0);
  if (!child) _exit(maps(0));
  wrong += ended(child);
  uint64_t args[8] = { CLONE_UNTRACED, 0, 0, 0, 17 };
  child = syscall(SYS_clone3, args, sizeof args);
  if (!child) _exit(args[0] != CLONE_UNTRACED || maps(0));
  wrong += ended(child) + (args[0] != CLONE_UNTRACED);
  printf("%d wrong\n", wrong);
  return wrong;
}
