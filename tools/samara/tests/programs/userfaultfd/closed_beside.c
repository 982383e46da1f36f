/* A thread closes the userfaultfd that watches an area while another has the area watched by another one, or gives up what that one watches. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096ul
#define ROUNDS 200

static atomic_int to_close = -1, closed;

static void *closes(void *argument)
{
	(void)argument;
	for (int n = 0; n < ROUNDS; n++) {
		int by;
		while ((by = atomic_exchange(&to_close, -1)) < 0)
			;
		for (volatile int wait = n % 20 * 10000; wait > 0; wait--)
			;
		close(by);
		atomic_store(&closed, n + 1);
	}
	return NULL;
}

static int watcher(void)
{
	int made = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_SIGBUS};
	if (made < 0 || ioctl(made, UFFDIO_API, &api))
		exit(puts("none watches here") < 0);
	return made;
}

int main(void)
{
	char *at = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register what = {{(uintptr_t)at + 2 * PAGE, 4 * PAGE}, UFFDIO_REGISTER_MODE_MISSING};
	struct uffdio_register part = {{(uintptr_t)at + 3 * PAGE, 2 * PAGE}, UFFDIO_REGISTER_MODE_MISSING};
	int by = watcher();
	pthread_t other;
	if (at == MAP_FAILED || pthread_create(&other, NULL, closes, NULL))
		return 1;
	for (int n = 0; n < ROUNDS; n++) {
		int first = watcher();
		if (ioctl(first, UFFDIO_REGISTER, &what))
			return 2;
		atomic_store(&to_close, first);
		if (n & 1)
			ioctl(by, UFFDIO_REGISTER, &part);
		else
			ioctl(by, UFFDIO_UNREGISTER, &part.range);
		while (atomic_load(&closed) <= n)
			;
		ioctl(by, UFFDIO_UNREGISTER, &what.range);
	}
	pthread_join(other, NULL);
	return 0;
}
