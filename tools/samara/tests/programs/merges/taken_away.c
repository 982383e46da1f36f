/* One thread writes to memory that another takes away and puts something else there: taken_away ROUNDS. Whether the area that is left was written is only seen
   when it meets another that was. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE 4096UL
#define READ_WRITE (PROT_READ | PROT_WRITE)
#define FIXED (MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED)

static char *arena;
static volatile int done;
static __thread sigjmp_buf back;

static void on_signal(int number)
{
	siglongjmp(back, number);
}

static void *writes(void *unused)
{
	unsigned long state = 88172645463325252UL;
	while (!done) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		for (volatile unsigned long wait = state % 60000; wait > 0; wait--)
			;
		if (sigsetjmp(back, 1) == 0)
			*(volatile char *)(arena + 6 * PAGE) = 1;
	}
	return unused;
}

static void take_away(int way)
{
	char *upper = arena + 4 * PAGE;
	switch (way) {
	case 0:
		munmap(upper, 4 * PAGE);
		mmap(upper, 4 * PAGE, PROT_NONE, FIXED, -1, 0);
		break;
	case 1:
		mmap(upper, 4 * PAGE, PROT_NONE, FIXED, -1, 0);
		break;
	case 2:
		mmap(arena + 16 * PAGE, 4 * PAGE, PROT_NONE, FIXED, -1, 0);
		mremap(arena + 16 * PAGE, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, upper);
		break;
	}
}

int main(int count, char **arguments)
{
	int rounds = count > 1 ? atoi(arguments[1]) : 100;
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_NODEFER };
	sigaction(SIGSEGV, &action, 0);
	arena = mmap(0, 32 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t other;
	pthread_create(&other, 0, writes, 0);
	for (int round = 0; round < rounds; round++) {
		char *upper = arena + 4 * PAGE;
		mmap(arena, 8 * PAGE, READ_WRITE, FIXED, -1, 0);
		take_away(round % 3);
		/* What it is not to share with its neighbour. */
		madvise(upper, 4 * PAGE, MADV_DONTFORK);
		mprotect(upper, 4 * PAGE, READ_WRITE);
		*(volatile char *)upper = 1;
		madvise(upper, 4 * PAGE, MADV_DOFORK);
	}
	done = 1;
	pthread_join(other, 0);
	return 0;
}
