/* Shared code of the C tests of address spaces: checks that report their location, memory that
 * counts and refuses, files in memory. */
#ifndef MM_CHECK_H
#define MM_CHECK_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <samara/mm.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CHECK(cond)                                                                          \
	do {                                                                                 \
		if (!(cond)) {                                                               \
			fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, __func__, #cond); \
			abort();                                                             \
		}                                                                            \
	} while (0)

/* Checks that two numbers are equal, and prints both otherwise. */
#define SAME(a, b)                                                                            \
	do {                                                                                  \
		unsigned long long a_ = (unsigned long long)(a), b_ = (unsigned long long)(b); \
		if (a_ != b_) {                                                               \
			fprintf(stderr, "%s:%d: %s: %s is %#llx, expected %s = %#llx\n", __FILE__, \
				__LINE__, __func__, #a, a_, #b, b_);                          \
			abort();                                                              \
		}                                                                             \
	} while (0)

#define PG 4096ull
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define SHARED_ANON (MAP_SHARED | MAP_ANONYMOUS)
#define AT 0x2000000000ull /* the address of tests' mappings: below 2^38, and at the start of a last-level table */

static const enum mm_format formats[] = {MM_X86_64, MM_X86_64_LA57, MM_AARCH64_4K, MM_RISCV_SV39, MM_RISCV_SV48};
#define FORMATS (sizeof formats / sizeof *formats)

/* ---- physical memory of the test's own ---- */
#define RAM_BASE 0x180000000ull /* above 32 bits */
struct ram {
	pthread_mutex_t lock;
	unsigned char *bytes;
	uint64_t base;      /* RAM_BASE unless set otherwise */
	uint64_t frames;
	uint64_t live;      /* allocated frames */
	uint64_t asked;     /* calls of alloc */
	int64_t countdown;  /* < 0: never; at 0 an allocation is refused, and all after it */
	unsigned char *how; /* for each frame: 0 free, 1 + order at the start of a block, 255 inside one */
	uint64_t next;
};

static int ram_alloc(void *ctx, unsigned order, uint64_t *phys)
{
	struct ram *ram = (struct ram *)ctx;
	uint64_t n = 1ull << order, tried, at;
	int refused;

	pthread_mutex_lock(&ram->lock);
	ram->asked++;
	refused = ram->countdown == 0;
	if (ram->countdown > 0)
		ram->countdown--;
	at = (ram->next + n - 1) / n * n;
	for (tried = 0; !refused && tried <= ram->frames; tried += n, at += n) {
		uint64_t i;

		if (at + n > ram->frames)
			at = 0;
		for (i = 0; i < n && !ram->how[at + i]; i++)
			;
		if (i < n)
			continue;
		memset(ram->how + at, 255, n);
		ram->how[at] = (unsigned char)(1 + order);
		ram->live += n;
		ram->next = at + n;
		/* "with any content" */
		memset(ram->bytes + at * PG, 0xa5, n * PG);
		*phys = ram->base + at * PG;
		pthread_mutex_unlock(&ram->lock);
		return 0;
	}
	pthread_mutex_unlock(&ram->lock);
	return -ENOMEM;
}

static void ram_free(void *ctx, uint64_t phys, unsigned order)
{
	struct ram *ram = (struct ram *)ctx;
	uint64_t at = (phys - ram->base) / PG, n = 1ull << order;

	pthread_mutex_lock(&ram->lock);
	CHECK(phys % (n * PG) == 0 && at + n <= ram->frames);
	SAME(ram->how[at], 1 + order);
	memset(ram->how + at, 0, n);
	memset(ram->bytes + at * PG, 0x5a, n * PG);
	ram->live -= n;
	pthread_mutex_unlock(&ram->lock);
}

static void *ram_virt(void *ctx, uint64_t phys)
{
	struct ram *ram = (struct ram *)ctx;

	CHECK(phys >= ram->base && phys < ram->base + ram->frames * PG);
	return ram->bytes + (phys - ram->base);
}

static inline struct mm_phys_ops ram_new(struct ram *ram, uint64_t frames)
{
	struct mm_phys_ops ops = {ram, ram_alloc, ram_free, ram_virt};

	memset(ram, 0, sizeof *ram);
	pthread_mutex_init(&ram->lock, NULL);
	ram->bytes = (unsigned char *)mmap(NULL, frames * PG, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(ram->bytes != MAP_FAILED);
	ram->how = (unsigned char *)calloc(frames, 1);
	ram->base = RAM_BASE;
	ram->frames = frames;
	ram->countdown = -1;
	return ops;
}

static inline void ram_end(struct ram *ram)
{
	SAME(ram->live, 0);
	munmap(ram->bytes, ram->frames * PG);
	free(ram->how);
	pthread_mutex_destroy(&ram->lock);
}

/* ---- a file in memory ---- */
struct disk {
	unsigned char bytes[64 * 4096];
	uint64_t size;
	atomic_uint reads, writes, punches, sizes, released;
	uint64_t bad; /* reading this page fails; ~0: none */
};

static int disk_read(void *ctx, uint64_t pgoff, void *page)
{
	struct disk *disk = (struct disk *)ctx;
	uint64_t i;

	atomic_fetch_add(&disk->reads, 1);
	if (pgoff == disk->bad)
		return -EIO;
	for (i = 0; i < PG; i++)
		((unsigned char *)page)[i] = pgoff * PG + i < disk->size ? disk->bytes[pgoff * PG + i] : 0;
	return 0;
}

static int disk_write(void *ctx, uint64_t pgoff, const void *page)
{
	struct disk *disk = (struct disk *)ctx;
	uint64_t i;

	atomic_fetch_add(&disk->writes, 1);
	for (i = 0; i < PG && pgoff * PG + i < disk->size; i++)
		disk->bytes[pgoff * PG + i] = ((const unsigned char *)page)[i];
	return 0;
}

static int disk_punch(void *ctx, uint64_t start, uint64_t end)
{
	struct disk *disk = (struct disk *)ctx;

	atomic_fetch_add(&disk->punches, 1);
	CHECK(start % PG == 0 && end % PG == 0 && start < end);
	if (end > sizeof disk->bytes)
		end = sizeof disk->bytes;
	if (start < end)
		memset(disk->bytes + start, 0, end - start);
	return 0;
}

static uint64_t disk_size(void *ctx)
{
	struct disk *disk = (struct disk *)ctx;

	atomic_fetch_add(&disk->sizes, 1);
	return disk->size;
}

static void disk_release(void *ctx)
{
	atomic_fetch_add(&((struct disk *)ctx)->released, 1);
}

static const struct mm_file_ops disk_ops = {disk_read, disk_write, disk_punch, disk_size, disk_release};

/* Creates a disk whose page n is filled with 1 + n. */
static inline void disk_new(struct disk *disk, uint64_t size)
{
	uint64_t i;

	memset(disk, 0, sizeof *disk);
	for (i = 0; i < size; i++)
		disk->bytes[i] = (unsigned char)(1 + i / PG);
	disk->size = size;
	disk->bad = ~0ull;
}

static inline struct mm_file *disk_open(struct disk *disk, uint64_t inode, unsigned flags)
{
	struct mm_file_info info = {"/disk", 8, 1, inode, flags};
	struct mm_file *file = NULL;

	SAME(mm_file_open(&info, &disk_ops, disk, &file), 0);
	CHECK(file);
	return file;
}

/* ---- address spaces ---- */
static inline struct mm_phys *phys_new(enum mm_format format, uint64_t frames)
{
	struct mm_phys *phys = NULL;

	SAME(mm_phys_new(format, NULL, frames, &phys), 0);
	CHECK(phys);
	return phys;
}

static inline struct mm_config config_for(enum mm_format format)
{
	struct mm_config config;

	mm_config_for(format, &config);
	return config;
}

static inline struct mm *mm_in(enum mm_format format, struct mm_phys *phys)
{
	struct mm_config config = config_for(format);
	struct mm *mm = NULL;

	SAME(mm_new(&config, phys, NULL, &mm), 0);
	CHECK(mm);
	return mm;
}

static inline void sound(struct mm *mm)
{
	char why[256] = "";

	if (mm_check(mm, why, sizeof why) != 0) {
		fprintf(stderr, "mm_check: %s\n", why);
		abort();
	}
}

static inline struct mm_phys_stats stats_of(struct mm_phys *phys)
{
	struct mm_phys_stats stats;

	memset(&stats, 0xff, sizeof stats);
	mm_phys_stats(phys, &stats);
	return stats;
}

/* Checks that nothing of `phys` is in use except what files may keep. */
static inline void all_given_back(struct mm_phys *phys)
{
	struct mm_phys_stats stats = stats_of(phys);

	SAME(stats.tables, 0);
	SAME(stats.anon, 0);
	SAME(stats.file, 0);
	SAME(stats.shared_tables, 0);
}

static inline int get(struct mm *mm, uint64_t addr)
{
	unsigned char byte = 0;

	return mm_copy_out(mm, addr, &byte, 1) == 1 ? byte : -1;
}

static inline int put(struct mm *mm, uint64_t addr, int value)
{
	unsigned char byte = (unsigned char)value;

	return mm_copy_in(mm, addr, &byte, 1) == 1;
}

/* Returns the status of a page, without MM_PAGE_SOFT_DIRTY. */
static inline unsigned page_at(struct mm *mm, uint64_t addr)
{
	return mm_page(mm, addr) & ~(unsigned)MM_PAGE_SOFT_DIRTY;
}

/* Returns the signal and code of an access, as 1000 * signal + code, or 0 for none. */
static inline int fault(struct mm *mm, uint64_t addr, unsigned access)
{
	int code = -1;
	int signal = mm_fault(mm, addr, access, &code);

	return signal > 0 ? 1000 * signal + code : signal;
}

#define MAPERR (1000 * SIGSEGV + 1)
#define ACCERR (1000 * SIGSEGV + 2)
#define ADRERR (1000 * SIGBUS + 2)

/* Returns a random number. */
static inline unsigned random_below(uint64_t *state, unsigned below)
{
	*state = *state * 0x5851f42d4c957f2dull + 0x14057b7ef767814full;
	return (unsigned)((*state >> 33) % below);
}
#endif
