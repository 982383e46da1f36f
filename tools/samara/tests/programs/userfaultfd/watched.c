// Areas that a userfaultfd watches: registered, cut, joined, moved, inherited, let go; then rings of io_setup, moved and cut.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS };
static char *base = (char *)0x300000000;

static char *page(int number) { return base + number * PAGE; }

static void anonymous(int number, int pages) {
    mmap(page(number), pages * PAGE, PROT_READ | PROT_WRITE, PRIVATE | MAP_FIXED, -1, 0);
}

static int watcher(unsigned long features) {
    int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API, .features = features};
    return fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 ? fd : -1;
}

static int begin(int fd, int number, int pages, unsigned long mode) {
    struct uffdio_register r = {.range = {(unsigned long)page(number), (unsigned long)pages * PAGE}, .mode = mode};
    return ioctl(fd, UFFDIO_REGISTER, &r) ? errno : 0;
}

static int end(int fd, int number, int pages) {
    struct uffdio_range r = {(unsigned long)page(number), (unsigned long)pages * PAGE};
    return ioctl(fd, UFFDIO_UNREGISTER, &r) ? errno : 0;
}

static void areas(void) {
    int one = watcher(0), two = watcher(0);
    if (one < 0 || two < 0) {
        puts("no userfaultfd here");
        return;
    }
    anonymous(0, 10);
    printf("%d %d %d\n", begin(one, 2, 4, 1), begin(two, 4, 4, 1), begin(one, 20, 1, 1));
    printf("%d %d\n", begin(two, 6, 2, 1), end(one, 6, 1));
    mprotect(page(3), PAGE, PROT_READ);
    mprotect(page(3), PAGE, PROT_READ | PROT_WRITE);
    printf("%d\n", begin(one, 2, 2, 3));
    printf("%d\n", end(one, 3, 1));
    // A copy of it is not watched; nor is, then, what it joins.
    anonymous(30, 4);
    begin(one, 30, 4, 1);
    mremap(page(4), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page(34));
    anonymous(35, 1);
    // Neither is a child's.
    if (fork() == 0) {
        anonymous(40, 1);
        mprotect(page(2), 2 * PAGE, PROT_READ);
        _exit(0);
    }
    wait(0);
    // The last descriptor that is closed lets go of all.
    int other = dup(one);
    close(one);
    anonymous(41, 1);
    close(other);
    anonymous(42, 1);
    close(two);
    int three = watcher(0);
    printf("%d\n", begin(three, 0, 3, 2));
    anonymous(43, 1);
}

static void rings(void) {
    aio_context_t rings[4] = {0};
    int sizes[] = {1, 16, 128, 1000};
    for (int n = 0; n < 4; n++) printf("ring %ld\n", syscall(SYS_io_setup, sizes[n], &rings[n]));
    munmap((void *)rings[1], PAGE);
    if (fork() == 0) {
        mmap(0, PAGE, PROT_READ | PROT_WRITE, PRIVATE, -1, 0);
        printf("inherited %ld\n", syscall(SYS_io_destroy, rings[0]));
        fflush(stdout);
        _exit(0);
    }
    wait(0);
    for (int n = 0; n < 4; n++) printf("gone %ld\n", syscall(SYS_io_destroy, rings[n]));
    mmap(0, PAGE, PROT_READ | PROT_WRITE, PRIVATE, -1, 0);
}

// The heap ends where the program says.
static void heap(void) {
    char *end = sbrk(0);
    sbrk(8 * PAGE);
    char line[512];
    unsigned long f[52] = {0};
    FILE *stat = fopen("/proc/self/stat", "r");
    if (!fgets(line, sizeof line, stat)) exit(1);
    fclose(stat);
    char *at = line;
    while (*at != ')') at++;
    // The state is the third field.
    at += 3;
    for (int n = 4; n < 52; n++) f[n] = strtoul(at, &at, 10);
    struct prctl_mm_map map = {
        .start_code = f[26], .end_code = f[27], .start_data = f[45], .end_data = f[46], .start_brk = f[47],
        .brk = (unsigned long)end + 2 * PAGE, .start_stack = f[28],
        .arg_start = f[48], .arg_end = f[49], .env_start = f[50], .env_end = f[51], .exe_fd = -1,
    };
    printf("heap %d\n", prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0));
    sbrk(PAGE);
    sbrk(-PAGE);
}

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    areas();
    rings();
    heap();
    return 0;
}
