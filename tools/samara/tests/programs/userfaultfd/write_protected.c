/* Pages that a userfaultfd has write-protected, and that it answers for with SIGBUS, are no pages to the kernel that is to write there: calls fail. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096UL

static void tell(int result)
{
	printf("%d\n", result ? errno : 0);
}

int main(void)
{
	char *at = mmap((char *)0x200000000000, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	int made = syscall(SYS_userfaultfd, O_NONBLOCK);
	struct uffdio_api api = {UFFD_API, UFFD_FEATURE_SIGBUS | UFFD_FEATURE_PAGEFAULT_FLAG_WP, 0};
	struct uffdio_register half = {{(long)at, 2 * PAGE}, UFFDIO_REGISTER_MODE_WP, 0};
	if (made < 0 || ioctl(made, UFFDIO_API, &api) || ioctl(made, UFFDIO_REGISTER, &half))
		return puts("none watches here"), 0;
	at[0] = at[PAGE] = 1;
	struct uffdio_writeprotect second = {{(long)at + PAGE, PAGE}, UFFDIO_WRITEPROTECT_MODE_WP};
	ioctl(made, UFFDIO_WRITEPROTECT, &second);
	tell(mlock(at, PAGE));
	tell(mlock(at, 4 * PAGE));
	tell(madvise(at, 4 * PAGE, 23 /* MADV_POPULATE_WRITE */));
	second.mode = 0;
	ioctl(made, UFFDIO_WRITEPROTECT, &second);
	tell(mlock(at, 4 * PAGE));
	return 0;
}
