// Room for MAP_32BIT at the lowest places only. With randomisation the kernel begins its search above them more often than not.
#define _GNU_SOURCE
#include <sys/mman.h>

enum { PAGE = 4096 };

int main(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *low = (char *)0x40000000ul;
    for (int pages = 1; pages < 0x2000; pages *= 3) {
        mmap(low + pages * PAGE, 0x40000000ul - pages * PAGE, PROT_NONE, flags | MAP_FIXED, -1, 0);
        for (int i = 0; i < 40; i++) {
            char *at = mmap(0, PAGE, PROT_NONE, flags | MAP_32BIT, -1, 0);
            if (at != MAP_FAILED) munmap(at, PAGE);
            // Refused for its kind, if a place was found.
            mmap(0, PAGE, PROT_NONE, MAP_SHARED_VALIDATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
        }
        munmap(low, 0x40000000ul);
    }
    return 0;
}
