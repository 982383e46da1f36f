/* The headers as strict C of any version and as C++: layout, every function's address, every
 * loop and accessor. */
#include <stddef.h>
#include <stdio.h>
#include <samara/memblock.h>
#include <samara/memblock_linux.h>
/* Including it twice is harmless. */
#include <samara/memblock.h>
#include <samara/memblock_linux.h>

#define MUST(what)                                        \
	do {                                              \
		if (!(what)) {                            \
			printf("%s\n", #what);            \
			return 1;                         \
		}                                         \
	} while (0)

/* Every function of the header is in the library. */
typedef void (*function)(void);
static const function functions[] = {
	(function)(memblock_allow_resize),
	(function)(memblock_add),
	(function)(memblock_add_node),
	(function)(memblock_remove),
	(function)(memblock_reserve),
	(function)(memblock_reserve_kern),
	(function)(memblock_physmem_add),
	(function)(memblock_phys_free),
	(function)(memblock_free),
	(function)(memblock_trim_memory),
	(function)(memblock_addrs_overlap),
	(function)(memblock_overlaps_region),
	(function)(memblock_validate_numa_coverage),
	(function)(memblock_set_node),
	(function)(memblock_mark_hotplug),
	(function)(memblock_clear_hotplug),
	(function)(memblock_mark_mirror),
	(function)(memblock_mark_nomap),
	(function)(memblock_clear_nomap),
	(function)(memblock_reserved_mark_noinit),
	(function)(memblock_mark_kho_scratch),
	(function)(memblock_clear_kho_scratch),
	(function)(memblock_set_kho_scratch_only),
	(function)(memblock_clear_kho_scratch_only),
	(function)(memblock_set_bottom_up),
	(function)(memblock_bottom_up),
	(function)(memblock_set_current_limit),
	(function)(memblock_get_current_limit),
	(function)(memblock_alloc),
	(function)(memblock_alloc_raw),
	(function)(memblock_alloc_from),
	(function)(memblock_alloc_low),
	(function)(memblock_alloc_node),
	(function)(memblock_alloc_try_nid),
	(function)(memblock_alloc_try_nid_raw),
	(function)(memblock_alloc_exact_nid_raw),
	(function)(memblock_phys_alloc),
	(function)(memblock_phys_alloc_range),
	(function)(memblock_phys_alloc_try_nid),
	(function)(memblock_alloc_range_nid),
	(function)(memblock_find_in_range),
	(function)(__memblock_alloc_or_panic),
	(function)(memblock_phys_mem_size),
	(function)(memblock_reserved_size),
	(function)(memblock_reserved_kern_size),
	(function)(memblock_estimated_nr_free_pages),
	(function)(memblock_start_of_DRAM),
	(function)(memblock_end_of_DRAM),
	(function)(memblock_has_mirror),
	(function)(memblock_enforce_memory_limit),
	(function)(memblock_cap_memory_range),
	(function)(memblock_mem_limit_remove_map),
	(function)(memblock_is_memory),
	(function)(memblock_is_map_memory),
	(function)(memblock_is_region_memory),
	(function)(memblock_is_reserved),
	(function)(memblock_is_region_reserved),
	(function)(memblock_search_pfn_nid),
	(function)(__next_mem_range),
	(function)(__next_mem_range_rev),
	(function)(__next_mem_pfn_range),
	(function)(__next_free_pfn_range),
	(function)(memblock_set_hooks),
	(function)(memblock_free_all),
	(function)(memblock_free_late),
	(function)(memblock_discard),
	(function)(memblock_dump_all),
	(function)(memblock_set_movable_node),
	(function)(memblock_set_record_nodes),
	(function)(memblock_set_record_kern),
};

struct zone {
	unsigned long zone_start_pfn;
};
#define zone_to_nid(zone) ((void)(zone), 0)
#define zone_end_pfn(zone) ((zone)->zone_start_pfn + 4)

int main(void)
{
	struct memblock_region *region;
	struct zone zone = { 1 };
	enum memblock_flags flags = (enum memblock_flags)(MEMBLOCK_HOTPLUG | MEMBLOCK_NOMAP);
	phys_addr_t start = 0, end = 0;
	unsigned long first = 0, past = 0;
	unsigned int n = 0;
	uint64_t i;
	int index, nid;

	for (index = 0; index < (int)(sizeof(functions) / sizeof(*functions)); index++)
		MUST(functions[index]);
	MUST(sizeof(phys_addr_t) == 8 && sizeof(struct memblock_region) == 24);
	MUST(offsetof(struct memblock_region, flags) == 16 && offsetof(struct memblock_region, nid) == 20);
	if (sizeof(void *) == 8) {
		MUST(sizeof(struct memblock_type) == 40 && offsetof(struct memblock_type, total_size) == 16);
		MUST(offsetof(struct memblock_type, regions) == 24 && offsetof(struct memblock_type, name) == 32);
		MUST(offsetof(struct memblock, current_limit) == 8 && offsetof(struct memblock, memory) == 16);
		MUST(offsetof(struct memblock, reserved) == 56 && offsetof(struct memblock, physmem) == 96);
	}
	MUST(sizeof(struct memblock_hooks) == 4 * sizeof(void *));
	MUST(MEMBLOCK_PAGE_SIZE == 4096 && flags == 5);

	MUST(memblock_add_node(0x1000, 0x8000, 0, MEMBLOCK_NONE) == 0 && memblock_reserve(0x3000, 0x1800) == 0);
	MUST(memblock_physmem_add(0x1000, 0x9000) == 0);
	for_each_mem_range(i, &start, &end) n++;
	for_each_mem_range_rev(i, &start, NULL) n++;
	for_each_reserved_mem_range(i, NULL, &end) n++;
	for_each_free_mem_range(i, 0, flags, &start, &end, &nid) n++;
	for_each_free_mem_range_reverse(i, NUMA_NO_NODE, MEMBLOCK_NONE, NULL, NULL, NULL) n++;
	for_each_physmem_range(i, &memblock.memory, &start, &end) n++;
	for_each_mem_pfn_range(index, 0, &first, &past, &nid) n++;
	for_each_free_mem_pfn_range_in_zone(i, &zone, &first, &past) n++;
	MUST(n == 10 && start == 0x9000 && end == 0xa000 && first == 1 && past == 3 && nid == 0);
	i = 0;
	for_each_free_mem_pfn_range_in_zone_from(i, &zone, &first, NULL) n++;
	for_each_mem_region(region) n += memblock_is_hotpluggable(region) || memblock_is_mirror(region) || memblock_is_nomap(region) ||
					 memblock_is_driver_managed(region) || memblock_is_kho_scratch(region) || memblock_is_reserved_noinit(region);
	for_each_reserved_mem_region(region) {
		memblock_set_region_node(region, 3);
		n += memblock_get_region_node(region) == 3;
		MUST(memblock_region_reserved_base_pfn(region) == 3 && memblock_region_reserved_end_pfn(region) == 5);
		MUST(memblock_region_memory_base_pfn(region) == 3 && memblock_region_memory_end_pfn(region) == 4);
	}
	MUST(n == 12);
#ifdef __cplusplus
	static_assert((MEMBLOCK_HOTPLUG | MEMBLOCK_MIRROR) == 3, "flags are joined without a cast");
	for_each_free_mem_range(i, 0, MEMBLOCK_HOTPLUG | MEMBLOCK_NOMAP, &start, &end, &nid) n++;
#endif
	/* A loop is one statement. */
	if (n == 0)
		for_each_mem_range(i, &start, &end)
			n++;
	else
		n = 1;
	puts("ok");
	return 0;
}
