// A node mask, ranges and names that another thread changes while the kernel reads them.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096ul

static volatile int stop;
static volatile unsigned long mask = 1;
static volatile struct iovec ranges[1];
static volatile char name[8] = "a";
static char *at;

static void *change(void *x) {
    for (unsigned long n = 0; !stop; n++) {
        mask = n & 1;
        ranges[0].iov_base = at + (n % 60) * PAGE;
        name[0] = 'a' + n % 26;
    }
    return 0;
}

int main(void) {
    at = mmap(0, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ranges[0].iov_base = at;
    ranges[0].iov_len = PAGE;
    pthread_t thread;
    pthread_create(&thread, 0, change, 0);
    for (int i = 0; i < 2000; i++) {
        char *page = at + i * 7 % 64 * PAGE;
        syscall(SYS_mbind, page, PAGE, i % 2 ? 1 : 2, &mask, 64ul, 0);
        prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, page, PAGE, name);
        syscall(SYS_process_madvise, -10001, ranges, 1ul, i % 2 ? MADV_DONTFORK : MADV_DOFORK, 0ul);
    }
    stop = 1;
    pthread_join(thread, 0);
    return 0;
}
