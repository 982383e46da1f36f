/* Waits in a function that is called by others, with memory whose bytes are known. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

char pattern[2 * PAGE] __attribute__((aligned(PAGE))) = { 1 };
char *sparse, *secret, *shared;

__attribute__((noinline)) static void innermost(int depth)
{
	char byte;
	printf("%lx %lx %lx %lx\n", (long)pattern, (long)sparse, (long)secret, (long)shared);
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	if (depth)
		puts("done");
}

__attribute__((noinline)) static void middle(int depth)
{
	innermost(depth + 1);
	puts("middle");
}

__attribute__((noinline)) static void outermost(int depth)
{
	middle(depth + 1);
	puts("outermost");
}

static void *other_thread(void *unused)
{
	for (;;)
		pause();
	return unused;
}

int main(void)
{
	pthread_t id;
	int rw = PROT_READ | PROT_WRITE;
	memset(pattern, 0x5a, sizeof pattern);
	/* 1 GiB, of which two pages are written. */
	sparse = mmap(NULL, 1 << 30, rw, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	memset(sparse, 0x11, PAGE);
	memset(sparse + (1 << 29), 0x22, PAGE);
	secret = mmap(NULL, PAGE, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(secret, 0x33, PAGE);
	madvise(secret, PAGE, MADV_DONTDUMP);
	shared = mmap(NULL, 1 << 28, rw, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(shared + 5 * PAGE, 0x44, PAGE);
	if (pthread_create(&id, NULL, other_thread, NULL))
		return 1;
	outermost(0);
	return 0;
}
