/* Each call: its results and error numbers, with pages and without. */
#include "mm_check.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

static struct mm_phys *phys; /* NULL: the map alone */

static struct mm *with(const struct mm_config *config)
{
	struct mm *mm = NULL;

	SAME(mm_new(config, phys, NULL, &mm), 0);
	return mm;
}

static void configurations(void)
{
	struct mm_config config;
	struct mm *mm = NULL;

	memset(&config, 0xff, sizeof config);
	mm_config_default(&config);
	SAME(config.task_size, 0x7ffffffff000ull);
	SAME(config.mmap_base, 0x7ffff7fff000ull);
	SAME(config.start_brk, 0);
	SAME(config.stack_top, 0);
	SAME(config.rlim_as, MM_UNLIMITED);
	SAME(config.max_map_count, 65530);
	SAME(config.overcommit, 0);
	SAME(config.ipc_lock, 0);
	SAME(config.seed, 0);
	mm_put(with(&config));
	config.overcommit = 3;
	SAME(mm_new(&config, phys, NULL, &mm), -EINVAL);
	mm_config_default(&config);
	config.mmap_base = config.task_size + PG;
	SAME(mm_new(&config, phys, NULL, &mm), -EINVAL);
	config.mmap_base = 5;
	SAME(mm_new(&config, phys, NULL, &mm), -EINVAL);
	CHECK(!mm);
	/* No configuration: the defaults. */
	SAME(mm_new(NULL, phys, NULL, &mm), 0);
	SAME(mm_mmap(mm, 0, PG, RW, ANON, NULL, 0), 0x7ffff7ffe000ull);
	mm_put(mm);
	mm_put(NULL);
}

static void mapping(void)
{
	struct mm *mm = mm_in(MM_X86_64, phys);
	int64_t a, b;

	a = mm_mmap(mm, 0, 3 * PG, RW, ANON, NULL, 0);
	SAME(a, 0x7ffff7fff000ull - 3 * PG);
	b = mm_mmap(mm, 0, 1, RW, ANON, NULL, 0);
	SAME(b, a - (int64_t)PG);
	SAME(mm_mmap(mm, AT + 5, PG, RW, ANON, NULL, 0), AT);
	SAME(mm_mmap(mm, AT + 5, PG, RW, ANON | MAP_FIXED, NULL, 0), -EINVAL);
	SAME(mm_mmap(mm, AT, PG, RW, ANON | MAP_FIXED_NOREPLACE, NULL, 0), -EEXIST);
	SAME(mm_mmap(mm, 0, 0, RW, ANON, NULL, 0), -EINVAL);
	SAME(mm_mmap(mm, 0, PG, RW, ANON, NULL, 1), -EINVAL);
	SAME(mm_mmap(mm, 0, PG, RW, MAP_ANONYMOUS, NULL, 0), -EINVAL);
	SAME(mm_mmap(mm, 0, PG, RW, MAP_PRIVATE, NULL, 0), -EBADF);
	SAME(mm_mmap(mm, 0, 1ull << 60, RW, ANON, NULL, 0), -ENOMEM);
	SAME(mm_mmap(mm, 0, ~0ull, RW, ANON, NULL, 0), -ENOMEM);
	SAME(mm_mmap(mm, 0x7fffffffe000ull, 2 * PG, RW, ANON | MAP_FIXED, NULL, 0), -ENOMEM);
	SAME(mm_munmap(mm, AT, PG), 0);
	SAME(mm_munmap(mm, AT, PG), 0);
	SAME(mm_munmap(mm, AT + 1, PG), -EINVAL);
	SAME(mm_munmap(mm, AT, 0), -EINVAL);
	sound(mm);
	mm_put(mm);
}

static void protecting(void)
{
	struct mm *mm = mm_in(MM_X86_64, phys);
	int key;

	SAME(mm_mmap(mm, AT, 4 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
	SAME(mm_mprotect(mm, AT, PG, PROT_READ), 0);
	SAME(mm_mprotect(mm, AT + 1, PG, PROT_READ), -EINVAL);
	SAME(mm_mprotect(mm, AT, 5 * PG, PROT_READ), -ENOMEM);
	SAME(mm_mprotect(mm, AT, PG, 0x40), -EINVAL);
	SAME(mm_mprotect(mm, AT, PG, -1), -EINVAL);
	SAME(mm_mprotect(mm, AT, 0, PROT_READ), 0);
	key = mm_pkey_alloc(mm, 0, 0);
	CHECK(key > 0 && key < 16);
	SAME(mm_pkey_mprotect(mm, AT, PG, RW, key), 0);
	SAME(mm_pkey_mprotect(mm, AT, PG, RW, key + 1), -EINVAL);
	SAME(mm_pkey_mprotect(mm, AT, PG, RW, -1), 0);
	SAME(mm_pkey_free(mm, key), 0);
	SAME(mm_pkey_free(mm, key), -EINVAL);
	SAME(mm_pkey_alloc(mm, 1, 0), -EINVAL);
	SAME(mm_pkey_alloc(mm, 0, 4), -EINVAL);
	SAME(mm_mseal(mm, AT + PG, PG, 0), 0);
	SAME(mm_mseal(mm, AT + PG, PG, 1), -EINVAL);
	SAME(mm_mseal(mm, AT + 8 * PG, PG, 0), -ENOMEM);
	SAME(mm_munmap(mm, AT, 4 * PG), -EPERM);
	SAME(mm_mprotect(mm, AT + PG, PG, PROT_NONE), -EPERM);
	SAME(mm_mremap(mm, AT + PG, PG, 2 * PG, MREMAP_MAYMOVE, 0), -EPERM);
	sound(mm);
	mm_put(mm);
}

static void moving(void)
{
	struct mm *mm = mm_in(MM_X86_64, phys);

	SAME(mm_mmap(mm, AT, 4 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
	if (phys)
		CHECK(put(mm, AT + 2 * PG, 42));
	SAME(mm_mremap(mm, AT, 4 * PG, 6 * PG, 0, 0), AT);
	SAME(mm_mremap(mm, AT, 6 * PG, 3 * PG, 0, 0), AT);
	SAME(mm_mremap(mm, AT, 3 * PG, 3 * PG, MREMAP_MAYMOVE | MREMAP_FIXED, AT + 16 * PG), AT + 16 * PG);
	if (phys)
		SAME(get(mm, AT + 18 * PG), 42);
	SAME(mm_mremap(mm, AT, PG, 2 * PG, 0, 0), -EFAULT);
	SAME(mm_mremap(mm, AT + 16 * PG, 3 * PG, 0, 0, 0), -EINVAL);
	SAME(mm_mremap(mm, AT + 16 * PG, 3 * PG, PG, MREMAP_FIXED, AT), -EINVAL);
	SAME(mm_mmap(mm, AT + 19 * PG, PG, PROT_NONE, ANON | MAP_FIXED, NULL, 0), AT + 19 * PG);
	SAME(mm_mremap(mm, AT + 16 * PG, 3 * PG, 4 * PG, 0, 0), -ENOMEM);
	/* A move that leaves the source mapped, without pages. */
	SAME(mm_mremap(mm, AT + 16 * PG, 3 * PG, 3 * PG, MREMAP_MAYMOVE | MREMAP_FIXED | 4, AT), AT);
	if (phys) {
		SAME(get(mm, AT + 2 * PG), 42);
		SAME(get(mm, AT + 18 * PG), 0);
	}
	sound(mm);
	mm_put(mm);
}

/* Lengths that reach beyond the end of addresses. The destination, which is the source, is
 * unmapped before that is detected. */
static void moving_too_much(void)
{
	struct mm *mm = mm_in(MM_X86_64, phys);

	SAME(mm_mmap(mm, AT, 2 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
	SAME(mm_mremap(mm, AT, ~0ull - 5000, PG, MREMAP_MAYMOVE | MREMAP_FIXED, AT), -EFAULT);
	sound(mm);
	mm_put(mm);
}

/* A call that implies MAP_POPULATE respects MAP_NONBLOCK, which cancels it. */
static void remapping(void)
{
	struct mm *mm = mm_in(MM_X86_64, phys);

	SAME(mm_mmap(mm, AT, 4 * PG, RW, SHARED_ANON | MAP_FIXED, NULL, 0), AT);
	SAME(mm_remap_file_pages(mm, AT, PG, 0, 2, MAP_NONBLOCK), 0);
	SAME(mm_page(mm, AT) & MM_PAGE_PRESENT, 0);
	SAME(mm_remap_file_pages(mm, AT + PG, PG, 0, 3, 0), 0);
	SAME(mm_page(mm, AT + PG) & MM_PAGE_PRESENT, phys ? MM_PAGE_PRESENT : 0);
	sound(mm);
	mm_put(mm);
}

/* Guards are removed by what exists: page by page this would take days. */
static void guards_in_terabytes(void)
{
	struct mm *mm = mm_in(MM_X86_64, phys);
	const uint64_t len = 1ull << 46;
	int code = 0;

	SAME(mm_mmap(mm, AT, len, RW, ANON | MAP_FIXED | MAP_NORESERVE, NULL, 0), AT);
	SAME(mm_madvise(mm, AT + 7 * PG, PG, MADV_GUARD_INSTALL), 0);
	SAME(mm_madvise(mm, AT + len - PG, PG, MADV_GUARD_INSTALL), 0);
	if (phys) {
		SAME(mm_fault(mm, AT + 7 * PG, MM_READ, &code), SIGSEGV);
		SAME(mm_copy_in(mm, AT + 8 * PG, "x", 1), 1);
	}
	SAME(mm_madvise(mm, AT, len, MADV_GUARD_REMOVE), 0);
	if (phys) {
		SAME(mm_fault(mm, AT + 7 * PG, MM_READ, &code), 0);
		SAME(mm_fault(mm, AT + len - PG, MM_READ, &code), 0);
		CHECK(mm_page(mm, AT + 8 * PG) & MM_PAGE_EXCLUSIVE);
	}
	sound(mm);
	mm_put(mm);
}

static void heap(void)
{
	struct mm_config config;
	struct mm_area area;
	struct mm *mm;

	mm_config_default(&config);
	mm = with(&config);
	SAME(mm_brk(mm, 0), 0);
	SAME(mm_brk(mm, 1 << 20), 0);
	mm_put(mm);
	config.start_brk = AT;
	mm = with(&config);
	SAME(mm_brk(mm, 0), AT);
	SAME(mm_brk(mm, AT + 3 * PG + 5), AT + 3 * PG + 5);
	CHECK(mm_find(mm, AT, &area) && !strcmp(area.name, "[heap]") && area.end == AT + 4 * PG);
	SAME(mm_brk(mm, AT + PG), AT + PG);
	SAME(mm_brk(mm, AT - PG), AT + PG);
	SAME(mm_brk(mm, 1ull << 60), AT + PG);
	if (phys)
		CHECK(put(mm, AT + 5, 1) && !put(mm, AT + PG, 1));
	mm_put(mm);
	config.rlim_data = 2 * PG;
	mm = with(&config);
	SAME(mm_brk(mm, AT + 3 * PG), AT);
	mm_put(mm);
}

static void locking(void)
{
	struct mm_config config;
	struct mm *mm;

	mm_config_default(&config);
	config.rlim_memlock = 2 * PG;
	mm = with(&config);
	SAME(mm_mmap(mm, AT, 4 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
	SAME(mm_mlock2(mm, AT, 2 * PG, 0), 0);
	SAME(mm_mlock2(mm, AT, 3 * PG, 0), -ENOMEM);
	SAME(mm_mlock2(mm, AT, PG, 2), -EINVAL);
	SAME(mm_mmap(mm, 0, PG, RW, ANON | MAP_LOCKED, NULL, 0), -EAGAIN);
	SAME(mm_munlock(mm, AT, 4 * PG), 0);
	SAME(mm_munlock(mm, AT, 5 * PG), -ENOMEM);
	SAME(mm_mlockall(mm, 0), -EINVAL);
	SAME(mm_mlockall(mm, 8), -EINVAL);
	SAME(mm_mlockall(mm, 1), -ENOMEM);
	SAME(mm_mlockall(mm, 2), 0);
	SAME(mm_munlockall(mm), 0);
	mm_put(mm);
	config.rlim_memlock = 0;
	mm = with(&config);
	SAME(mm_mmap(mm, AT, 4 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
	SAME(mm_mlock2(mm, AT, PG, 0), -EPERM);
	mm_put(mm);
	config.ipc_lock = true;
	mm = with(&config);
	SAME(mm_mmap(mm, AT, 4 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
	SAME(mm_mlock2(mm, AT, 4 * PG, 0), 0);
	mm_put(mm);
}

static void others(void)
{
	struct mm *mm = mm_in(MM_X86_64, phys);
	unsigned char vec[4] = {9, 9, 9, 9};
	struct mm_area area;

	SAME(mm_mmap(mm, AT, 4 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
	SAME(mm_madvise(mm, AT, 4 * PG, MADV_DONTNEED), 0);
	SAME(mm_madvise(mm, AT, 5 * PG, MADV_DONTNEED), -ENOMEM);
	SAME(mm_madvise(mm, AT, PG, 77), -EINVAL);
	SAME(mm_madvise(mm, AT + 1, PG, MADV_DONTNEED), -EINVAL);
	SAME(mm_msync(mm, AT, 4 * PG, MS_SYNC), 0);
	SAME(mm_msync(mm, AT, 4 * PG, MS_SYNC | MS_ASYNC), -EINVAL);
	SAME(mm_msync(mm, AT, 5 * PG, MS_ASYNC), -ENOMEM);
	if (phys)
		CHECK(put(mm, AT + PG, 1));
	SAME(mm_mincore(mm, AT, 3 * PG, vec), 0);
	SAME(vec[0] & 1, 0);
	SAME(vec[1] & 1, phys != NULL);
	SAME(vec[2] & 1, 0);
	SAME(vec[3], 9);
	SAME(mm_mincore(mm, AT, 5 * PG, vec), -ENOMEM);
	SAME(mm_mincore(mm, AT + 1, PG, vec), -EINVAL);
	SAME(mm_mincore(mm, AT, 0, vec), 0);
	SAME(mm_mincore(mm, AT, PG, NULL), -EFAULT);
	SAME(mm_mincore(mm, ~0ull << 12, 1 << 20, vec), -ENOMEM);
	SAME(mm_mbind(mm, AT, PG, 0, 0, 0), 0);
	SAME(mm_mbind(mm, AT, PG, 99, 0, 0), -EINVAL);
	SAME(mm_set_mempolicy_home_node(mm, AT, PG, 0, 0), -ENOENT);
	SAME(mm_mbind(mm, AT, PG, 2, 1, 0), 0);
	SAME(mm_set_mempolicy_home_node(mm, AT, PG, 0, 0), 0);
	SAME(mm_set_mempolicy_home_node(mm, AT, PG, 1, 0), -EINVAL);
	SAME(mm_set_mempolicy_home_node(mm, AT, PG, 0, 1), -EINVAL);
	SAME(mm_mbind(mm, AT, PG, 0, 0, 0), 0);
	SAME(mm_set_vma_name(mm, AT, PG, "stack of 7"), 0);
	CHECK(mm_find(mm, AT, &area) && !strcmp(area.name, "[anon:stack of 7]"));
	SAME(mm_set_vma_name(mm, AT, PG, "no [brackets]"), -EINVAL);
	SAME(mm_set_vma_name(mm, AT, PG, "\xff"), -EINVAL);
	SAME(mm_set_vma_name(mm, AT, PG, NULL), 0);
	CHECK(mm_find(mm, AT, &area) && !area.name[0]);
	SAME(mm_remap_file_pages(mm, AT, PG, 0, 0, 0), -EINVAL);
	SAME(mm_mmap(mm, AT, 4 * PG, RW, SHARED_ANON | MAP_FIXED, NULL, 0), AT);
	SAME(mm_remap_file_pages(mm, AT, PG, 0, 2, 0), 0);
	if (phys) {
		CHECK(put(mm, AT, 7));
		SAME(get(mm, AT + 2 * PG), 7);
	}
	sound(mm);
	mm_put(mm);
}

static void limits(void)
{
	struct mm_config config;
	struct mm *mm;
	int i;

	mm_config_default(&config);
	config.rlim_as = 8 * PG;
	mm = with(&config);
	SAME(mm_mmap(mm, AT, 8 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
	SAME(mm_mmap(mm, 0, PG, RW, ANON, NULL, 0), -ENOMEM);
	/* Replaced memory is not counted twice. */
	SAME(mm_mmap(mm, AT, 8 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
	mm_put(mm);
	mm_config_default(&config);
	config.max_map_count = 10;
	mm = with(&config);
	for (i = 0; i < 10; i++)
		SAME(mm_mmap(mm, AT + (unsigned)i * 2 * PG, PG, RW, ANON | MAP_FIXED, NULL, 0), AT + (unsigned)i * 2 * PG);
	SAME(mm_mmap(mm, AT + 40 * PG, 2 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT + 40 * PG);
	SAME(mm_mmap(mm, AT + 50 * PG, PG, RW, ANON | MAP_FIXED, NULL, 0), -ENOMEM);
	SAME(mm_mprotect(mm, AT + 40 * PG, PG, PROT_READ), -ENOMEM);
	SAME(mm_munmap(mm, AT, PG), 0);
	mm_put(mm);
}

/* Without pages nothing is present, and the map knows what an access would raise. */
static void map_only(void)
{
	struct mm *mm = mm_in(MM_X86_64, NULL);
	uint64_t where;
	unsigned prot;
	char byte;

	SAME(mm_mmap(mm, AT, 2 * PG, PROT_READ, ANON | MAP_FIXED, NULL, 0), AT);
	SAME(fault(mm, AT, MM_READ), 0);
	SAME(fault(mm, AT, MM_WRITE), ACCERR);
	SAME(fault(mm, AT, MM_EXEC), ACCERR);
	SAME(fault(mm, AT - PG, MM_READ), MAPERR);
	SAME(mm_copy_out(mm, AT, &byte, 1), 0);
	SAME(mm_copy_in(mm, AT, "x", 1), 0);
	SAME(mm_translate(mm, AT, &where, &prot), -ENOENT);
	SAME(mm_root(mm), 0);
	SAME(mm_page(mm, AT), 0);
	mm_put(mm);
}

int main(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		phys = i ? phys_new(MM_X86_64, 4096) : NULL;
		configurations();
		mapping();
		protecting();
		moving();
		moving_too_much();
		remapping();
		guards_in_terabytes();
		heap();
		locking();
		others();
		limits();
	}
	all_given_back(phys);
	mm_phys_put(phys);
	map_only();
	puts("ok");
	return 0;
}
