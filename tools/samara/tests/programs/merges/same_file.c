/* A file is mapped, and waits for a line. What is mapped of it then joins what is there, if it is through the same open file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, WRITE = PROT_READ | PROT_WRITE };

static void rounds(char *base, int file, int type)
{
	for (int page = 2; page < 5; page++) {
		mprotect(base + page * PAGE, PAGE, PROT_READ);
		mprotect(base + page * PAGE, PAGE, WRITE);
		mmap(base + 4 * PAGE, PAGE, WRITE, type | MAP_FIXED, file, 4 * PAGE);
		mmap(base + 8 * PAGE, page * PAGE, WRITE, type | MAP_FIXED, file, 8 * PAGE);
		madvise(base, 16 * PAGE, page & 1 ? MADV_RANDOM : MADV_SEQUENTIAL);
		madvise(base, 16 * PAGE, MADV_NORMAL);
	}
}

int main(void)
{
	char line[8], name[] = "/tmp/same_file_XXXXXX";
	int file = mkstemp(name), other = open(name, O_RDWR);
	char *shared, *private;

	if (file < 0 || other < 0 || unlink(name) || ftruncate(file, 32 * PAGE)) return 1;
	/* Room above for what goes on with it. */
	shared = mmap(NULL, 32 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	private = mmap(NULL, 32 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mmap(shared, 8 * PAGE, WRITE, MAP_SHARED | MAP_FIXED, file, 0);
	mmap(private, 8 * PAGE, WRITE, MAP_PRIVATE | MAP_FIXED, file, 0);
	shared[PAGE] = private[PAGE] = 1;
	printf("%d\n", getpid());
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin)) return 1;
	rounds(shared, file, MAP_SHARED);
	rounds(private, file, MAP_PRIVATE);
	rounds(shared, other, MAP_SHARED);
	rounds(private, other, MAP_PRIVATE);
	rounds(shared, file, MAP_SHARED);
	printf("done\n");
	fflush(stdout);
	fgets(line, sizeof line, stdin);
	return 0;
}
