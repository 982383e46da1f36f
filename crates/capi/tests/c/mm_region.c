/* A guest in a region of its host: confined, whatever it requests. The host is notified of the
 * contents, and learns at the guest's end what was lost. */
#include "mm_check.h"

#define BASE 0x7f0000000000ull
#define END (BASE + 64 * PG)

/* The host's side. */
struct region {
	int told, discarded, synced;
	int advice, flags;
	uint64_t start, end;
	int refuse;
};

static void inside(struct region *region, uint64_t start, uint64_t end)
{
	CHECK(BASE <= start && start < end && end <= END);
	region->told++;
}

static int on_map(void *ctx, uint64_t start, uint64_t end, int prot, int flags, struct mm_file *file, uint64_t offset)
{
	(void)prot, (void)flags, (void)file, (void)offset;
	inside((struct region *)ctx, start, end);
	return 0;
}

static int on_unmap(void *ctx, uint64_t start, uint64_t end)
{
	inside((struct region *)ctx, start, end);
	return 0;
}

static int on_protect(void *ctx, uint64_t start, uint64_t end, int prot)
{
	(void)prot;
	inside((struct region *)ctx, start, end);
	return 0;
}

static int on_move(void *ctx, uint64_t from, uint64_t to, uint64_t len)
{
	inside((struct region *)ctx, from, from + len);
	inside((struct region *)ctx, to, to + len);
	return 0;
}

static int on_discard(void *ctx, uint64_t start, uint64_t end, int advice)
{
	struct region *region = (struct region *)ctx;

	inside(region, start, end);
	region->discarded++;
	region->start = start;
	region->end = end;
	region->advice = advice;
	return region->refuse;
}

static int on_sync(void *ctx, uint64_t start, uint64_t end, int flags)
{
	struct region *region = (struct region *)ctx;

	inside(region, start, end);
	region->synced++;
	region->flags = flags;
	return region->refuse;
}

static struct mm *guest(struct region *region, struct mm_phys *phys)
{
	struct mm_backend backend = {region, on_map, on_unmap, on_protect, on_move};
	struct mm_contents contents = {on_discard, on_sync};
	struct mm_config config;
	struct mm *mm = NULL;

	memset(region, 0, sizeof *region);
	mm_config_default(&config);
	config.start_brk = BASE;
	SAME(mm_new_within(&config, BASE, END, phys, &backend, &mm), 0);
	SAME(mm_set_contents(mm, &contents), 0);
	return mm;
}

static void ranges(void)
{
	struct mm_config config;
	struct mm *mm = NULL;

	SAME(mm_new_within(NULL, BASE, BASE, NULL, NULL, &mm), -EINVAL);
	SAME(mm_new_within(NULL, END, BASE, NULL, NULL, &mm), -EINVAL);
	SAME(mm_new_within(NULL, BASE + 1, END, NULL, NULL, &mm), -EINVAL);
	SAME(mm_new_within(NULL, BASE, END - 1, NULL, NULL, &mm), -EINVAL);
	SAME(mm_new_within(NULL, BASE, 1ull << 47, NULL, NULL, &mm), -ENOMEM);
	mm_config_default(&config);
	config.start_brk = BASE - PG;
	SAME(mm_new_within(&config, BASE, END, NULL, NULL, &mm), -EINVAL);
	config.start_brk = END;
	SAME(mm_new_within(&config, BASE, END, NULL, NULL, &mm), -EINVAL);
	config.start_brk = END - PG;
	config.stack_top = END + PG;
	SAME(mm_new_within(&config, BASE, END, NULL, NULL, &mm), -EINVAL);
	config.stack_top = END;
	SAME(mm_new_within(&config, BASE, END, NULL, NULL, &mm), 0);
	SAME(mm_brk(mm, END), END);
	mm_put(mm);
	/* Without a start there is no heap. */
	SAME(mm_new_within(NULL, BASE, END, NULL, NULL, &mm), 0);
	SAME(mm_brk(mm, BASE), 0);
	SAME(mm_mmap(mm, 0, PG, RW, ANON, NULL, 0), END - PG);
	mm_put(mm);
	/* Invalid layouts. */
	mm_config_default(&config);
	config.start_brk = config.task_size;
	SAME(mm_new(&config, NULL, NULL, &mm), -EINVAL);
	mm_config_default(&config);
	config.legacy_base = config.task_size + PG;
	SAME(mm_new(&config, NULL, NULL, &mm), -EINVAL);
}

static void outside(void)
{
	static const uint64_t places[] = {0, PG, 0x10000, 0x40000000, 0x555500000000, BASE - PG, END, END + PG, 0x7ffffffff000, ~0ull - 4095};
	struct region region;
	struct mm *mm = guest(&region, NULL);
	uint64_t page = (uint64_t)mm_mmap(mm, 0, PG, RW, ANON, NULL, 0);
	size_t i;

	for (i = 0; i < sizeof places / sizeof *places; i++) {
		int64_t hinted = mm_mmap(mm, places[i], PG, RW, ANON, NULL, 0);

		CHECK(mm_mmap(mm, places[i], PG, RW, ANON | MAP_FIXED, NULL, 0) < 0);
		CHECK(mm_mremap(mm, page, PG, PG, MREMAP_MAYMOVE | MREMAP_FIXED, places[i]) < 0);
		SAME(mm_brk(mm, places[i] ? places[i] : 1), i == 6 ? BASE : BASE);
		CHECK((uint64_t)hinted >= BASE && (uint64_t)hinted < END);
	}
	CHECK(mm_mmap(mm, 0, PG, RW, ANON | MAP_32BIT, NULL, 0) < 0);
	SAME(mm_munmap(mm, 0, END), 0);
	CHECK(region.told > 10);
	sound(mm);
	mm_put(mm);
}

/* Contents that the host keeps. */
static void contents(struct mm_phys *phys)
{
	struct region region;
	struct mm *mm = guest(&region, phys), *child;
	struct mm_contents again = {NULL, NULL};
	uint64_t page = (uint64_t)mm_mmap(mm, 0, 4 * PG, RW, ANON, NULL, 0);
	uint64_t shared = (uint64_t)mm_mmap(mm, 0, PG, RW, SHARED_ANON, NULL, 0);

	SAME(mm_madvise(mm, page + PG, 2 * PG, MADV_DONTNEED), 0);
	SAME(region.discarded, 1);
	SAME(region.start, page + PG);
	SAME(region.end, page + 3 * PG);
	SAME(region.advice, MADV_DONTNEED);
	SAME(mm_madvise(mm, page, PG, MADV_FREE), 0);
	SAME(region.advice, MADV_FREE);
	SAME(mm_madvise(mm, shared, PG, MADV_REMOVE), 0);
	SAME(region.advice, MADV_REMOVE);
	SAME(mm_madvise(mm, page, PG, 102), 0); /* MADV_GUARD_INSTALL */
	SAME(region.advice, 102);
	SAME(mm_msync(mm, shared, PG, MS_SYNC), 0);
	SAME(region.synced, 1);
	SAME(region.flags, MS_SYNC);
	region.refuse = -EIO;
	SAME(mm_madvise(mm, page, PG, MADV_DONTNEED), -EIO);
	SAME(mm_msync(mm, shared, PG, MS_SYNC), -EIO);
	sound(mm);
	/* Once, and with a backend. */
	SAME(mm_set_contents(mm, &again), -EBUSY);
	SAME(mm_fork(mm, MM_FORK_COPY, &child), 0);
	SAME(mm_set_contents(child, &again), -EINVAL);
	region.discarded = 0;
	SAME(mm_madvise(child, page, PG, MADV_DONTNEED), 0);
	SAME(region.discarded, 0);
	mm_put(child);
	mm_put(mm);
}

/* A file whose pages cannot be written. */
struct bad {
	int writes, released;
	int fails;
};

static int bad_write(void *ctx, uint64_t pgoff, const void *page)
{
	struct bad *bad = (struct bad *)ctx;

	(void)page;
	bad->writes++;
	return bad->fails && pgoff == 1 ? -ENOSPC : 0;
}

static void bad_release(void *ctx)
{
	((struct bad *)ctx)->released++;
}

static void lost(struct mm_phys *phys)
{
	static const struct mm_file_ops ops = {NULL, bad_write, NULL, NULL, bad_release};
	struct mm_file_info info = {"/bad", 8, 1, 5, MM_FILE_READ | MM_FILE_WRITE};
	struct bad bad = {0, 0, 1};
	struct region region;
	struct mm *mm, *child;
	struct mm_file *file;
	uint64_t at;
	int i;

	SAME(mm_exit(NULL), -EINVAL);
	for (i = 0; i < 2; i++) {
		mm = guest(&region, phys);
		SAME(mm_file_open(&info, &ops, &bad, &file), 0);
		at = (uint64_t)mm_mmap(mm, 0, 3 * PG, RW, MAP_SHARED, file, 0);
		put(mm, at, 1);
		put(mm, at + PG, 2);
		put(mm, at + 2 * PG, 3);
		/* As fsync: pages that could not be written stay dirty. */
		SAME(mm_file_sync(phys, file), i == 0 ? -ENOSPC : 0);
		put(mm, at, 1);
		mm_file_put(file);
		SAME(mm_fork(mm, MM_FORK_COPY, &child), 0);
		/* Nothing is lost while another address space maps it. */
		SAME(mm_exit(mm), 0);
		bad.writes = 0;
		SAME(mm_exit(child), i == 0 ? -ENOSPC : 0);
		SAME(bad.writes, i == 0 ? 2 : 1);
		SAME(bad.released, i + 1);
		bad.fails = 0;
	}
}

int main(void)
{
	struct mm_phys *phys = phys_new(MM_X86_64, 256);

	ranges();
	outside();
	contents(NULL);
	contents(phys);
	lost(phys);
	all_given_back(phys);
	mm_phys_put(phys);
	puts("ok");
	return 0;
}
