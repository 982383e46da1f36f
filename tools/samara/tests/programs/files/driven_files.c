/* Regular files by their mode that a driver maps: the memory of a virtual machine, which cannot be written back, and the ring of a processor's trace events,
 * which nobody may cut. What the machine lacks is left out. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096UL

static char *const place = (char *)0x200000000;

static void try_out(int file)
{
	for (int kind = MAP_SHARED; kind <= MAP_PRIVATE; kind++)
		for (int protection = 0; protection < 8; protection++) {
			char *at = mmap(place, 3 * PAGE, protection, kind | MAP_FIXED, file, 0);
			if (at == MAP_FAILED)
				continue;
			msync(at, PAGE, MS_SYNC);
			mprotect(at, PAGE, PROT_NONE);
			madvise(at + PAGE, PAGE, MADV_SEQUENTIAL);
			mlock(at, PAGE);
			munlock(at, PAGE);
			mmap(at + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
			mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place + 8 * PAGE);
			munmap(at, PAGE);
			munmap(place, 16 * PAGE);
		}
}

int main(void)
{
	int machine = ioctl(open("/dev/kvm", O_RDWR), KVM_CREATE_VM, 0);
	struct { uint64_t size, flags, reserved[6]; } memory = {16 * PAGE, 1, {0}};
	int guest = ioctl(machine, _IOWR(0xAE, 0xd4, memory), &memory);
	if (guest >= 0)
		try_out(guest);
	int ring = open("/sys/kernel/tracing/per_cpu/cpu0/trace_pipe_raw", O_RDONLY | O_NONBLOCK);
	if (ring >= 0)
		try_out(ring);
	return 0;
}
