/* A child uses its parent's userfaultfd, which is to tell of forks: what that watches is not followed, but belongs to the parent's map, which changes meanwhile. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul

int main(void)
{
	char *at = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int by = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_EVENT_FORK};
	if (at == MAP_FAILED)
		return 1;
	if (by < 0 || ioctl(by, UFFDIO_API, &api))
		return puts("none watches here") < 0;
	pid_t child = fork();
	if (child == 0) {
		for (int n = 0; n < 100; n++) {
			struct uffdio_register what = {{(uintptr_t)at + n % 3 * PAGE, PAGE}, UFFDIO_REGISTER_MODE_MISSING};
			if (ioctl(by, UFFDIO_REGISTER, &what))
				_exit(1);
			if (n < 97 && ioctl(by, UFFDIO_UNREGISTER, &what.range))
				_exit(2);
		}
		_exit(0);
	}
	for (int n = 0; n < 200; n++)
		mprotect(at + (5 + n % 5) * PAGE, PAGE, n & 1 ? PROT_READ : PROT_READ | PROT_WRITE);
	int status;
	if (waitpid(child, &status, 0) != child)
		return 1;
	mprotect(at + 11 * PAGE, PAGE, PROT_READ);
	close(by);
	mprotect(at + 13 * PAGE, PAGE, PROT_READ);
	return WEXITSTATUS(status);
}
