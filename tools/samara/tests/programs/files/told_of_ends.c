/* Areas of a file of FUSE, whose driver is told of each that ends: they grow and shrink, but none vanishes in another. A child serves the file, mounted over
   the one that the argument names, or in /tmp without one. With a second argument the server wants it uncached (FOPEN_DIRECT_IO): the driver is told nothing then. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "areas_in.h"
#include "fuse_server.h"

#define PAGE 4096UL

static char *at;

static void told(void)
{
	printf("%d ", areas_in(at, 32 * PAGE));
}

static void map(int page, int pages, int kind, int file)
{
	mmap(at + page * PAGE, pages * PAGE, PROT_READ, kind | MAP_FIXED, file, page * PAGE);
}

static void anew(int pages, int kind, int file)
{
	munmap(at, 32 * PAGE);
	if (pages)
		map(0, pages, kind, file);
}

static void try(int kind, int file)
{
	at = mmap(0, 32 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* New ones join one neighbour. */
	anew(1, kind, file);
	map(1, 1, kind, file);
	map(3, 1, kind, file);
	told();
	map(2, 1, kind, file);
	told();
	/* Over its own middle. */
	anew(3, kind, file);
	map(1, 1, kind, file);
	told();
	/* Whole ones that are changed join none; a part goes to the area beside it. */
	anew(4, kind, file);
	mprotect(at + PAGE, 2 * PAGE, PROT_NONE);
	mprotect(at + PAGE, PAGE, PROT_READ);
	told();
	mprotect(at + 2 * PAGE, PAGE, PROT_READ);
	told();
	madvise(at, 4 * PAGE, MADV_RANDOM);
	told();
	/* What is moved is new there. */
	anew(3, kind, file);
	mremap(at + PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at + 9 * PAGE);
	mremap(at + 9 * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at + PAGE);
	told();
	anew(2, kind, file);
	map(3, 1, kind, file);
	mremap(at + PAGE, PAGE, 2 * PAGE, 0);
	told();
	puts("");
	munmap(at, 32 * PAGE);
}

int main(int count, char **words)
{
	int device = open("/dev/fuse", O_RDWR);
	char options[100];
	const char *file_name = count > 1 ? words[1] : "/tmp/told_of_ends";
	if (count < 2)
		close(creat(file_name, 0600));
	snprintf(options, sizeof options, "fd=%d,rootmode=100000,user_id=0,group_id=0", device);
	if (device < 0 || unshare(CLONE_NEWNS) || mount(0, "/", 0, MS_REC | MS_PRIVATE, 0)
	    || mount("f", file_name, "fuse", 0, options))
		return puts("may not") < 0;
	fflush(stdout);
	pid_t server = fork();
	if (!server)
		serve(&(struct server){.device = device, .pages = 16, .valid = 1000, .opened = count > 2 ? FOPEN_DIRECT_IO : 0});
	close(device);
	int file = open(file_name, O_RDWR);
	if (file < 0)
		return 1;
	try(MAP_PRIVATE, file);
	try(MAP_SHARED, file);
	close(file);
	umount2(file_name, MNT_DETACH);
	return waitpid(server, 0, 0) != server;
}
