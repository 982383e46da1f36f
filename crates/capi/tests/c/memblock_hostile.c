/*
 * Invalid use: ranges that wrap, sizes of 2^64 - 1, arrays that are full and cannot grow, positions
 * that no walk had, invalid alignments, a log that accepts nothing. Results are sane, and a call
 * that fails has changed nothing.
 */
#include "memblock_check.h"

static struct memblock_region saved_regions[3][128];
static struct memblock saved;

static void save(void)
{
	struct memblock_type *types[] = { &memblock.memory, &memblock.reserved, &memblock.physmem };
	int i;

	memcpy(&saved, &memblock, sizeof(saved));
	for (i = 0; i < 3; i++)
		memcpy(saved_regions[i], types[i]->regions, types[i]->cnt * sizeof(struct memblock_region));
}

static bool unchanged(void)
{
	struct memblock_type *types[] = { &memblock.memory, &memblock.reserved, &memblock.physmem };
	int i;

	for (i = 0; i < 3; i++)
		if (memcmp(saved_regions[i], types[i]->regions, types[i]->cnt * sizeof(struct memblock_region)))
			return false;
	return !memcmp(&saved, &memblock, sizeof(saved));
}

static const phys_addr_t edges[] = { 0, 1, 0xfff, 0x1000, 0x1001, 0x7fffffffffffffffull, 0x8000000000000000ull, 0xfffffffffffff000ull,
				     UINT64_MAX - 1, UINT64_MAX };
#define EDGES (sizeof(edges) / sizeof(*edges))

static void call(unsigned int what, phys_addr_t base, phys_addr_t size)
{
	int status = 0;

	switch (what) {
	case 0:
		status = memblock_add(base, size);
		break;
	case 1:
		status = memblock_reserve(base, size);
		break;
	case 2:
		status = memblock_remove(base, size);
		break;
	case 3:
		status = memblock_phys_free(base, size);
		break;
	case 4:
		status = memblock_physmem_add(base, size);
		break;
	case 5:
		status = memblock_mark_nomap(base, size);
		break;
	case 6:
		status = memblock_clear_nomap(base, size);
		break;
	case 7:
		status = memblock_add_node(base, size, (int)size, (enum memblock_flags)(base & 63));
		break;
	case 8:
		status = memblock_set_node(base, size, &memblock.memory, INT_MIN);
		break;
	case 9:
		status = memblock_reserved_mark_noinit(base, size);
		break;
	case 10:
		status = memblock_reserve_kern(base, size);
		break;
	case 11:
		memblock_trim_memory(base);
		return;
	case 12:
		memblock_cap_memory_range(base, size);
		return;
	case 13:
		memblock_enforce_memory_limit(base);
		return;
	case 14:
		memblock_mem_limit_remove_map(base);
		return;
	default:
		memblock_is_region_memory(base, size);
		memblock_is_region_reserved(base, size);
		memblock_overlaps_region(&memblock.memory, base, size);
		memblock_addrs_overlap(base, size, size, base);
		memblock_search_pfn_nid((unsigned long)base, NULL, NULL);
		memblock_validate_numa_coverage(ULONG_MAX);
		memblock_reserved_kern_size(base, (int)size);
		memblock_set_current_limit(base);
		memblock_find_in_range(base, size, size, base);
		memblock_set_current_limit(MEMBLOCK_ALLOC_ANYWHERE);
		return;
	}
	CHECK(status == 0 || status == ENOMEM_);
}

static void at_the_edges(void)
{
	unsigned int what, other, i, j;

	for (what = 0; what < 16; what++) {
		for (other = 0; other < 16; other++) {
			memblock_discard();
			for (i = 0; i < EDGES; i++) {
				for (j = 0; j < EDGES; j++) {
					call(what, edges[i], edges[j]);
					check_all();
					call(other, edges[j], edges[i]);
					check_all();
				}
			}
		}
	}
}

/* Full arrays, which may grow but find no memory, or may not grow. */
static void full(bool may_grow)
{
	phys_addr_t base = 0x100000;
	unsigned int i, what, n = 0;

	memblock_discard();
	if (may_grow)
		memblock_allow_resize();
	for (i = 0; i < 20; i++) {
		CHECK(memblock_add_node(base + i * 0x2000, 0x1000, (int)(i % 3), MEMBLOCK_NONE) == 0);
		CHECK(memblock_reserve(base + i * 0x2000, 0x1000) == 0);
		CHECK(memblock_physmem_add(base + i * 0x2000, 0x1000) == 0);
	}
	memblock.memory.max = memblock.reserved.max = memblock.physmem.max = 20;
	for (what = 0; what < 11; what++) {
		for (i = 0; i < 400; i++) {
			phys_addr_t at = base + draw(0x30000), size = 1 + draw(i % 2 ? 0x900 : 0x20000);
			int status;

			save();
			switch (what) {
			case 0:
				status = memblock_add_node(at, size, 7, MEMBLOCK_NOMAP);
				break;
			case 1:
				status = memblock_reserve(at, size);
				break;
			case 2:
				status = memblock_remove(at, size);
				break;
			case 3:
				status = memblock_phys_free(at, size);
				break;
			case 4:
				status = memblock_physmem_add(at, size);
				break;
			case 5:
				status = memblock_mark_nomap(at, size);
				break;
			case 6:
				status = memblock_mark_hotplug(at, size);
				break;
			case 7:
				status = memblock_set_node(at, size, &memblock.memory, 9);
				break;
			case 8:
				status = memblock_set_node(at, size, &memblock.reserved, 9);
				break;
			case 9:
				status = memblock_reserved_mark_noinit(at, size);
				break;
			default:
				status = memblock_mark_mirror(at, size);
				CHECK(status == 0 || !memblock_has_mirror());
			}
			check_all();
			if (status) {
				CHECK(status == ENOMEM_ && unchanged());
				n++;
			}
			/* Back to the full arrays. */
			memcpy(memblock.memory.regions, saved_regions[0], sizeof(saved_regions[0]) / 128 * 20);
			memcpy(memblock.reserved.regions, saved_regions[1], sizeof(saved_regions[1]) / 128 * 20);
			memcpy(memblock.physmem.regions, saved_regions[2], sizeof(saved_regions[2]) / 128 * 20);
			memcpy(&memblock, &saved, sizeof(saved));
			if (memblock_has_mirror())
				break;
		}
	}
	/* The calls that had to fail did. */
	CHECK(n > 1000);
	CHECK(memblock_alloc(8, 8) == NULL && memblock_phys_alloc(8, 8) == 0);
	memblock.memory.max = memblock.reserved.max = memblock.physmem.max = 128;
}

/* Any number as a position: results are within the arrays, and a walk from there ends. */
static void positions(void)
{
	static const uint64_t halves[] = { 0, 1, 2, 3, 4, 5, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff };
	unsigned int i, j, b;

	memblock_discard();
	for (i = 0; i < 4; i++) {
		memblock_add_node(0x10000 + i * 0x4000, 0x3000, (int)i, MEMBLOCK_NONE);
		memblock_reserve(0x11000 + i * 0x4000, 0x800);
	}
	for (i = 0; i < 10; i++) {
		for (j = 0; j < 10; j++) {
			for (b = 0; b < 2; b++) {
				struct memblock_type *type = b ? &memblock.reserved : NULL;
				uint64_t idx = halves[i] | halves[j] << 32;
				phys_addr_t start = 1, end = 0;
				unsigned long first, past;
				int steps, nid = INT_MIN, which = (int)(unsigned int)halves[i];

				for (steps = 0; steps < 20; steps++) {
					__next_mem_range(&idx, NUMA_NO_NODE, MEMBLOCK_NONE, &memblock.memory, type, &start, &end, &nid);
					if (idx == UINT64_MAX)
						break;
					CHECK(start < end && memblock_is_region_memory(start, end - start) && nid >= 0 && nid < 4);
				}
				CHECK(steps < 10);
				idx = halves[i] | halves[j] << 32;
				for (steps = 0; steps < 20; steps++) {
					__next_mem_range_rev(&idx, NUMA_NO_NODE, MEMBLOCK_NONE, &memblock.memory, type, &start, &end, &nid);
					if (idx == UINT64_MAX)
						break;
					CHECK(start < end && memblock_is_region_memory(start, end - start) && nid >= 0 && nid < 4);
				}
				CHECK(steps < 10);
				idx = halves[i] | halves[j] << 32;
				for (steps = 0; steps < 20; steps++) {
					__next_free_pfn_range(&idx, NUMA_NO_NODE, 0, ULONG_MAX, &first, &past, NULL);
					if (idx == UINT64_MAX)
						break;
					CHECK(first < past && first >= 0x10 && past <= 0x20);
				}
				CHECK(steps < 10);
				for (steps = 0; steps < 20; steps++) {
					__next_mem_pfn_range(&which, NUMA_NO_NODE, &first, &past, &nid);
					if (which < 0)
						break;
					CHECK(first < past && nid == which && nid < 4);
				}
				CHECK(steps < 10);
			}
		}
	}
	/* A zone that ends before it begins, and one that covers everything. */
	{
		uint64_t idx = 0;

		__next_free_pfn_range(&idx, NUMA_NO_NODE, ULONG_MAX, 0, NULL, NULL, NULL);
		CHECK(idx == UINT64_MAX);
		idx = 0;
		__next_free_pfn_range(&idx, INT_MAX, 0, ULONG_MAX, NULL, NULL, NULL);
		CHECK(idx != UINT64_MAX);
	}
}

/* Regions change during a walk. */
static void changes(void)
{
	phys_addr_t start, end, last = 0;
	uint64_t i;
	int round;

	for (round = 0; round < 200; round++) {
		unsigned int k;

		memblock_discard();
		for (k = 0; k < 20; k++)
			memblock_add(0x10000 + k * 0x2000, 0x1000);
		for_each_free_mem_range(i, NUMA_NO_NODE, MEMBLOCK_NONE, &start, &end, NULL) {
			CHECK(start < end);
			if (draw(2))
				memblock_remove(0x10000 + draw(20) * 0x2000, 0x8000);
			else
				memblock_reserve(0x10000 + draw(0x30000), 0x100);
		}
		for_each_free_mem_range_reverse(i, NUMA_NO_NODE, MEMBLOCK_NONE, &start, &end, NULL) {
			CHECK(start < end);
			if (last++ > 100000)
				break;
			if (draw(2))
				memblock_remove(0x10000 + draw(20) * 0x2000, 0x1000);
			else if (draw(2))
				memblock_phys_free(0x10000 + draw(0x30000), 0x4000);
		}
	}
	CHECK(last < 100000);
}

static void requests(void)
{
	static char memory[8 * 4096];
	phys_addr_t base = (phys_addr_t)(uintptr_t)memory;
	unsigned int i, j, k;

	memblock_discard();
	memblock_add(base, sizeof(memory));
	memblock_add(UINT64_MAX - 0x10000, UINT64_MAX);
	for (i = 0; i < EDGES; i++) {
		for (j = 0; j < EDGES; j++) {
			for (k = 0; k < EDGES; k++) {
				phys_addr_t got = memblock_alloc_range_nid(edges[i], edges[j], edges[k], edges[EDGES - 1 - k], INT_MAX, k & 1);

				if (got) {
					CHECK(!edges[j] || got % edges[j] == 0);
					CHECK(got >= PAGE && !edges[i] == !memblock_is_region_reserved(got, edges[i]));
					CHECK(!edges[i] || memblock_is_region_memory(got, edges[i]));
					memblock_phys_free(got, edges[i]);
				}
				check_all();
				CHECK(memblock.reserved.cnt == 0);
			}
		}
	}
	/* Only memory that pointers can reach is returned as pointers. */
	memblock_set_current_limit(base + sizeof(memory));
	CHECK(memblock_alloc(UINT64_MAX, 1) == NULL && memblock_alloc(0x1000, 3) == NULL);
	CHECK(memblock_alloc_from(0x1000, 0x1000, UINT64_MAX) != NULL);
	memblock_free(NULL, SIZE_MAX);
	CHECK(memblock.reserved.cnt == 1);
	memblock_free(memory, SIZE_MAX);
	CHECK(memblock.reserved.cnt == 0);
	memblock_set_hooks(NULL);
	CHECK(memblock_free_all() > 0);
	CHECK(memblock_free_late(UINT64_MAX, UINT64_MAX) == 0 && memblock_free_late(0, UINT64_MAX) == 0);
	/* No hook can give pages back. Ranges without memory need none. */
	CHECK(memblock_reserve(base + PAGE, 1) == ENOMEM_ && memblock_reserve(0, UINT64_MAX) == ENOMEM_ && memblock.reserved.cnt == 0);
	CHECK(memblock_reserve(0, 0x1000) == 0 && memblock_reserve(base, 0) == 0 && memblock.reserved.cnt == 1);
	memblock_discard();
}

int main(void)
{
	/* Even the warnings about all this cannot be written. */
	if (!freopen("/dev/full", "w", stderr))
		return 2;
	memblock_dump_all();
	at_the_edges();
	full(false);
	full(true);
	positions();
	changes();
	requests();
	if (failed)
		printf("%d failed\n", failed);
	return finish();
}
