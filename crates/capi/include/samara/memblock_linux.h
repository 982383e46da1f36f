/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Code written for Linux's memblock also expects this, besides the functions: loops, and accessors
 * of regions. These are only macros and inline functions for memblock.h. They have a header of
 * their own, so that programs with their own definitions need not include them.
 *
 * Ranges are half-open, in bytes unless the name says pfn. Loop variables `i` are uint64_t (int for
 * for_each_mem_pfn_range). p_start, p_end and p_nid point to phys_addr_t, phys_addr_t and int
 * (unsigned long for frames) and may be NULL. A loop can be left at any time. See "Walks" in
 * memblock.h for changes during a loop.
 */
#ifndef MEMBLOCK_LINUX_H
#define MEMBLOCK_LINUX_H
#include <samara/memblock.h>

/* The parts of type_a that no region of type_b covers. type_b may be NULL. Node and flags apply
 * if type_a is memory. */
#define __for_each_mem_range(i, type_a, type_b, nid, flags, p_start, p_end, p_nid)           \
	for ((i) = 0, __next_mem_range(&(i), (nid), (flags), (type_a), (type_b), (p_start),  \
				       (p_end), (p_nid));                                    \
	     (i) != UINT64_MAX;                                                              \
	     __next_mem_range(&(i), (nid), (flags), (type_a), (type_b), (p_start), (p_end), (p_nid)))
#define __for_each_mem_range_rev(i, type_a, type_b, nid, flags, p_start, p_end, p_nid)       \
	for ((i) = UINT64_MAX, __next_mem_range_rev(&(i), (nid), (flags), (type_a), (type_b), \
						    (p_start), (p_end), (p_nid));            \
	     (i) != UINT64_MAX;                                                              \
	     __next_mem_range_rev(&(i), (nid), (flags), (type_a), (type_b), (p_start), (p_end), (p_nid)))

/* Memory, region by region, except memory that must not be mapped. */
#define MEMBLOCK_ALL_MAPPED_ ((enum memblock_flags)(MEMBLOCK_HOTPLUG | MEMBLOCK_DRIVER_MANAGED))
#define for_each_mem_range(i, p_start, p_end)                                                \
	__for_each_mem_range(i, &memblock.memory, NULL, NUMA_NO_NODE, MEMBLOCK_ALL_MAPPED_, p_start, p_end, NULL)
#define for_each_mem_range_rev(i, p_start, p_end)                                            \
	__for_each_mem_range_rev(i, &memblock.memory, NULL, NUMA_NO_NODE, MEMBLOCK_ALL_MAPPED_, p_start, p_end, NULL)

/* Reserved ranges, region by region, whether they are memory or not. */
#define for_each_reserved_mem_range(i, p_start, p_end)                                       \
	__for_each_mem_range(i, &memblock.reserved, NULL, NUMA_NO_NODE, MEMBLOCK_NONE, p_start, p_end, NULL)

/* Memory that is not reserved: of a node, or NUMA_NO_NODE for all. MEMBLOCK_NONE means the
 * memory that allocations may use. */
#define for_each_free_mem_range(i, nid, flags, p_start, p_end, p_nid)                        \
	__for_each_mem_range(i, &memblock.memory, &memblock.reserved, nid, flags, p_start, p_end, p_nid)
#define for_each_free_mem_range_reverse(i, nid, flags, p_start, p_end, p_nid)                \
	__for_each_mem_range_rev(i, &memblock.memory, &memblock.reserved, nid, flags, p_start, p_end, p_nid)

/* Physical memory that no region of `type` covers. `type` may be NULL. */
#define for_each_physmem_range(i, type, p_start, p_end)                                      \
	__for_each_mem_range(i, &memblock.physmem, type, NUMA_NO_NODE, MEMBLOCK_NONE, p_start, p_end, NULL)

/* Memory in whole page frames, region by region. `i` is the index of the region. */
#define for_each_mem_pfn_range(i, nid, p_start, p_end, p_nid)                                \
	for ((i) = -1, __next_mem_pfn_range(&(i), (nid), (p_start), (p_end), (p_nid)); (i) >= 0; \
	     __next_mem_pfn_range(&(i), (nid), (p_start), (p_end), (p_nid)))

/*
 * Free page frames of a zone. `_from` continues from `i`. The program defines the zone:
 * `zone->zone_start_pfn` is its first frame, and zone_end_pfn(zone) (the first after it) and
 * zone_to_nid(zone) are functions or macros of the program.
 */
#define MEMBLOCK_NEXT_IN_ZONE_(i, zone, p_start, p_end)                                      \
	__next_free_pfn_range(&(i), zone_to_nid(zone), (zone)->zone_start_pfn, zone_end_pfn(zone), (p_start), (p_end), NULL)
#define for_each_free_mem_pfn_range_in_zone(i, zone, p_start, p_end)                         \
	for ((i) = 0, MEMBLOCK_NEXT_IN_ZONE_(i, zone, p_start, p_end); (i) != UINT64_MAX;        \
	     MEMBLOCK_NEXT_IN_ZONE_(i, zone, p_start, p_end))
#define for_each_free_mem_pfn_range_in_zone_from(i, zone, p_start, p_end)                    \
	for (MEMBLOCK_NEXT_IN_ZONE_(i, zone, p_start, p_end); (i) != UINT64_MAX;                 \
	     MEMBLOCK_NEXT_IN_ZONE_(i, zone, p_start, p_end))

/* The regions themselves, with flags and nodes. `region` points to one. No call may change the
 * regions during the loop. */
#define for_each_mem_region(region)                                                          \
	for ((region) = memblock.memory.regions;                                             \
	     (region) < memblock.memory.regions + memblock.memory.cnt; (region)++)
#define for_each_reserved_mem_region(region)                                                 \
	for ((region) = memblock.reserved.regions;                                           \
	     (region) < memblock.reserved.regions + memblock.reserved.cnt; (region)++)

/* Cleared memory below the current limit, or abort: see the hook `panic`. */
#define memblock_alloc_or_panic(size, align) __memblock_alloc_or_panic((size), (align), __func__)

static inline bool memblock_is_hotpluggable(const struct memblock_region *region)
{
	return (region->flags & MEMBLOCK_HOTPLUG) != 0;
}

static inline bool memblock_is_mirror(const struct memblock_region *region)
{
	return (region->flags & MEMBLOCK_MIRROR) != 0;
}

static inline bool memblock_is_nomap(const struct memblock_region *region)
{
	return (region->flags & MEMBLOCK_NOMAP) != 0;
}

static inline bool memblock_is_driver_managed(const struct memblock_region *region)
{
	return (region->flags & MEMBLOCK_DRIVER_MANAGED) != 0;
}

static inline bool memblock_is_kho_scratch(const struct memblock_region *region)
{
	return (region->flags & MEMBLOCK_KHO_SCRATCH) != 0;
}

static inline bool memblock_is_reserved_noinit(const struct memblock_region *region)
{
	return (region->flags & MEMBLOCK_RSRV_NOINIT) != 0;
}

static inline int memblock_get_region_node(const struct memblock_region *region)
{
	return region->nid;
}

/* Does not merge the region with neighbours whose attributes are now equal. memblock_set_node
 * does. */
static inline void memblock_set_region_node(struct memblock_region *region, int nid)
{
	region->nid = nid;
}

/* The page frames that lie entirely in a region of memory: from base_pfn up to, but not
 * including, end_pfn. There are none if base_pfn is not below end_pfn. */
static inline unsigned long memblock_region_memory_base_pfn(const struct memblock_region *region)
{
	return (unsigned long)((region->base >> MEMBLOCK_PAGE_SHIFT) + ((region->base & (MEMBLOCK_PAGE_SIZE - 1)) != 0));
}

static inline unsigned long memblock_region_memory_end_pfn(const struct memblock_region *region)
{
	return (unsigned long)((region->base + region->size) >> MEMBLOCK_PAGE_SHIFT);
}

/* The page frames of which a reserved region contains at least a byte, in the same form. */
static inline unsigned long memblock_region_reserved_base_pfn(const struct memblock_region *region)
{
	return (unsigned long)(region->base >> MEMBLOCK_PAGE_SHIFT);
}

static inline unsigned long memblock_region_reserved_end_pfn(const struct memblock_region *region)
{
	phys_addr_t end = region->base + region->size;

	return (unsigned long)((end >> MEMBLOCK_PAGE_SHIFT) + ((end & (MEMBLOCK_PAGE_SIZE - 1)) != 0));
}
#endif
