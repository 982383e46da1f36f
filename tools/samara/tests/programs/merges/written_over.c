#define _GNU_SOURCE
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
/* The kernel writes the number of what clone3 has made over the flags: it shares the memory of its parent all the same. */
static char stack[65536] __attribute__((aligned(64)));
static void works(void) { for (int i = 0; i < 9; i++) munmap(mmap(0, (4 + i) * 4096, 3, 0x22, -1, 0), 4096); }
int main() {
  struct clone_args args = { .flags = CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID, .exit_signal = SIGCHLD, .stack = (uintptr_t)stack, .stack_size = sizeof stack };
  args.parent_tid = (uintptr_t)&args.flags;
  works();
  long made;
  /* mmap(0, 8192, 3, 0x22, -1, 0), exit(6) */
  asm volatile("syscall; test %%rax, %%rax; jnz 1f; mov $9, %%eax; xor %%edi, %%edi; mov $8192, %%esi; mov $3, %%edx; mov $0x22, %%r10d; mov $-1, %%r8;"
    "xor %%r9d, %%r9d; syscall; mov $60, %%eax; mov $6, %%edi; syscall; 1:"
    : "=a"(made) : "a"(SYS_clone3), "D"(&args), "S"(sizeof args) : "rcx", "r11", "rdx", "r10", "r8", "r9", "memory");
  works();
  int status = 0;
  waitpid(made, &status, __WALL);
  printf("%d\n", WEXITSTATUS(status));
}
