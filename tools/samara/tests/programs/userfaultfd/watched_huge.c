// What a userfaultfd is asked to watch, and to let go, at and beside a huge page: where the range begins decides, by the lowest area in it.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, HUGE = 2 << 20 };

int main(void) {
    static const long ranges[][2] = {
        {-PAGE, 3 * PAGE}, {-PAGE, PAGE + HUGE}, {-HUGE, 2 * HUGE}, {-HUGE, HUGE + PAGE}, {0, PAGE},
        {0, HUGE},         {PAGE, PAGE},         {0, HUGE + PAGE},  {0, 2 * HUGE},
    };
    int watcher = syscall(SYS_userfaultfd, 1), memory = memfd_create("huge", MFD_HUGETLB);
    struct uffdio_api api = {.api = UFFD_API};
    char *huge = mmap((void *)0x10000000, HUGE, 3, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, memory, 0);
    if (watcher < 0 || ioctl(watcher, UFFDIO_API, &api) || huge == MAP_FAILED) return 0;
    for (int below = 0; below < 2; below++) {
        // Small pages below, or nothing.
        if (below) mmap(huge - PAGE, PAGE, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        for (unsigned i = 0; i < sizeof ranges / sizeof *ranges; i++) {
            struct uffdio_range range = {(long)huge + ranges[i][0], ranges[i][1]};
            struct uffdio_register watched = {range, UFFDIO_REGISTER_MODE_MISSING, 0};
            struct uffdio_range all = {(long)huge - HUGE, 2 * HUGE};
            ioctl(watcher, UFFDIO_UNREGISTER, &range);
            ioctl(watcher, UFFDIO_REGISTER, &watched);
            ioctl(watcher, UFFDIO_UNREGISTER, &range);
            ioctl(watcher, UFFDIO_UNREGISTER, &all);
        }
    }
}
