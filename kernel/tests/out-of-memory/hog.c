// Takes all memory, in one of the ways that a program has.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static char *areas(size_t len) {
    char *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        exit(3);
    return at;
}

static void touch_all(void) {
    for (;;)
        memset(areas(1 << 20), 1, 1 << 20);
}

static void *waits(void *arg) {
    pause();
    return arg;
}

int main(int count, char **args) {
    const char *way = count > 1 ? args[1] : "touch";
    if (!strcmp(way, "touch"))
        touch_all();
    if (!strcmp(way, "some")) {
        size_t len = (size_t)atoi(args[2]) << 20;
        memset(areas(len), 1, len);
        printf("touched %s MiB\n", args[2]);
        return 0;
    }
    if (!strcmp(way, "read")) {
        // The kernel itself writes the bytes.
        int zero = open("/dev/zero", O_RDONLY);
        char *at = areas(1UL << 30);
        for (size_t done = 0; done < 1UL << 30; done += 1 << 16)
            if (read(zero, at + done, 1 << 16) != 1 << 16)
                return 4;
    }
    if (!strcmp(way, "bomb")) {
        // Many processes, each as large as it becomes. Their parents wait.
        for (int i = 0; i < 12; i++)
            if (fork() == 0)
                touch_all();
        int killed = 0, status;
        while (wait(&status) > 0)
            killed += WIFSIGNALED(status) && WTERMSIG(status) == 9;
        printf("killed %d\n", killed);
        return 0;
    }
    if (!strcmp(way, "forks")) {
        // Small processes, until no more can be created.
        int children = 0;
        pid_t child;
        while ((child = fork()) > 0)
            children++;
        if (child == 0) {
            pause();
            _exit(0);
        }
        printf("forks end: %s, %s\n", errno == EAGAIN || errno == ENOMEM ? "no more" : strerror(errno), children > 100 ? "many" : "few");
        return 0;
    }
    if (!strcmp(way, "threads")) {
        int threads = 0;
        pthread_t thread;
        pthread_attr_t small;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 16384);
        while (pthread_create(&thread, &small, waits, NULL) == 0)
            threads++;
        printf("threads end: %s\n", threads > 100 ? "many" : "few");
        return 0;
    }
    if (!strcmp(way, "pipes")) {
        char bytes[65536] = {0};
        for (;;) {
            int ends[2];
            if (pipe(ends))
                break;
            fcntl(ends[1], F_SETFL, O_NONBLOCK);
            if (write(ends[1], bytes, sizeof bytes) < 0)
                break;
            if (ends[0] > 900 && fork() > 0) {
                wait(NULL);
                return 0;
            }
            if (ends[0] > 900)
                for (int end = 3; end < 900; end++)
                    if (end % 300 != 0)
                        close(end);
        }
        printf("pipes end: %s\n", strerror(errno));
        return 0;
    }
    if (!strcmp(way, "areas")) {
        // VMAs that do not merge fill the kernel's own memory.
        for (int rounds = 0; rounds < 12; rounds++) {
            for (int i = 0; i < 60000; i++)
                if (mmap(NULL, 4096, i & 1 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
                    return 5;
            if (fork() > 0) {
                wait(NULL);
                return 0;
            }
        }
        return 0;
    }
    return 6;
}
