/*
 * The boot of a small machine: the firmware's map becomes memory, ranges in use are reserved, and
 * early code allocates. At the end every free page goes to a buddy allocator, those of the initial
 * ramdisk last.
 *
 *   cc -I include examples/c/memblock_boot.c libsamara.a -lpthread -ldl -lm
 */
#include <samara/memblock.h>
#include <samara/memblock_linux.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MIB ((phys_addr_t)1 << 20)
#define MAX_ORDER 10
#define FRAMES (128 * MIB / MEMBLOCK_PAGE_SIZE)

/* The firmware's map, sorted or not. */
enum firmware_kind { USABLE, RESERVED, TABLES };

struct firmware_entry {
	phys_addr_t start, end;
	enum firmware_kind kind;
};

static const struct firmware_entry firmware[] = {
	{ 0x00000000, 0x0009fc00, USABLE },   { 0x0009fc00, 0x00100000, RESERVED }, { 0x00100000, 0x03fe0000, USABLE },
	{ 0x03fe0000, 0x04000000, TABLES },   { 0x04000000, 0x08000000, USABLE },
};

/* The page allocator: for each frame that begins a free block, 1 + the order of the block. */
struct buddy {
	unsigned char block[FRAMES];
	unsigned long blocks[MAX_ORDER + 1], pages;
};

static struct buddy buddy;

static void put_block(struct buddy *b, unsigned long pfn, unsigned int order)
{
	/* Merges the block with its buddy. */
	while (order < MAX_ORDER && b->block[pfn ^ (1ul << order)] == order + 1) {
		b->block[pfn ^ (1ul << order)] = 0;
		b->blocks[order]--;
		pfn &= ~(1ul << order);
		order++;
	}
	b->block[pfn] = (unsigned char)(order + 1);
	b->blocks[order]++;
}

static void free_pages(void *ctx, unsigned long start_pfn, unsigned long end_pfn, int nid)
{
	struct buddy *b = (struct buddy *)ctx;

	printf("  node %d: frames %lx-%lx\n", nid, start_pfn, end_pfn);
	b->pages += end_pfn - start_pfn;
	while (start_pfn < end_pfn) {
		unsigned int order = memblock_block_order(start_pfn, end_pfn, MAX_ORDER);

		put_block(b, start_pfn, order);
		start_pfn += 1ul << order;
	}
}

static void show_buddy(void)
{
	unsigned int order;

	printf("buddy: %lu pages, blocks of 1..%u:", buddy.pages, 1u << MAX_ORDER);
	for (order = 0; order <= MAX_ORDER; order++)
		printf(" %lu", buddy.blocks[order]);
	printf("\n");
}

static void add_firmware_memory(void)
{
	size_t n;

	for (n = 0; n < sizeof(firmware) / sizeof(*firmware); n++) {
		const struct firmware_entry *e = firmware + n;

		memblock_physmem_add(e->start, e->end - e->start);
		if (e->kind == RESERVED)
			continue;
		/* The lower half belongs to node 0, the upper one to node 1. */
		memblock_add_node(e->start, e->end - e->start, e->start >= 64 * MIB, MEMBLOCK_NONE);
		if (e->kind == TABLES)
			memblock_mark_nomap(e->start, e->end - e->start);
	}
	memblock_trim_memory(MEMBLOCK_PAGE_SIZE);
}

static void show(void)
{
	struct memblock_region *region;
	phys_addr_t start, end;
	unsigned long first, past;
	uint64_t i;
	int n, nid;

	printf("regions\n");
	for_each_mem_region(region)
		printf("  %08" PRIx64 "-%08" PRIx64 " node %d%s\n", region->base, region->base + region->size,
		       memblock_get_region_node(region), memblock_is_nomap(region) ? ", not mapped" : "");
	printf("mapped\n");
	for_each_mem_range(i, &start, &end)
		printf("  %08" PRIx64 "-%08" PRIx64 "\n", start, end);
	printf("reserved\n");
	for_each_reserved_mem_range(i, &start, &end)
		printf("  %08" PRIx64 "-%08" PRIx64 "\n", start, end);
	printf("free, from the top\n");
	for_each_free_mem_range_reverse(i, NUMA_NO_NODE, MEMBLOCK_NONE, &start, &end, &nid)
		printf("  %08" PRIx64 "-%08" PRIx64 " node %d\n", start, end, nid);
	printf("there, but no memory\n");
	for_each_physmem_range(i, &memblock.memory, &start, &end)
		printf("  %08" PRIx64 "-%08" PRIx64 "\n", start, end);
	printf("frames of node 1\n");
	for_each_mem_pfn_range(n, 1, &first, &past, NULL)
		printf("  %lx-%lx\n", first, past);
}

int main(void)
{
	const phys_addr_t kernel = MIB, kernel_size = 6 * MIB, ramdisk = 32 * MIB, ramdisk_size = 4 * MIB + 0x234;
	struct memblock_hooks hooks;
	phys_addr_t table, ring;

	add_firmware_memory();
	memblock_reserve(0, 0x1000);
	memblock_reserve_kern(kernel, kernel_size);
	memblock_reserve(ramdisk, ramdisk_size);

	/* Node 1 has the highest memory. A device reaches only the lowest 16 MiB. */
	table = memblock_phys_alloc(64 * 1024, MEMBLOCK_PAGE_SIZE);
	ring = memblock_phys_alloc_range(0x1800, 0x1000, 0, 16 * MIB);
	printf("table at %" PRIx64 ", ring at %" PRIx64 "\n", table, ring);
	show();
	printf("about %lu pages are free\n", memblock_estimated_nr_free_pages());

	memset(&hooks, 0, sizeof(hooks));
	hooks.ctx = &buddy;
	hooks.free_pages = free_pages;
	memblock_set_hooks(&hooks);
	printf("handing over\n");
	printf("%lu pages\n", memblock_free_all());
	show_buddy();

	printf("the ramdisk is unpacked\n");
	printf("%lu pages\n", memblock_free_late(ramdisk, ramdisk_size));
	printf("memory for more: %s\n", memblock_phys_alloc(1, 1) ? "yes" : "from the buddy allocator");
	memblock_discard();
	show_buddy();
	return 0;
}
