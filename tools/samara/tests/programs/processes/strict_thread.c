#define _GNU_SOURCE
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
/* A thread in strict mode makes a call that it has not left itself: it ends, and the others go on. */
static volatile int tid;
static void *strict(void *unused) {
  tid = gettid();
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
  getppid();
  write(1, "goes on\n", 8);
  return unused;
}
int main() {
  pthread_t thread;
  pthread_create(&thread, 0, strict, 0);
  while (!tid || !syscall(SYS_tgkill, getpid(), tid, 0)) usleep(1000);
  munmap(mmap(0, 8192, 3, 0x22, -1, 0), 4096);
  write(1, "main goes on\n", 13);
  _exit(0);
}
