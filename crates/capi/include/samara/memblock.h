/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The early allocator: names and semantics are those of Linux's memblock.
 *
 * Link with libsamara.a (-lpthread -ldl -lm) or libsamara.so. Calls come one at a time; nothing is locked.
 *
 * Ranges are given as base and size in bytes. Sizes are cut so that a range ends at the largest address at most; an empty
 * range is no error. Functions that return int give 0, or -ENOMEM when an array of regions is full and cannot grow; then
 * nothing has changed.
 *
 * Physical addresses are pointers ("identity"): memory that is added has to be accessible at its own address as soon as
 * something allocates a pointer to it, or an array grows.
 */
#ifndef MEMBLOCK_H
#define MEMBLOCK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t phys_addr_t;

enum memblock_flags {
	MEMBLOCK_NONE = 0,
	MEMBLOCK_HOTPLUG = 1,        /* may be unplugged: avoided while movable nodes are on */
	MEMBLOCK_MIRROR = 2,         /* kept twice by the hardware: preferred */
	MEMBLOCK_NOMAP = 4,          /* never mapped, never allocated */
	MEMBLOCK_DRIVER_MANAGED = 8, /* a driver's, never allocated */
	MEMBLOCK_RSRV_NOINIT = 16    /* reserved; page structures need no initialisation */
};

#define NUMA_NO_NODE (-1)
#define MEMBLOCK_ALLOC_ANYWHERE (~(phys_addr_t)0)
#define MEMBLOCK_ALLOC_ACCESSIBLE 0
#define MEMBLOCK_ALLOC_NOLEAKTRACE 1
#define MEMBLOCK_LOW_LIMIT 0

struct memblock_region {
	phys_addr_t base, size;
	enum memblock_flags flags;
	int nid; /* NUMA_NO_NODE if it belongs to none */
};

struct memblock_type {
	unsigned long cnt, max; /* regions in use, regions that fit */
	phys_addr_t total_size; /* sum of all sizes */
	struct memblock_region *regions;
	char *name;
};

struct memblock {
	bool bottom_up;            /* direction of allocations; false at first */
	phys_addr_t current_limit; /* MEMBLOCK_ALLOC_ANYWHERE at first */
	struct memblock_type memory, reserved;
};

/*
 * The one state. Its fields may be read and written between calls, as long as `regions` points to `max` entries of which the
 * first `cnt` are sorted, do not overlap and add up to `total_size`. At first there are 0 of 128 regions of each type. An array
 * that has grown lies in memory that it has reserved; a pointer put in its place (the first one, say) is respected, and the
 * array that it replaces is not freed.
 */
extern struct memblock memblock;

/* From now on full arrays move to memory that they allocate. Call it once what is in use has been reserved. */
void memblock_allow_resize(void);

/* Regions. What is there already keeps its flags and node; neighbours with the same flags and node become one region. */
int memblock_add(phys_addr_t base, phys_addr_t size);
int memblock_add_node(phys_addr_t base, phys_addr_t size, int nid, enum memblock_flags flags);
int memblock_remove(phys_addr_t base, phys_addr_t size);
int memblock_reserve(phys_addr_t base, phys_addr_t size);
int memblock_physmem_add(phys_addr_t base, phys_addr_t size);
int memblock_phys_free(phys_addr_t base, phys_addr_t size);
void memblock_free(void *ptr, size_t size);
void memblock_trim_memory(phys_addr_t align); /* a power of two */
unsigned long memblock_addrs_overlap(phys_addr_t b1, phys_addr_t s1, phys_addr_t b2, phys_addr_t s2);
bool memblock_overlaps_region(struct memblock_type *type, phys_addr_t base, phys_addr_t size);
/* Whether at most so many bytes of memory belong to no node; says so if more do. */
bool memblock_validate_numa_coverage(unsigned long threshold_bytes);
/* A type other than the global's own does not grow. */
int memblock_set_node(phys_addr_t base, phys_addr_t size, struct memblock_type *type, int nid);
int memblock_mark_hotplug(phys_addr_t base, phys_addr_t size);
int memblock_clear_hotplug(phys_addr_t base, phys_addr_t size);
int memblock_mark_mirror(phys_addr_t base, phys_addr_t size); /* allocations prefer such memory from now on */
int memblock_mark_nomap(phys_addr_t base, phys_addr_t size);
int memblock_clear_nomap(phys_addr_t base, phys_addr_t size);
int memblock_reserved_mark_noinit(phys_addr_t base, phys_addr_t size);
void memblock_set_bottom_up(bool enable);
bool memblock_bottom_up(void);
void memblock_set_current_limit(phys_addr_t limit);
phys_addr_t memblock_get_current_limit(void);

/*
 * Allocation. Pointers are to cleared memory unless the name says "raw"; NULL or 0 is failure. Alignments are powers of two;
 * 0 stands for a cache line of 64 bytes, with a warning. The first page is never allocated. Order of attempts: the node,
 * then any node unless the node is exact; both with mirrored memory first if any is marked, with a warning when it does not
 * suffice. The calls that return pointers cut `max` to the current limit, and in the end try without `min`.
 */
void *memblock_alloc(phys_addr_t size, phys_addr_t align);
void *memblock_alloc_raw(phys_addr_t size, phys_addr_t align);
void *memblock_alloc_from(phys_addr_t size, phys_addr_t align, phys_addr_t min);
void *memblock_alloc_low(phys_addr_t size, phys_addr_t align); /* below 4 GiB */
void *memblock_alloc_node(phys_addr_t size, phys_addr_t align, int nid);
void *memblock_alloc_try_nid(phys_addr_t size, phys_addr_t align, phys_addr_t min, phys_addr_t max, int nid);
void *memblock_alloc_try_nid_raw(phys_addr_t size, phys_addr_t align, phys_addr_t min, phys_addr_t max, int nid);
void *memblock_alloc_exact_nid_raw(phys_addr_t size, phys_addr_t align, phys_addr_t min, phys_addr_t max, int nid);
phys_addr_t memblock_phys_alloc(phys_addr_t size, phys_addr_t align);
phys_addr_t memblock_phys_alloc_range(phys_addr_t size, phys_addr_t align, phys_addr_t start, phys_addr_t end);
phys_addr_t memblock_phys_alloc_try_nid(phys_addr_t size, phys_addr_t align, int nid);
phys_addr_t memblock_alloc_range_nid(phys_addr_t size, phys_addr_t align, phys_addr_t start, phys_addr_t end, int nid,
				     bool exact);

/* Questions, and cutting memory down. */
phys_addr_t memblock_phys_mem_size(void);
phys_addr_t memblock_reserved_size(void);
phys_addr_t memblock_start_of_DRAM(void);
phys_addr_t memblock_end_of_DRAM(void);
void memblock_enforce_memory_limit(phys_addr_t limit); /* 0 is no limit */
void memblock_cap_memory_range(phys_addr_t base, phys_addr_t size);
void memblock_mem_limit_remove_map(phys_addr_t limit); /* keeps what is not to be mapped */
bool memblock_is_memory(phys_addr_t addr);
bool memblock_is_map_memory(phys_addr_t addr);
bool memblock_is_region_memory(phys_addr_t base, phys_addr_t size); /* all of it in one region */
bool memblock_is_reserved(phys_addr_t addr);
bool memblock_is_region_reserved(phys_addr_t base, phys_addr_t size); /* any of it */
/* Node of the region that holds a page frame, NUMA_NO_NODE if none does; the region in frames. */
int memblock_search_pfn_nid(unsigned long pfn, unsigned long *start_pfn, unsigned long *end_pfn);

/*
 * Walks. `*idx` is 0 at first, ULLONG_MAX when there is nothing more; downwards it is ULLONG_MAX at first too. What of `a` no
 * region of `b` covers is given piece by piece; `b` may be NULL, as may what is given. Node and flags count for memory only.
 * Over frames, `*idx` is -1 at first and at the end.
 */
void __next_mem_range(uint64_t *idx, int nid, enum memblock_flags flags, struct memblock_type *a, struct memblock_type *b,
		      phys_addr_t *start, phys_addr_t *end, int *out_nid);
void __next_mem_range_rev(uint64_t *idx, int nid, enum memblock_flags flags, struct memblock_type *a,
			  struct memblock_type *b, phys_addr_t *start, phys_addr_t *end, int *out_nid);
void __next_mem_pfn_range(int *idx, int nid, unsigned long *start, unsigned long *end, int *out_nid);

/* The layout, to standard error. */
void memblock_dump_all(void);

/* Environment: whether allocations skip hot-pluggable memory ("movable_node"). */
void memblock_set_movable_node(bool enable);

#ifdef __cplusplus
}
#endif
#endif
