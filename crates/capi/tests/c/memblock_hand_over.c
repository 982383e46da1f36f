/*
 * Release to a page allocator that keeps a map of its pages, and fails if it gets one twice. Random
 * histories of late frees and reservations: after each call the page allocator owns exactly the
 * free frames.
 */
#include <setjmp.h>
#include "memblock_check.h"

#define PAGES 64
#define UNIT 0x400ull
#define PER_PAGE 4
#define UNITS (PAGES * PER_PAGE)

static const phys_addr_t lowest = 0x40000000;

/* The page allocator. */
static bool owned[PAGES], refusing;
static int nodes[PAGES];
static unsigned long last_given;
static struct memblock_hooks hooks;

static unsigned long index_of(unsigned long pfn)
{
	CHECK(pfn >= lowest / PAGE && pfn <= lowest / PAGE + PAGES);
	return pfn - (unsigned long)(lowest / PAGE);
}

static void free_pages(void *ctx, unsigned long start, unsigned long end, int nid)
{
	unsigned long i;

	CHECK(ctx == owned && start < end);
	/* Queries are allowed here. */
	CHECK(memblock_is_region_memory((phys_addr_t)start * PAGE, (end - start) * PAGE));
	CHECK(memblock_search_pfn_nid(start, NULL, NULL) == nid);
	for (i = index_of(start); i < index_of(end); i++) {
		CHECK(!owned[i]);
		owned[i] = true;
		nodes[i] = nid;
	}
	last_given += end - start;
}

static bool claim_pages(void *ctx, unsigned long start, unsigned long end)
{
	unsigned long i;

	CHECK(ctx == owned && start < end);
	for (i = index_of(start); i < index_of(end); i++)
		if (!owned[i])
			return false;
	if (refusing && draw(2))
		return false;
	memset(owned + index_of(start), 0, end - start);
	return true;
}

static bool same(const bool *a, const bool *b)
{
	return !memcmp(a, b, sizeof(owned));
}

static void order(void)
{
	unsigned long start;

	for (start = 0; start < 40; start++) {
		unsigned long at = start, end = start + 1 + draw(100);

		while (at < end) {
			unsigned int k = memblock_block_order(at, end, 5);

			CHECK(k <= 5 && at % (1ul << k) == 0 && at + (1ul << k) <= end);
			CHECK(k == 5 || at % (2ul << k) || at + (2ul << k) > end);
			at += 1ul << k;
		}
		CHECK(at == end);
	}
	CHECK(memblock_block_order(0, ULONG_MAX, 100) == sizeof(long) * 8 - 1);
}

static void history(void)
{
	int node[UNITS];
	bool taken[UNITS] = { false }, before[PAGES], expected[PAGES];
	unsigned int i, j, from, to;
	unsigned long given;

	memset(owned, 0, sizeof(owned));
	CHECK(memblock_discard() == 0);
	for (i = 0; i < UNITS; i++)
		node[i] = NUMA_NO_NODE - 1;
	for (i = 0; i < 6; i++) {
		/* 4 must not be mapped, 5 belongs to a driver. */
		static const enum memblock_flags flags[6] = { MEMBLOCK_NONE, MEMBLOCK_HOTPLUG, MEMBLOCK_NONE, MEMBLOCK_MIRROR,
							      MEMBLOCK_NOMAP, MEMBLOCK_DRIVER_MANAGED };

		from = draw(UNITS);
		to = from + 1 + draw(64);
		to = to > UNITS ? UNITS : to;
		CHECK(memblock_add_node(lowest + from * UNIT, (to - from) * UNIT, (int)i, flags[i]) == 0);
		for (j = from; j < to; j++)
			if (node[j] < NUMA_NO_NODE)
				node[j] = (int)i;
	}
	for (i = 0; i < 10; i++) {
		from = draw(UNITS);
		to = from + draw(20);
		to = to > UNITS ? UNITS : to;
		CHECK(memblock_reserve(lowest + from * UNIT, (to - from) * UNIT) == 0);
		memset(taken + from, 1, to - from);
	}
	CHECK(memblock_free_late(lowest, 0) == 0);
	last_given = 0;
	given = memblock_free_all();
	CHECK(given == last_given && memblock_free_all() == 0);
	CHECK(memblock_alloc(8, 8) == NULL && memblock_phys_alloc(8, 8) == 0);

	for (j = 0; j < 80 && !failed; j++) {
		for (i = 0; i < PAGES; i++) {
			const int *n = node + i * PER_PAGE;
			const bool *t = taken + i * PER_PAGE;

			expected[i] = n[0] >= 0 && n[0] < 4 && n[1] == n[0] && n[2] == n[0] && n[3] == n[0] && !t[0] && !t[1] &&
				      !t[2] && !t[3];
			CHECK(!expected[i] || nodes[i] == n[0]);
		}
		CHECK(same(owned, expected));
		check_all();

		memcpy(before, owned, sizeof(owned));
		last_given = 0;
		from = draw(UNITS);
		to = from + draw(24);
		to = to > UNITS ? UNITS : to;
		if (draw(2)) {
			unsigned int how = draw(3);

			given = 0;
			if (how == 0)
				CHECK(memblock_phys_free(lowest + from * UNIT, (to - from) * UNIT) == 0);
			else if (how == 1)
				memblock_free((void *)(uintptr_t)(lowest + from * UNIT), (to - from) * UNIT);
			else
				given = memblock_free_late(lowest + from * UNIT, (to - from) * UNIT);
			CHECK(how < 2 || given == last_given);
			memset(taken + from, 0, to - from);
		} else {
			int status;

			refusing = draw(2);
			status = memblock_reserve(lowest + from * UNIT, (to - from) * UNIT);
			CHECK(status == 0 || (status == ENOMEM_ && refusing && same(owned, before)));
			if (status == 0)
				memset(taken + from, 1, to - from);
			refusing = false;
		}
	}
}

/* Every reservation fails for lack of capacity, and everything stays unchanged. */
static void no_room(void)
{
	bool before[PAGES];
	unsigned long i;
	char name[] = "reserved";

	memset(owned, 0, sizeof(owned));
	memblock_discard();
	CHECK(memblock_add(lowest, PAGES * PAGE) == 0);
	CHECK(memblock_reserve(lowest + 8 * PAGE, PAGE) == 0);
	CHECK(memblock_free_all() == PAGES - 1);
	memblock_allow_resize();
	memblock.reserved.max = 1;
	memblock.reserved.name = name;
	memcpy(before, owned, sizeof(owned));
	for (i = 0; i < PAGES * PER_PAGE; i++) {
		unsigned long unit = (unsigned long)i;

		if (unit >= 8 * PER_PAGE - 1 && unit <= 9 * PER_PAGE)
			continue;
		CHECK(memblock_reserve(lowest + unit * UNIT, UNIT) == ENOMEM_);
		CHECK(memblock_reserve_kern(lowest + unit * UNIT, UNIT) == ENOMEM_);
		CHECK(same(owned, before));
	}
	CHECK(memblock_phys_free(lowest + 8 * PAGE + UNIT, UNIT) == ENOMEM_);
	CHECK(memblock_free_late(lowest + 8 * PAGE + UNIT, UNIT) == 0);
	memblock_free((void *)(uintptr_t)(lowest + 8 * PAGE + UNIT), UNIT);
	CHECK(memblock.reserved.cnt == 1 && memblock.reserved.total_size == PAGE && same(owned, before));
	CHECK(memblock_free_late(0, UINT64_MAX) == 1 && owned[8]);
	memblock.reserved.max = 128;
	check_all();
}

/* Arrays that have grown go to the page allocator last, with the rest of their memory. */
static void discard(void)
{
	enum { ARENA = 64 };
	char *arena = aligned_alloc(PAGE, ARENA * PAGE);
	phys_addr_t base = (phys_addr_t)(uintptr_t)arena;
	struct memblock_hooks none = hooks;
	unsigned long given, i;

	if (!arena)
		return;
	none.free_pages = NULL;
	memblock_set_hooks(&none);
	memblock_discard();
	CHECK(memblock_add(base, ARENA * PAGE) == 0);
	memblock_allow_resize();
	for (i = 0; i < 300; i++)
		CHECK(memblock_reserve(0x1000 + i * 0x100, 0x80) == 0);
	for (i = 0; i < 300; i++)
		CHECK(memblock_add(0x1000 + i * 0x100, 0x80) == 0);
	CHECK(memblock.reserved.max > 128 && memblock.memory.max > 128);
	given = memblock_free_all();
	CHECK(given < ARENA);
	given += memblock_discard();
	CHECK(given == ARENA);
	CHECK(memblock.memory.cnt == 0 && memblock.reserved.cnt == 0 && memblock.memory.max == 128);
	CHECK(memblock.reserved.max == 128 && memblock.current_limit == MEMBLOCK_ALLOC_ANYWHERE && !memblock.bottom_up);
	CHECK(!memblock_has_mirror() && memblock_discard() == 0);
	/* And from the beginning. */
	CHECK(memblock_add(base, PAGE) == 0 && memblock_alloc(8, 8) == arena + PAGE - 8);
	memblock_discard();
	memblock_set_hooks(&hooks);
	free(arena);
}

static jmp_buf out;
static const char *who;

static void panic(void *ctx, const char *function, phys_addr_t size, phys_addr_t align)
{
	CHECK(ctx == owned && size == 0x100000 && align == 32);
	who = function;
	longjmp(out, 1);
}

static void or_panic(void)
{
	static char memory[8192];
	char *got = NULL;

	memblock_discard();
	memblock_add((phys_addr_t)(uintptr_t)memory, sizeof(memory));
	hooks.panic = panic;
	memblock_set_hooks(&hooks);
	if (!setjmp(out)) {
		got = memblock_alloc_or_panic(64, 64);
		CHECK(got >= memory && got + 64 <= memory + sizeof(memory));
		memblock_alloc_or_panic(0x100000, 32);
		CHECK(!"not reached");
	}
	CHECK(who && !strcmp(who, "or_panic"));
	CHECK(memblock.reserved.cnt == 1);
	/* Continues as before. */
	CHECK(memblock_alloc(64, 64) != NULL);
}

int main(void)
{
	int i;

	hooks.ctx = owned;
	hooks.free_pages = free_pages;
	hooks.claim_pages = claim_pages;
	memblock_set_hooks(&hooks);
	order();
	for (i = 0; i < 300 && !failed; i++)
		history();
	no_room();
	discard();
	or_panic();
	return finish();
}
