/*
 * Random histories, compared with a model that stores flags and node of each unit of memory. After
 * every call all loops of memblock_linux.h yield what the model says, in both directions, and so do
 * the accessors of regions.
 */
#include "memblock_check.h"

#define UNITS 96
#define UNIT 0x400ull
#define PER_PAGE (4096 / UNIT)
#define ROUNDS 60
#define STEPS 60

struct unit {
	bool there;
	unsigned int flags;
	int nid;
};

static phys_addr_t lowest;
static struct unit mem[UNITS], res[UNITS], phys[UNITS];
static bool movable;

struct piece {
	phys_addr_t start, end;
	int nid;
	unsigned int flags;
};

static bool skipped(const struct unit *u, int nid, unsigned int flags)
{
	if (nid != NUMA_NO_NODE && u->nid != nid)
		return true;
	if (movable && (u->flags & MEMBLOCK_HOTPLUG) && !(flags & MEMBLOCK_HOTPLUG))
		return true;
	if ((flags & MEMBLOCK_MIRROR) && !(u->flags & MEMBLOCK_MIRROR))
		return true;
	if ((flags & MEMBLOCK_KHO_SCRATCH) && !(u->flags & MEMBLOCK_KHO_SCRATCH))
		return true;
	if ((u->flags & MEMBLOCK_NOMAP) && !(flags & MEMBLOCK_NOMAP))
		return true;
	return (u->flags & MEMBLOCK_DRIVER_MANAGED) && !(flags & MEMBLOCK_DRIVER_MANAGED);
}

/* Computes the parts of `a` that `b` does not cover, by looking at each unit. */
static int pieces(struct piece *out, const struct unit *a, const struct unit *b, int nid, unsigned int flags)
{
	int i, n = 0;

	for (i = 0; i < UNITS; i++) {
		phys_addr_t at = lowest + (phys_addr_t)i * UNIT;

		if (!a[i].there || (b && b[i].there) || (a == mem && skipped(a + i, nid, flags)))
			continue;
		if (n && out[n - 1].end == at && out[n - 1].nid == a[i].nid && out[n - 1].flags == a[i].flags)
			out[n - 1].end += UNIT;
		else
			out[n++] = (struct piece){ at, at + UNIT, a[i].nid, a[i].flags };
	}
	return n;
}

/* Trims pieces to whole page frames within first .. past, in place. Addresses become frames. */
static int whole_frames(struct piece *p, int n, unsigned long first, unsigned long past)
{
	int i, kept = 0;

	for (i = 0; i < n; i++) {
		phys_addr_t start = p[i].start / PAGE + (p[i].start % PAGE != 0), end = p[i].end / PAGE;

		start = start < first ? first : start;
		end = end > past ? past : end;
		if (start < end)
			p[kept++] = (struct piece){ start, end, p[i].nid, p[i].flags };
	}
	return kept;
}

static struct piece expected[UNITS];
static int count, seen;

static void begin(int n)
{
	count = n;
	seen = 0;
}

static void see(phys_addr_t start, phys_addr_t end, const int *nid, bool down)
{
	const struct piece *p = expected + (down ? count - 1 - seen : seen);

	CHECK(seen < count);
	if (seen++ >= count)
		return;
	CHECK(start == p->start && end == p->end);
	CHECK(!nid || *nid == p->nid);
}

#define DONE() CHECK(seen == count)

static void walk_pairs(int nid, unsigned int which)
{
	static struct memblock_type *const types[] = { &memblock.memory, &memblock.reserved, &memblock.physmem, NULL };
	static const struct unit *const models[] = { mem, res, phys, NULL };
	enum memblock_flags flags = (enum memblock_flags)which;
	phys_addr_t start, end;
	uint64_t i;
	int of, a, b;

	for (a = 0; a < 3; a++) {
		for (b = 0; b < 4; b++) {
			begin(pieces(expected, models[a], models[b], nid, which));
			__for_each_mem_range(i, types[a], types[b], nid, flags, &start, &end, &of)
				see(start, end, &of, false);
			DONE();
			begin(count);
			__for_each_mem_range_rev(i, types[a], types[b], nid, flags, &start, &end, &of)
				see(start, end, &of, true);
			DONE();
		}
	}
	begin(pieces(expected, mem, res, nid, which));
	for_each_free_mem_range(i, nid, flags, &start, &end, &of)
		see(start, end, &of, false);
	DONE();
	begin(count);
	for_each_free_mem_range_reverse(i, nid, flags, &start, &end, NULL)
		see(start, end, NULL, true);
	DONE();
}

static void walk_ranges(void)
{
	phys_addr_t start, end;
	uint64_t i;

	begin(pieces(expected, mem, NULL, NUMA_NO_NODE, MEMBLOCK_HOTPLUG | MEMBLOCK_DRIVER_MANAGED));
	for_each_mem_range(i, &start, &end)
		see(start, end, NULL, false);
	DONE();
	begin(count);
	for_each_mem_range_rev(i, &start, &end)
		see(start, end, NULL, true);
	DONE();
	begin(pieces(expected, res, NULL, NUMA_NO_NODE, 0));
	for_each_reserved_mem_range(i, &start, &end)
		see(start, end, NULL, false);
	DONE();
	begin(pieces(expected, phys, res, NUMA_NO_NODE, 0));
	for_each_physmem_range(i, &memblock.reserved, &start, &end)
		see(start, end, NULL, false);
	DONE();
	begin(pieces(expected, phys, NULL, NUMA_NO_NODE, 0));
	for_each_physmem_range(i, NULL, &start, &end)
		see(start, end, NULL, false);
	DONE();
}

/* A zone, with Linux's names for what the loop needs. */
struct zone {
	unsigned long zone_start_pfn, spanned;
	int node;
};
#define zone_to_nid(zone) ((zone)->node)
#define zone_end_pfn(zone) ((zone)->zone_start_pfn + (zone)->spanned)

static void walk_frames(int nid)
{
	struct zone zone = { (unsigned long)(lowest / PAGE) + draw(8), draw(24), nid };
	unsigned long start, end, total = 0;
	uint64_t i;
	int r, of;

	begin(whole_frames(expected, pieces(expected, mem, NULL, nid, 63 & ~MEMBLOCK_MIRROR), 0, ULONG_MAX));
	for_each_mem_pfn_range(r, nid, &start, &end, &of) {
		see(start, end, &of, false);
		CHECK(memblock.memory.regions[r].nid == of);
	}
	DONE();
	begin(whole_frames(expected, pieces(expected, mem, res, nid, 0), zone.zone_start_pfn, zone_end_pfn(&zone)));
	for_each_free_mem_pfn_range_in_zone(i, &zone, &start, &end)
		see(start, end, NULL, false);
	DONE();
	/* Left and resumed. */
	begin(count);
	for_each_free_mem_pfn_range_in_zone(i, &zone, &start, &end) {
		see(start, end, NULL, false);
		if (seen == 2)
			break;
	}
	if (i != UINT64_MAX)
		for_each_free_mem_pfn_range_in_zone_from(i, &zone, &start, &end)
			see(start, end, NULL, false);
	DONE();
	if (nid == NUMA_NO_NODE) {
		for (r = 0; r < UNITS; r++)
			total += mem[r].there ? UNIT : 0;
		for (r = 0; r < UNITS; r++)
			total -= !res[r].there ? 0 : total < UNIT ? total : UNIT;
		CHECK(memblock_estimated_nr_free_pages() == total / PAGE);
	}
}

static void walk_regions(void)
{
	struct memblock_region *r;
	phys_addr_t kern = 0;
	int n = 0;

	begin(pieces(expected, mem, NULL, NUMA_NO_NODE, 63 & ~MEMBLOCK_MIRROR));
	for_each_mem_region(r) {
		unsigned int flags = expected[n++].flags;

		see(r->base, r->base + r->size, &r->nid, false);
		CHECK(memblock_is_hotpluggable(r) == !!(flags & MEMBLOCK_HOTPLUG));
		CHECK(memblock_is_mirror(r) == !!(flags & MEMBLOCK_MIRROR));
		CHECK(memblock_is_nomap(r) == !!(flags & MEMBLOCK_NOMAP));
		CHECK(memblock_is_kho_scratch(r) == !!(flags & MEMBLOCK_KHO_SCRATCH));
		CHECK(memblock_is_driver_managed(r) == !!(flags & MEMBLOCK_DRIVER_MANAGED));
		CHECK(memblock_get_region_node(r) == r->nid);
		CHECK(memblock_region_memory_base_pfn(r) == (r->base + PAGE - 1) / PAGE);
		CHECK(memblock_region_memory_end_pfn(r) == (r->base + r->size) / PAGE);
	}
	DONE();
	n = 0;
	begin(pieces(expected, res, NULL, NUMA_NO_NODE, 0));
	for_each_reserved_mem_region(r) {
		unsigned int flags = expected[n++].flags;

		see(r->base, r->base + r->size, &r->nid, false);
		CHECK(memblock_is_reserved_noinit(r) == !!(flags & MEMBLOCK_RSRV_NOINIT));
		CHECK(memblock_region_reserved_base_pfn(r) == r->base / PAGE);
		CHECK(memblock_region_reserved_end_pfn(r) == (r->base + r->size + PAGE - 1) / PAGE);
		kern += flags & MEMBLOCK_RSRV_KERN ? r->size : 0;
	}
	DONE();
	CHECK(memblock_reserved_kern_size(MEMBLOCK_ALLOC_ANYWHERE, NUMA_NO_NODE) == kern);
}

/* Performs one call on the library and on the model. */
static void step(void)
{
	unsigned int from = draw(UNITS), to = from + 1 + draw(20), i, what = draw(16), on = draw(2);
	unsigned int flags = draw(3) ? 0 : 1u << draw(4);
	int nid = (int)draw(3) - 1, status = 0;
	phys_addr_t base = lowest + from * UNIT, size;

	to = to > UNITS ? UNITS : to;
	size = (to - from) * UNIT;
	switch (what) {
	case 0: case 1: case 2:
		status = memblock_add_node(base, size, nid, (enum memblock_flags)flags);
		break;
	case 3: case 4:
		status = memblock_reserve(base, size);
		break;
	case 5:
		status = memblock_reserve_kern(base, size);
		break;
	case 6:
		status = memblock_remove(base, size);
		break;
	case 7:
		status = memblock_phys_free(base, size);
		break;
	case 8:
		status = memblock_physmem_add(base, size);
		break;
	case 9:
		status = on ? memblock_mark_hotplug(base, size) : memblock_clear_hotplug(base, size);
		break;
	case 10:
		status = on ? memblock_mark_nomap(base, size) : memblock_clear_nomap(base, size);
		break;
	case 11:
		status = memblock_mark_mirror(base, size);
		CHECK(memblock_has_mirror());
		break;
	case 12:
		status = memblock_reserved_mark_noinit(base, size);
		break;
	case 13:
		status = memblock_set_node(base, size, on ? &memblock.memory : &memblock.reserved, nid);
		break;
	case 14:
		status = on ? memblock_mark_kho_scratch(base, size) : memblock_clear_kho_scratch(base, size);
		break;
	default:
		memblock_set_movable_node(movable = on);
		return;
	}
	CHECK(status == 0);
	for (i = from; i < to; i++) {
		struct unit *m = mem + i, *r = res + i;

		if (what <= 2 && !m->there)
			*m = (struct unit){ true, flags, nid };
		else if ((what == 3 || what == 4) && !r->there)
			*r = (struct unit){ true, 0, NUMA_NO_NODE };
		else if (what == 5 && !r->there)
			*r = (struct unit){ true, MEMBLOCK_RSRV_KERN, NUMA_NO_NODE };
		else if (what == 6)
			m->there = false;
		else if (what == 7)
			r->there = false;
		else if (what == 8)
			phys[i] = (struct unit){ true, 0, NUMA_NO_NODE };
		else if (what == 9)
			m->flags = (m->flags & ~1u) | (on ? 1u : 0);
		else if (what == 10)
			m->flags = (m->flags & ~4u) | (on ? 4u : 0);
		else if (what == 11)
			m->flags |= MEMBLOCK_MIRROR;
		else if (what == 12)
			r->flags |= MEMBLOCK_RSRV_NOINIT;
		else if (what == 14)
			m->flags = (m->flags & ~64u) | (on ? 64u : 0);
		else if (what == 13 && on)
			m->nid = nid;
		else if (what == 13)
			r->nid = nid;
	}
}

int main(void)
{
	int round, i;

	for (round = 0; round < ROUNDS; round++) {
		/* At the bottom, in the middle, and at the top of the address space, whose last byte is never
		 * part of a region. */
		lowest = round % 3 == 0 ? 0 : round % 3 == 1 ? 0x123456800ull : 0 - (UNITS + 4) * UNIT;
		if (sizeof(long) < 8 && round % 3 == 2)
			continue;
		CHECK(memblock_discard() == 0);
		memset(mem, 0, sizeof(mem));
		memset(res, 0, sizeof(res));
		memset(phys, 0, sizeof(phys));
		movable = false;
		for (i = 0; i < STEPS; i++) {
			step();
			check_all();
			walk_pairs((int)draw(3) - 1, draw(16) | (draw(4) ? 0 : MEMBLOCK_KHO_SCRATCH));
			walk_ranges();
			walk_frames((int)draw(3) - 1);
			walk_regions();
			if (failed)
				return finish();
		}
	}
	return finish();
}
