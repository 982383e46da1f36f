/* Moves of several areas, of which some choose their place themselves: these move alone or not at all, and what is before them has moved already. On the
 * folder that is named a ramfs is mounted, if the machine allows it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096UL
#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)

static char *const to = (char *)0x300000000;

static void together(char *from, unsigned long pages)
{
	mremap(from, pages * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	mremap(from, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to + 64 * PAGE);
	munmap(from, pages * PAGE);
	munmap(to, 128 * PAGE);
}

/* Before, behind and between other memory, at a place that is chosen here or there. */
static void try_out(int file)
{
	for (int kind = MAP_SHARED; kind <= MAP_PRIVATE; kind++)
		for (int others = 0; others < 4; others++) {
			char *at = mmap(0, 5 * PAGE, PROT_NONE, ANONYMOUS, -1, 0);
			munmap(at, 5 * PAGE);
			char *mapped = mmap(0, PAGE, PROT_READ, kind, file, 0);
			if (mapped == MAP_FAILED)
				continue;
			if (others & 1)
				mmap(mapped - 2 * PAGE, PAGE, PROT_READ, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
			if (others & 2)
				mmap(mapped - PAGE, PAGE, PROT_READ | PROT_WRITE, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
			together(mapped - 2 * PAGE, 3);
		}
}

int main(int argc, char **argv)
{
	struct io_uring_params parameters = {0};
	int ring = syscall(SYS_io_uring_setup, 4, &parameters);
	if (ring >= 0)
		try_out(ring);
	union bpf_attr attributes;
	memset(&attributes, 0, sizeof attributes);
	attributes.map_type = BPF_MAP_TYPE_ARRAY;
	attributes.key_size = 4;
	attributes.value_size = 8;
	attributes.max_entries = 512;
	attributes.map_flags = BPF_F_MMAPABLE;
	int map = syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes);
	if (map >= 0)
		try_out(map);
	if (argc < 2 || unshare(CLONE_NEWNS) || mount(0, "/", 0, MS_REC | MS_PRIVATE, 0) || mount("ramfs", argv[1], "ramfs", 0, 0))
		return 0;
	char path[4096];
	snprintf(path, sizeof path, "%s/file", argv[1]);
	int file = open(path, O_RDWR | O_CREAT, 0600);
	if (file < 0 || ftruncate(file, 8 * PAGE))
		return 1;
	try_out(file);
	return 0;
}
