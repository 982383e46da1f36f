/* Physical memory: frames of the library and of the caller, their counts, and that all are
 * freed. */
#include "mm_check.h"

static void own_frames(void)
{
	unsigned f;

	for (f = 0; f < FORMATS; f++) {
		struct mm_phys *phys = phys_new(formats[f], 512);
		struct mm_phys_stats empty = stats_of(phys), full;
		struct mm *mm;
		int i;

		CHECK(empty.free <= 512 && empty.free >= 510);
		all_given_back(phys);
		mm = mm_in(formats[f], phys);
		CHECK(stats_of(phys).tables >= 1);
		CHECK(stats_of(phys).free < empty.free);
		SAME(mm_mmap(mm, AT, 8 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
		for (i = 0; i < 8; i++)
			CHECK(put(mm, AT + (unsigned)i * PG, i));
		full = stats_of(phys);
		SAME(full.anon, 8);
		SAME(full.file, 0);
		SAME(full.free + full.tables + full.anon, empty.free);
		/* The zero page is not counted. */
		SAME(mm_mmap(mm, AT + 16 * PG, PG, RW, ANON | MAP_FIXED, NULL, 0), AT + 16 * PG);
		SAME(get(mm, AT + 16 * PG), 0);
		SAME(stats_of(phys).anon, 8);
		/* Shared memory is counted with files. */
		SAME(mm_mmap(mm, AT + 32 * PG, 2 * PG, RW, SHARED_ANON | MAP_FIXED, NULL, 0), AT + 32 * PG);
		CHECK(put(mm, AT + 32 * PG, 1));
		SAME(stats_of(phys).file, 1);
		SAME(mm_munmap(mm, AT, 64 * PG), 0);
		SAME(stats_of(phys).anon, 0);
		SAME(stats_of(phys).file, 0);
		sound(mm);
		mm_put(mm);
		all_given_back(phys);
		SAME(stats_of(phys).free, empty.free);
		mm_phys_put(phys);
	}
}

/* Address spaces and cached pages keep it alive. With the last of them and this reference, every
 * frame is freed. */
static void any_order(void)
{
	unsigned f, order;

	for (f = 0; f < FORMATS; f++) {
		for (order = 0; order < 24; order++) {
			struct ram ram;
			struct mm_phys_ops ops = ram_new(&ram, 1024);
			struct mm_phys *phys = NULL;
			struct disk disk;
			struct mm_file *file;
			struct mm *mm, *child;
			unsigned left[4] = {0, 1, 2, 3}, o = order, i, n;

			disk_new(&disk, 8 * PG);
			file = disk_open(&disk, 7, MM_FILE_READ | MM_FILE_WRITE);
			SAME(mm_phys_new(formats[f], &ops, 3, &phys), 0);
			mm = mm_in(formats[f], phys);
			SAME(mm_mmap(mm, AT, 4 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
			SAME(mm_mmap(mm, AT + 8 * PG, 4 * PG, RW, MAP_SHARED | MAP_FIXED, file, 0), AT + 8 * PG);
			CHECK(put(mm, AT, 1));
			CHECK(put(mm, AT + 8 * PG, 99));
			SAME(mm_fork(mm, order & 1 ? MM_FORK_SHARE : MM_FORK_COPY, &child), 0);
			CHECK(put(child, AT + PG, 2));
			CHECK(ram.live > 0);
			for (n = 4; n; n--) {
				unsigned which = o % n;

				o /= n;
				switch (left[which]) {
				case 0:
					mm_put(mm);
					break;
				case 1:
					mm_put(child);
					break;
				case 2:
					mm_file_put(file);
					break;
				case 3:
					mm_phys_put(phys);
					break;
				}
				for (i = which; i + 1 < n; i++)
					left[i] = left[i + 1];
			}
			SAME(ram.live, 0);
			SAME(disk.released, 1);
			SAME(disk.bytes[0], 99);
			ram_end(&ram);
		}
	}
}

/* The library reads and writes frames where the caller says, and nowhere else. Their former
 * content does not matter. */
static void callers_frames(void)
{
	unsigned f;

	for (f = 0; f < FORMATS; f++) {
		struct ram ram;
		struct mm_phys_ops ops = ram_new(&ram, 2048);
		struct mm_phys *phys = NULL;
		struct mm *mm;
		uint64_t at, where;
		unsigned prot;

		SAME(mm_phys_new(formats[f], &ops, 0, &phys), 0);
		/* The library has copied the structure. */
		memset(&ops, 0, sizeof ops);
		mm = mm_in(formats[f], phys);
		SAME(mm_root(mm) % PG, 0);
		CHECK(ram.how[(mm_root(mm) - RAM_BASE) / PG] == 1);
		SAME(mm_mmap(mm, AT, 600 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
		for (at = AT; at < AT + 600 * PG; at += 7 * PG) {
			SAME(get(mm, at + 5), 0);
			CHECK(put(mm, at + 5, 3));
			SAME(get(mm, at + 4), 0);
			SAME(mm_translate(mm, at + 5, &where, &prot), 0);
			SAME(where % PG, 5);
			SAME(*(unsigned char *)ram_virt(&ram, where), 3);
		}
		sound(mm);
		mm_put(mm);
		mm_phys_put(phys);
		ram_end(&ram);
	}
}

/* Huge pages are blocks of 2^9 frames, and are freed as such. */
static void huge_blocks(void)
{
	struct ram ram;
	struct mm_phys_ops ops = ram_new(&ram, 8192);
	struct mm_phys *phys = NULL;
	struct mm *mm;
	uint64_t huge = 2u << 20;

	SAME(mm_phys_new(MM_X86_64, &ops, 0, &phys), 0);
	mm = mm_in(MM_X86_64, phys);
	SAME(mm_mmap(mm, AT, 2 * huge, RW, ANON | MAP_FIXED, NULL, 0), AT);
	SAME(mm_madvise(mm, AT, 2 * huge, MADV_HUGEPAGE), 0);
	CHECK(put(mm, AT + 5 * PG, 1));
	CHECK(page_at(mm, AT) & MM_PAGE_HUGE);
	CHECK(page_at(mm, AT + huge - 1) & MM_PAGE_PRESENT);
	SAME(page_at(mm, AT + huge), 0);
	SAME(stats_of(phys).anon, 512);
	/* A part of it is unmapped: the rest stays, as small pages. */
	SAME(mm_munmap(mm, AT, PG), 0);
	CHECK(!(page_at(mm, AT + 5 * PG) & MM_PAGE_HUGE));
	SAME(get(mm, AT + 5 * PG), 1);
	sound(mm);
	mm_put(mm);
	mm_phys_put(phys);
	ram_end(&ram);
}

/* Memory that begins at 0, as in an emulated machine: whatever the frame or the block at 0 is
 * used for, it is freed. The first `first` frames are not allocated initially. */
static void from_zero(enum mm_format format, uint64_t first)
{
	struct ram ram;
	struct mm_phys_ops ops = ram_new(&ram, 1024);
	struct mm_phys *phys = NULL;
	struct disk disk;
	struct mm_file *file;
	struct mm *mm, *child;
	uint64_t i;

	ram.base = 0;
	ram.next = first;
	disk_new(&disk, 8 * PG);
	file = disk_open(&disk, 7, MM_FILE_READ | MM_FILE_WRITE);
	SAME(mm_phys_new(format, &ops, 0, &phys), 0);
	mm = mm_in(format, phys);
	SAME(mm_mmap(mm, AT, 512 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
	if (format == MM_X86_64)
		SAME(mm_madvise(mm, AT, 512 * PG, MADV_HUGEPAGE), 0);
	SAME(get(mm, AT + 5 * PG), 0);
	SAME(mm_madvise(mm, AT, 512 * PG, MADV_DONTNEED), 0);
	SAME(get(mm, AT + 5 * PG), 0);
	SAME(mm_mmap(mm, AT, 512 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
	SAME(mm_mmap(mm, AT + 600 * PG, 8 * PG, RW, MAP_SHARED | MAP_FIXED, file, 0), AT + 600 * PG);
	for (i = 0; i < 8; i++)
		CHECK(put(mm, AT + i * PG, (int)(i + 1)) && put(mm, AT + (600 + i) * PG, (int)(i + 11)));
	SAME(mm_fork(mm, MM_FORK_SHARE, &child), 0);
	for (i = 0; i < 8; i += 2)
		CHECK(put(child, AT + i * PG, 99));
	for (i = 0; i < 8; i++) {
		SAME(get(mm, AT + i * PG), i + 1);
		SAME(get(child, AT + i * PG), i % 2 ? i + 1 : 99);
	}
	sound(mm);
	mm_put(mm);
	sound(child);
	mm_put(child);
	mm_file_put(file);
	SAME(disk.bytes[7 * PG], 18);
	mm_phys_put(phys);
	SAME(ram.live, 0);
	ram_end(&ram);
}

static void refused(void)
{
	struct ram ram;
	struct mm_phys_ops ops = ram_new(&ram, 16);
	struct mm_phys *phys = (struct mm_phys *)&ram;
	int64_t i;

	/* An unknown format. */
	SAME(mm_phys_new((enum mm_format)5, &ops, 0, &phys), -EINVAL);
	SAME(mm_phys_new((enum mm_format)-1, &ops, 0, &phys), -EINVAL);
	for (i = 0; i < 3; i++) {
		int result;

		ram.countdown = i;
		result = mm_phys_new(MM_X86_64, &ops, 0, &phys);
		CHECK(result == 0 || result == -ENOMEM);
		if (result == 0)
			mm_phys_put(phys);
		SAME(ram.live, 0);
	}
	ram_end(&ram);
	SAME(mm_phys_new(MM_X86_64, NULL, 0, &phys), -EINVAL);
	SAME(mm_phys_new(MM_X86_64, NULL, ~0ull, &phys), -ENOMEM);
	mm_phys_put(NULL);
}

/* A default fits every format. A chosen value stays. */
static void defaults(enum mm_format format)
{
	struct mm_phys *phys = phys_new(format, 64);
	struct mm_config chosen;
	int round;

	mm_config_default(&chosen);
	chosen.task_size = MM_UNLIMITED - 4095;
	for (round = 0; round < 3; round++) {
		struct mm_config config;
		struct mm *mm;
		int64_t at;
		char byte = 7;

		mm_config_default(&config);
		SAME(mm_new(round ? &config : NULL, phys, NULL, &mm), 0);
		at = mm_mmap(mm, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (round == 2 ? MAP_POPULATE : 0), NULL, 0);
		CHECK(at > 0);
		SAME(mm_copy_in(mm, (uint64_t)at, &byte, 1), 1);
		byte = 0;
		SAME(mm_copy_out(mm, (uint64_t)at, &byte, 1), 1);
		SAME(byte, 7);
		sound(mm);
		mm_put(mm);
		SAME(mm_new(&chosen, phys, NULL, &mm), 0);
		at = 1ll << 60;
		SAME(mm_mmap(mm, (uint64_t)at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, NULL, 0), at);
		SAME(mm_copy_in(mm, (uint64_t)at, &byte, 1), 0);
		mm_put(mm);
	}
	all_given_back(phys);
	mm_phys_put(phys);
}

int main(void)
{
	unsigned f;

	own_frames();
	any_order();
	callers_frames();
	huge_blocks();
	for (f = 0; f < FORMATS; f++) {
		uint64_t first;

		for (first = 0; first < 24; first++)
			from_zero(formats[f], 1024 - first);
		from_zero(formats[f], 512);
		defaults(formats[f]);
	}
	refused();
	puts("ok");
	return 0;
}
