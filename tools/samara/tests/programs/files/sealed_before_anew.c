// A file in memory that is sealed after it was mapped, and mapped anew by remap_file_pages: it can never be written there from then on. With an argument there are a
// thousand areas besides.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ul
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x10
#endif

int main(int count, char **words) {
    char *many = mmap(0, 1000 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; count > 1 && i < 1000; i += 2) {
        mprotect(many + i * PAGE, PAGE, PROT_READ);
    }
    int file = memfd_create("sealed", MFD_ALLOW_SEALING);
    ftruncate(file, 8 * PAGE);
    char *at = mmap(0, 8 * PAGE, PROT_READ, MAP_SHARED, file, 0);
    fcntl(file, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
    remap_file_pages(at + 2 * PAGE, PAGE, 0, 2, 0);
    printf("%d ", mprotect(at, PAGE, PROT_READ | PROT_WRITE) ? errno : 0);
    printf("%d\n", mprotect(at + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE) ? errno : 0);
    return 0;
}
