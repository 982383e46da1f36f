/* A child fills in, by the userfaultfd of its parent, what nobody watches there: it is refused, and the parent's memory has an owner all the same. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096UL
#define RW (PROT_READ | PROT_WRITE)
/* As in newer headers. */
struct poison { struct uffdio_range range; __u64 mode; __s64 updated; };
#define POISON _IOWR(0xAA, 8, struct poison)

static char bytes[PAGE] __attribute__((aligned(4096)));

static void *map(char *at, unsigned long pages, int prot) {
    return mmap(at, pages * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
}

static void fill(int by, int how, char *at) {
    struct uffdio_range range = {(unsigned long)at, PAGE};
    struct uffdio_copy copy = {range.start, (unsigned long)bytes, PAGE, 0, 0};
    struct uffdio_zeropage zeroes = {range, 0, 0};
    struct poison poison = {range, 0, 0};
    if (how == 0) ioctl(by, UFFDIO_COPY, &copy);
    if (how == 1) ioctl(by, UFFDIO_ZEROPAGE, &zeroes);
    if (how == 2) ioctl(by, POISON, &poison);
}

int main(void) {
    for (int round = 0; round < 8; round++) {
        struct uffdio_api api = {UFFD_API, 0, 0};
        int how = round & 3, status;
        /* Apart from all that is mapped already. */
        char *room = map(NULL, 16, PROT_NONE), *area = room + 4 * PAGE;
        int by = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);
        if (by < 0 || ioctl(by, UFFDIO_API, &api) != 0) return 0;
        map(area, round < 4 ? 4 : 3, RW);
        pid_t child = fork();
        if (child == 0) {
            fill(by, how, area + PAGE);
            _exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
        /* Two areas with an owner each do not become one by what comes between them; with one they do. */
        map(area + 6 * PAGE, 2, RW);
        area[6 * PAGE] = 1;
        map(area + 3 * PAGE, 3, RW);
        munmap(room, 16 * PAGE);
        close(by);
    }
    return 0;
}
