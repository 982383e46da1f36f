// An arena of BPF (bpf(2), BPF_MAP_TYPE_ARENA): its driver chooses its place, lets nobody cut it, and refuses some requests. Prints whether there is one.
#define _GNU_SOURCE
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARENA 33
#define PAGE 4096ul
#define PAGES 16ul

int main(void) {
    union bpf_attr wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.map_type = ARENA;
    wanted.map_flags = BPF_F_MMAPABLE;
    wanted.max_entries = PAGES;
    int map = syscall(SYS_bpf, BPF_MAP_CREATE, &wanted, sizeof wanted);
    if (map < 0) {
        puts("none");
        return 0;
    }
    int both = PROT_READ | PROT_WRITE;
    char *at = mmap(0, PAGES * PAGE, both, MAP_SHARED, map, 0);
    puts(at == MAP_FAILED ? "refused" : "some");
    mmap(0, PAGES * PAGE, both, MAP_SHARED, map, 0);
    mmap(0, PAGE, both, MAP_SHARED, map, 0);
    mmap(at, PAGES * PAGE, both, MAP_SHARED | MAP_FIXED, map, 0);
    mmap(0, PAGES * PAGE, both, MAP_PRIVATE, map, 0);
    munmap(at + PAGE, PAGE);
    mprotect(at, PAGE, PROT_READ);
    mprotect(at, PAGES * PAGE, PROT_READ);
    madvise(at, PAGE, MADV_DONTFORK);
    mlock(at + PAGE, PAGE);
    mmap(at + PAGE, PAGE, both, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    mremap(at, PAGES * PAGE, 2 * PAGES * PAGE, MREMAP_MAYMOVE);
    char *moved = mremap(at, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at + (1l << 32));
    if (moved != MAP_FAILED) {
        at = moved;
    }
    mremap(at, PAGES * PAGE, PAGE, 0);
    munmap(at, PAGES * PAGE);
    mmap(0, PAGE, both, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return 0;
}
