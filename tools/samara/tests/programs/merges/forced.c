/* What is written through /proc/PID/mem where the program may not write, and finds no page: the area has an owner from then on, and nothing shows it.
 * The argument says where. Two areas are written, and what lies between them is mapped: one area, two if both have an owner. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "areas_in.h"

#define PAGE 4096UL
#ifndef UFFD_FEATURE_MINOR_SHMEM
#define UFFD_FEATURE_MINOR_SHMEM (1 << 10)
#endif
#define MINOR 4

static char *at = (char *)0x200000000000;
static int file, memory, prot = PROT_READ;

static void map(int page, int pages)
{
	mmap(at + page * PAGE, pages * PAGE, prot, MAP_PRIVATE | MAP_FIXED, file, page * PAGE);
}

static void force(int page)
{
	if (pwrite(memory, "x", 1, (long)at + page * PAGE) > 0)
		printf("page %d\n", page);
}

static void both(void)
{
	force(0);
	force(2);
}

static int watcher(void)
{
	int made = syscall(SYS_userfaultfd, O_NONBLOCK);
	struct uffdio_api api = {UFFD_API, UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MINOR_SHMEM, 0};
	for (int page = 0; page < 3; page += 2) {
		struct uffdio_register part = {{(long)at + page * PAGE, PAGE}, MINOR, 0};
		if (made < 0 || (page == 0 && ioctl(made, UFFDIO_API, &api)) || ioctl(made, UFFDIO_REGISTER, &part))
			return -1;
	}
	return made;
}

int main(int count, char **words)
{
	const char *where = count > 1 ? words[1] : "beyond";
	file = memfd_create("file", 0);
	memory = open("/proc/self/mem", O_RDWR);
	int watched = !strncmp(where, "watched", 7), opened = !strcmp(where, "opened");
	if (watched || opened)
		ftruncate(file, 3 * PAGE);
	if (!strcmp(where, "watched, writable"))
		prot |= PROT_WRITE;
	if (opened) {
		/* Written as one area, and two before the program may write itself. */
		map(0, 3);
		force(1);
		mlock(at + 2 * PAGE, PAGE);
		mprotect(at + PAGE, 2 * PAGE, PROT_READ | PROT_WRITE);
		munlockall();
		printf("%d\n", areas_in(at + PAGE, 2 * PAGE));
		return 0;
	}
	map(0, 1);
	map(2, 1);
	if (watched) {
		for (int page = 0; page < 3; page += 2)
			pwrite(file, "x", 1, page * PAGE);
		int made = watcher();
		if (made < 0)
			return puts("none watches here"), 0;
		both();
		close(made);
	} else {
		both();
	}
	if (!strcmp(where, "extended"))
		ftruncate(file, 3 * PAGE);
	map(1, 1);
	printf("%d\n", areas_in(at, 3 * PAGE));
	return 0;
}
