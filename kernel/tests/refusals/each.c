// Runs a program repeatedly and makes another allocation of the kernel fail each time. The program
// must then print what it prints otherwise, or fail.
//
// each STRIDE FIRST PROGRAM [ARGUMENTS]
//
// Frames fail in two ways: two in a row, since samara-paging asks again, and eight in a row, so that
// a fault finds none.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FRAMES, HEAP, MOST = 1 << 14, SECONDS = 60 };

static const char *const names[] = {"frames", "heap"};
// The kinds of allocations: frames in two ways, and heap.
static const struct {
    int kind, times;
} ways[] = {{FRAMES, 2}, {FRAMES, 8}, {HEAP, 1}};
static int times;
static int kind;
static long refused;

static void late(int signal) {
    (void)signal;
    char text[64];
    int len = snprintf(text, sizeof text, "%s %ld: the program does not end\n", names[kind], refused);
    write(1, text, len);
    kill(-1, SIGKILL);
}

// The program's output and status.
struct result {
    int status;
    char output[MOST], errors[MOST];
};

static int contents(int file, char *to) {
    ssize_t len = pread(file, to, MOST - 1, 0);
    to[len < 0 ? 0 : len] = 0;
    close(file);
    return len >= 0;
}

static void run(char **program, struct result *result) {
    int output = memfd_create("output", MFD_CLOEXEC), errors = memfd_create("errors", MFD_CLOEXEC);
    pid_t child = fork();
    if (child == 0) {
        dup2(output, 1);
        dup2(errors, 2);
        syscall(SYS_reboot, kind, refused, times);
        execvp(program[0], program);
        dprintf(2, "%s\n", strerror(errno));
        _exit(126);
    }
    alarm(SECONDS);
    // Orphans become children of this process.
    int status;
    pid_t pid;
    result->status = -1;
    while ((pid = wait(&status)) > 0 || errno == EINTR)
        if (pid == child)
            result->status = status;
    alarm(0);
    contents(output, result->output);
    contents(errors, result->errors);
}

static void begin(int what, long nth) {
    syscall(SYS_reboot, kind, 0, 0);
    kind = what;
    refused = nth;
    syscall(SYS_reboot, kind, 0, 0);
}

static int is_right(const struct result *result, const struct result *expected) {
    return result->status == expected->status && strcmp(result->output, expected->output) == 0;
}

int main(int count, char **arguments) {
    static struct result expected, result;
    char **program = arguments + 3;
    if (count < 4)
        return 2;
    long stride = atol(arguments[1]), first = atol(arguments[2]);
    signal(SIGALRM, late);
    setvbuf(stdout, NULL, _IOLBF, 0);
    int wrong = 0;
    for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++) {
        int what = ways[way].kind;
        times = ways[way].times;
        // The second run counts. The first one reads all files and logs what is logged once.
        for (int i = 0; i < 2; i++) {
            begin(what, 0);
            run(program, &expected);
        }
        long all = syscall(SYS_reboot, what, 0, 0), right = 0, failed = 0;
        if (expected.errors[0] != 0 || expected.status != 0) {
            printf("without refusals: status %#x, %s%s", expected.status, expected.output, expected.errors);
            return 1;
        }
        for (long nth = first; nth <= all && wrong < 5; nth += stride) {
            begin(what, nth);
            run(program, &result);
            if (is_right(&result, &expected)) {
                right++;
                continue;
            }
            failed++;
            if (result.status == 0 || strstr(result.output, "wrong")) {
                printf("%s %ld: status %#x\n%s%s", names[what], nth, result.status, result.output, result.errors);
                wrong++;
            }
            // The next run succeeds.
            begin(what, 0);
            run(program, &result);
            if (!is_right(&result, &expected)) {
                printf("after %s %ld: status %#x\n%s%s", names[what], nth, result.status, result.output, result.errors);
                wrong++;
            }
        }
        printf("%ld allocations of %s, %d at once: %ld refusals without effect, %ld failures\n", all, names[what], times, right, failed);
    }
    return wrong > 0;
}
