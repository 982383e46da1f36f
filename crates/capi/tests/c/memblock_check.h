/* Shared code of the tests of memblock: counted failures, and random numbers. */
#ifndef MEMBLOCK_CHECK_H
#define MEMBLOCK_CHECK_H
#include <limits.h>
#include <samara/memblock.h>
#include <samara/memblock_linux.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE ((phys_addr_t)MEMBLOCK_PAGE_SIZE)
#define ENOMEM_ (-12)

static int failed;

#define CHECK(what)                                                                              \
	do {                                                                                     \
		if (!(what) && failed++ < 20)                                                    \
			fprintf(stderr, "%s:%d: %s\n", __func__, __LINE__, #what);                 \
	} while (0)

static uint64_t draw_state = 1;

static inline unsigned int draw(unsigned int below)
{
	draw_state = draw_state * 0x5851f42d4c957f2dull + 1;
	return (unsigned int)((draw_state >> 33) % below);
}

/* Checks the invariants of an array, which hold after every call. */
static inline void check_type(const struct memblock_type *type)
{
	phys_addr_t total = 0;
	unsigned long i;

	CHECK(type->cnt <= type->max);
	for (i = 0; i < type->cnt; i++) {
		const struct memblock_region *r = type->regions + i;

		CHECK(r->size > 0 && r->base + r->size > r->base);
		CHECK((unsigned int)r->flags < 128);
		if (i)
			CHECK(r[-1].base + r[-1].size <= r->base);
		if (i && r[-1].base + r[-1].size == r->base)
			CHECK(r[-1].flags != r->flags || r[-1].nid != r->nid);
		total += r->size;
	}
	CHECK(type->total_size == total);
}

static inline void check_all(void)
{
	check_type(&memblock.memory);
	check_type(&memblock.reserved);
	check_type(&memblock.physmem);
}

static inline int finish(void)
{
	if (!failed)
		puts("ok");
	return failed != 0;
}
#endif
