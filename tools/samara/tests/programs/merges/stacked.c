/* Areas of files on an overlay: what is mapped joins no neighbour, but what is done to it later joins it. The argument is a folder to mount one in; without one, /tmp. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "areas_in.h"

#define PAGE 4096UL

static char *at;

static void told(void)
{
	printf("%d ", areas_in(at, 32 * PAGE));
}

static void map(int page, int protection, int kind, int file)
{
	mmap(at + page * PAGE, PAGE, protection, kind | MAP_FIXED, file, page * PAGE);
}

static void move(int from, int to)
{
	mremap(at + from * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at + to * PAGE);
}

static void try(int kind)
{
	int file = open("m/f", O_RDWR), other = open("m/f", O_RDWR), copied = open("m/g", O_RDONLY), same = dup(file);
	at = mmap(0, 32 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(at, 32 * PAGE);
	map(1, 1, kind, file);
	map(2, 1, kind, same);
	told();
	mprotect(at + PAGE, PAGE, PROT_NONE);
	mprotect(at + PAGE, PAGE, PROT_READ);
	told();
	map(0, 1, kind, file);
	map(3, 1, kind, file);
	told();
	madvise(at, 4 * PAGE, MADV_SEQUENTIAL);
	told();
	/* In its own place, and with other properties first. */
	map(2, 1, kind, file);
	told();
	madvise(at, 4 * PAGE, MADV_NORMAL);
	told();
	move(3, 9);
	move(2, 8);
	move(9, 3);
	move(8, 2);
	told();
	map(4, 1, kind, other);
	madvise(at, 5 * PAGE, MADV_RANDOM);
	told();
	mremap(at + 4 * PAGE, PAGE, 2 * PAGE, 0);
	map(2, 1, kind, file);
	remap_file_pages(at + 2 * PAGE, PAGE, 0, 2, 0);
	told();
	if (kind == MAP_PRIVATE) {
		/* What was written is written. */
		munmap(at, 32 * PAGE);
		map(1, 3, kind, file);
		map(2, 3, kind, file);
		at[PAGE] = at[2 * PAGE] = 1;
		map(3, 3, kind, file);
		told();
		mprotect(at, 4 * PAGE, PROT_READ);
		mprotect(at + PAGE, 3 * PAGE, PROT_READ);
		told();
	}
	munmap(at, 32 * PAGE);
	/* A file that is copied up in the meantime. */
	mmap(at, 8 * PAGE, PROT_READ, kind | MAP_FIXED, copied, 0);
	int writes = open("m/g", O_RDWR);
	map(2, 0, kind, copied);
	map(4, 1, kind, copied);
	mprotect(at + 2 * PAGE, PAGE, PROT_READ);
	told();
	puts("");
	munmap(at, 32 * PAGE);
	close(writes), close(same), close(copied), close(other), close(file);
}

int main(int count, char **words)
{
	const char *folder = count > 1 ? words[1] : "/tmp";
	if (unshare(CLONE_NEWNS) || mount(0, "/", 0, MS_REC | MS_PRIVATE, 0) || mount("t", folder, "tmpfs", 0, 0) || chdir(folder))
		return puts("may not") < 0;
	mkdir("l", 0700), mkdir("u", 0700), mkdir("w", 0700), mkdir("m", 0700);
	for (int i = 0; i < 2; i++) {
		int file = open(i ? "l/f" : "l/g", O_CREAT | O_RDWR, 0600);
		ftruncate(file, 32 * PAGE);
		close(file);
	}
	if (mount("o", "m", "overlay", 0, "lowerdir=l,upperdir=u,workdir=w"))
		return puts("may not") < 0;
	try(MAP_SHARED);
	try(MAP_PRIVATE);
	return 0;
}
