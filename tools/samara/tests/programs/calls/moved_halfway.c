/* A move that shrinks parts merged pages last, and one of two areas parts those of the second when the first has been moved: a signal breaks it off there, and
 * it is made again. Meanwhile another thread calls. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

#define PAGE 4096UL
#define FIXED (MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED)

static char *const from = (char *)0x200000000000, *const to = (char *)0x200000100000;
static pthread_t mover;
static atomic_int moved;

static void handler(int signal)
{
	(void)signal;
}

static void *calls(void *argument)
{
	char *own = to + 64 * PAGE;
	for (int n = 0; !moved; n++) {
		pthread_kill(mover, SIGUSR1);
		mprotect(own, PAGE, n & 1 ? PROT_READ : PROT_READ | PROT_WRITE);
	}
	return argument;
}

int main(void)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
	sigaction(SIGUSR1, &action, NULL);
	mover = pthread_self();
	mmap(to + 64 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, FIXED, -1, 0);
	pthread_t thread;
	if (pthread_create(&thread, NULL, calls, NULL))
		return 1;
	for (int n = 0; n < 100; n++) {
		int two = n & 1;
		mmap(from, 16 * PAGE, PROT_READ | PROT_WRITE, FIXED, -1, 0);
		mmap(to, 16 * PAGE, PROT_READ, FIXED, -1, 0);
		if (madvise(from, 16 * PAGE, MADV_MERGEABLE))
			break;
		for (int page = two ? 8 : 0; page < 16; page++)
			from[page * PAGE] = 1;
		if (two)
			mprotect(from, 8 * PAGE, PROT_READ);
		mremap(from, 16 * PAGE, (two ? 16 : 8) * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	}
	moved = 1;
	pthread_join(thread, NULL);
	return 0;
}
