/* Threads that call while another of them replaces the program: that waits for them to end, wherever they are. ROUNDS. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

static int rounds;

static void *calls(void *argument) {
    for (;;) {
        char *at = mmap(0, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(at + PAGE, PAGE);
        munmap(at, 3 * PAGE);
    }
    return argument;
}

static void *replaces(void *argument) {
    char left[16];
    usleep(rounds * 37 % 500);
    snprintf(left, sizeof left, "%d", rounds - 1);
    execl("/proc/self/exe", "exec_beside_calls", left, (char *)0);
    return argument;
}

int main(int argc, char **argv) {
    pthread_t thread;
    rounds = argc > 1 ? atoi(argv[1]) : 0;
    if (rounds == 0) {
        puts("done");
        return 0;
    }
    for (int i = 0; i < 2; i++) pthread_create(&thread, 0, calls, 0);
    pthread_create(&thread, 0, replaces, 0);
    calls(0);
    return 1;
}
