/* Advice through a ring of io_uring: the areas that it divides and joins, and what a child has of them.
 * Arguments: "wait" or "go on", the flags of the ring, and "at 0" for one whose head is mapped there, or "registered" for one of several that have numbers. Ends
 * with 77 where there are no such rings. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "areas_in.h"

#define PAGE 4096UL
#define SQE128 (1u << 10)
#define NO_MMAP (1u << 14)
#define NO_SQARRAY (1u << 16)
#define SQPOLL (1u << 1)
#define OP_MADVISE 25
#define REGISTER_RINGS 20
#define BY_NUMBER (1u << 4)

struct offsets {
	uint32_t head, tail, mask, entries, a, b, c, d;
	uint64_t user;
};

struct params {
	uint32_t sq_entries, cq_entries, flags, cpu, idle, features, wq, reserved[3];
	struct offsets sq, cq;
};

static struct params params;
static char *ring, *entries;
static int file, waits, at_zero;
static unsigned by_number;

struct update {
	uint32_t number, reserved;
	uint64_t file;
};

/* Has several rings registered, and their descriptors closed: the numbers of them stay. */
static int name_by_numbers(void)
{
	struct params others[2] = {0};
	struct update updates[3] = {{7, 0, 0}, {0, 0, file}, {3, 0, 0}};
	for (int i = 0; i < 2; i++)
		updates[2 * i].file = syscall(SYS_io_uring_setup, 8, &others[i]);
	int done = syscall(SYS_io_uring_register, file, REGISTER_RINGS, updates, 3);
	for (int i = 0; i < 3; i++)
		close(updates[i].file);
	/* Another ring at the descriptor. */
	struct params later = {0};
	file = syscall(SYS_io_uring_setup, 8, &later);
	file = 0;
	by_number = BY_NUMBER;
	return done == 3;
}

static uint32_t *number(uint32_t offset)
{
	return (uint32_t *)(ring + offset);
}

static int set_up(unsigned flags)
{
	params.flags = flags;
	if (flags & NO_MMAP) {
		/* A huge page would do; for small rings a page each does, too. */
		params.cq.user = (uintptr_t)mmap(0, PAGE, 3, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		params.sq.user = (uintptr_t)mmap(0, PAGE, 3, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	}
	file = syscall(SYS_io_uring_setup, 8, &params);
	if (file < 0)
		return 0;
	if (flags & NO_MMAP) {
		ring = (char *)(uintptr_t)params.cq.user;
		entries = (char *)(uintptr_t)params.sq.user;
		return 1;
	}
	ring = mmap(0, 2 * PAGE, 3, MAP_SHARED | MAP_POPULATE | (at_zero ? MAP_FIXED : 0), file, 0);
	entries = mmap(0, PAGE, 3, MAP_SHARED | MAP_POPULATE, file, 0x10000000);
	return ring != MAP_FAILED && entries != MAP_FAILED;
}

static void put(void *at, unsigned long length, int advice, uint64_t data)
{
	uint32_t tail = *number(params.sq.tail);
	uint32_t index = tail & *number(params.sq.mask);
	char *entry = entries + index * (params.flags & SQE128 ? 128 : 64);
	memset(entry, 0, 64);
	entry[0] = OP_MADVISE;
	memcpy(entry + 16, &at, 8);
	memcpy(entry + 24, &length, 4);
	memcpy(entry + 28, &advice, 4);
	memcpy(entry + 32, &data, 8);
	if (!(params.flags & NO_SQARRAY))
		number(params.sq.c)[index] = index;
	__atomic_store_n(number(params.sq.tail), tail + 1, __ATOMIC_RELEASE);
}

/* Submits what was put, and takes so many completions. */
static void submit(int count)
{
	if (params.flags & SQPOLL)
		syscall(SYS_io_uring_enter, file, 0, 0, 2 | by_number, 0, 0);
	else
		syscall(SYS_io_uring_enter, file, count, waits ? count : 0, (waits ? 1 : 0) | by_number, 0, 0);
}

static void settle(int count)
{
	/* Waits without a call that a tracer sees, unless the ring wants one. */
	while (__atomic_load_n(number(params.cq.tail), __ATOMIC_ACQUIRE) - *number(params.cq.head) < (uint32_t)count) {
		if (params.flags & (1u << 13))
			syscall(SYS_io_uring_enter, file, 0, count, 1 | by_number, 0, 0);
		usleep(100);
	}
	char *first = ring + params.cq.b;
	uint32_t head = *number(params.cq.head);
	for (int i = 0; i < count; i++) {
		int result;
		memcpy(&result, first + 16 * ((head + i) & *number(params.cq.mask)) + 8, 4);
		if (result)
			printf("failed %d\n", -result);
	}
	__atomic_store_n(number(params.cq.head), head + count, __ATOMIC_RELEASE);
}

int main(int count, char **arguments)
{
	waits = count > 1 && strcmp(arguments[1], "wait") == 0;
	at_zero = count > 3 && strcmp(arguments[3], "at 0") == 0;
	if (!set_up(count > 2 ? strtoul(arguments[2], 0, 0) : 0)) {
		printf("no ring: %s\n", strerror(errno));
		return 77;
	}
	if (count > 3 && strcmp(arguments[3], "registered") == 0 && !name_by_numbers())
		return puts("no numbers") < 0 ? 1 : 77;
	setvbuf(stdout, 0, _IONBF, 0);
	char *at = mmap(0, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int anonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	mmap(at, 32 * PAGE, 3, anonymous, -1, 0);
	at[8 * PAGE] = 1;
	static const int advices[] = { MADV_DONTFORK, MADV_HUGEPAGE, MADV_SEQUENTIAL, MADV_DONTDUMP };
	for (int i = 0; i < 4; i++)
		put(at + (4 + 6 * i) * PAGE, 3 * PAGE, advices[i], 100 + i);
	submit(4);
	settle(4);
	/* Neighbours: one joins what was advised, and one what was not. */
	mmap(at + 28 * PAGE, 8 * PAGE, 3, anonymous, -1, 0);
	printf("areas %d\n", areas_in(at, 64 * PAGE));
	/* Pages go, having been written. */
	at[9 * PAGE] = at[30 * PAGE] = 1;
	put(at + 7 * PAGE, 3 * PAGE, MADV_DONTNEED, 7);
	put(at + 50 * PAGE, PAGE, 12345, 8);
	submit(2);
	settle(2);
	mprotect(at + 8 * PAGE, PAGE, PROT_READ);
	printf("areas %d\n", areas_in(at, 64 * PAGE));
	pid_t child = fork();
	if (child == 0) {
		printf("child %d\n", areas_in(at, 64 * PAGE));
		mmap(at + 4 * PAGE, 3 * PAGE, 3, anonymous, -1, 0);
		printf("child %d\n", areas_in(at, 64 * PAGE));
		_exit(0);
	}
	waitpid(child, 0, 0);
	put(at + 4 * PAGE, 3 * PAGE, MADV_DOFORK, 1);
	submit(1);
	settle(1);
	mmap(at + 36 * PAGE, PAGE, 3, anonymous, -1, 0);
	printf("areas %d\n", areas_in(at, 64 * PAGE));
	return 0;
}
