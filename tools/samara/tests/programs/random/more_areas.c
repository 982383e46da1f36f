// Has vm.max_map_count raised, makes more areas than there could be before, and puts it back. Prints how many calls failed.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ul

static long limit(const char *text) {
    char old[32] = "";
    int file = open("/proc/sys/vm/max_map_count", text ? O_WRONLY : O_RDONLY);
    if (file < 0 || (text ? write(file, text, strlen(text)) : read(file, old, 31)) < 0) {
        return -1;
    }
    close(file);
    return atol(old);
}

int main(void) {
    long before = limit(0);
    char more[32], back[32];
    sprintf(more, "%ld", before + 100);
    sprintf(back, "%ld", before);
    if (before < 0 || before > 200000 || limit(more) < 0) {
        return puts("may not") < 0;
    }
    long pairs = (before + 50) / 2, failed = 0;
    char *at = mmap(0, 2 * pairs * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (long i = 0; i < pairs; i++) {
        failed += mprotect(at + 2 * i * PAGE, PAGE, PROT_READ) != 0;
    }
    munmap(at, 2 * pairs * PAGE);
    limit(back);
    printf("%ld\n", failed);
    return 0;
}
