/* A userfaultfd is closed, and before the next call the process forks, or writes: what it watched is no area of its own any more. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "areas_in.h"

#define PAGE 4096UL

int main(void)
{
	for (int way = 0; way < 4; way++) {
		char *at = (char *)0x200000000000;
		mmap(at, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		int made = syscall(SYS_userfaultfd, O_NONBLOCK);
		struct uffdio_api api = {UFFD_API, 0, 0};
		struct uffdio_register half = {{(long)at, 2 * PAGE}, UFFDIO_REGISTER_MODE_MISSING, 0};
		if (made < 0 || ioctl(made, UFFDIO_API, &api) || ioctl(made, UFFDIO_REGISTER, &half))
			return puts("none watches here"), 0;
		if (way == 3) {
			struct uffdio_zeropage page = {{(long)at, PAGE}, 0, 0};
			ioctl(made, UFFDIO_ZEROPAGE, &page);
			at[0] = at[3 * PAGE] = 1;
		}
		close(made);
		if (way == 1) {
			if (fork() == 0)
				_exit(0);
			wait(0);
		} else if (way == 2) {
			at[0] = at[3 * PAGE] = 1;
		}
		mmap(0, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		printf("%d\n", areas_in(at, 4 * PAGE));
		munmap(at, 4 * PAGE);
	}
	return 0;
}
