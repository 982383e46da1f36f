/* A ring of io_setup(2) that came by a fork has no owner and does not move: neither alone nor behind other areas, which have moved by then. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096L
#define FIXED (MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED)

static char *const place = (char *)0x200000000, *const to = (char *)0x300000000;

int main(void)
{
	unsigned long ring = 0;
	if (syscall(SYS_io_setup, 1, &ring) || mremap((void *)ring, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place + 2 * PAGE) == MAP_FAILED)
		return 0;
	for (int n = 0; n < 8; n++) {
		if (fork() == 0) {
			if (n & 1)
				mmap(place, PAGE, PROT_READ, FIXED, -1, 0);
			if (n & 2)
				mmap(place + 4 * PAGE, PAGE, PROT_READ | PROT_WRITE, FIXED, -1, 0);
			if (n & 4)
				mmap(to, 8 * PAGE, PROT_READ, FIXED, -1, 0);
			mremap(place, 5 * PAGE, 5 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
			mprotect(to, PAGE, PROT_READ | PROT_WRITE);
			mremap(place + 2 * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to + 16 * PAGE);
			_exit(0);
		}
		wait(0);
	}
	return 0;
}
