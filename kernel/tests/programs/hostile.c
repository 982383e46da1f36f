// Tests that hostile programs do not crash the kernel: wild addresses in calls, handlers, stacks
// and instructions.
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

// The first address above those of programs.
#if defined __x86_64__
#define END 0x7ffffffff000
#elif defined __aarch64__
#define END (1UL << 48)
#else
#define END (1UL << 47)
#endif

static const unsigned long wild[] = {0,         8,         END - 4096,         END,                END + 4096, 1UL << 62,
                                     1UL << 63, 0xffff800000000000, 0xffff900000000000, 0xffffffff80000000, -4096UL,    -1UL};

// Addresses depend on the architecture, but their order does not.
static unsigned long number(unsigned long at) {
    unsigned long i = 0;
    while (wild[i] != at)
        i++;
    return i;
}

static int ends(unsigned long with, void (*act)(unsigned long)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        act(with);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    return status;
}

static void in_child(const char *name, unsigned long with, void (*act)(unsigned long)) {
    int status = ends(with, act);
    with = number(with);
    if (WIFSIGNALED(status))
        printf("%s %lu: signal %d\n", name, with, WTERMSIG(status));
    else
        printf("%s %lu: status %d\n", name, with, WEXITSTATUS(status));
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
#elif defined __aarch64__
    __asm__ volatile("mov sp, %0; str x0, [sp, -16]!" ::"r"(at));
#else
    __asm__ volatile("mv sp, %0; sd a0, -16(sp)" ::"r"(at));
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
#elif defined __aarch64__
    program->uc_mcontext.pc = target;
    program->uc_mcontext.pstate = -1;
#else
    program->uc_mcontext.__gregs[REG_PC] = target;
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
    printf("calls with %lu:", number(at));
    for (int i = 0; i < count; i++)
        printf(" %d", errors[i]);
    puts("");
    fflush(stdout);
}

// Privileged and trapping instructions, with the signal for each.
#if defined __x86_64__
static const int signals[10] = {SIGSEGV, SIGSEGV, SIGSEGV, SIGSEGV, SIGTRAP, SIGSEGV, SIGILL, SIGSEGV, SIGTRAP, SIGSEGV};
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
#elif defined __aarch64__
static const int signals[10] = {SIGILL, SIGILL, SIGILL, SIGILL, SIGTRAP, SIGILL, SIGILL, SIGILL, SIGILL, SIGILL};
static void privileged(unsigned long which) {
    switch (which) {
    case 0: __asm__ volatile("msr daifset, 2"); break;
    case 1: __asm__ volatile("msr ttbr0_el1, xzr"); break;
    case 2: __asm__ volatile("mrs x0, sctlr_el1" ::: "x0"); break;
    case 3: __asm__ volatile("hvc 0"); break;
    case 4: __asm__ volatile("brk 0"); break;
    case 5: __asm__ volatile("smc 0"); break;
    case 6: __asm__ volatile(".inst 0"); break;
    case 7: __asm__ volatile("hlt 0xf000"); break;
    case 8: __asm__ volatile("eret"); break;
    case 9: __asm__ volatile("tlbi vmalle1"); break;
    }
}
#else
static const int signals[10] = {SIGILL, SIGILL, SIGILL, SIGILL, SIGTRAP, SIGILL, SIGILL, SIGILL, SIGILL, SIGILL};
static void privileged(unsigned long which) {
    switch (which) {
    case 0: __asm__ volatile("csrw sstatus, zero"); break;
    case 1: __asm__ volatile("csrw satp, zero"); break;
    case 2: __asm__ volatile("csrr a0, scause" ::: "a0"); break;
    case 3: __asm__ volatile("sret"); break;
    case 4: __asm__ volatile("ebreak"); break;
    case 5: __asm__ volatile("mret"); break;
    case 6: __asm__ volatile(".2byte 0"); break;
    case 7: __asm__ volatile("csrw mstatus, zero"); break;
    case 8: __asm__ volatile("wfi"); break;
    case 9: __asm__ volatile("sfence.vma"); break;
    }
}
#endif

int main(void) {
    int count = sizeof wild / sizeof wild[0];
    for (int i = 0; i < count; i++) {
        in_child("read", wild[i], reads);
        in_child("jump", wild[i], jumps);
        in_child("handler", wild[i], handler_at);
        // For an address that is not canonical, QEMU raises another exception than x86-64
        // processors do.
        if (wild[i] != 1UL << 62 && wild[i] != 1UL << 63 && wild[i] != 0xffff800000000000)
            in_child("stack", wild[i], stack_at);
        in_child("return", wild[i], returns_to);
        in_child("calls", wild[i], calls);
    }
    for (unsigned long i = 0; i < 10; i++) {
        int status = ends(i, privileged);
        if (WIFSIGNALED(status) && WTERMSIG(status) == signals[i])
            printf("instruction %lu: its signal\n", i);
        else
            printf("instruction %lu: status %x, not signal %d\n", i, status, signals[i]);
    }
    return 0;
}
