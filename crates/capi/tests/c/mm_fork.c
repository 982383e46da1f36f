/* Forks, in both modes: the parent's memory stays the parent's, shared memory stays shared, and
 * everything is freed in any order of exits. */
#include "mm_check.h"

static enum mm_format format;
static unsigned how;
static struct ram ram;
static struct mm_phys *phys;

static struct mm *fresh(void)
{
	return mm_in(format, phys);
}

static struct mm *forked(struct mm *parent)
{
	struct mm *child = NULL;

	SAME(mm_fork(parent, how, &child), 0);
	CHECK(child && child != parent);
	sound(parent);
	sound(child);
	return child;
}

static void map(struct mm *mm, uint64_t at, uint64_t pages, int flags)
{
	SAME(mm_mmap(mm, at, pages * PG, RW, flags | MAP_FIXED, NULL, 0), at);
}

static void apart(void)
{
	struct mm *mm = fresh(), *child;
	char a[4096], b[4096];
	unsigned i;

	map(mm, AT, 600, ANON);
	map(mm, AT + 1000 * PG, 4, SHARED_ANON);
	for (i = 0; i < 600; i += 3)
		CHECK(put(mm, AT + i * PG, (int)i % 251));
	SAME(get(mm, AT + PG), 0);
	CHECK(put(mm, AT + 1000 * PG, 1));
	child = forked(mm);
	/* The same map. */
	mm_maps(mm, a, sizeof a);
	mm_maps(child, b, sizeof b);
	CHECK(!strcmp(a, b));
	for (i = 0; i < 600; i += 3) {
		SAME(page_at(child, AT + i * PG), MM_PAGE_PRESENT);
		SAME(page_at(mm, AT + i * PG), MM_PAGE_PRESENT);
		SAME(get(child, AT + i * PG), i % 251);
	}
	/* Both have the zero page, since the area has been written to. */
	SAME(page_at(child, AT + PG), MM_PAGE_PRESENT | MM_PAGE_ZERO);
	for (i = 0; i < 600; i += 6)
		CHECK(put(i % 4 ? mm : child, AT + i * PG, 255));
	for (i = 0; i < 600; i += 6) {
		SAME(get(mm, AT + i * PG), i % 4 ? 255 : i % 251);
		SAME(get(child, AT + i * PG), i % 4 ? i % 251 : 255);
		SAME(page_at(mm, AT + i * PG), MM_PAGE_PRESENT | MM_PAGE_EXCLUSIVE);
		SAME(page_at(child, AT + i * PG), MM_PAGE_PRESENT | MM_PAGE_EXCLUSIVE);
	}
	/* Shared memory is the same. */
	CHECK(put(child, AT + 1000 * PG + 5, 9));
	SAME(get(mm, AT + 1000 * PG + 5), 9);
	SAME(mm_munmap(child, AT + 300 * PG, 10 * PG), 0);
	SAME(get(mm, AT + 300 * PG), 300 % 4 ? 255 : 300 % 251);
	SAME(mm_mprotect(mm, AT, 3 * PG, PROT_READ), 0);
	CHECK(put(child, AT, 3));
	CHECK(!put(mm, AT, 3));
	sound(mm);
	sound(child);
	mm_put(mm);
	SAME(get(child, AT + 3 * PG), 3);
	SAME(page_at(child, AT + 3 * PG), MM_PAGE_PRESENT | MM_PAGE_EXCLUSIVE);
	mm_put(child);
	all_given_back(phys);
}

/* Last-level tables are shared until one side changes them. */
static void shared_tables(void)
{
	struct mm *mm = fresh(), *child;
	uint64_t tables;
	unsigned i;

	map(mm, AT, 4 * 512, ANON);
	for (i = 0; i < 4 * 512; i += 128)
		CHECK(put(mm, AT + i * PG, 1));
	tables = stats_of(phys).tables;
	SAME(stats_of(phys).shared_tables, 0);
	child = forked(mm);
	if (how == MM_FORK_COPY) {
		SAME(stats_of(phys).shared_tables, 0);
		SAME(stats_of(phys).tables, 2 * tables);
	} else {
		SAME(stats_of(phys).shared_tables, 4);
		CHECK(stats_of(phys).tables < 2 * tables - 3);
		CHECK(put(child, AT, 2));
		SAME(stats_of(phys).shared_tables, 3);
		SAME(mm_munmap(mm, AT + 512 * PG, PG), 0);
		SAME(stats_of(phys).shared_tables, 2);
		SAME(get(child, AT + 512 * PG), 1);
		SAME(mm_mprotect(child, AT + 1024 * PG, 2 * PG, PROT_READ), 0);
		SAME(stats_of(phys).shared_tables, 1);
	}
	SAME(get(mm, AT), 1);
	sound(mm);
	sound(child);
	mm_put(child);
	SAME(stats_of(phys).shared_tables, 0);
	mm_put(mm);
	all_given_back(phys);
}

static void advised(void)
{
	struct mm *mm = fresh(), *child;
	struct mm_area area;

	map(mm, AT, 12, ANON);
	CHECK(put(mm, AT, 1) && put(mm, AT + 4 * PG, 2) && put(mm, AT + 8 * PG, 3));
	SAME(mm_madvise(mm, AT, 2 * PG, MADV_DONTFORK), 0);
	SAME(mm_madvise(mm, AT + 4 * PG, 2 * PG, MADV_WIPEONFORK), 0);
	SAME(mm_mlock2(mm, AT + 8 * PG, 2 * PG, 0), 0);
	child = forked(mm);
	SAME(fault(child, AT, MM_READ), MAPERR);
	SAME(page_at(child, AT + 4 * PG), 0);
	SAME(get(child, AT + 4 * PG), 0);
	SAME(get(child, AT + 8 * PG), 3);
	/* Locks are not inherited. */
	CHECK(mm_find(mm, AT + 8 * PG, &area) && area.vm_flags & 0x2000);
	CHECK(mm_find(child, AT + 8 * PG, &area) && !(area.vm_flags & 0x2000));
	SAME(get(mm, AT), 1);
	SAME(get(mm, AT + 4 * PG), 2);
	mm_put(mm);
	mm_put(child);
	all_given_back(phys);
}

/* A child gets the parent's zero pages only if their area has an anon_vma. It faults clean file pages in again. */
static void left_out(void)
{
	struct mm *mm = fresh(), *child;
	static struct disk disk;
	struct mm_file *file;

	disk_new(&disk, 4 * PG);
	file = disk_open(&disk, 3, MM_FILE_READ | MM_FILE_WRITE);
	map(mm, AT, 2, ANON);
	map(mm, AT + 4 * PG, 2, ANON);
	SAME(mm_mmap(mm, AT + 8 * PG, 4 * PG, RW, MAP_SHARED | MAP_FIXED, file, 0), AT + 8 * PG);
	SAME(get(mm, AT), 0);
	SAME(get(mm, AT + 4 * PG), 0);
	CHECK(put(mm, AT + 5 * PG, 1));
	CHECK(put(mm, AT + 8 * PG, 5));
	child = forked(mm);
	SAME(page_at(child, AT), 0);
	SAME(page_at(child, AT + 4 * PG), MM_PAGE_PRESENT | MM_PAGE_ZERO);
	if (how == MM_FORK_COPY)
		SAME(page_at(child, AT + 8 * PG), 0);
	SAME(get(child, AT + 8 * PG), 5);
	SAME(page_at(child, AT + 8 * PG), MM_PAGE_PRESENT | MM_PAGE_FILE);
	mm_put(mm);
	mm_put(child);
	mm_file_put(file);
	all_given_back(phys);
}

/* Forks of forks. Each writes a word of its own, and they exit in each order. */
static void generations(void)
{
	unsigned order;

	for (order = 0; order < 120; order += 11) {
		struct mm *all[5];
		unsigned i, j, o = order, n;

		all[0] = fresh();
		map(all[0], AT, 4, ANON);
		CHECK(put(all[0], AT, 100));
		for (i = 1; i < 5; i++) {
			all[i] = forked(all[(order + i) % i]);
			CHECK(put(all[i], AT + i, 100 + (int)i));
			CHECK(put(all[i], AT + PG + i, (int)i));
		}
		for (i = 0; i < 5; i++) {
			SAME(get(all[i], AT), 100);
			for (j = 1; j < 5; j++)
				if (i == j)
					SAME(get(all[i], AT + j), 100 + j);
		}
		for (n = 5; n; n--) {
			unsigned which = o % n;

			o /= n;
			mm_put(all[which]);
			for (i = which; i + 1 < n; i++)
				all[i] = all[i + 1];
			for (i = 0; i + 1 < n; i++) {
				sound(all[i]);
				SAME(get(all[i], AT), 100);
			}
		}
		all_given_back(phys);
	}
}

static void huge(void)
{
	struct mm *mm = fresh(), *child;
	uint64_t size = 2u << 20;

	map(mm, AT, 1024, ANON);
	SAME(mm_madvise(mm, AT, 2 * size, MADV_HUGEPAGE), 0);
	CHECK(put(mm, AT, 1));
	CHECK(page_at(mm, AT) & MM_PAGE_HUGE);
	child = forked(mm);
	SAME(get(child, AT), 1);
	CHECK(put(child, AT + PG, 2));
	SAME(get(mm, AT + PG), 0);
	CHECK(put(mm, AT, 3));
	SAME(get(child, AT), 1);
	sound(mm);
	sound(child);
	mm_put(mm);
	SAME(get(child, AT + PG), 2);
	mm_put(child);
	all_given_back(phys);
}

/* Without mm_phys there is still the map. */
static void map_only(void)
{
	struct mm *mm = mm_in(format, NULL), *child = NULL;
	char a[1024], b[1024];

	map(mm, AT, 4, ANON);
	SAME(mm_madvise(mm, AT + PG, PG, MADV_DONTFORK), 0);
	SAME(mm_fork(mm, how, &child), 0);
	mm_maps(mm, a, sizeof a);
	mm_maps(child, b, sizeof b);
	CHECK(strlen(b) < strlen(a));
	mm_put(mm);
	sound(child);
	mm_put(child);
}

int main(void)
{
	unsigned f;

	for (f = 0; f < FORMATS; f++) {
		struct mm_phys_ops ops = ram_new(&ram, 8192);
		struct mm *none = (struct mm *)&ram;

		format = formats[f];
		SAME(mm_phys_new(format, &ops, 0, &phys), 0);
		for (how = MM_FORK_COPY; how <= MM_FORK_SHARE; how++) {
			apart();
			shared_tables();
			advised();
			left_out();
			generations();
			huge();
			map_only();
		}
		{
			struct mm *mm = fresh();

			SAME(mm_fork(mm, 2, &none), -EINVAL);
			mm_put(mm);
		}
		mm_phys_put(phys);
		ram_end(&ram);
	}
	puts("ok");
	return 0;
}
