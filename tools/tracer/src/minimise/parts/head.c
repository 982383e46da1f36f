/* The shortest history in which the engine differs from the kernel, found by `samara replay --minimise`.
 * Prints this machine's and the engine's answers, and exits with 1 if they differ.
 * No code here may use the heap, because the history may use it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct area {
	long start, end;
	char perms[5];
};

static char room[1 << 20] __attribute__((unused, aligned(8)));
static long start_brk __attribute__((unused)), fence __attribute__((unused));
static struct area windows[256];
static int window_count;

static long call(long number, long a, long b, long c, long d, long e, long f)
{
	long result = syscall(number, a, b, c, d, e, f);
	return result == -1 ? -errno : result;
}

static long __attribute__((unused)) touch(long address)
{
	static int ends[2];
	if (!ends[1] && pipe(ends))
		return -errno;
	if (write(ends[1], "x", 1) != 1)
		return -errno;
	return read(ends[0], (void *)address, 1) == 1 ? 0 : -errno;
}

static long __attribute__((unused)) into_child(void)
{
	int status;
	long child = syscall(SYS_fork);
	if (child > 0) {
		waitpid(child, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
	}
	return child < 0 ? -errno : 0;
}

static long __attribute__((unused)) aside(void)
{
	long parent = getpid(), child = syscall(SYS_fork);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			pause();
		_exit(0);
	}
	return child < 0 ? -errno : 0;
}

static int __attribute__((unused)) file(int number, int access)
{
	static int opened[1024];
	char path[64];
	if (!opened[number]) {
		int made = memfd_create("file", 0);
		if (ftruncate(made, 1L << 40))
			perror("ftruncate");
		snprintf(path, sizeof path, "/proc/self/fd/%d", made);
		opened[number] = access == O_RDWR ? made : open(path, access);
	}
	return opened[number];
}

static long find_start_brk(void)
{
	static char text[4096];
	int stat = open("/proc/self/stat", O_RDONLY), field;
	char *at = text;
	if (read(stat, text, sizeof text - 1) <= 0)
		return 0;
	close(stat);
	at = strrchr(text, ')');
	for (field = 2; at && field < 47; field++)
		at = strchr(at + 1, ' ');
	return at ? atol(at) : 0;
}

/* Fills the gaps next to this process's mappings with memory that merges with nothing,
 * so that later mappings meet only each other. */
static long put_fence(void)
{
	static char text[1 << 16];
	long used = 0, got, wide = 1L << 30, below = 0;
	int maps = open("/proc/self/maps", O_RDONLY), kind = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;
	char *line;
	while ((got = read(maps, text + used, sizeof text - 1 - used)) > 0)
		used += got;
	close(maps);
	for (line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : line) {
		unsigned long start = 0, end = 0;
		sscanf(line, "%lx-%lx", &start, &end);
		if (start >> 47)
			break;
		if (below > start_brk && (long)start > below && (long)start - below < wide)
			mmap((void *)below, start - below, PROT_NONE, kind | MAP_FIXED, -1, 0);
		below = end;
	}
	/* It ends at a fully aligned address. So every aligned address has the same distance from it in
	 * each process. */
	long start = (long)mmap(NULL, wide, PROT_NONE, kind, -1, 0), end = start & ~(wide - 1);
	if (end < start)
		mmap((void *)end, start - end, PROT_NONE, kind | MAP_FIXED, -1, 0);
	return end;
}

static int __attribute__((unused)) answer(long kernel, long engine)
{
	printf("kernel: %#lx (%ld)\nengine: %#lx (%ld)\n", kernel, kernel, engine, engine);
	fflush(stdout);
	_exit(kernel != engine);
}

static void __attribute__((unused)) window(long start, long length)
{
	windows[window_count].start = start;
	windows[window_count++].end = start + length;
}

static int __attribute__((unused)) map(struct area *engine, int count)
{
	static char text[1 << 20];
	long used = 0, got;
	int maps = open("/proc/self/maps", O_RDONLY), seen = 0, differs = 0, number;
	char *line;
	while ((got = read(maps, text + used, sizeof text - 1 - used)) > 0)
		used += got;
	printf("kernel:\n");
	for (line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : line) {
		struct area area = { 0, 0, "" };
		int inside = 0;
		sscanf(line, "%lx-%lx %4s", (unsigned long *)&area.start, (unsigned long *)&area.end, area.perms);
		for (number = 0; number < window_count; number++)
			inside |= area.start < windows[number].end && windows[number].start < area.end;
		if (!inside)
			continue;
		printf("  %lx-%lx %s\n", area.start, area.end, area.perms);
		differs |= seen >= count || engine[seen].start != area.start || engine[seen].end != area.end ||
			   strcmp(engine[seen].perms, area.perms);
		seen++;
	}
	printf("engine:\n");
	for (number = 0; number < count; number++)
		printf("  %lx-%lx %s\n", engine[number].start, engine[number].end, engine[number].perms);
	fflush(stdout);
	_exit(differs || seen != count);
}

