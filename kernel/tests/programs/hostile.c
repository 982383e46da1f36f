// What programs do to a kernel that must not end it: wild addresses in calls, handlers, stacks and instructions.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static const unsigned long wild[] = {0,          8,          0x7fffffffe000, 0x7ffffffff000, 0x800000000000,
                                     1UL << 62,  1UL << 63,  0xffff800000000000, 0xffffffff80000000, -4096UL, -1UL};

static void in_child(const char *name, unsigned long with, void (*act)(unsigned long)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        act(with);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        printf("%s %lx: signal %d\n", name, with, WTERMSIG(status));
    else
        printf("%s %lx: status %d\n", name, with, WEXITSTATUS(status));
}

static void reads(unsigned long at) { _exit(*(volatile char *)at); }
static void jumps(unsigned long at) { ((void (*)(void))at)(); }

static void handler_at(unsigned long at) {
    struct sigaction action = {.sa_handler = (void (*)(int))at};
    if (at < 2)
        _exit(1);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
}

static void stack_at(unsigned long at) {
#ifdef __x86_64__
    __asm__ volatile("mov %0, %%rsp; push %%rax" ::"r"(at));
#else
    _exit((int)(at & 0));
#endif
}

static unsigned long target;
static void goes_on_elsewhere(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    ucontext_t *program = context;
#ifdef __x86_64__
    program->uc_mcontext.gregs[REG_RIP] = (long long)target;
    program->uc_mcontext.gregs[REG_EFL] = -1;
#else
    (void)program;
    _exit(0);
#endif
}

static void returns_to(unsigned long at) {
    target = at;
    struct sigaction action = {.sa_sigaction = goes_on_elsewhere, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
}

static void calls(unsigned long at) {
    int errors[16], count = 0;
    errors[count++] = syscall(SYS_write, 1, at, 16) < 0 ? errno : 0;
    errors[count++] = syscall(SYS_read, 0, at, 0) < 0 ? errno : 0;
    errors[count++] = syscall(SYS_newfstatat, -100, at, at, 0) < 0 ? errno : 0;
    errors[count++] = syscall(SYS_pipe2, at, 0) < 0 ? errno : 0;
    errors[count++] = syscall(SYS_munmap, at & ~0xfffUL, 4096) < 0 ? errno : 0;
    errors[count++] = syscall(SYS_rt_sigprocmask, 0, at, 0, 8) < 0 ? errno : 0;
    errors[count++] = syscall(SYS_execve, at, at, at) < 0 ? errno : 0;
    errors[count++] = syscall(SYS_clock_gettime, 1, at) < 0 ? errno : 0;
    errors[count++] = syscall(SYS_getcwd, at, 100) < 0 ? errno : 0;
    printf("calls with %lx:", at);
    for (int i = 0; i < count; i++)
        printf(" %d", errors[i]);
    puts("");
    fflush(stdout);
}

#ifdef __x86_64__
static void privileged(unsigned long which) {
    switch (which) {
    case 0: __asm__ volatile("hlt"); break;
    case 1: __asm__ volatile("cli"); break;
    case 2: __asm__ volatile("mov %0, %%cr3" ::"r"(0UL)); break;
    case 3: __asm__ volatile("outb %%al, %%dx" ::"a"(0), "d"(0xf4)); break;
    case 4: __asm__ volatile("int3"); break;
    case 5: __asm__ volatile("int $0x21"); break;
    case 6: __asm__ volatile("ud2"); break;
    case 7: __asm__ volatile("wrmsr" ::"a"(0), "d"(0), "c"(0xc0000080)); break;
    case 8: __asm__ volatile("pushf; orl $0x100, (%%rsp); popf; nop" ::: "memory"); break;
    case 9: __asm__ volatile("mov %0, %%ds" ::"r"(0x10)); break;
    }
}
#endif

int main(void) {
    int count = sizeof wild / sizeof wild[0];
    for (int i = 0; i < count; i++) {
        in_child("read", wild[i], reads);
        in_child("jump", wild[i], jumps);
        in_child("handler", wild[i], handler_at);
        // QEMU raises another exception than processors do where an address cannot be translated at all.
        if ((long)((wild[i] - 8) << 16) >> 16 == (long)(wild[i] - 8))
            in_child("stack", wild[i], stack_at);
        in_child("return", wild[i], returns_to);
        in_child("calls", wild[i], calls);
    }
#ifdef __x86_64__
    for (unsigned long i = 0; i < 10; i++)
        in_child("instruction", i, privileged);
#endif
    return 0;
}
