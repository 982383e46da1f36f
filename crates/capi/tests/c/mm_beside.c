/* Calls whose functions are slow, and the operations that do not wait for them: faults, copies,
 * look-ups and translations elsewhere. */
#include "mm_check.h"
#include <semaphore.h>
#include <stdint.h>
#include <time.h>

static struct mm_phys *phys;
static struct mm *mm;
static struct disk disk;
static struct mm_file *file;
static sem_t inside, over;
static int waits, refuses;

#define QUIET AT                 /* private, written before, no call changes it */
#define FILED (AT + 100 * PG)    /* of a file, read before */
#define BUSY (AT + 600 * PG)     /* the calls' */

static void await(sem_t *sem)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 60;
	if (sem_timedwait(sem, &end)) {
		fprintf(stderr, "somebody waits who should not\n");
		abort();
	}
}

static int hook(void)
{
	if (!waits)
		return 0;
	waits = 0;
	sem_post(&inside);
	await(&over);
	return refuses ? -EBUSY : 0;
}

static int on_map(void *ctx, uint64_t start, uint64_t end, int prot, int flags, struct mm_file *of, uint64_t offset)
{
	(void)ctx, (void)start, (void)end, (void)prot, (void)flags, (void)of, (void)offset;
	return hook();
}

static int on_unmap(void *ctx, uint64_t start, uint64_t end)
{
	(void)ctx, (void)start, (void)end;
	return hook();
}

static int on_protect(void *ctx, uint64_t start, uint64_t end, int prot)
{
	(void)ctx, (void)start, (void)end, (void)prot;
	return hook();
}

static int on_move(void *ctx, uint64_t from, uint64_t to, uint64_t len)
{
	(void)ctx, (void)from, (void)to, (void)len;
	return hook();
}

static void *caller(void *argument)
{
	int64_t result = 0, expected = refuses ? -EBUSY : 0;

	waits = 1;
	switch ((int)(intptr_t)argument) {
	case 0:
		result = mm_munmap(mm, BUSY + PG, PG);
		break;
	case 1:
		result = mm_mprotect(mm, BUSY, 2 * PG, PROT_READ);
		break;
	case 2:
		result = mm_mmap(mm, BUSY, 3 * PG, RW, ANON | MAP_FIXED, NULL, 0);
		expected = refuses ? expected : (int64_t)BUSY;
		break;
	case 3:
		result = mm_mremap(mm, BUSY, 2 * PG, 2 * PG, MREMAP_MAYMOVE | MREMAP_FIXED, BUSY + 20 * PG);
		expected = refuses ? expected : (int64_t)(BUSY + 20 * PG);
		break;
	}
	SAME(result, expected);
	return NULL;
}

static void beside(int kind)
{
	pthread_t thread;
	struct mm_area area;
	uint64_t at;
	unsigned prot;
	int i;

	SAME(mm_mmap(mm, BUSY, 4 * PG, RW, ANON | MAP_FIXED, NULL, 0), BUSY);
	for (i = 0; i < 4; i++)
		CHECK(put(mm, BUSY + (unsigned)i * PG, 40 + i));
	pthread_create(&thread, NULL, caller, (void *)(intptr_t)kind);
	await(&inside);
	/* A page that is present, one that is not, one of zeroes, one of a file. */
	CHECK(put(mm, QUIET, 5));
	SAME(get(mm, QUIET), 5);
	SAME(fault(mm, QUIET + (unsigned)(1 + 2 * kind + refuses) * PG, MM_WRITE), 0);
	SAME(fault(mm, QUIET + (unsigned)(20 + 2 * kind + refuses) * PG, MM_READ), 0);
	SAME(get(mm, FILED + PG), 2);
	CHECK(mm_find(mm, QUIET, &area));
	SAME(area.start, QUIET);
	SAME(mm_translate(mm, QUIET, &at, &prot), 0);
	SAME(page_at(mm, QUIET), MM_PAGE_PRESENT | MM_PAGE_EXCLUSIVE);
	sem_post(&over);
	pthread_join(thread, NULL);
	sound(mm);
	if (refuses)
		for (i = 0; i < 4; i++)
			SAME(get(mm, BUSY + (unsigned)i * PG), 40 + i);
	else if (kind == 3)
		SAME(get(mm, BUSY + 21 * PG), 41);
	SAME(mm_munmap(mm, BUSY, 64 * PG), 0);
}

int main(void)
{
	struct mm_backend backend = {NULL, on_map, on_unmap, on_protect, on_move};
	struct mm_config config;
	int kind;

	sem_init(&inside, 0, 0);
	sem_init(&over, 0, 0);
	phys = phys_new(MM_X86_64, 512);
	mm_config_default(&config);
	SAME(mm_new(&config, phys, &backend, &mm), 0);
	disk_new(&disk, 4 * PG);
	file = disk_open(&disk, 5, MM_FILE_READ | MM_FILE_WRITE);
	SAME(mm_mmap(mm, QUIET, 64 * PG, RW, ANON | MAP_FIXED, NULL, 0), QUIET);
	CHECK(put(mm, QUIET, 1));
	SAME(mm_mmap(mm, FILED, 4 * PG, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0), FILED);
	SAME(get(mm, FILED + PG), 2);
	for (refuses = 0; refuses < 2; refuses++)
		for (kind = 0; kind < 4; kind++)
			beside(kind);
	/* What a call has unmapped is released when it returns. */
	mm_file_put(file);
	SAME(atomic_load(&disk.released), 0);
	SAME(mm_munmap(mm, FILED, 4 * PG), 0);
	SAME(atomic_load(&disk.released), 1);
	mm_put(mm);
	all_given_back(phys);
	mm_phys_put(phys);
	puts("ok");
	return 0;
}
