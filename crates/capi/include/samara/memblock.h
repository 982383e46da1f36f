/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The early allocator: names and semantics are those of Linux's memblock. Its loops (for_each_mem_range ...) and the accessors of
 * regions are in memblock_linux.h.
 *
 * Link with libsamara.a (-lpthread -ldl -lm) or libsamara.so. Calls come one at a time; nothing is locked.
 *
 * Ranges are given as base and size in bytes. Sizes are cut so that a range ends at the largest address at most; an empty
 * range is no error. Functions that return int give 0, or -ENOMEM when an array of regions is full and cannot grow; then
 * nothing has changed.
 *
 * Physical addresses are pointers ("identity"): memory that is added has to be accessible at its own address as soon as
 * something allocates a pointer to it, or an array grows.
 *
 * Where a function gives a range as start and end, it is half-open: the end is the first address, or page frame, after it. Page
 * frame n is the MEMBLOCK_PAGE_SIZE bytes from n * MEMBLOCK_PAGE_SIZE on.
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
	struct memblock_type physmem; /* what is physically there, whatever is removed from memory */
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
int memblock_reserve(phys_addr_t base, phys_addr_t size);      /* need not be memory */
int memblock_reserve_kern(phys_addr_t base, phys_addr_t size); /* with MEMBLOCK_RSRV_KERN */
int memblock_physmem_add(phys_addr_t base, phys_addr_t size);  /* limits and removals leave it alone */
int memblock_phys_free(phys_addr_t base, phys_addr_t size);    /* need not be reserved */
void memblock_free(void *ptr, size_t size);                    /* what an allocation gave; NULL is no error */
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
int memblock_mark_kho_scratch(phys_addr_t base, phys_addr_t size);
int memblock_clear_kho_scratch(phys_addr_t base, phys_addr_t size);
void memblock_set_kho_scratch_only(void); /* from now on allocations, and arrays that grow, use MEMBLOCK_KHO_SCRATCH only */
void memblock_clear_kho_scratch_only(void);
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
/* Where an allocation of any node would be found within start .. end; nothing is taken. 0 if nowhere, or if `align` is no power of two. */
phys_addr_t memblock_find_in_range(phys_addr_t start, phys_addr_t end, phys_addr_t size, phys_addr_t align);
/* memblock_alloc, or the hook `panic` (see below), or the end of the program. For memblock_alloc_or_panic of memblock_linux.h. */
void *__memblock_alloc_or_panic(phys_addr_t size, phys_addr_t align, const char *function);

/* Questions, and cutting memory down. */
phys_addr_t memblock_phys_mem_size(void);
phys_addr_t memblock_reserved_size(void);
phys_addr_t memblock_reserved_kern_size(phys_addr_t limit, int nid); /* MEMBLOCK_RSRV_KERN below `limit`; NUMA_NO_NODE is any */
unsigned long memblock_estimated_nr_free_pages(void); /* (memory - reserved) in pages: rough, but in no time; never below 0 */
phys_addr_t memblock_start_of_DRAM(void); /* 0 without memory */
phys_addr_t memblock_end_of_DRAM(void);   /* the first address after it; 0 without memory */
bool memblock_has_mirror(void);           /* whether memblock_mark_mirror was ever called */
void memblock_enforce_memory_limit(phys_addr_t limit); /* 0 is no limit */
void memblock_cap_memory_range(phys_addr_t base, phys_addr_t size);
void memblock_mem_limit_remove_map(phys_addr_t limit); /* keeps what is not to be mapped */
bool memblock_is_memory(phys_addr_t addr);
bool memblock_is_map_memory(phys_addr_t addr);
bool memblock_is_region_memory(phys_addr_t base, phys_addr_t size); /* all of it in one region */
bool memblock_is_reserved(phys_addr_t addr);
bool memblock_is_region_reserved(phys_addr_t base, phys_addr_t size); /* any of it */
/* Node of the region that holds a page frame, NUMA_NO_NODE if none does; the region in frames, to pointers that may be NULL. */
int memblock_search_pfn_nid(unsigned long pfn, unsigned long *start_pfn, unsigned long *end_pfn);

/*
 * Walks. `*idx` is 0 at first, ULLONG_MAX when there is nothing more; downwards it is ULLONG_MAX at first too. What of `a` no
 * region of `b` covers is given piece by piece; `b` may be NULL, as may what is given. No piece is empty. At the end nothing is
 * given but `*idx`.
 *
 * `nid` and `flags` count for the global's own memory only. `nid` is a node, or NUMA_NO_NODE for all. Without flags, memory that is
 * not to be mapped or that a driver manages is left out (and hot-pluggable memory, while movable nodes are on); the flag of such memory
 * takes it in. MEMBLOCK_MIRROR leaves everything else out, and so does MEMBLOCK_KHO_SCRATCH.
 *
 * Regions may be changed during a walk: nothing bad happens, but what has changed below the position (downwards: above) may be given
 * again or left out. Any value of `*idx` is safe.
 */
void __next_mem_range(uint64_t *idx, int nid, enum memblock_flags flags, struct memblock_type *a, struct memblock_type *b,
		      phys_addr_t *start, phys_addr_t *end, int *out_nid);
void __next_mem_range_rev(uint64_t *idx, int nid, enum memblock_flags flags, struct memblock_type *a,
			  struct memblock_type *b, phys_addr_t *start, phys_addr_t *end, int *out_nid);
/* Regions of memory in page frames, cut to whole ones; those that hold none are left out. `*idx` is -1 at first and at the end, else
   the index of the region. */
void __next_mem_pfn_range(int *idx, int nid, unsigned long *start, unsigned long *end, int *out_nid);
/* Free page frames (those that memblock_free_all would give) within first .. past, a zone's perhaps. `*idx` as for __next_mem_range. */
void __next_free_pfn_range(uint64_t *idx, int nid, unsigned long first, unsigned long past, unsigned long *start,
			   unsigned long *end, int *out_nid);

/*
 * Handing over to a page allocator.
 *
 * A page frame is free if all of it lies in one region of memory that may be mapped and that no driver manages, and no byte of it is
 * reserved. memblock_free_all gives all free frames to the hook `free_pages`, lowest first. From then on exactly the free frames are
 * the page allocator's:
 *   - memblock_phys_free, memblock_free and memblock_free_late give the frames that become free by them, at once;
 *   - memblock_reserve and memblock_reserve_kern claim the free frames that they touch, all or none; they give -ENOMEM and have changed
 *     nothing if the hook `claim_pages` refuses, or is missing;
 *   - allocations give NULL or 0, and arrays no longer grow;
 *   - all other calls change regions and move no pages: taking them from the page allocator before memory is removed, and giving it
 *     those of memory that is added, is the caller's part.
 *
 * Hooks may be missing: then frames are counted and given to nobody. A hook may call what only asks or walks (under "Questions" and
 * "Walks"), and sees regions as they were before the call that it is part of (memblock_discard: none). It must not call what changes
 * them.
 */
struct memblock_hooks {
	void *ctx; /* handed to every hook */
	/* Takes in the frames start_pfn .. end_pfn, of node `nid` (NUMA_NO_NODE if the memory has none). They are never empty, and were
	   never given before, or were claimed since. */
	void (*free_pages)(void *ctx, unsigned long start_pfn, unsigned long end_pfn, int nid);
	/* Gives back the frames start_pfn .. end_pfn if all of them are free, and says whether it did. */
	bool (*claim_pages)(void *ctx, unsigned long start_pfn, unsigned long end_pfn);
	/* There is no memory for __memblock_alloc_or_panic, called by `function`. Leaves by longjmp, or ends the program; should it
	   return, the library ends it. */
	void (*panic)(void *ctx, const char *function, phys_addr_t size, phys_addr_t align);
};
void memblock_set_hooks(const struct memblock_hooks *hooks); /* copied; NULL takes them all away */
unsigned long memblock_free_all(void); /* how many frames were given; 0 the second time. Hot-pluggable memory loses that mark. */
/* memblock_phys_free that says how many frames were given: 0 before memblock_free_all. If there is no room for splitting a region, 0, and
   all stays reserved. */
unsigned long memblock_free_late(phys_addr_t base, phys_addr_t size);
/* The end: no regions are left, and all is as at the start but for the hooks. Gives the frames in which arrays lay that had grown,
   if memblock_free_all was called, and says how many they were. */
unsigned long memblock_discard(void);

/* The order, at most `max_order`, of the largest block that begins at start_pfn, at a multiple of its size, and does not reach beyond
   end_pfn: for buddy allocators. start_pfn < end_pfn. */
static inline unsigned int memblock_block_order(unsigned long start_pfn, unsigned long end_pfn, unsigned int max_order)
{
	unsigned int order = 0;

	while (order < max_order && ((start_pfn >> order) & 1) == 0 && ((end_pfn - start_pfn) >> order) > 1)
		order++;
	return order;
}

/* The layout, to standard error. */
void memblock_dump_all(void);

/*
 * Environment, all off at first: whether allocations skip hot-pluggable memory ("movable_node"), and whether what they reserve keeps
 * the node that was asked for, or has MEMBLOCK_RSRV_KERN, as in Linux since 6.16 (such regions do not merge with others).
 */
void memblock_set_movable_node(bool enable);
void memblock_set_record_nodes(bool enable);
void memblock_set_record_kern(bool enable);

#ifdef __cplusplus
}

/* Flags can be joined without a cast. */
constexpr memblock_flags operator|(memblock_flags a, memblock_flags b)
{
	return static_cast<memblock_flags>(static_cast<unsigned int>(a) | static_cast<unsigned int>(b));
}
#endif
#endif
