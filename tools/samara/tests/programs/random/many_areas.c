/* Much that every kernel does alike, and here and there something that older ones did otherwise. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static char *area(size_t pages, int flags)
{
	return mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

/* Fills the gaps between libraries, which are others on each machine: older kernels may choose otherwise whom of two neighbours an area joins. */
static void fill_gaps(void)
{
	char *below = mmap(NULL, 1 << 20, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	while ((char *)mmap(NULL, 4096, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) > below)
		;
}

int main(int count, char **arguments)
{
	unsigned seed = 7;
	int number;
	fill_gaps();
	for (number = 0; number < 60; number++) {
		char *some = area(4 + rand_r(&seed) % 30, 0);
		some[0] = 1;
		mprotect(some + 4096, 4096, PROT_READ);
		free(malloc(150000 + rand_r(&seed) % 100000));
		if (number == 40 && count == 1) {
			/* Joins the area above it on kernels before 6.7. */
			char *stack = area(8, MAP_STACK);
			stack[4096] = 1;
			munmap(stack + 4096, 4096);
		}
		if (number % 3 == 0)
			munmap(some, 8192);
		if (number == 50 && count == 2) {
			/* Was EFAULT before 6.17. */
			mremap((void *)0x10000, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)0x11000);
		}
	}
	return 0;
}
