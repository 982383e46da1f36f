/* What accesses beyond the end of a file leave in areas, though no page: they join what continues them, or do not any more. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "areas_in.h"

#define PAGE 4096UL
#define READ_WRITE (PROT_READ | PROT_WRITE)

static sigjmp_buf back;

static void on_signal(int number)
{
	siglongjmp(back, number);
}

static char *map(char *at, int file, unsigned long offset)
{
	int flags = MAP_PRIVATE | MAP_FIXED | (file < 0 ? MAP_ANONYMOUS : 0);
	return mmap(at, 2 * PAGE, READ_WRITE, flags, file, offset);
}

static void try(const char *what, char *at, int file, int way)
{
	mmap(at, 128 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	map(at, file, 0)[0] = 1;
	/* Beyond the end of the file, whose one page is written. */
	char *beyond = map(at + 64 * PAGE, file, 2 * PAGE);
	volatile char *volatile access = beyond;
	long answer = 0;
	int signal = sigsetjmp(back, 1);
	if (signal == 0) {
		switch (way) {
		case 0:
			*access = 1;
			break;
		case 1:
			(void)*access;
			break;
		case 2:
			answer = madvise(beyond, PAGE, MADV_POPULATE_WRITE);
			break;
		case 3:
			answer = mlock(beyond, PAGE);
			munlock(beyond, PAGE);
			break;
		}
	}
	mremap(beyond, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at + 2 * PAGE);
	printf("%s %d %ld %d\n", what, signal, answer, areas_in(at, 4 * PAGE));
}

/* A call over several areas comes as far as the end of a file: what lies behind is as it was. */
static void several(const char *what, char *at, int file, int advise)
{
	mmap(at, 128 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	map(at, -1, 0)[0] = 1;
	char *low = at + 60 * PAGE;
	char *high = at + 64 * PAGE;
	map(low, -1, 0);
	map(low + 2 * PAGE, file, 2 * PAGE);
	map(high, -1, 0);
	unsigned long length = 6 * PAGE;
	long answer = advise ? madvise(low, length, MADV_POPULATE_WRITE) : mlock(low, length);
	munlock(low, length);
	mremap(high, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at + 2 * PAGE);
	printf("%s %ld %d\n", what, answer, areas_in(at, 4 * PAGE));
	mremap(low, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at + 2 * PAGE);
	printf("%s below %d\n", what, areas_in(at, 4 * PAGE));
}

int main(void)
{
	int file = memfd_create("short", 0);
	if (file < 0 || ftruncate(file, PAGE) != 0)
		return 1;
	signal(SIGBUS, on_signal);
	char *at = mmap(0, 128 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	try("write", at, file, 0);
	try("read", at, file, 1);
	try("fill", at, file, 2);
	try("lock", at, file, 3);
	several("locked", at, file, 0);
	several("filled", at, file, 1);
	return 0;
}
