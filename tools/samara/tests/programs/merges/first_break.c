#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
/* The heap grows from the end of the zeroed data on, which it joins only when something else has joined them. */
static char zeroes[5 * 4096];
int main() {
  char *heap = sbrk(3 * 4096);
  memset(zeroes, 1, sizeof zeroes);
  memset(heap, 1, 4096);
  sbrk(4096);
  char *page = (char *)((unsigned long)heap & -4096L);
  mprotect(page - 8192, 16384, PROT_READ);
  mprotect(page - 8192, 16384, PROT_READ | PROT_WRITE);
  sbrk(8192);
  sbrk(-3 * 4096);
  for (int n = 1; n < 5; n++) mmap(0, n << 20, 3, 0x22, -1, 0);
  puts("done");
  return 0;
}
