// Makes some of each call on memory, and uses threads. A call may fail if an allocation fails, but
// bytes are never wrong.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 16 };

static int failed;

static void check(int right) { failed |= !right; }

static void *work(void *argument) {
    memset(argument, 5, PAGE);
    return argument;
}

int main(void) {
    char *memory = mmap(NULL, PAGES * PAGE, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int file = memfd_create("touch", 0);
    if (memory == MAP_FAILED || file < 0 || ftruncate(file, PAGES * PAGE) != 0)
        return 1;
    memset(memory, 1, PAGES * PAGE);
    char *shared = mmap(NULL, PAGES * PAGE, 3, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED)
        return 1;
    shared[PAGE] = 2;
    mprotect(memory + PAGE, PAGE, PROT_READ);
    mprotect(memory + 3 * PAGE, PAGE, PROT_NONE);
    munmap(memory + 5 * PAGE, PAGE);
    madvise(memory + 6 * PAGE, PAGE, MADV_DONTNEED);
    mlock(memory, PAGE);
    char *moved = mremap(memory + 7 * PAGE, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE);
    check(moved == MAP_FAILED || (moved[0] == 1 && moved[2 * PAGE] == 0));
    sbrk(4 * PAGE);
    pid_t pid = fork();
    if (pid == 0) {
        memory[0] = 3;
        shared[2 * PAGE] = 4;
        _exit(memory[0] == 3 && shared[PAGE] == 2 ? 0 : 9);
    }
    int status = 0;
    check(pid < 0 || (waitpid(pid, &status, 0) == pid && (status == 0 || WIFSIGNALED(status))));
    check(memory[0] == 1);
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, shared) == 0) {
        pthread_join(thread, NULL);
        check(shared[0] == 5 && shared[PAGE] == 2);
    }
    int ends[2];
    if (pipe(ends) == 0) {
        char byte = 0;
        struct pollfd ready = {.fd = ends[0], .events = POLLIN};
        check(write(ends[1], "x", 1) != 1 || poll(&ready, 1, -1) != 1 || (read(ends[0], &byte, 1) == 1 && byte == 'x'));
    }
    char bytes[8];
    if (pread(file, bytes, 1, PAGE) == 1)
        check(bytes[0] == 2);
    puts(failed ? "bytes are wrong" : "touched");
    return 0;
}
