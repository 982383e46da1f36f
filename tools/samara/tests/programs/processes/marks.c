/* Changes its map, and at some moments prints it behind the number of a call that fails and that nobody else makes: munmap(1, number). */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char text[1 << 16];

static void mark(int number)
{
	char line[] = "mark 0\n";
	size_t length = 0;
	ssize_t got;
	int file = open("/proc/self/maps", O_RDONLY);

	line[5] += number;
	munmap((void *)1, number);
	while ((got = read(file, text + length, sizeof(text) - length)) > 0)
		length += got;
	close(file);
	write(1, line, strlen(line));
	write(1, text, length);
}

int main(int count, char **names)
{
	/* Executable, so that it merges with nothing that was there. */
	int all = PROT_READ | PROT_WRITE | PROT_EXEC;
	char *base = mmap(0, 64 << 12, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int step;

	mark(1);
	base[2 << 12] = 1;
	mprotect(base + (8 << 12), 8 << 12, PROT_READ);
	mprotect(base + (20 << 12), 8 << 12, PROT_NONE);
	munmap(base + (40 << 12), 4 << 12);
	mark(2);
	mprotect(base + (8 << 12), 20 << 12, all);
	mark(3);
	/* Files with names that a page must not take for its own text. */
	for (step = 1; step < count; step++) {
		int file = open(names[step], O_RDONLY);

		if (file < 0 || mmap(0, 1 << 12, PROT_READ, MAP_PRIVATE, file, 0) == MAP_FAILED)
			return 1;
		close(file);
	}
	for (step = 0; step < 300; step++)
		mprotect(base + ((step * 7 % 64) << 12), 1 << 12, step % 3 ? PROT_READ : PROT_READ | PROT_WRITE);
	mark(4);
	munmap(base, 64 << 12);
	mark(5);
	return 0;
}
