// Huge pages of which nothing is reserved: whoever has none in the pool can map them, too. They are cut at their own borders only.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

enum { PAGE = 4096, HUGE = 2 << 20 };

int main(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE;
    char *at = mmap(0, 3 * HUGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (at == MAP_FAILED) {
        puts("none here");
        return 0;
    }
    printf("%d %d %d\n", munmap(at, PAGE), mprotect(at, PAGE, PROT_READ), munmap(at + HUGE, HUGE + PAGE));
    printf("%d\n", madvise(at + HUGE, PAGE, MADV_DONTNEED));
    printf("%d %d\n", mprotect(at, HUGE, PROT_READ), munmap(at + HUGE, HUGE));
    mmap(0, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return munmap(at, 3 * HUGE);
}
