#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
/* A filter with a listener is put on all threads of a process: another one than the caller replaces its program, which a helper allows without a look at it. */
static pthread_barrier_t both;
static int pipes[2];
static void *other(void *unused) {
  pthread_barrier_wait(&both);
  pthread_barrier_wait(&both);
  int child = fork();
  if (!child) { execl("/bin/true", "true", NULL); _exit(1); }
  waitpid(child, 0, 0);
  return unused;
}
static void allows(int parent) {
  int name, listener = -1;
  read(pipes[0], &name, sizeof name);
  listener = syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, parent, 0), name, 0);
  struct seccomp_notif notice;
  for (;;) {
    notice = (struct seccomp_notif){ 0 };
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &notice)) _exit(0);
    struct seccomp_notif_resp answer = { .id = notice.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }
}
int main() {
  struct sock_filter rules[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
  struct sock_fprog filter = { 4, rules };
  pthread_t thread;
  int parent = getpid();
  pthread_barrier_init(&both, 0, 2);
  pipe(pipes);
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  pthread_create(&thread, 0, other, 0);
  pthread_barrier_wait(&both);
  int helper = fork();
  if (!helper) allows(parent);
  int listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
    SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH, &filter);
  write(pipes[1], &listener, sizeof listener);
  pthread_barrier_wait(&both);
  pthread_join(thread, 0);
  write(1, "done\n", 5);
  close(listener);
  /* Before Linux 6.11 it waits for notices even when nobody is left who could cause one. */
  kill(helper, SIGKILL);
}
