/* Maps one of each kind of memory, tells its addresses, and waits for the end of its input. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PAGE 4096

static char zeroed[64 * PAGE];

static void *thread(void *unused)
{
	char local[PAGE];
	memset(local, 1, sizeof local);
	for (;;)
		pause();
	return unused;
}

static char *map(size_t length, int prot, int flags)
{
	char *at = mmap(NULL, length, prot, flags | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		exit(1);
	return at;
}

int main(int argc, char **argv)
{
	int more = argc > 1 ? atoi(argv[1]) : 0;
	pthread_t id;
	memset(zeroed, 1, sizeof zeroed);
	if (pthread_create(&id, NULL, thread, NULL))
		return 1;
	void *heap = malloc(1000);
	memset(heap, 1, 1000);
	char *room = map(64 << 20, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE);
	char *jit = map(16 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE);
	memset(jit, 0xc3, 2 * PAGE);
	char *shared = map(8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
	memset(shared, 1, PAGE);
	/* Three in a row: the middle one may not be written. */
	char *row = map(9 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	memset(row, 1, 9 * PAGE);
	mprotect(row + 3 * PAGE, 3 * PAGE, PROT_READ);
	/* Areas that never merge: every other page without access. */
	if (more) {
		char *many = map((size_t)more * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
		for (int i = 0; i < more; i += 2)
			mprotect(many + (size_t)i * PAGE, PAGE, PROT_READ);
	}
	printf("%lx %lx %lx %lx %lx\n", (long)room, (long)jit, (long)shared, (long)row, (long)heap);
	fflush(stdout);
	char byte;
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
