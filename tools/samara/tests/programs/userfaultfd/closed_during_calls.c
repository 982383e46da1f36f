/* A userfaultfd is closed while a call is on its way whose result depends on what it watches: what is watched moves with nothing else. */
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

static atomic_int round_now, closed;
static int watcher;

static void *closes(void *argument)
{
	for (int n = 1; n <= 200; n++) {
		while (atomic_load(&round_now) < n)
			;
		for (volatile int wait = n * 7919 % 40 * 300; wait > 0; wait--)
			;
		close(watcher);
		atomic_store(&closed, n);
	}
	return argument;
}

int main(void)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *at = mmap(NULL, 16 * PAGE, PROT_NONE, flags, -1, 0);
	pthread_t other;
	pthread_create(&other, NULL, closes, NULL);
	for (int n = 1; n <= 200; n++) {
		struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_SIGBUS};
		struct uffdio_register what = {{(uintptr_t)at, PAGE}, UFFDIO_REGISTER_MODE_MISSING};
		watcher = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
		mmap(at, PAGE, PROT_READ, flags | MAP_FIXED, -1, 0);
		mmap(at + PAGE, PAGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0);
		if (watcher < 0 || ioctl(watcher, UFFDIO_API, &api) || ioctl(watcher, UFFDIO_REGISTER, &what))
			return puts("none watches here") < 0;
		atomic_store(&round_now, n);
		mremap(at, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at + 8 * PAGE);
		while (atomic_load(&closed) < n)
			;
		munmap(at + 8 * PAGE, 2 * PAGE);
	}
	pthread_join(other, NULL);
	return 0;
}
