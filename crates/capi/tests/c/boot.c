/*
 * A boot in C. The global's fields are read and written between calls as kernels do, arrays grow
 * and are put back, and every result is checked. Prints only "ok" if everything holds.
 */
#include <limits.h>
#include <samara/memblock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INIT 128
#define PAGE 4096ul
#define MEM (32 * 1024ul)

static int failed;

#define CHECK(what)                                                           \
	do {                                                                  \
		if (!(what)) {                                                \
			fprintf(stderr, "%s:%d: %s\n", __func__, __LINE__, #what); \
			failed = 1;                                           \
		}                                                             \
	} while (0)

static struct memblock_region *first_memory, *first_reserved;

/* Resets the state by writing the fields. */
static void reset(void)
{
	memblock.memory.regions = first_memory;
	memblock.reserved.regions = first_reserved;
	memset(first_memory, 0, INIT * sizeof(*first_memory));
	memset(first_reserved, 0, INIT * sizeof(*first_reserved));
	memblock.memory.cnt = memblock.reserved.cnt = 0;
	memblock.memory.max = memblock.reserved.max = INIT;
	memblock.memory.total_size = memblock.reserved.total_size = 0;
	memblock.memory.name = "memory";
	memblock.reserved.name = "reserved";
	memblock.bottom_up = false;
	memblock.current_limit = MEMBLOCK_ALLOC_ANYWHERE;
}

static void defaults(void)
{
	CHECK(sizeof(struct memblock_region) == 24);
	CHECK(memblock.memory.cnt == 0 && memblock.memory.max == INIT && memblock.memory.total_size == 0);
	CHECK(memblock.reserved.cnt == 0 && memblock.reserved.max == INIT && memblock.reserved.total_size == 0);
	CHECK(!strcmp(memblock.memory.name, "memory") && !strcmp(memblock.reserved.name, "reserved"));
	CHECK(!memblock.bottom_up && memblock.current_limit == MEMBLOCK_ALLOC_ANYWHERE);
	CHECK(memblock.memory.regions && memblock.reserved.regions);
	first_memory = memblock.memory.regions;
	first_reserved = memblock.reserved.regions;
}

static void regions(void)
{
	struct memblock_region *r = memblock.memory.regions;

	reset();
	CHECK(memblock_add_node(0x8000, 0x2000, 1, MEMBLOCK_HOTPLUG) == 0);
	CHECK(memblock_add_node(0x4000, 0x8000, 0, MEMBLOCK_NONE) == 0);
	CHECK(memblock.memory.cnt == 3 && memblock.memory.total_size == 0x8000);
	CHECK(r[0].base == 0x4000 && r[0].size == 0x4000 && r[0].nid == 0 && r[0].flags == MEMBLOCK_NONE);
	CHECK(r[1].base == 0x8000 && r[1].size == 0x2000 && r[1].nid == 1 && r[1].flags == MEMBLOCK_HOTPLUG);
	CHECK(r[2].base == 0xa000 && r[2].size == 0x2000 && r[2].nid == 0);
	CHECK(memblock_clear_hotplug(0x8000, 0x2000) == 0);
	CHECK(memblock_set_node(0x8000, 0x2000, &memblock.memory, 0) == 0);
	CHECK(memblock.memory.cnt == 1 && r[0].size == 0x8000);
	CHECK(memblock_remove(0x4000, 0x8000) == 0);
	CHECK(memblock.memory.cnt == 0 && r[0].base == 0 && r[0].size == 0 && memblock.memory.total_size == 0);

	/* At the top of the address space sizes are capped. */
	CHECK(memblock_add(UINT64_MAX - 0x1000, 0x5000) == 0);
	CHECK(r[0].base == UINT64_MAX - 0x1000 && r[0].size == 0x1000);
	CHECK(memblock_remove(0, UINT64_MAX) == 0 && memblock.memory.cnt == 0);
	CHECK(memblock_addrs_overlap(0, 0x10, 0xf, 1) == 1 && memblock_addrs_overlap(0, 0x10, 0x10, 1) == 0);
}

static void growth(void *buffer)
{
	phys_addr_t base = (phys_addr_t)(uintptr_t)buffer, array = 2 * INIT * sizeof(struct memblock_region);
	unsigned long i;
	int round;

	array = (array + PAGE - 1) & ~(PAGE - 1);
	memblock_allow_resize();
	for (round = 0; round < 3; round++) {
		reset();
		CHECK(memblock_add(base, MEM) == 0);
		for (i = 0; i < INIT; i++)
			CHECK(memblock_reserve(0x1000 + i * 0x100, 0x80) == 0);
		CHECK(memblock.reserved.regions == first_reserved && memblock.reserved.cnt == INIT);
		CHECK(memblock_reserve(0x1000 + i * 0x100, 0x80) == 0);
		CHECK(memblock.reserved.cnt == INIT + 2 && memblock.reserved.max == 2 * INIT);
		CHECK(memblock.reserved.total_size == (INIT + 1) * 0x80 + array);
		CHECK(memblock.reserved.regions != first_reserved);
		CHECK(memblock_is_region_reserved((phys_addr_t)(uintptr_t)memblock.reserved.regions, array));
		CHECK(memblock_reserve(0, 0x80) == 0 && memblock.reserved.regions[0].base == 0);
	}
	reset();
}

static void allocation(char *buffer)
{
	phys_addr_t base = (phys_addr_t)(uintptr_t)buffer, start, end;
	uint64_t idx;
	int nid = 7, pfn_idx = -1;
	unsigned long first, last, i;
	char *p;

	reset();
	memset(buffer, 0x55, MEM);
	CHECK(memblock_add_node(base, MEM / 2, 0, MEMBLOCK_NONE) == 0);
	CHECK(memblock_add_node(base + MEM / 2, MEM / 2, 1, MEMBLOCK_NONE) == 0);
	p = memblock_alloc(64, 64);
	CHECK(p == buffer + MEM - 64);
	for (i = 0; p && i < 64; i++)
		CHECK(p[i] == 0);
	CHECK((p = memblock_alloc_raw(64, 64)) == buffer + MEM - 128 && *p == 0x55);
	memblock.bottom_up = true;
	CHECK(memblock_bottom_up() && memblock_alloc(64, 0) == buffer);
	memblock.bottom_up = false;
	memblock.current_limit = base + PAGE;
	CHECK(memblock_phys_alloc(64, 64) == base + PAGE - 64);
	CHECK(memblock_alloc_try_nid(PAGE, 64, 0, MEMBLOCK_ALLOC_ANYWHERE, NUMA_NO_NODE) == NULL);
	memblock_set_current_limit(MEMBLOCK_ALLOC_ANYWHERE);
	CHECK(memblock_alloc_node(64, 64, 0) == buffer + MEM / 2 - 64);
	CHECK(memblock_alloc_exact_nid_raw(MEM, 64, 0, 0, 1) == NULL);
	CHECK(memblock_alloc_from(64, 64, base + MEM - 64) == buffer + MEM - 192);
	memblock_free(p, 64);
	CHECK(!memblock_is_reserved((phys_addr_t)(uintptr_t)p));

	idx = 0, i = 0;
	for (__next_mem_range(&idx, NUMA_NO_NODE, MEMBLOCK_NONE, &memblock.memory, &memblock.reserved, &start, &end, &nid);
	     idx != ULLONG_MAX;
	     __next_mem_range(&idx, NUMA_NO_NODE, MEMBLOCK_NONE, &memblock.memory, &memblock.reserved, &start, &end, &nid)) {
		CHECK(!memblock_is_region_reserved(start, end - start) && memblock_is_region_memory(start, end - start));
		i++;
	}
	idx = ULLONG_MAX;
	for (__next_mem_range_rev(&idx, NUMA_NO_NODE, MEMBLOCK_NONE, &memblock.memory, &memblock.reserved, &start, &end, NULL);
	     idx != ULLONG_MAX;
	     __next_mem_range_rev(&idx, NUMA_NO_NODE, MEMBLOCK_NONE, &memblock.memory, &memblock.reserved, &start, &end, NULL))
		i--;
	CHECK(i == 0 && nid == 1);

	__next_mem_pfn_range(&pfn_idx, 1, &first, &last, &nid);
	CHECK(pfn_idx == 1 && first == (base + MEM / 2) / PAGE && last == (base + MEM) / PAGE && nid == 1);
	__next_mem_pfn_range(&pfn_idx, 1, &first, &last, NULL);
	CHECK(pfn_idx == -1);
	CHECK(memblock_search_pfn_nid(base / PAGE, &first, &last) == 0 && first == base / PAGE);
	CHECK(memblock_search_pfn_nid(1, &first, &last) == NUMA_NO_NODE);
}

/* An array of the program's own, as in code that keeps other lists. */
static void own_type(void)
{
	struct memblock_region mine[4] = { { 0x1000, 0x3000, MEMBLOCK_NONE, 0 } };
	struct memblock_type type = { 1, 3, 0x3000, mine, "mine" };

	CHECK(memblock_overlaps_region(&type, 0x1800, 1) && !memblock_overlaps_region(&type, 0x4000, 1));
	CHECK(memblock_set_node(0x2000, 0x1000, &type, 1) == 0);
	CHECK(type.cnt == 3 && mine[1].base == 0x2000 && mine[1].nid == 1 && type.total_size == 0x3000);
	CHECK(memblock_set_node(0x2400, 0x100, &type, 2) == -12 && type.cnt == 3);
}

int main(void)
{
	char *buffer = aligned_alloc(PAGE, MEM);

	if (!buffer)
		return 2;
	defaults();
	regions();
	growth(buffer);
	allocation(buffer);
	own_type();
	reset();
	free(buffer);
	if (!failed)
		puts("ok");
	return failed;
}
