/* A write to a private page of a file that is not in memory: the thread waits within its fault, since a userfaultfd watches the file, until a call beside it has
 * returned. The kernel gives the area its owner before, so that the call joins it to nothing. Prints how many areas there are then. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "areas_in.h"

#define PAGE 4096UL

static char *at;

static void *writes(void *unused)
{
	at[2 * PAGE] = 1;
	return unused;
}

int main(void)
{
	int rw = PROT_READ | PROT_WRITE, file = memfd_create("slow", 0);
	int watcher = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = {UFFD_API, UFFD_FEATURE_MISSING_SHMEM, 0};
	struct uffd_msg told;
	pthread_t writer;
	if (watcher < 0 || ioctl(watcher, UFFDIO_API, &api))
		return puts("none watches here") < 0;
	/* The first page is there. */
	if (ftruncate(file, 3 * PAGE) || pwrite(file, "x", 1, 0) != 1)
		return 1;
	at = mmap(0, 3 * PAGE, rw, MAP_PRIVATE, file, 0);
	struct uffdio_register watched = {{(unsigned long)at, 3 * PAGE}, UFFDIO_REGISTER_MODE_MISSING, 0};
	if (ioctl(watcher, UFFDIO_REGISTER, &watched))
		return puts("none watches here") < 0;
	mprotect(at + PAGE, PAGE, PROT_READ);
	at[0] = 1;
	pthread_create(&writer, 0, writes, 0);
	if (read(watcher, &told, sizeof told) != sizeof told || told.event != UFFD_EVENT_PAGEFAULT)
		return 1;
	mprotect(at + PAGE, PAGE, rw);
	printf("%d\n", areas_in(at, 3 * PAGE));
	/* Now it is there. */
	struct uffdio_range all = {(unsigned long)at, 3 * PAGE};
	if (pwrite(file, "y", 1, 2 * PAGE) != 1 || ioctl(watcher, UFFDIO_WAKE, &all))
		return 1;
	pthread_join(writer, 0);
	mprotect(at, 3 * PAGE, PROT_READ);
	return 0;
}
