#define _GNU_SOURCE
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
/* Runs /pi in the root that its argument names. */
int main(int count, char **words) {
  int child = fork(), status = -1;
  if (!child) {
    if (chroot(words[1]) || chdir("/")) _exit(99);
    execl("/pi", "pi", NULL);
    _exit(98);
  }
  waitpid(child, &status, 0);
  printf("%d\n", WEXITSTATUS(status));
}
