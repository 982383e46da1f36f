// In a memory cgroup of its own, which has reached its limit and has nothing to be killed, calls are refused for want of memory of the kernel's own.
// `no_memory FOLDER FILE BYTES` joins the group in that folder, which is limited by that file; with `spared` it asks not to be killed itself. Prints how many calls
// have failed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ul
#define PAIRS 30000

static int put(const char *folder, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(path, O_WRONLY);
    int done = file >= 0 && write(file, text, strlen(text)) > 0;
    close(file);
    return done;
}

int main(int count, char **words) {
    char *at = mmap(0, 2 * PAIRS * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int spared = count < 5 || put("/proc/self", "oom_score_adj", "-1000");
    if (!spared || !put(words[1], words[2], words[3]) || !put(words[1], "cgroup.procs", "0")) {
        return puts("may not") < 0;
    }
    long failed = 0;
    for (long i = 0; i < PAIRS && failed < 3; i++) {
        failed += mprotect(at + 2 * i * PAGE, PAGE, PROT_READ) != 0;
    }
    // It has room for its end.
    put(words[1], words[2], "1000000000");
    munmap(at, 2 * PAIRS * PAGE);
    printf("%ld\n", failed);
    return 0;
}
