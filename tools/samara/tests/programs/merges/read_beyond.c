/* What read(2) leaves in an area when it stores beyond the end of the file that is mapped there: nothing that shows, but the area joins others no more.
 * With an argument, the file becomes shorter while it is mapped. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "areas_in.h"

#define PAGE 4096UL
#define READ_WRITE (PROT_READ | PROT_WRITE)

static int zeroes;

static char *map(char *at, int prot, int file, unsigned long offset)
{
	return mmap(at, 2 * PAGE, prot, MAP_PRIVATE | MAP_FIXED, file, offset);
}

/* Two pages of a file, the first of which is written, and two beyond its end: into which is read, or not. */
static void try(const char *what, char *at, int file, int prot, int reads, int shorter)
{
	mmap(at, 128 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (shorter)
		ftruncate(file, 4 * PAGE);
	map(at, READ_WRITE, file, 0)[0] = 1;
	char *beyond = map(at + 64 * PAGE, prot, file, 2 * PAGE);
	if (prot != READ_WRITE)
		mprotect(beyond, 2 * PAGE, READ_WRITE);
	if (shorter)
		ftruncate(file, PAGE);
	int error = 0;
	if (reads && read(zeroes, beyond, 10) < 0)
		error = errno;
	mremap(beyond, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at + 2 * PAGE);
	printf("%s %d %d\n", what, error, areas_in(at, 4 * PAGE));
}

int main(int count, char **arguments)
{
	(void)arguments;
	int file = memfd_create("short", 0);
	zeroes = open("/dev/zero", O_RDONLY);
	if (file < 0 || zeroes < 0 || ftruncate(file, PAGE) != 0)
		return 1;
	char *at = mmap(0, 128 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (count > 1) {
		try("shorter and read", at, file, READ_WRITE, 1, 1);
		return 0;
	}
	try("untouched", at, file, READ_WRITE, 0, 0);
	try("read", at, file, READ_WRITE, 1, 0);
	try("made writable", at, file, PROT_READ, 0, 0);
	try("made writable and read", at, file, PROT_READ, 1, 0);
	return 0;
}
