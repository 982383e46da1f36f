/* Threads that fault, copy, look up, map, fork and truncate files concurrently, on one memory. */
#include "mm_check.h"
#include <stdint.h>

#define WORKERS 3
#define ROUNDS 150
#define SPAN (64 * PG)

static struct mm_phys *phys;
static struct mm *common;
static struct disk disk;
static struct mm_file *file;
static atomic_int stop;

/* Each thread has a part of the common address space of its own. */
static void *worker(void *argument)
{
	unsigned number = (unsigned)(uintptr_t)argument, i;
	uint64_t mine = AT + number * SPAN, state = number + 1;

	for (i = 0; i < ROUNDS; i++) {
		uint64_t page = mine + random_below(&state, 16) * PG;
		unsigned char bytes[300], back[300];
		struct mm *child = NULL;

		SAME(mm_mmap(common, mine, 16 * PG, RW, ANON | MAP_FIXED, NULL, 0), mine);
		memset(bytes, (int)(i + number), sizeof bytes);
		SAME(mm_copy_in(common, page + 100, bytes, sizeof bytes), sizeof bytes);
		SAME(mm_copy_out(common, page + 100, back, sizeof back), sizeof back);
		CHECK(!memcmp(bytes, back, sizeof back));
		SAME(get(common, mine + 15 * PG + 4000), 0);
		SAME(mm_mprotect(common, mine + 4 * PG, 4 * PG, PROT_READ), 0);
		SAME(fault(common, mine + 5 * PG, MM_WRITE), ACCERR);
		if (i % 4 == 0) {
			SAME(mm_fork(common, i % 8 ? MM_FORK_COPY : MM_FORK_SHARE, &child), 0);
			SAME(mm_copy_out(child, page + 100, back, sizeof back), sizeof back);
			CHECK(!memcmp(bytes, back, sizeof back));
			put(child, mine, 1);
			put(common, mine, 2);
			SAME(get(child, mine), 1);
			SAME(get(common, mine), 2);
			mm_put(child);
		}
		/* A file that others truncate: its bytes or SIGBUS. */
		SAME(mm_mmap(common, mine + 20 * PG, 8 * PG, RW, (i % 2 ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED, file, 0), mine + 20 * PG);
		{
			int j;

			for (j = 0; j < 8; j++) {
				int byte = get(common, mine + 20 * PG + (unsigned)j * PG + number);

				CHECK(byte == -1 || byte == 0 || byte == 1 + j);
			}
			put(common, mine + 21 * PG + 50 + number, 5);
		}
		SAME(mm_madvise(common, mine, 16 * PG, MADV_DONTNEED), 0);
		SAME(mm_munmap(common, mine, SPAN), 0);
	}
	return NULL;
}

static void *watcher(void *argument)
{
	static char text[1 << 16];
	uint64_t state = 99;
	char why[200];

	(void)argument;
	while (!atomic_load(&stop)) {
		uint64_t at = AT + random_below(&state, WORKERS * 64) * PG, where;
		struct mm_phys_stats stats;
		struct mm_area area;
		unsigned prot;

		mm_translate(common, at, &where, &prot);
		mm_page(common, at);
		if (mm_find(common, at, &area))
			CHECK(area.start < area.end);
		if (random_below(&state, 20) == 0) {
			mm_maps(common, text, sizeof text);
			mm_smaps(common, text, sizeof text);
			mm_phys_stats(phys, &stats);
			if (mm_check(common, why, sizeof why)) {
				fprintf(stderr, "%s\n", why);
				abort();
			}
		}
		if (random_below(&state, 20) == 0) {
			/* disk.size is read by others concurrently: all of them use it as an atomic. */
			uint64_t size = (2 + random_below(&state, 7)) * PG;

			__atomic_store_n(&disk.size, size, __ATOMIC_SEQ_CST);
			mm_file_truncate(phys, file, size);
			mm_file_punch(phys, file, PG, 2 * PG);
		}
	}
	return NULL;
}

static int read_page(void *ctx, uint64_t pgoff, void *page)
{
	(void)ctx;
	memset(page, (int)(1 + pgoff), PG);
	return 0;
}

static uint64_t size_now(void *ctx)
{
	return __atomic_load_n(&((struct disk *)ctx)->size, __ATOMIC_SEQ_CST);
}

int main(void)
{
	static const struct mm_file_ops ops = {read_page, NULL, NULL, size_now, disk_release};
	struct mm_file_info info = {"/disk", 8, 1, 3, MM_FILE_READ | MM_FILE_WRITE};
	struct mm_config config;
	pthread_t threads[WORKERS + 1];
	unsigned f, i;

	for (f = 0; f < 2; f++) {
		phys = phys_new(f ? MM_RISCV_SV39 : MM_X86_64, 8192);
		disk_new(&disk, 8 * PG);
		SAME(mm_file_open(&info, &ops, &disk, &file), 0);
		config = config_for(f ? MM_RISCV_SV39 : MM_X86_64);
		SAME(mm_new(&config, phys, NULL, &common), 0);
		atomic_store(&stop, 0);
		for (i = 0; i < WORKERS; i++)
			pthread_create(&threads[i], NULL, worker, (void *)(uintptr_t)i);
		pthread_create(&threads[WORKERS], NULL, watcher, NULL);
		for (i = 0; i < WORKERS; i++)
			pthread_join(threads[i], NULL);
		atomic_store(&stop, 1);
		pthread_join(threads[WORKERS], NULL);
		sound(common);
		mm_put(common);
		mm_file_put(file);
		SAME(disk.released, 1);
		all_given_back(phys);
		mm_phys_put(phys);
	}
	puts("ok");
	return 0;
}
