/*
 * A device's driver refuses a mapping at a fixed place before the kernel looks at what is there: nothing has been cut. That what is there cannot be cut would
 * have been refused with the same error, when the areas below have been.
 */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096

int main(void)
{
	struct io_uring_params params;
	char line[512];
	unsigned long start, end, vdso = 0;

	memset(&params, 0, sizeof params);
	int ring = syscall(SYS_io_uring_setup, 8, &params);
	FILE *maps = fopen("/proc/self/maps", "r");

	while (maps && fgets(line, sizeof line, maps))
		if (strstr(line, "[vdso]") && sscanf(line, "%lx-%lx", &start, &end) == 2 && end - start > PAGE)
			vdso = start;
	if (ring < 0 || !vdso)
		return 0;
	char *below = mmap(NULL, 4 * PAGE, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	/* From within the area to within one that is not cut. */
	syscall(SYS_mmap, below + 2 * PAGE, vdso + PAGE - (uintptr_t)below - 2 * PAGE, PROT_READ,
		MAP_SHARED | MAP_FIXED, ring, 0x7000000000000000);
	/* Shown by any call that follows. */
	mprotect(below, PAGE, PROT_READ);
	munmap(below, 4 * PAGE);
	return 0;
}
