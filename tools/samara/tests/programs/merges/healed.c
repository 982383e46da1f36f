/* Parts of one area, kept apart by their protection, wait for a line and are made one again then. Which of them had one owner of private pages, and which came from a
 * parent, shows only in what joins. With "child" a child made before does it, with "parent" the parent of one. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, READ = PROT_READ, WRITE = PROT_READ | PROT_WRITE, FIXED = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED };
static char *base = (char *)0x300000000;

static char *page(int number) { return base + number * PAGE; }

static void map(int number, int pages) { mmap(page(number), pages * PAGE, WRITE, FIXED, -1, 0); }

static void protect(int number, int pages, int protection) { mprotect(page(number), pages * PAGE, protection); }

static void heal(void)
{
	char *beside;
	/* In parts that do not end where they were cut. */
	protect(6, 4, WRITE);
	protect(3, 9, WRITE);
	/* Cut anew, these heal in a child, too. */
	protect(2, 1, READ);
	protect(2, 1, WRITE);
	/* Written apart, these never join. */
	for (int round = 0; round < 2; round++) {
		protect(40, 3, READ);
		protect(40, 2, WRITE);
		protect(42, 1, WRITE);
	}
	/* Three that were cut apart, in an order in which no two join before the last. */
	protect(62, 1, READ);
	protect(60, 1, READ);
	protect(61, 1, READ);
	/* New memory beside what was written to. */
	map(16, 2);
	map(43, 1);
	page(43)[0] = 1;
	protect(43, 1, READ);
	protect(43, 1, WRITE);
	for (int round = 0; round < 4; round++) {
		beside = mmap(0, 8 * PAGE, WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		beside[round * PAGE] = 1;
	}
	for (int round = 0; round < 4; round++) *(char *)sbrk(3 * PAGE) = 1;
}

int main(int argc, char **argv)
{
	char line[8];
	pid_t other = 0;

	map(0, 16);
	memset(page(0), 1, 16 * PAGE);
	protect(4, 4, READ);
	protect(8, 3, PROT_NONE);
	map(40, 1);
	map(42, 1);
	page(40)[0] = page(42)[0] = 1;
	map(41, 1);
	map(60, 4);
	memset(page(60), 1, 4 * PAGE);
	protect(61, 1, PROT_NONE);
	protect(62, 2, PROT_READ | PROT_EXEC);
	memset(mmap(0, 8 * PAGE, WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, 8 * PAGE);
	*(char *)sbrk(PAGE) = 1;
	if (argc > 1) {
		int waits = !strcmp(argv[1], "parent");
		other = fork();
		if (waits ? other == 0 : other != 0) {
			if (!waits) return waitpid(other, NULL, 0) != other;
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;) pause();
		}
	}
	printf("%d\n", getpid());
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin)) return 1;
	heal();
	printf("done\n");
	fflush(stdout);
	fgets(line, sizeof line, stdin);
	if (other > 0) kill(other, SIGKILL);
	return 0;
}
