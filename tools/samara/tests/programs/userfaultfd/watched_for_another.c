/* A process uses the userfaultfd of the one that forked it. The first of all watches the same addresses in its own memory by another one, which is no concern
 * of theirs; and what is to be watched may have grown down there by what this process wrote through /proc/PID/mem. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096UL

static char *at = (char *)0x200000000000;

static int watcher(void)
{
	int made = syscall(SYS_userfaultfd, O_NONBLOCK);
	struct uffdio_api api = {UFFD_API, 0, 0};
	return made < 0 || ioctl(made, UFFDIO_API, &api) ? -1 : made;
}

static int watch(int watcher, char *from, int pages)
{
	struct uffdio_register all = {{(long)from, pages * PAGE}, UFFDIO_REGISTER_MODE_MISSING, 0};
	return ioctl(watcher, UFFDIO_REGISTER, &all) != 0;
}

static char *map(char *from, int flags)
{
	return mmap(from, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | flags, -1, 0);
}

int main(void)
{
	int own = watcher();
	if (own < 0 || watch(own, map(at, 0), 2))
		return puts("none watches here"), 0;
	for (int refused = 0; refused < 2; refused++) {
		if (fork() == 0) {
			int made = watcher(), state;
			if (refused)
				munmap(at, 2 * PAGE);
			if (fork() == 0)
				_exit(watch(made, at, 2));
			wait(&state);
			_exit(WEXITSTATUS(state) != refused);
		}
		int state;
		wait(&state);
		munmap(at + 16 * PAGE, PAGE);
		printf("%d\n", state);
	}
	char *stack = map(at + 1024 * PAGE, MAP_GROWSDOWN);
	int memory = open("/proc/self/mem", O_RDWR), other = watcher();
	if (fork() == 0) {
		pwrite(memory, "x", 1, (long)stack - 8 * PAGE);
		_exit(watch(other, stack - 8 * PAGE, 3));
	}
	int state;
	wait(&state);
	munmap(at + 16 * PAGE, PAGE);
	printf("%d\n", state);
	return 0;
}
