#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>
/* Calls at all boundaries in what the kernel has installed: [vdso], [vvar] and their like. */
struct range { unsigned long start, end; } found[8];
int main(int argc, char **argv) {
  int seed = argc > 1 ? argv[1][0] : 0, count = 0;
  static char line[512];
  FILE *maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps))
    if (strstr(line, "[v") && !strstr(line, "vsyscall") && count < 8)
      sscanf(line, "%lx-%lx", &found[count].start, &found[count].end), count++;
  fclose(maps);
  if (!count) return 1;
  /* What lies below and above them is needed: the libraries' data, and the loader. */
  unsigned long low = found[0].start, high = found[count - 1].end, pages = (high - low) / 4096;
  char *elsewhere = mmap(0, 64 * 4096, 0, 0x22, -1, 0);
  for (int n = 0; n < 60; n++) {
    unsigned number = (n + 1) * 2654435761u * (seed + 3);
    unsigned long at = low + (number >> 8) % pages * 4096, len = (1 + (number >> 16) % 4) * 4096;
    if (len > high - at) len = high - at;
    switch ((number >> 24) % 8) {
      case 0: munmap((void *)at, len); break;
      case 1: mprotect((void *)at, len, 1); break;
      case 2: mprotect((void *)at, len, 5); break;
      case 3: madvise((void *)at, len, 16); break;
      case 4: mremap((void *)at, len, len, 3, elsewhere + (number >> 20) % 32 * 4096); break;
      case 5: mremap((void *)at, len, len > 4096 ? len - 4096 : 4096, 0); break;
      case 6: mmap((void *)at, len, 3, 0x32, -1, 0); break;
      case 7: madvise((void *)at, len, n % 2 ? 10 : 11); break;
    }
  }
  write(1, "done\n", 5);
  return 0;
}
