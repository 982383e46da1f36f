/* What a child asks of its parent's userfaultfd, and of its limits, waits for the parent's own calls: while it does, the parent ends, or becomes another program. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul

static void child(int by, char *at, int kind)
{
	pid_t parent = getppid();
	for (int n = 0; n < 40; n++) {
		struct uffdio_register what = {{(uintptr_t)at, 2 * PAGE}, UFFDIO_REGISTER_MODE_MISSING};
		struct rlimit limit;
		if (kind & 1) {
			ioctl(by, UFFDIO_REGISTER, &what);
			ioctl(by, UFFDIO_UNREGISTER, &what.range);
		} else if (!prlimit(parent, RLIMIT_STACK, NULL, &limit)) {
			prlimit(parent, RLIMIT_STACK, &limit, NULL);
		}
	}
}

static void parent(char *at, int kind)
{
	int by = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_SIGBUS};
	if (by < 0 || ioctl(by, UFFDIO_API, &api))
		kind &= ~1;
	for (int n = 0; n < 2; n++)
		if (fork() == 0) {
			child(by, at, kind);
			_exit(0);
		}
	for (int n = 0; n < kind % 13; n++)
		mprotect(at + (4 + n % 2) * PAGE, PAGE, n & 2 ? PROT_READ : PROT_READ | PROT_WRITE);
	if (kind & 2)
		execl("/proc/self/exe", "owner_ends", "end", NULL);
	_exit(0);
}

int main(int count, char **words)
{
	if (count > 1)
		return strcmp(words[1], "end") != 0;
	char *at = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		return 1;
	for (int n = 0; n < 60; n++) {
		if (fork() == 0)
			parent(at, n);
		while (wait(NULL) > 0)
			;
	}
	return 0;
}
