/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The early allocator. Names and semantics are those of Linux's memblock. Its loops
 * (for_each_mem_range ...) and the accessors of regions are in memblock_linux.h.
 *
 * Link with libsamara.a (-lpthread -ldl -lm) or libsamara.so. Nothing is locked: the caller makes
 * one call at a time.
 *
 * Ranges are given as base and size in bytes. Sizes are capped so that a range ends at most at the
 * largest address. An empty range is no error. Functions that return int return 0, or -ENOMEM if an
 * array of regions is full and cannot grow. Nothing has changed in this case.
 *
 * Physical addresses are pointers ("identity"). Memory that is added must be accessible at its own
 * address as soon as a call allocates a pointer to it, or an array grows.
 *
 * A range given as start and end is half-open: the end is the first address, or page frame, after
 * it. Page frame n is the MEMBLOCK_PAGE_SIZE bytes from n * MEMBLOCK_PAGE_SIZE on.
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
	MEMBLOCK_HOTPLUG = 1,        /* may be unplugged; avoided while movable nodes are on */
	MEMBLOCK_MIRROR = 2,         /* mirrored by the hardware; preferred */
	MEMBLOCK_NOMAP = 4,          /* never mapped, never allocated */
	MEMBLOCK_DRIVER_MANAGED = 8, /* managed by a driver, never allocated */
	MEMBLOCK_RSRV_NOINIT = 16,   /* reserved; page structures need no initialisation */
	MEMBLOCK_RSRV_KERN = 32,     /* reserved for the kernel itself */
	MEMBLOCK_KHO_SCRATCH = 64    /* known to be unused before all reservations are known */
};

#define MEMBLOCK_PAGE_SHIFT 12
#define MEMBLOCK_PAGE_SIZE ((phys_addr_t)1 << MEMBLOCK_PAGE_SHIFT)

#define NUMA_NO_NODE (-1)
#define MEMBLOCK_ALLOC_ANYWHERE (~(phys_addr_t)0)
#define MEMBLOCK_ALLOC_ACCESSIBLE 0
#define MEMBLOCK_ALLOC_NOLEAKTRACE 1
#define MEMBLOCK_LOW_LIMIT 0

struct memblock_region {
	phys_addr_t base, size;
	enum memblock_flags flags;
	int nid; /* NUMA_NO_NODE: none */
};

struct memblock_type {
	unsigned long cnt, max; /* number of regions, capacity */
	phys_addr_t total_size; /* sum of all sizes */
	struct memblock_region *regions;
	char *name;
};

struct memblock {
	bool bottom_up;            /* direction of allocations; initially false */
	phys_addr_t current_limit; /* initially MEMBLOCK_ALLOC_ANYWHERE */
	struct memblock_type memory, reserved;
	struct memblock_type physmem; /* all physical memory, even if removed from `memory` */
};

/*
 * The single memblock. Its fields may be read and written between calls, as long as `regions`
 * points to `max` entries of which the first `cnt` are sorted, do not overlap and add up to
 * `total_size`. Initially there are 0 of 128 regions of each type.
 *
 * An array that has grown lies in memory that it has reserved. A caller may replace its pointer,
 * for example by the first one. The library then uses the replacement and does not free the
 * replaced array.
 */
extern struct memblock memblock;

/* Permits full arrays to move to memory that they allocate. Call it once everything in use has
 * been reserved. */
void memblock_allow_resize(void);

/* Regions. Existing memory keeps its flags and node. Neighbours with the same flags and node
 * become one region. */
int memblock_add(phys_addr_t base, phys_addr_t size);
int memblock_add_node(phys_addr_t base, phys_addr_t size, int nid, enum memblock_flags flags);
int memblock_remove(phys_addr_t base, phys_addr_t size);
int memblock_reserve(phys_addr_t base, phys_addr_t size);      /* need not be memory */
int memblock_reserve_kern(phys_addr_t base, phys_addr_t size); /* with MEMBLOCK_RSRV_KERN */
int memblock_physmem_add(phys_addr_t base, phys_addr_t size);  /* not changed by limits and removals */
int memblock_phys_free(phys_addr_t base, phys_addr_t size);    /* need not be reserved */
void memblock_free(void *ptr, size_t size);                    /* the result of an allocation; NULL is no error */
void memblock_trim_memory(phys_addr_t align); /* a power of two */
unsigned long memblock_addrs_overlap(phys_addr_t b1, phys_addr_t s1, phys_addr_t b2, phys_addr_t s2);
bool memblock_overlaps_region(struct memblock_type *type, phys_addr_t base, phys_addr_t size);
/* Returns true if at most this many bytes of memory belong to no node. Prints a warning
 * otherwise. */
bool memblock_validate_numa_coverage(unsigned long threshold_bytes);
/* A type other than the global's own does not grow. */
int memblock_set_node(phys_addr_t base, phys_addr_t size, struct memblock_type *type, int nid);
int memblock_mark_hotplug(phys_addr_t base, phys_addr_t size);
int memblock_clear_hotplug(phys_addr_t base, phys_addr_t size);
int memblock_mark_mirror(phys_addr_t base, phys_addr_t size); /* allocations prefer such memory from now on */
int memblock_mark_nomap(phys_addr_t base, phys_addr_t size);
int memblock_clear_nomap(phys_addr_t base, phys_addr_t size);
int memblock_mark_kho_scratch(phys_addr_t base, phys_addr_t size);
int memblock_clear_kho_scratch(phys_addr_t base, phys_addr_t size);
void memblock_set_kho_scratch_only(void); /* restricts allocations and growing arrays to MEMBLOCK_KHO_SCRATCH */
void memblock_clear_kho_scratch_only(void);
int memblock_reserved_mark_noinit(phys_addr_t base, phys_addr_t size);
void memblock_set_bottom_up(bool enable);
bool memblock_bottom_up(void);
void memblock_set_current_limit(phys_addr_t limit);
phys_addr_t memblock_get_current_limit(void);

/*
 * Allocation. Pointers are to cleared memory unless the name says "raw". NULL or 0 means failure.
 * Alignments are powers of two. 0 stands for a cache line of 64 bytes, with a warning. The first
 * page is never allocated.
 *
 * Order of attempts: the node, then any node unless the node is exact. Both with mirrored memory
 * first if any is marked, with a warning if that does not suffice. The calls that return pointers
 * cap `max` at the current limit, and finally try without `min`.
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
/* Returns the address that an allocation on any node would get within start .. end, without
 * reserving it. Returns 0 if there is none, or if `align` is not a power of two. */
phys_addr_t memblock_find_in_range(phys_addr_t start, phys_addr_t end, phys_addr_t size, phys_addr_t align);
/* Calls memblock_alloc. If that fails, calls the hook `panic` (see below), or aborts. For
 * memblock_alloc_or_panic of memblock_linux.h. */
void *__memblock_alloc_or_panic(phys_addr_t size, phys_addr_t align, const char *function);

/* Queries, and calls that reduce memory. */
phys_addr_t memblock_phys_mem_size(void);
phys_addr_t memblock_reserved_size(void);
phys_addr_t memblock_reserved_kern_size(phys_addr_t limit, int nid); /* MEMBLOCK_RSRV_KERN below `limit`; NUMA_NO_NODE: all nodes */
unsigned long memblock_estimated_nr_free_pages(void); /* (memory - reserved) in pages: an O(1) estimate, never below 0 */
phys_addr_t memblock_start_of_DRAM(void); /* 0 without memory */
phys_addr_t memblock_end_of_DRAM(void);   /* the first address after it; 0 without memory */
bool memblock_has_mirror(void);           /* true once memblock_mark_mirror was called */
void memblock_enforce_memory_limit(phys_addr_t limit); /* 0 is no limit */
void memblock_cap_memory_range(phys_addr_t base, phys_addr_t size);
void memblock_mem_limit_remove_map(phys_addr_t limit); /* keeps memory that must not be mapped */
bool memblock_is_memory(phys_addr_t addr);
bool memblock_is_map_memory(phys_addr_t addr);
bool memblock_is_region_memory(phys_addr_t base, phys_addr_t size); /* entirely in one region */
bool memblock_is_reserved(phys_addr_t addr);
bool memblock_is_region_reserved(phys_addr_t base, phys_addr_t size); /* any byte of it */
/* Returns the node of the region that contains a page frame, or NUMA_NO_NODE if there is none.
 * Stores the region, in frames, to the pointers, which may be NULL. */
int memblock_search_pfn_nid(unsigned long pfn, unsigned long *start_pfn, unsigned long *end_pfn);

/*
 * Walks. `*idx` starts as 0 and becomes ULLONG_MAX at the end. Downwards it also starts as
 * ULLONG_MAX. A walk yields the parts of `a` that no region of `b` covers, one by one. `b` and the
 * output pointers may be NULL. No part is empty. At the end only `*idx` is written.
 *
 * `nid` and `flags` apply only to the global's own memory. `nid` is a node, or NUMA_NO_NODE for
 * all. Without flags, memory that must not be mapped or that a driver manages is skipped, and
 * hot-pluggable memory while movable nodes are on. The flag of such memory includes it.
 * MEMBLOCK_MIRROR and MEMBLOCK_KHO_SCRATCH exclude all other memory.
 *
 * Regions may be changed during a walk. This is safe, but parts that have changed below the
 * position (downwards: above it) may be repeated or skipped. Any value of `*idx` is safe.
 */
void __next_mem_range(uint64_t *idx, int nid, enum memblock_flags flags, struct memblock_type *a, struct memblock_type *b,
		      phys_addr_t *start, phys_addr_t *end, int *out_nid);
void __next_mem_range_rev(uint64_t *idx, int nid, enum memblock_flags flags, struct memblock_type *a,
			  struct memblock_type *b, phys_addr_t *start, phys_addr_t *end, int *out_nid);
/* Yields regions of memory in page frames, trimmed to whole ones. Skips regions that contain
 * none. `*idx` is -1 at first and at the end, and the index of the region otherwise. */
void __next_mem_pfn_range(int *idx, int nid, unsigned long *start, unsigned long *end, int *out_nid);
/* Yields free page frames (those that memblock_free_all would hand out) within first .. past,
 * such as a zone. `*idx` as for __next_mem_range. */
void __next_free_pfn_range(uint64_t *idx, int nid, unsigned long first, unsigned long past, unsigned long *start,
			   unsigned long *end, int *out_nid);

/*
 * Release to a page allocator.
 *
 * A page frame is free if it lies entirely in one region of memory that may be mapped and that no
 * driver manages, and no byte of it is reserved. memblock_free_all passes all free frames to the
 * hook `free_pages`, lowest first. From then on exactly the free frames belong to the page
 * allocator:
 *   - memblock_phys_free, memblock_free and memblock_free_late hand out the frames that become
 *     free, at once;
 *   - memblock_reserve and memblock_reserve_kern claim the free frames that they touch, all or
 *     none; they return -ENOMEM and have changed nothing if the hook `claim_pages` refuses, or is
 *     missing;
 *   - allocations return NULL or 0, and arrays no longer grow;
 *   - all other calls change regions but move no pages: the caller takes pages from the page
 *     allocator before it removes memory, and gives it the pages of memory that it adds.
 *
 * Hooks may be missing: then frames are counted and not handed out. A hook may call functions that
 * only query or walk (under "Queries" and "Walks"). It sees regions as they were before the call
 * that invoked it (memblock_discard: none). It must not call functions that change them.
 */
struct memblock_hooks {
	void *ctx; /* passed to every hook */
	/* Receives the frames start_pfn .. end_pfn, of node `nid` (NUMA_NO_NODE if the memory has
	 * none). They are never empty. They were never handed out before, or have been claimed since. */
	void (*free_pages)(void *ctx, unsigned long start_pfn, unsigned long end_pfn, int nid);
	/* Gives back the frames start_pfn .. end_pfn if all of them are free. Returns true if it did. */
	bool (*claim_pages)(void *ctx, unsigned long start_pfn, unsigned long end_pfn);
	/* Handles a lack of memory in __memblock_alloc_or_panic, called by `function`. Must leave by
	 * longjmp or end the program. If it returns, the library aborts. */
	void (*panic)(void *ctx, const char *function, phys_addr_t size, phys_addr_t align);
};
void memblock_set_hooks(const struct memblock_hooks *hooks); /* copies them; NULL removes all */
unsigned long memblock_free_all(void); /* the number of frames handed out; 0 the second time. Clears MEMBLOCK_HOTPLUG. */
/* memblock_phys_free that returns the number of frames handed out: 0 before memblock_free_all.
 * If there is no capacity to split a region, returns 0, and everything stays reserved. */
unsigned long memblock_free_late(phys_addr_t base, phys_addr_t size);
/* Resets everything to the initial state except for the hooks. If memblock_free_all was called,
 * hands out the frames of arrays that had grown, and returns their number. */
unsigned long memblock_discard(void);

/* Returns the order, at most `max_order`, of the largest block that begins at start_pfn, at a
 * multiple of its size, and ends at or before end_pfn: for buddy allocators. start_pfn <
 * end_pfn. */
static inline unsigned int memblock_block_order(unsigned long start_pfn, unsigned long end_pfn, unsigned int max_order)
{
	unsigned int order = 0;

	while (order < max_order && ((start_pfn >> order) & 1) == 0 && ((end_pfn - start_pfn) >> order) > 1)
		order++;
	return order;
}

/* Prints the layout to standard error. */
void memblock_dump_all(void);

/*
 * Settings, all off at first: allocations skip hot-pluggable memory ("movable_node"), reserved
 * regions record the requested node, and reserved regions get MEMBLOCK_RSRV_KERN. The last two
 * exist in Linux since 6.16, and such regions do not merge with others.
 */
void memblock_set_movable_node(bool enable);
void memblock_set_record_nodes(bool enable);
void memblock_set_record_kern(bool enable);

#ifdef __cplusplus
}

/* Combines flags without a cast. */
constexpr memblock_flags operator|(memblock_flags a, memblock_flags b)
{
	return static_cast<memblock_flags>(static_cast<unsigned int>(a) | static_cast<unsigned int>(b));
}
#endif
#endif
