/* A segment that is to be removed is gone when its last area is cut out of the way: remap_file_pages(2) maps it no more. Rings of io_setup(2) at the place of such
 * as were unmapped but not destroyed, and of other lengths. Holes beyond the largest offset of a file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096L

static void segments(void)
{
	for (int n = 0; n < 16; n++) {
		int id = shmget(IPC_PRIVATE, 3 * PAGE, 0600), second = n & 8;
		char *at = shmat(id, 0, 0), *other = second ? shmat(id, 0, 0) : 0;
		if (n & 1)
			shmctl(id, IPC_RMID, 0);
		if (n & 4)
			mprotect(at + PAGE, PAGE, PROT_READ);
		remap_file_pages(at, (n & 2 ? 3 : 2) * PAGE, 0, 0, 0);
		mprotect(at, PAGE, PROT_READ);
		munmap(at, 3 * PAGE);
		if (second)
			shmdt(other);
		shmctl(id, IPC_RMID, 0);
	}
}

static void rings(void)
{
	static const int events[] = {600, 1, 300, 60, 500, 1};
	for (int n = 0; n < 6; n++) {
		unsigned long ring = 0;
		if (syscall(SYS_io_setup, events[n], &ring))
			return;
		if (n % 2 == 0)
			munmap((void *)ring, 16 * PAGE < 64 * events[n] ? 6 * PAGE : PAGE);
		else
			syscall(SYS_io_destroy, ring);
		mmap(0, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
}

static void holes(void)
{
	int zero = open("/dev/zero", O_RDWR), reads = open("/proc/self/exe", O_RDONLY);
	char *at = mmap(0, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mmap(at, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, zero, 0x7fffffffffffe000);
	mmap(at + 2 * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, reads, 0);
	madvise(at, PAGE, MADV_REMOVE);
	madvise(at, 2 * PAGE, MADV_REMOVE);
	madvise(at, 3 * PAGE, MADV_REMOVE);
	mprotect(at, PAGE, PROT_READ);
}

int main(void)
{
	segments();
	holes();
	rings();
	return 0;
}
