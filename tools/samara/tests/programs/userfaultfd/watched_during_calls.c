/* What a child asks of its parent's userfaultfd changes the parent's map while that calls itself, by two threads; and one of these closes
 * another userfaultfd while the other is within a call. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define PAGES 32

static char *area;

static int watcher(void)
{
	int made = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_SIGBUS};
	if (made < 0 || ioctl(made, UFFDIO_API, &api))
		exit(puts("none watches here") < 0);
	return made;
}

static int watch(int by, char *from, uint64_t pages)
{
	struct uffdio_register what = {{(uintptr_t)from, pages * PAGE}, UFFDIO_REGISTER_MODE_MISSING};
	return ioctl(by, UFFDIO_REGISTER, &what);
}

static void *calls(void *argument)
{
	char *own = area + (uintptr_t)argument * PAGE;
	for (int n = 0; n < 300; n++) {
		mprotect(own, PAGE * (1 + n % 3), n & 1 ? PROT_READ : PROT_READ | PROT_WRITE);
		madvise(own + PAGE, PAGE, n & 2 ? MADV_DONTDUMP : MADV_DODUMP);
	}
	return NULL;
}

static void *closes(void *argument)
{
	(void)argument;
	for (int n = 0; n < 100; n++) {
		int by = watcher();
		watch(by, area + (20 + n % 4) * PAGE, 2);
		mprotect(area + 28 * PAGE, PAGE, n & 1 ? PROT_READ : PROT_READ | PROT_WRITE);
		close(by);
	}
	return NULL;
}

int main(void)
{
	area = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		return 1;
	int by = watcher();
	pid_t child = fork();
	if (child == 0) {
		for (int n = 0; n < 300; n++) {
			struct uffdio_range range = {(uintptr_t)area + (10 + n % 7) * PAGE, PAGE * 2};
			if (watch(by, (char *)range.start, 2))
				_exit(1);
			if (ioctl(by, UFFDIO_UNREGISTER, &range))
				_exit(2);
		}
		_exit(0);
	}
	pthread_t one, two;
	if (pthread_create(&one, NULL, calls, (void *)2))
		return 1;
	if (pthread_create(&two, NULL, closes, NULL))
		return 1;
	pthread_join(one, NULL);
	pthread_join(two, NULL);
	int status;
	return waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : 1;
}
