/* Random histories of calls to which frames are refused: one, two, or all from some allocation
 * on. After each refusal areas and pages are consistent, and mmap, mremap and fork have changed
 * nothing. For longer ones: mm_pairs SEEDS STEPS [FIRST SEED]. */
#include "mm_check.h"

#define LOW 0x10003fc00000ull /* two stretches of 2 MiB below a boundary of 1 GiB, and one above */
#define STRETCH 512ull
#define PAGES (3 * STRETCH)
#define WHO 3

static struct ram ram;
static uint64_t state, asked, refused, refusals[2][2];

/* The library requests a frame that it does not get once more: two failures in a row are one
 * refusal. */
static int pair_alloc(void *ctx, unsigned order, uint64_t *phys)
{
	unsigned i;

	for (i = 0; i < 2; i++)
		if (asked >= refusals[i][0] && asked < refusals[i][1]) {
			asked++;
			refused++;
			return -ENOMEM;
		}
	asked++;
	return ram_alloc(ctx, order, phys);
}

static void refuse(int how, uint64_t first, uint64_t second)
{
	memset(refusals, 0, sizeof refusals);
	asked = refused = 0;
	if (!how)
		return;
	refusals[0][0] = first;
	refusals[0][1] = how == 1 ? ~0ull : first + 2;
	if (how == 3) {
		refusals[1][0] = first + 2 + second;
		refusals[1][1] = refusals[1][0] + 2;
	}
}

struct look {
	char maps[1 << 16];
	uint64_t phys[PAGES];
	unsigned page[PAGES];
};

static void look(struct mm *mm, struct look *at)
{
	uint64_t i;

	memset(at, 0, sizeof *at);
	CHECK(mm_maps(mm, at->maps, sizeof at->maps) < sizeof at->maps);
	for (i = 0; i < PAGES; i++) {
		/* Exclusive pages, and the huge zero page, which counts as a file's. */
		at->page[i] = mm_page(mm, LOW + i * PG) & (MM_PAGE_PRESENT | MM_PAGE_SOFT_DIRTY);
		mm_translate(mm, LOW + i * PG, &at->phys[i], NULL);
	}
}

static void same(const struct look *a, const struct look *b)
{
	uint64_t i;

	if (strcmp(a->maps, b->maps)) {
		fprintf(stderr, "before:\n%safter:\n%s", a->maps, b->maps);
		abort();
	}
	for (i = 0; i < PAGES; i++) {
		SAME(b->page[i], a->page[i]);
		SAME(b->phys[i], a->phys[i]);
	}
}

static int told_map(void *ctx, uint64_t start, uint64_t end, int prot, int flags, struct mm_file *file, uint64_t offset)
{
	(void)ctx, (void)prot, (void)flags, (void)file, (void)offset;
	CHECK(start < end);
	return 0;
}

static int told(void *ctx, uint64_t start, uint64_t end)
{
	(void)ctx;
	CHECK(start < end);
	return 0;
}

static int told_protect(void *ctx, uint64_t start, uint64_t end, int prot)
{
	(void)prot;
	return told(ctx, start, end);
}

static int told_move(void *ctx, uint64_t from, uint64_t to, uint64_t len)
{
	(void)ctx;
	CHECK(from != to && len);
	return 0;
}

static const struct mm_backend backend = {NULL, told_map, told, told_protect, told_move};

static uint64_t any(uint64_t below)
{
	return random_below(&state, (unsigned)below);
}

static void range(uint64_t *page, uint64_t *pages)
{
	uint64_t edge = any(3) * STRETCH;

	switch (any(4)) {
	case 0:
		*page = edge;
		break;
	case 1:
		*page = edge + STRETCH - 8 + any(8);
		break;
	default:
		*page = any(PAGES);
	}
	switch (any(4)) {
	case 0:
		*pages = 1 + any(16);
		break;
	case 1:
		*pages = STRETCH - *page % STRETCH;
		break;
	case 2:
		*pages = STRETCH * (1 + any(2));
		break;
	default:
		*pages = 1 + any(PAGES);
	}
	if (*pages > PAGES - *page)
		*pages = PAGES - *page;
}

static void store(struct mm *mm, uint64_t page, uint64_t pages)
{
	uint64_t i;

	for (i = page; i < page + pages; i++)
		put(mm, LOW + i * PG, (int)(1 + i % 250));
}

static void history(uint64_t seed, unsigned steps)
{
	static const enum mm_format kinds[] = {MM_X86_64, MM_AARCH64_4K, MM_RISCV_SV48};
	static const int advice[] = {MADV_DONTNEED, MADV_DONTNEED, MADV_REMOVE, MADV_HUGEPAGE, MADV_HUGEPAGE, MADV_DONTFORK, MADV_DOFORK};
	static const int prots[] = {RW, RW, PROT_READ, PROT_NONE};
	static const int maps[] = {ANON, ANON, SHARED_ANON};
	static struct look before, after;
	struct mm_phys_ops ops = ram_new(&ram, 12 << 10);
	struct mm_phys *phys;
	struct mm *all[WHO] = {NULL};
	struct mm_config config;
	unsigned step;

	state = seed;
	refuse(0, 0, 0);
	ops.alloc = pair_alloc;
	SAME(mm_phys_new(kinds[seed % 3], &ops, 0, &phys), 0);
	config = config_for(kinds[seed % 3]);
	SAME(mm_new(&config, phys, seed / 3 % 2 ? &backend : NULL, &all[0]), 0);
	for (step = 0; step < steps; step++) {
		uint64_t who = any(WHO), into = any(WHO), page, pages, to, more, i;
		int64_t result = 0;
		struct mm *mm = all[who];
		int nothing = 0;

		range(&page, &pages);
		range(&to, &more);
		if (!mm)
			continue;
		look(mm, &before);
		refuse((int)any(4), any(2) ? any(4) : any(40), any(12));
		switch (any(16)) {
		case 0:
		case 1:
		case 2:
			nothing = 1;
			result = mm_mmap(mm, LOW + page * PG, pages * PG, prots[any(4)], maps[any(3)] | MAP_FIXED, NULL, 0);
			break;
		case 3:
		case 4:
			/* The header permits it to do a part. It does nothing. */
			nothing = 1;
			result = mm_munmap(mm, LOW + page * PG, pages * PG);
			break;
		case 5:
		case 6:
			result = mm_mprotect(mm, LOW + page * PG, pages * PG, prots[any(4)]);
			break;
		case 7:
		case 8:
			nothing = 1;
			result = mm_mremap(mm, LOW + page * PG, pages * PG, pages * PG, MREMAP_MAYMOVE | MREMAP_FIXED, LOW + (to + any(2) * PAGES) * PG);
			break;
		case 9:
			nothing = 1;
			result = mm_mremap(mm, LOW + page * PG, pages * PG, more * PG, (int)any(2) * MREMAP_MAYMOVE, 0);
			break;
		case 10:
		case 11:
			result = mm_madvise(mm, LOW + page * PG, pages * PG, advice[any(7)]);
			break;
		case 12:
			result = mm_mlock2(mm, LOW + page * PG, (1 + pages % 32) * PG, 0);
			break;
		case 13:
			if (!all[into]) {
				nothing = 1;
				result = mm_fork(mm, any(3) ? MM_FORK_SHARE : MM_FORK_COPY, &all[into]);
				CHECK(result == 0 || !all[into]);
			} else if (into && any(3) == 0) {
				nothing = 0;
				mm_put(all[into]);
				all[into] = NULL;
			}
			break;
		default:
			store(mm, page, pages % 32);
		}
		if (result == -ENOMEM && refused && nothing) {
			look(mm, &after);
			same(&before, &after);
		}
		refuse(0, 0, 0);
		/* The address to which it moved. */
		if (all[who] && result >= 0 && any(8) == 0)
			SAME(mm_munmap(mm, LOW + 2 * PAGES * PG, 1ull << 45), 0);
		for (i = 0; i < WHO; i++)
			if (all[i])
				sound(all[i]);
	}
	/* Exits need no memory. */
	refuse(1, 0, 0);
	for (step = 0; step < WHO; step++)
		mm_put(all[step]);
	refuse(0, 0, 0);
	all_given_back(phys);
	mm_phys_put(phys);
	ram_end(&ram);
}

/* Two stretches with a hole in one, whose tables a child also uses: they are unmapped as a
 * whole, without copying a table. */
static void hole_in_a_shared_table(void)
{
	struct mm_phys_ops ops = ram_new(&ram, 4096);
	struct mm_phys *phys;
	int how;

	ops.alloc = pair_alloc;
	refuse(0, 0, 0);
	SAME(mm_phys_new(MM_X86_64, &ops, 0, &phys), 0);
	for (how = 0; how < 3; how++) {
		struct mm *mm = mm_in(MM_X86_64, phys), *child;

		SAME(mm_mmap(mm, LOW, 2 * STRETCH * PG, RW, ANON | MAP_FIXED, NULL, 0), LOW);
		store(mm, STRETCH - 100, 200);
		SAME(mm_munmap(mm, LOW + (STRETCH + 20) * PG, PG), 0);
		SAME(mm_fork(mm, MM_FORK_SHARE, &child), 0);
		refuse(1, 0, 0);
		if (how == 0)
			SAME(mm_munmap(mm, LOW, 2 * STRETCH * PG), 0);
		else
			SAME(mm_mmap(mm, LOW, 2 * STRETCH * PG, PROT_NONE, (how == 1 ? ANON : SHARED_ANON) | MAP_FIXED, NULL, 0), LOW);
		refuse(0, 0, 0);
		sound(mm);
		sound(child);
		mm_put(mm);
		mm_put(child);
	}
	all_given_back(phys);
	mm_phys_put(phys);
	ram_end(&ram);
}

int main(int argc, char **argv)
{
	uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 6, seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	unsigned steps = argc > 2 ? (unsigned)atoi(argv[2]) : 300;

	hole_in_a_shared_table();
	for (seeds += seed; seed < seeds; seed++) {
		if (argc > 1)
			fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
		history(seed, steps);
	}
	puts("ok");
	return 0;
}
