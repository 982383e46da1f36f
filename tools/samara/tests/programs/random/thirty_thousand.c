// As many areas as the first argument says, and as many calls among them as the second.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE 4096ul

int main(int count, char **words) {
    long areas = atol(words[1]), calls = atol(words[2]);
    int rest = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *at = mmap(0, areas * PAGE, PROT_NONE, rest, -1, 0);
    for (long i = 0; i < areas; i += 2) {
        mprotect(at + i * PAGE, PAGE, PROT_READ | PROT_WRITE);
    }
    unsigned seed = 7;
    for (long i = 0; i < calls; i++) {
        char *page = at + rand_r(&seed) % (areas - 8) * PAGE;
        switch (rand_r(&seed) % 6) {
        case 0:
            mprotect(page, (1 + i % 4) * PAGE, i % 8);
            break;
        case 1:
            munmap(page, (1 + i % 3) * PAGE);
            break;
        case 2:
            mmap(page, (1 + i % 5) * PAGE, i % 4, rest | MAP_FIXED, -1, 0);
            break;
        case 3:
            mmap(0, PAGE, i % 4, rest, -1, 0);
            break;
        case 4:
            madvise(page, PAGE, i % 2 ? MADV_DONTFORK : MADV_DOFORK);
            break;
        default:
            mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at + rand_r(&seed) % (areas - 8) * PAGE);
        }
    }
    return 0;
}
