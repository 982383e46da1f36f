/* A thread makes userfaultfds at a number at which another thread uses them: closed, not ready yet, or another one by the time the kernel looks. */
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
#include <unistd.h>

#define PAGE 4096ul
#define NUMBER 77

static atomic_int done;

static int make(void)
{
	int made = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_SIGBUS};
	if (made < 0 || dup2(made, NUMBER) < 0)
		return -1;
	close(made);
	return ioctl(NUMBER, UFFDIO_API, &api);
}

static void *makes(void *argument)
{
	(void)argument;
	for (int n = 0; !atomic_load(&done); n++) {
		make();
		for (volatile int wait = n % 30 * 3000; wait > 0; wait--)
			;
		if (n & 1)
			close(NUMBER);
	}
	return NULL;
}

int main(void)
{
	char *at = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t other;
	int watched = 0;
	if (at == MAP_FAILED || make() || pthread_create(&other, NULL, makes, NULL))
		return puts("none watches here") < 0;
	for (int n = 0; n < 300; n++) {
		struct uffdio_register what = {{(uintptr_t)at + n % 11 * PAGE, 3 * PAGE}, UFFDIO_REGISTER_MODE_MISSING};
		if (n % 3 == 2)
			ioctl(NUMBER, UFFDIO_UNREGISTER, &what.range);
		else
			watched += !ioctl(NUMBER, UFFDIO_REGISTER, &what);
		mprotect(at + n % 7 * PAGE, PAGE, n & 1 ? PROT_READ : PROT_READ | PROT_WRITE);
	}
	atomic_store(&done, 1);
	pthread_join(other, NULL);
	return watched == 0;
}
