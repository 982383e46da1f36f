/* A userfaultfd is to fill in what it does not watch, and what the program may not write: nothing comes of it but an owner. */
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

static char bytes[PAGE] __attribute__((aligned(4096)));
static char *at = (char *)0x200000000000;
static int made;

static void fill(int page)
{
	struct uffdio_copy copy = {(long)at + page * PAGE, (long)bytes, PAGE, 0, 0};
	ioctl(made, UFFDIO_COPY, &copy);
}

int main(void)
{
	int file = memfd_create("file", 0);
	ftruncate(file, 4 * PAGE);
	made = syscall(SYS_userfaultfd, O_NONBLOCK);
	struct uffdio_api api = {UFFD_API, 0, 0};
	if (made < 0 || ioctl(made, UFFDIO_API, &api))
		return puts("none watches here"), 0;
	for (int by_child = 0; by_child < 2; by_child++) {
		mmap(at, 3 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, 0);
		munmap(at + PAGE, PAGE);
		if (!by_child || fork() == 0) {
			fill(0);
			fill(2);
			if (by_child)
				_exit(0);
		}
		wait(0);
		mmap(at + PAGE, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, PAGE);
		printf("%d\n", areas_in(at, 3 * PAGE));
		munmap(at, 3 * PAGE);
	}
	return 0;
}
