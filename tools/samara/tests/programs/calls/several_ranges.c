/* Advice for several ranges in one call, for itself and for a child; a break that is moved by prctl. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096UL

static long advise(int process, const struct iovec *ranges, int count, int advice)
{
	return syscall(SYS_process_madvise, process, ranges, count, advice, 0);
}

int main(void)
{
	char *memory = mmap(0, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(memory + 8 * PAGE, PAGE);
	struct iovec ranges[] = {
		{ memory, PAGE }, { memory + 2 * PAGE, 2 * PAGE }, { memory + 7 * PAGE, 3 * PAGE }, { memory + 12 * PAGE, PAGE },
	};
	int self = syscall(SYS_pidfd_open, getpid(), 0);
	/* Ends at the hole, whose edges get the advice. */
	printf("%ld\n", advise(self, ranges, 4, MADV_DONTFORK));
	printf("%ld\n", advise(self, ranges + 2, 1, MADV_RANDOM));
	printf("%ld\n", advise(self, ranges, 1100, MADV_RANDOM));
	printf("%ld\n", advise(self, (void *)8, 1, MADV_RANDOM));
	printf("%ld\n", advise(-1, ranges, 2, MADV_RANDOM));

	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		pause();
		_exit(0);
	}
	int other = syscall(SYS_pidfd_open, child, 0);
	printf("%ld\n", advise(other, ranges + 1, 1, MADV_COLD));
	printf("%ld\n", advise(other, ranges + 1, 1, MADV_DONTFORK));
	kill(child, SIGKILL);
	waitpid(child, 0, 0);

	/* Refused without the privilege. */
	char *end = sbrk(0);
	fflush(stdout);
	if (prctl(PR_SET_MM, PR_SET_MM_START_BRK, memory + 13 * PAGE, 0, 0) == 0 &&
	    prctl(PR_SET_MM, PR_SET_MM_BRK, memory + 14 * PAGE, 0, 0) == 0) {
		syscall(SYS_brk, memory + 15 * PAGE);
		syscall(SYS_brk, memory + 24 * PAGE);
		syscall(SYS_brk, memory + 20 * PAGE);
		prctl(PR_SET_MM, PR_SET_MM_BRK, end, 0, 0);
	}
	mmap(0, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return 0;
}
