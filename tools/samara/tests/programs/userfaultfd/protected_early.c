/* What a userfaultfd protects before there are pages looks like pages that are swapped out, but gives its area no owner. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096ul
/* Newer than some headers. */
#define SHMEM_TOO (1ul << 12)
#define UNPOPULATED (1ul << 13)
#define ASYNCHRONOUS (1ul << 15)

static int watcher(uint64_t features)
{
	int made = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = {.api = UFFD_API, .features = features | UFFD_FEATURE_PAGEFAULT_FLAG_WP};
	if (made >= 0 && ioctl(made, UFFDIO_API, &api)) {
		close(made);
		made = -1;
	}
	return made;
}

int main(void)
{
	static const uint64_t features[] = {0, UNPOPULATED, ASYNCHRONOUS, SHMEM_TOO};
	int tried = 0;
	for (int n = 0; n < 4; n++) {
		int by = watcher(features[n]), file = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
		if (by < 0)
			continue;
		if (features[n] == SHMEM_TOO) {
			file = memfd_create("memory", MFD_CLOEXEC);
			flags = MAP_PRIVATE | MAP_FIXED;
			if (file < 0 || ftruncate(file, 8 * PAGE))
				return 1;
		}
		for (int first = 0; first < 6; first++) {
			char *at = mmap((void *)0x20000000, 8 * PAGE, PROT_NONE, flags, file, 0);
			struct uffdio_register what = {{(uintptr_t)at, 8 * PAGE}, UFFDIO_REGISTER_MODE_WP};
			struct uffdio_writeprotect part = {{(uintptr_t)at + first * PAGE, 2 * PAGE}, UFFDIO_WRITEPROTECT_MODE_WP};
			if (ioctl(by, UFFDIO_REGISTER, &what) || ioctl(by, UFFDIO_WRITEPROTECT, &part))
				return 2;
			mprotect(at + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE);
			mprotect(at + 5 * PAGE, PAGE, PROT_READ | PROT_WRITE);
			mprotect(at, 4 * PAGE, PROT_READ);
			mprotect(at + 4 * PAGE, 4 * PAGE, PROT_READ);
			/* With an owner of their own, these two would stay apart from the others. */
			mprotect(at + first * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE);
			mprotect(at, 8 * PAGE, PROT_READ | PROT_WRITE);
			tried++;
		}
		close(by);
		if (file >= 0)
			close(file);
	}
	printf("%d\n", tried);
	return 0;
}
