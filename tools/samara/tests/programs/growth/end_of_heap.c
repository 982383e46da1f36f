/* Whoever shares memory is killed within calls that leave the heap as it is, or set its end. What was unmapped of its top does not change where it ends. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096L

static char stack[1 << 16] __attribute__((aligned(16)));

static long end(long at)
{
	return syscall(SYS_brk, at);
}

static int calls(void *which)
{
	for (;;)
		if (which) {
			end(end(0) + PAGE);
		} else {
			char *at = mmap(0, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
			munmap(at, 64 * PAGE);
		}
	return 0;
}

int main(void)
{
	for (int n = 0; n < 40; n++) {
		int sets = n & 1;
		long top = end(end(0) + 8 * PAGE);
		if (!sets)
			munmap((void *)(top - 3 * PAGE), 3 * PAGE);
		int child = clone(calls, stack + sizeof stack, CLONE_VM | SIGCHLD, (void *)(long)sets);
		usleep(n * 50);
		kill(child, SIGKILL);
		waitpid(child, 0, 0);
		end(end(0) + PAGE);
		end(end(0) - 2 * PAGE);
	}
	return 0;
}
