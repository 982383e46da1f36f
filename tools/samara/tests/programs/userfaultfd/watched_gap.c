/* A child registers by the userfaultfd of its parent what only the parent has, in a gap behind an area that the child watches itself. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096UL

static int watcher(void) {
    int made = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);
    struct uffdio_api api = {UFFD_API, 0, 0};
    return made >= 0 && ioctl(made, UFFDIO_API, &api) == 0 ? made : -1;
}

static int watch(int by, char *start, unsigned long pages) {
    struct uffdio_register area = {{(unsigned long)start, pages * PAGE}, UFFDIO_REGISTER_MODE_MISSING, 0};
    return ioctl(by, UFFDIO_REGISTER, &area);
}

int main(void) {
    char *area = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int parents = watcher();
    if (area == MAP_FAILED) return 1;
    /* There is no userfaultfd here. */
    if (parents < 0) return 0;
    pid_t child = fork();
    if (child == 0) {
        int own = watcher();
        if (own < 0 || munmap(area + 2 * PAGE, 4 * PAGE) != 0) _exit(2);
        if (watch(own, area, 2) != 0) _exit(3);
        _exit(watch(parents, area + 3 * PAGE, 2) == 0 ? 0 : 4);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
