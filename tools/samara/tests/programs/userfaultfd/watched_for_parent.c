// A userfaultfd is for the memory of who made it: a child that uses it changes that of its parent.
#define _GNU_SOURCE
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };

static int watcher(long features) {
    int made = syscall(SYS_userfaultfd, 1);
    struct uffdio_api api = {UFFD_API, features, 0};
    return made < 0 || ioctl(made, UFFDIO_API, &api) ? -1 : made;
}

static void in_child(int watcher, unsigned long request, void *argument) {
    pid_t child = fork();
    if (child == 0) _exit(ioctl(watcher, request, argument) != 0);
    if (child > 0) waitpid(child, 0, 0);
}

int main(void) {
    for (int before = 0; before < 2; before++)
        for (int shared = 0; shared < 2; shared++) {
            int one = watcher(UFFD_FEATURE_SIGBUS), two = watcher(UFFD_FEATURE_SIGBUS);
            if (one < 0 || two < 0) return 0;
            char *at = mmap((void *)0x10000000, 16 * PAGE, 3, (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            struct uffdio_register all = {{(long)at, 16 * PAGE}, UFFDIO_REGISTER_MODE_MISSING, 0};
            struct uffdio_range part = {(long)at + 8 * PAGE, PAGE};
            if (before)
                ioctl(one, UFFDIO_REGISTER, &all);
            else
                in_child(one, UFFDIO_REGISTER, &all);
            // Another one is refused, and pages are not to be had.
            ioctl(two, UFFDIO_REGISTER, &all);
            mlock(at, PAGE);
            munlock(at, PAGE);
            in_child(one, UFFDIO_UNREGISTER, &part);
            mmap(0, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            in_child(one, UFFDIO_REGISTER, &all);
            close(one);
            close(two);
            munmap(at, 16 * PAGE);
        }
}
