#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
/* A child waits for a line, and maps memory beside what its parent had written to: what is its parent's joins nothing. */
int main() {
  memset(mmap(0, 8 * 4096, 3, 0x22, -1, 0), 1, 8 * 4096);
  int child = fork();
  if (!child) {
    char c;
    read(0, &c, 1);
    for (int i = 0; i < 10; i++) mmap(0, 8 * 4096, 3, 0x22, -1, 0);
    _exit(0);
  }
  printf("%d\n", child);
  fflush(stdout);
  int status;
  waitpid(child, &status, 0);
  return status != 0;
}
