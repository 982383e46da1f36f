// Threads that change the limits of their process while others come and go; at last the first thread has ended before them.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LENGTH = 256 << 20 };
static pthread_t first;

static void *nothing(void *unused) { return unused; }

static int limited(int rounds) {
    int failed = 0;
    for (int i = 0; i < rounds; i++) {
        struct rlimit limit = {i % 2 ? RLIM_INFINITY : LENGTH, RLIM_INFINITY};
        pthread_t other;
        int made = pthread_create(&other, 0, nothing, 0) == 0;
        setrlimit(RLIMIT_AS, &limit);
        char *at = mmap(0, LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        failed += at == MAP_FAILED;
        if (at != MAP_FAILED) munmap(at, LENGTH);
        if (made) pthread_join(other, 0);
    }
    return failed;
}

static int limited_by_child(void) {
    struct rlimit limit = {LENGTH, RLIM_INFINITY};
    if (!fork()) _exit(prlimit(getppid(), RLIMIT_AS, &limit, 0));
    wait(0);
    return mmap(0, LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}

static void *last(void *unused) {
    pthread_join(first, 0);
    printf("%d\n", limited(20));
    printf("%d\n", limited_by_child());
    exit(0);
}

int main(void) {
    printf("%d\n", limited(400));
    pthread_t id;
    first = pthread_self();
    pthread_create(&id, 0, last, 0);
    pthread_exit(0);
}
