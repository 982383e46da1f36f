/* A thread of a child makes userfaultfds at a number at which another thread uses that of their parent: what is told to it may concern the memory of either
 * process, or none while one is not ready. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
enum { PARENTS = 76, NUMBER = 77 };

static atomic_int done;

static int make(int number)
{
	int made = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_SIGBUS};
	if (made < 0 || dup2(made, number) < 0)
		return -1;
	close(made);
	return ioctl(number, UFFDIO_API, &api);
}

static void *makes(void *argument)
{
	(void)argument;
	for (int n = 0; !atomic_load(&done); n++) {
		if (n & 1)
			dup2(PARENTS, NUMBER);
		else
			make(NUMBER);
		for (volatile int wait = n % 30 * 3000; wait > 0; wait--)
			;
	}
	return NULL;
}

/* Of this process's memory, or its parent's. */
static void use(char *at, int round)
{
	pthread_t other;
	pthread_create(&other, NULL, makes, NULL);
	for (int n = 0; n < 100; n++) {
		struct uffdio_register what = {{(uintptr_t)at + (n + round) % 11 * PAGE, 3 * PAGE}, UFFDIO_REGISTER_MODE_MISSING};
		if (n % 3 == 2)
			ioctl(NUMBER, UFFDIO_UNREGISTER, &what.range);
		else
			ioctl(NUMBER, UFFDIO_REGISTER, &what);
		if (n % 10 == 0)
			mprotect(at + n % 7 * PAGE, PAGE, n & 1 ? PROT_READ : PROT_READ | PROT_WRITE);
	}
	atomic_store(&done, 1);
	pthread_join(other, NULL);
}

int main(void)
{
	char *at = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED || make(PARENTS))
		return puts("none watches here") < 0;
	dup2(PARENTS, NUMBER);
	for (int round = 0; round < 6; round++) {
		pid_t child = fork();
		if (child == 0) {
			use(at, round);
			_exit(0);
		}
		waitpid(child, NULL, 0);
		mprotect(at + round * PAGE, PAGE, PROT_READ);
		mprotect(at, 16 * PAGE, PROT_READ | PROT_WRITE);
	}
	return 0;
}
