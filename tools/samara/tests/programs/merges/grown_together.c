/* Two areas that grow between two calls, the upper one down to the lower: which grew first decides whether they have one owner, and so whether they join. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

#include "areas_in.h"

enum { PAGE = 4096, GROWING = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN };

static int grown(const char *order) {
    char *room = mmap(0, 1024 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(room, 1024 * PAGE);
    char *lower = mmap(room + 800 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, GROWING, -1, 0);
    char *upper = mmap(room + 803 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, GROWING, -1, 0);
    for (; *order; order++) switch (*order) {
        case 'l': lower[-PAGE] = 1; break;
        case 'L': lower[0] = 1; break;
        case 'u': upper[-PAGE] = 1; break;
        case 'U': upper[0] = 1; break;
        }
    madvise(lower, 5 * PAGE, MADV_DONTDUMP);
    int areas = areas_in(room, 1024 * PAGE);
    munmap(room, 1024 * PAGE);
    return areas;
}

int main(void) {
    static const char *orders[] = {"u", "lu", "ul", "Lu", "uL", "lUu", "Uul", "Ulu", "LuU", "uLl", "Lul"};
    for (int i = 0; i < sizeof orders / sizeof *orders; i++) printf("%s %d\n", orders[i], grown(orders[i]));
    return 0;
}
