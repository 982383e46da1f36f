/* A userfaultfd with which no interface was agreed upon watches nothing: whoever asks for what the kernel does not have may not notice. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096UL
#define RW (PROT_READ | PROT_WRITE)

static int watched;

static void try(unsigned long interface, unsigned long features, int ask) {
    int by = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);
    struct uffdio_api api = {interface, features, 0};
    if (by < 0) return;
    if (ask) ioctl(by, UFFDIO_API, &api);
    /* A part that is watched joins no other. */
    char *area = mmap(NULL, 4 * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register part = {{(unsigned long)area + PAGE, 2 * PAGE}, UFFDIO_REGISTER_MODE_MISSING, 0};
    if (ioctl(by, UFFDIO_REGISTER, &part) == 0) watched++;
    mprotect(area + 2 * PAGE, 2 * PAGE, PROT_READ);
    mprotect(area + 2 * PAGE, 2 * PAGE, RW);
    ioctl(by, UFFDIO_UNREGISTER, &part.range);
    close(by);
    munmap(area, 4 * PAGE);
}

int main(void) {
    try(UFFD_API, 0, 0);
    try(UFFD_API, 1UL << 40, 1);
    try(UFFD_API - 1, 0, 1);
    try(UFFD_API, 0, 1);
    try(UFFD_API, UFFD_FEATURE_SIGBUS, 1);
    printf("%d watched\n", watched);
    return 0;
}
