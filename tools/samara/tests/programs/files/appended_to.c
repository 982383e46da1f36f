#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
/* A file that may only be appended to is mapped in every way. The argument names it. */
int main(int count, char **words) {
  int file = open(words[1], O_RDWR | O_CREAT, 0600), only = FS_APPEND_FL, none = 0, both[2];
  ftruncate(file, 8192);
  if (ioctl(file, FS_IOC_SETFLAGS, &only)) return puts("may not") < 0;
  both[0] = open(words[1], O_RDONLY), both[1] = open(words[1], O_RDWR | O_APPEND);
  for (int i = 0; i < 2; i++)
    for (int prot = 0; prot < 4; prot++)
      for (int flags = MAP_SHARED; flags <= MAP_SHARED_VALIDATE; flags++)
        putchar(mmap(0, 4096, prot, flags, both[i], 0) == MAP_FAILED ? 'x' : '-');
  ioctl(both[0], FS_IOC_SETFLAGS, &none);
  puts(mmap(0, 4096, 3, MAP_SHARED, both[1], 0) == MAP_FAILED ? "x" : "-");
}
