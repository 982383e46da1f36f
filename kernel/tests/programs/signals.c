// Tests signals: handlers with siginfo, masks, alternate stacks, restarted calls, codes of faults,
// default actions.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile sig_atomic_t got, order[16], orders;
static char *where;

static void fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    char place = 0;
    int on_alternate = 0;
    stack_t stack;
    sigaltstack(NULL, &stack);
    on_alternate = (stack.ss_flags & SS_ONSTACK) != 0;
    // For the kernel's addresses, the code depends on the architecture.
    int code = (long)where < 0 ? 0 : info->si_code;
    printf("%s code %d, at the place %d, on the alternate stack %d\n", strsignal(signal), code,
           (char *)info->si_addr == where, on_alternate);
    (void)place;
    siglongjmp(back, 1);
}

static void note(int signal) {
    order[orders++ % 16] = signal;
    got++;
}

static void with_info(int signal, siginfo_t *info, void *context) {
    (void)context;
    order[orders++ % 16] = signal;
    got = info->si_code == SI_QUEUE ? info->si_value.sival_int : info->si_code;
}

static void set(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    sigaction(signal, &action, NULL);
}

static void touch(const char *name, char *at, int write) {
    where = at;
    printf("%s: ", name);
    if (sigsetjmp(back, 1) == 0) {
        if (write)
            *(volatile char *)at = 1;
        else
            (void)*(volatile char *)at;
        puts("no fault");
    }
}

static void child_ends(const char *name, void (*end)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        end();
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        printf("%s: signal %d\n", name, WTERMSIG(status));
    else
        printf("%s: status %d\n", name, WEXITSTATUS(status));
}

static int through[2];

static void writes(int signal) {
    (void)signal;
    write(through[1], "y", 1);
}

// Starts a process that sends SIGALRM to this one when it sleeps.
static pid_t alarms_when_asleep(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child != 0)
        return child;
    char path[64], stat[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", getppid());
    do {
        usleep(1000);
        int file = open(path, O_RDONLY);
        stat[read(file, stat, sizeof stat - 1)] = 0;
        close(file);
    } while (strstr(stat, ") S ") == NULL);
    kill(getppid(), SIGALRM);
    _exit(0);
}

static void by_abort(void) { abort(); }
static void by_fault(void) {
    signal(SIGSEGV, SIG_DFL);
    *(volatile char *)8 = 1;
}
static void by_pipe(void) {
    int ends[2];
    pipe(ends);
    close(ends[0]);
    write(ends[1], "x", 1);
}
static void by_exit(void) { exit(9); }
static void by_ignored_pipe(void) {
    signal(SIGPIPE, SIG_IGN);
    int ends[2];
    pipe(ends);
    close(ends[0]);
    _exit(write(ends[1], "x", 1) < 0 && errno == EPIPE ? 32 : 1);
}

int main(void) {
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&stack, NULL);
    set(SIGSEGV, fault, SA_ONSTACK);
    set(SIGBUS, fault, 0);
    char *page = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    touch("read only", page + 5, 1);
    mprotect(page, 4096, PROT_NONE);
    touch("no access", page, 0);
    munmap(page, 4096);
    touch("unmapped", page, 0);
    int file = memfd_create("short", 0);
    ftruncate(file, 100);
    char *mapped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    touch("in the file", mapped, 1);
    touch("beyond the file", mapped + 4096, 0);
    touch("kernel", (char *)0xffff900000000000, 0);

    signal(SIGUSR1, note);
    signal(SIGUSR2, note);
    sigset_t both, old, pending;
    sigemptyset(&both);
    sigaddset(&both, SIGUSR1);
    sigaddset(&both, SIGUSR2);
    sigprocmask(SIG_BLOCK, &both, &old);
    raise(SIGUSR2);
    raise(SIGUSR1);
    raise(SIGUSR1);
    sigpending(&pending);
    printf("pending %d %d, got %d\n", sigismember(&pending, SIGUSR1), sigismember(&pending, SIGUSR2), got);
    sigprocmask(SIG_SETMASK, &old, NULL);
    printf("got %d\n", got);

    set(SIGRTMIN, with_info, 0);
    union sigval value = {.sival_int = 1234};
    sigqueue(getpid(), SIGRTMIN, value);
    printf("queued %d\n", got);

    // A call that a handler interrupts is restarted, or not. The handler itself makes it succeed.
    for (int restart = 0; restart < 2; restart++) {
        struct sigaction action = {.sa_handler = writes, .sa_flags = restart ? SA_RESTART : 0};
        sigaction(SIGALRM, &action, NULL);
        pipe(through);
        pid_t child = alarms_when_asleep();
        char byte;
        ssize_t n = read(through[0], &byte, 1);
        printf("restart %d: %zd %s\n", restart, n, n < 0 ? strerror(errno) : "");
        waitpid(child, NULL, 0);
    }
    // The timer's signal is masked until the wait.
    sigset_t none, alarm_only;
    sigemptyset(&none);
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm_only, NULL);
    struct itimerval timer = {.it_value = {.tv_usec = 50 * 1000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    int suspended = sigsuspend(&none);
    printf("sigsuspend %d %s\n", suspended, strerror(errno));

    child_ends("abort", by_abort);
    child_ends("fault", by_fault);
    child_ends("pipe", by_pipe);
    child_ends("ignored pipe", by_ignored_pipe);
    child_ends("exit", by_exit);

    // Stop and continue.
    fflush(stdout);
    int go[2];
    pipe(go);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(go[1]);
        raise(SIGSTOP);
        // A child that has exited is no longer reported as continued.
        read(go[0], &byte, 1);
        _exit(4);
    }
    int status;
    waitpid(child, &status, WUNTRACED);
    printf("stopped %d by %d\n", WIFSTOPPED(status), WSTOPSIG(status));
    kill(child, SIGCONT);
    waitpid(child, &status, WCONTINUED);
    printf("continued %d\n", WIFCONTINUED(status));
    close(go[1]);
    waitpid(child, &status, 0);
    printf("exit %d\n", WEXITSTATUS(status));

    siginfo_t info;
    sigprocmask(SIG_BLOCK, &both, NULL);
    raise(SIGUSR1);
    printf("waited for %d\n", sigwaitinfo(&both, &info));
    struct timespec soon = {.tv_nsec = 20 * 1000 * 1000};
    int found = sigtimedwait(&both, &info, &soon);
    printf("timed out %d %s\n", found, strerror(errno));
    return 0;
}
