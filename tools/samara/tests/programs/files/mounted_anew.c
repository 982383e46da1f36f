#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>
/* Whether a file may be executed changes with how its file system is mounted. The argument is a folder to mount one on. */
int main(int count, char **words) {
  char path[4096];
  if (unshare(CLONE_NEWNS) || mount(0, "/", 0, MS_REC | MS_PRIVATE, 0) || mount("n", words[1], "tmpfs", MS_NOEXEC, 0)) return puts("may not") < 0;
  snprintf(path, sizeof path, "%s/f", words[1]);
  int file = open(path, O_CREAT | O_RDWR, 0700), refused = 0;
  ftruncate(file, 4096);
  for (int i = 0; i < 4; i++) {
    refused = refused * 10 + (mmap(0, 4096, 5, MAP_PRIVATE, file, 0) == MAP_FAILED);
    char *read = mmap(0, 4096, 1, MAP_PRIVATE, file, 0);
    refused = refused * 10 + !!mprotect(read, 4096, 5);
    mount("n", words[1], 0, MS_REMOUNT | MS_BIND | (i & 1 ? MS_NOEXEC : 0), 0);
    if (!i) mount("n", words[1], 0, MS_REMOUNT, 0);
  }
  printf("%d\n", refused);
}
