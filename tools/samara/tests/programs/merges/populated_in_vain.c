// Pages that cannot be had: beyond the end of a file, of secret memory, under a protection key without rights. Behind them what is refused anyway.
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, FRESH = MAP_PRIVATE | MAP_ANONYMOUS };

static void ask(char *at, int process) {
    struct iovec one = {at, 4 * PAGE}, two[] = {{at + 3 * PAGE, PAGE}, {at, 2 * PAGE}};
    for (int advice = MADV_POPULATE_READ; advice <= MADV_POPULATE_WRITE; advice++) {
        madvise(at, 4 * PAGE, advice);
        syscall(SYS_process_madvise, process, &one, 1, advice, 0);
        syscall(SYS_process_madvise, process, two, 2, advice, 0);
    }
    mlock(at, PAGE);
    mlock(at, 4 * PAGE);
    munlock(at, 4 * PAGE);
}

int main(void) {
    int file = memfd_create("short", 0), secret = syscall(SYS_memfd_secret, 0), process = syscall(SYS_pidfd_open, getpid(), 0);
    if (ftruncate(file, PAGE) || secret >= 0 && ftruncate(secret, PAGE)) return 1;
    for (int behind = 0; behind < 3; behind++)
        for (int kind = 0; kind < 4; kind++) {
            char *at = mmap(0, 4 * PAGE, 3, FRESH, -1, 0);
            if (kind == 0) mmap(at, PAGE, 3, MAP_PRIVATE | MAP_FIXED, file, 2 * PAGE);
            if (kind == 1) mmap(at, PAGE, 3, MAP_SHARED | MAP_FIXED, secret, 0);
            if (kind == 2) mmap(at, PAGE, 3, MAP_SHARED | MAP_FIXED, secret, 2 * PAGE);
            if (kind == 3) syscall(SYS_pkey_mprotect, at, PAGE, 3, syscall(SYS_pkey_alloc, 0, 1));
            if (behind == 1) munmap(at + PAGE, PAGE);
            if (behind == 2) mprotect(at + PAGE, PAGE, PROT_NONE);
            ask(at, process);
        }
}
