/* The C library's own allocations, refused one after the other, in every function. Also invalid
 * arguments. */
#include "mm_program.h"
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- a malloc that refuses ---- */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *block);

static _Thread_local long left = -1; /* < 0: none is refused; 0: the next, and all that follow unless `once` */
static _Thread_local int once;
static _Thread_local int refused;
static atomic_long blocks;

static int refuses(void)
{
	if (left < 0)
		return 0;
	if (left == 0) {
		refused = 1;
		left = once ? -1 : 0;
		return 1;
	}
	left--;
	return 0;
}

static void *counted(void *block)
{
	if (block)
		atomic_fetch_add(&blocks, 1);
	return block;
}

void *malloc(size_t size)
{
	return refuses() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
	return refuses() ? NULL : counted(__libc_calloc(count, size));
}

void *realloc(void *block, size_t size)
{
	if (!block)
		return malloc(size);
	return refuses() ? NULL : __libc_realloc(block, size);
}

void *memalign(size_t align, size_t size)
{
	return refuses() ? NULL : counted(__libc_memalign(align, size));
}

void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

int posix_memalign(void **block, size_t align, size_t size)
{
	*block = memalign(align, size);
	return *block ? 0 : ENOMEM;
}

void free(void *block)
{
	if (block)
		atomic_fetch_sub(&blocks, 1);
	__libc_free(block);
}

/* ---- the tested operations ---- */
static struct mm_phys *phys;
static struct disk disk, another;
static struct mm_file *file;
static struct mm *mm, *child;
static struct mm_phys *phys2;
static int told;

static int tell4(void *ctx, uint64_t a, uint64_t b)
{
	(void)ctx;
	told += a < b;
	return 0;
}

static int tell_map(void *ctx, uint64_t start, uint64_t end, int prot, int flags, struct mm_file *of, uint64_t offset)
{
	(void)ctx, (void)prot, (void)flags, (void)of, (void)offset;
	told += start < end;
	return 0;
}

static int tell_protect(void *ctx, uint64_t start, uint64_t end, int prot)
{
	(void)ctx, (void)prot;
	told += start < end;
	return 0;
}

static int tell_move(void *ctx, uint64_t from, uint64_t to, uint64_t len)
{
	(void)ctx;
	told += from != to && len;
	return 0;
}

static const struct mm_backend backend = {NULL, tell_map, tell4, tell_protect, tell_move};

enum {
	PHYS, NEW, NEW_MAP, MMAP, MMAP_FILE, MMAP_SHARED, MMAP_OVER, MMAP_AMONG, UNMAP, UNMAP_HOLES, PROTECT, PROTECT_MANY, GROW, MOVE, MOVE_FIXED,
	MOVE_SEVERAL, MOVE_SHRINKING, MOVE_KEEP, DUP, BRK, GUARD, UNGUARD, FREE, DISCARD, REMOVE, POPULATE, LOCK, LOCK_ALL, UNLOCK, SYNC, INCORE, SEAL, NAME, POLICY, REMAP,
	FORK_COPY, FORK_SHARE, FORK_WITH, WRITE_FAULT, READ_FAULT, STACK, STORE, LOAD, TRUNCATE, PUNCH, LOOK,
	EXEC, EXEC_OPENING, OPEN, OPEN_AGAIN, OPEN_APPEND, KINDS
};

/* Operations that have changed nothing when memory runs out. */
static int is_whole(int kind)
{
	return (kind >= PHYS && kind <= MMAP_AMONG) || (kind >= GROW && kind <= DUP) || (kind >= FORK_COPY && kind <= FORK_WITH) || kind >= EXEC;
}

static struct disk program;

/* The program's own allocations are not refused. */
static int open_program(void *ctx, const char *path, struct mm_program *opened)
{
	long before = left;

	(void)ctx, (void)path;
	left = -1;
	opened->file = disk_open(&program, 70, MM_FILE_READ);
	opened->size = program.size;
	opened->ctx = &program;
	left = before;
	return 0;
}

/* Here they are. */
static int open_refused(void *ctx, const char *path, struct mm_program *opened)
{
	struct mm_file_info info = {"/program", 8, 1, 70, MM_FILE_READ};

	(void)ctx, (void)path;
	opened->size = program.size;
	opened->ctx = &program;
	return mm_file_open(&info, &disk_ops, &program, &opened->file);
}

static int64_t execute(int (*open)(void *ctx, const char *path, struct mm_program *opened))
{
	static const char *const arguments[] = {"name", NULL};
	static const struct mm_special special[] = {{"[vvar]", 4, false}, {"[vdso]", 2, true}};
	struct mm_exec exec;
	int result;

	memset(&exec, 0, sizeof exec);
	exec.path = "/program";
	exec.argv = arguments;
	exec.open = open;
	exec.special = special;
	exec.specials = 2;
	exec.read = program_read;
	result = mm_exec(&exec, phys, &backend, &child, NULL);
	return result == SIGSEGV ? -ENOMEM : result;
}

/* Opens a file, perhaps of the inode of `file`, which areas get and whose reference is dropped
 * before them. A refused open is not released. */
static int64_t open_and_put(uint64_t inode, unsigned flags)
{
	struct mm_file_info info = {"/opened", 8, 1, inode, flags};
	struct mm_file *made = NULL;
	int result = mm_file_open(&info, &disk_ops, &another, &made);
	uint64_t at = AT + 70 * PG;

	left = -1;
	CHECK(!made == (result < 0));
	if (made) {
		SAME(mm_mmap(mm, at, PG, PROT_READ, MAP_PRIVATE | MAP_FIXED, made, 0), (int64_t)at);
		mm_file_put(made);
		SAME(atomic_load(&another.released), 0);
		CHECK(get(mm, at) >= 0);
		SAME(mm_munmap(mm, at, PG), 0);
	}
	SAME(atomic_load(&another.released), !!made);
	atomic_store(&another.released, 0);
	return result;
}

static int64_t perform(int kind)
{
	static char text[1 << 15];
	struct mm_config config;
	unsigned char vec[64];
	uint64_t a = AT + 2 * PG;
	int code = 0;
	int64_t before;

	mm_config_default(&config);
	switch (kind) {
	case PHYS: return mm_phys_new(MM_X86_64, NULL, 64, &phys2);
	case NEW: return mm_new(&config, phys, &backend, &child);
	case NEW_MAP: return mm_new(&config, NULL, NULL, &child);
	case MMAP: return mm_mmap(mm, 0, 4 * PG, RW, ANON, NULL, 0);
	case MMAP_FILE: return mm_mmap(mm, 0, 4 * PG, RW, MAP_PRIVATE, file, 0);
	case MMAP_SHARED: return mm_mmap(mm, 0, 4 * PG, RW, SHARED_ANON, NULL, 0);
	case MMAP_OVER: return mm_mmap(mm, a, 2 * PG, PROT_READ, ANON | MAP_FIXED, NULL, 0);
	case MMAP_AMONG: return mm_mmap(mm, AT, 40 * PG, PROT_READ, ANON | MAP_FIXED, NULL, 0);
	case UNMAP: return mm_munmap(mm, a, 2 * PG);
	case UNMAP_HOLES: return mm_munmap(mm, a, 40 * PG);
	case PROTECT: return mm_mprotect(mm, a, PG, PROT_READ);
	case PROTECT_MANY: return mm_mprotect(mm, AT + PG, 6 * PG, PROT_READ | PROT_EXEC);
	case GROW: return mm_mremap(mm, AT + 30 * PG, 2 * PG, 4 * PG, 0, 0);
	case MOVE: return mm_mremap(mm, AT + PG, 2 * PG, 9 * PG, MREMAP_MAYMOVE, 0);
	case MOVE_FIXED: return mm_mremap(mm, a, 2 * PG, 2 * PG, MREMAP_MAYMOVE | MREMAP_FIXED, AT + 20 * PG);
	case MOVE_SEVERAL: return mm_mremap(mm, AT, 12 * PG, 12 * PG, MREMAP_MAYMOVE | MREMAP_FIXED, AT + 20 * PG);
	case MOVE_SHRINKING: return mm_mremap(mm, AT, 4 * PG, 2 * PG, MREMAP_MAYMOVE | MREMAP_FIXED, AT + 21 * PG);
	case MOVE_KEEP: return mm_mremap(mm, AT + PG, 2 * PG, 2 * PG, MREMAP_MAYMOVE | MREMAP_FIXED | 4, AT + 20 * PG);
	case DUP: return mm_mremap(mm, AT + 20 * PG, 0, 4 * PG, MREMAP_MAYMOVE, 0);
	case BRK:
		before = (int64_t)mm_brk(mm, 0);
		return (int64_t)mm_brk(mm, (uint64_t)before + 4 * PG) == before ? -ENOMEM : 0;
	case GUARD: return mm_madvise(mm, AT + PG, 2 * PG, 102);
	case UNGUARD: return mm_madvise(mm, AT + PG, 2 * PG, 103);
	case FREE: return mm_madvise(mm, AT, 4 * PG, 8);
	case DISCARD: return mm_madvise(mm, AT + PG, 2 * PG, MADV_DONTNEED);
	case REMOVE: return mm_madvise(mm, AT + 20 * PG, 2 * PG, MADV_REMOVE);
	case POPULATE: return mm_madvise(mm, AT, 4 * PG, 23);
	case LOCK: return mm_mlock2(mm, AT + PG, 2 * PG, 0);
	case LOCK_ALL: return mm_mlockall(mm, 3);
	case UNLOCK: return mm_munlockall(mm);
	case SYNC: return mm_msync(mm, AT + 24 * PG, 2 * PG, MS_SYNC);
	case INCORE: return mm_mincore(mm, AT, 4 * PG, vec);
	case SEAL: return mm_mseal(mm, AT + PG, PG, 0);
	case NAME: return mm_set_vma_name(mm, AT + PG, PG, "a name");
	case POLICY:
		if ((code = mm_mbind(mm, AT + PG, 2 * PG, 2, 1, 0))) return code;
		return mm_set_mempolicy_home_node(mm, AT + PG, PG, 0, 0);
	case REMAP: return mm_remap_file_pages(mm, AT + 20 * PG, PG, 0, 2, 0);
	case FORK_COPY: return mm_fork(mm, MM_FORK_COPY, &child);
	case FORK_SHARE: return mm_fork(mm, MM_FORK_SHARE, &child);
	case FORK_WITH: return mm_fork_with(mm, MM_FORK_SHARE, &backend, &child);
	case WRITE_FAULT: return mm_fault(mm, AT + 27 * PG, MM_WRITE, &code);
	case READ_FAULT: return mm_fault(mm, AT + 28 * PG, MM_READ, &code);
	case STACK: return mm_fault(mm, AT + 500 * PG, MM_WRITE, &code);
	case STORE: return put(mm, AT + 3 * PG, 8) ? 0 : -ENOMEM;
	case LOAD: return get(mm, AT + 26 * PG) < 0 ? -ENOMEM : 0;
	case TRUNCATE: mm_file_truncate(phys, file, 6 * PG); return 0;
	case PUNCH: mm_file_punch(phys, file, 0, 2 * PG); return 0;
	case LOOK: mm_maps(mm, text, sizeof text); mm_smaps(mm, text, sizeof text); return 0;
	case EXEC: return execute(open_program);
	case EXEC_OPENING: return execute(open_refused);
	case OPEN: return open_and_put(71, MM_FILE_READ | MM_FILE_WRITE);
	case OPEN_AGAIN: return open_and_put(7, MM_FILE_READ);
	case OPEN_APPEND: return open_and_put(72, MM_FILE_READ | MM_FILE_WRITE | MM_FILE_APPEND);
	}
	return 0;
}

static int attempt(int kind, int with_backend, int only, long n)
{
	static char before[1 << 14], after[1 << 14];
	struct mm_config config;
	int64_t result;
	uint64_t i;
	long live;
	int was_refused;

	mm_config_default(&config);
	config.start_brk = 0x555500000000;
	SAME(mm_new(&config, phys, with_backend ? &backend : NULL, &mm), 0);
	child = NULL;
	phys2 = NULL;
	SAME(mm_mmap(mm, AT, 4 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
	SAME(mm_mmap(mm, AT + 4 * PG, 4 * PG, PROT_READ, ANON | MAP_FIXED, NULL, 0), AT + 4 * PG);
	SAME(mm_mmap(mm, AT + 10 * PG, 2 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT + 10 * PG);
	SAME(mm_mmap(mm, AT + 20 * PG, 4 * PG, RW, SHARED_ANON | MAP_FIXED, NULL, 0), AT + 20 * PG);
	SAME(mm_mmap(mm, AT + 24 * PG, 6 * PG, RW, MAP_SHARED | MAP_FIXED, file, 2 * PG), AT + 24 * PG);
	SAME(mm_mmap(mm, AT + 30 * PG, 2 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT + 30 * PG);
	SAME(mm_mmap(mm, AT + 600 * PG, 2 * PG, RW, ANON | MAP_FIXED | MAP_GROWSDOWN, NULL, 0), AT + 600 * PG);
	for (i = 0; i < 3; i++)
		CHECK(put(mm, AT + i * PG, (int)(1 + i)));
	CHECK(put(mm, AT + 20 * PG, 9) && put(mm, AT + 24 * PG, 3) && put(mm, AT + 30 * PG, 4) && put(mm, AT + 600 * PG, 5));
	if (kind == UNGUARD)
		SAME(mm_madvise(mm, AT, 4 * PG, 102), 0);
	if (kind == UNLOCK)
		SAME(mm_mlock2(mm, AT, 4 * PG, 0), 0);
	mm_maps(mm, before, sizeof before);
	live = atomic_load(&blocks);
	refused = 0;
	once = only;
	left = n;
	result = perform(kind);
	left = -1;
	was_refused = refused;
	if (result < 0 && refused) {
		CHECK(result == -ENOMEM || result == -EAGAIN);
		CHECK(!child && !phys2);
		if (is_whole(kind)) {
			mm_maps(mm, after, sizeof after);
			if (strcmp(before, after)) {
				fprintf(stderr, "kind %d, %ld: before\n%safter\n%s", kind, n, before, after);
				abort();
			}
			for (i = 0; i < 3; i++)
				SAME(get(mm, AT + i * PG), 1 + i);
			SAME(get(mm, AT + 20 * PG), 9);
			SAME(get(mm, AT + 24 * PG), 3);
			SAME(get(mm, AT + 30 * PG), 4);
			if (kind == PHYS || kind == NEW || kind == NEW_MAP)
				SAME(atomic_load(&blocks), live);
		}
	} else if (result < 0 && !refused) {
		fprintf(stderr, "kind %d: %lld\n", kind, (long long)result);
		abort();
	}
	sound(mm);
	if (child)
		sound(child);
	/* Exits need no memory. */
	refused = 0;
	once = 0;
	left = 0;
	mm_put(n % 2 ? mm : child);
	mm_put(n % 2 ? child : mm);
	mm_phys_put(phys2);
	left = -1;
	return was_refused;
}

static void refusals(int with_backend)
{
	int kind, only;
	long n;

	phys = phys_new(MM_X86_64, 4096);
	program_new(&program);
	disk_new(&another, PG);
	for (kind = 0; kind < KINDS; kind++) {
		disk_new(&disk, 20 * PG);
		file = disk_open(&disk, 7, MM_FILE_READ | MM_FILE_WRITE);
		for (only = 0; only < 2; only++) {
			for (n = 0; attempt(kind, with_backend, only, n); n++)
				CHECK(n < 2000);
			/* An open allocates its names, its parts and its entry in a list. */
			CHECK(kind < OPEN || n > 5);
		}
		mm_file_put(file);
		SAME(atomic_load(&disk.released), 1);
	}
	all_given_back(phys);
	mm_phys_put(phys);
}

static void no_arguments(void)
{
	struct mm_config config;
	struct mm_area area;
	uint64_t phys_at;
	unsigned prot;
	char text[16];
	int code;

	mm_config_default(NULL);
	mm_config_default(&config);
	SAME(mm_phys_new(MM_X86_64, NULL, 64, NULL), -EINVAL);
	SAME(mm_phys_new((enum mm_format)77, NULL, 64, &phys), -EINVAL);
	SAME(mm_phys_new(MM_X86_64, NULL, 0, &phys), -EINVAL);
	SAME(mm_phys_new(MM_X86_64, NULL, ~0ull, &phys), -ENOMEM);
	SAME(mm_phys_new(MM_X86_64, NULL, 1ull << 50, &phys), -ENOMEM);
	mm_phys_put(NULL);
	mm_phys_stats(NULL, NULL);
	SAME(mm_file_open(NULL, NULL, NULL, &file), -EINVAL);
	mm_file_put(NULL);
	mm_file_truncate(NULL, NULL, 0);
	mm_file_punch(NULL, NULL, 0, 0);
	mm_file_extend(NULL, NULL, 0);
	SAME(mm_new(NULL, NULL, NULL, NULL), -EINVAL);
	mm_put(NULL);
	SAME(mm_fork(NULL, 0, &mm), -EINVAL);
	SAME(mm_munmap(NULL, 0, 0), -EINVAL);
	SAME(mm_mmap(NULL, 0, PG, 0, ANON, NULL, 0), -EINVAL);
	SAME(mm_mremap(NULL, 0, PG, PG, 0, 0), -EINVAL);
	SAME(mm_brk(NULL, 0), 0);
	SAME(mm_mincore(NULL, 0, 0, NULL), -EINVAL);
	SAME(mm_set_vma_name(NULL, 0, 0, NULL), -EINVAL);
	SAME(mm_fault(NULL, 0, 0, NULL), -EINVAL);
	SAME(mm_copy_in(NULL, 0, "", 1), 0);
	SAME(mm_copy_out(NULL, 0, text, 1), 0);
	SAME(mm_translate(NULL, 0, &phys_at, &prot), -EINVAL);
	SAME(mm_root(NULL), 0);
	SAME(mm_page(NULL, 0), 0);
	SAME(mm_find(NULL, 0, &area), 0);
	SAME(mm_maps(NULL, text, sizeof text), 0);
	SAME(mm_smaps(NULL, NULL, 0), 0);
	SAME(mm_check(NULL, text, sizeof text), -EINVAL);

	phys = phys_new(MM_X86_64, 64);
	SAME(mm_new(NULL, phys, NULL, &mm), 0);
	SAME(mm_fork(mm, 2, &child), -EINVAL);
	SAME(mm_fork(mm, 0, NULL), -EINVAL);
	SAME(mm_mmap(mm, AT, 2 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
	SAME(mm_fault(mm, AT, MM_WRITE, NULL), 0);
	SAME(mm_fault(mm, AT + 2 * PG, MM_WRITE, NULL), SIGSEGV);
	SAME(mm_fault(mm, AT, 0, &code), 0);
	SAME(mm_fault(mm, AT, ~0u, &code), SIGSEGV);
	SAME(mm_fault(mm, ~0ull, MM_READ, &code), SIGSEGV);
	SAME(mm_copy_in(mm, AT, NULL, 5), 0);
	SAME(mm_copy_out(mm, AT, NULL, 5), 0);
	SAME(mm_copy_out(mm, AT, text, 0), 0);
	SAME(mm_copy_out(mm, ~0ull - 3, text, 16), 0);
	SAME(mm_translate(mm, AT, NULL, NULL), 0);
	SAME(mm_translate(mm, ~0ull, NULL, NULL), -ENOENT);
	SAME(mm_translate(mm, 1ull << 47, NULL, NULL), -ENOENT);
	SAME(mm_page(mm, ~0ull), 0);
	SAME(mm_page(mm, 1ull << 63), 0);
	SAME(mm_find(mm, ~0ull, NULL), 0);
	SAME(mm_find(mm, 0, NULL), 1);
	SAME(mm_mincore(mm, AT, PG, NULL), -EFAULT);
	SAME(mm_mincore(mm, AT, ~0ull, (unsigned char *)text), -ENOMEM);
	SAME(mm_mincore(mm, ~0ull - PG + 1, PG, (unsigned char *)text), -ENOMEM);
	SAME(mm_munmap(mm, AT, ~0ull), -EINVAL);
	SAME(mm_mprotect(mm, ~0ull - PG + 1, 2 * PG, RW), -ENOMEM);
	SAME(mm_madvise(mm, AT, ~0ull, MADV_DONTNEED), -EINVAL);
	SAME(mm_msync(mm, ~0ull - PG + 1, PG, MS_SYNC), -ENOMEM);
	SAME(mm_mremap(mm, AT, PG, ~0ull, MREMAP_MAYMOVE, 0), -EINVAL);
	SAME(mm_mremap(mm, ~0ull - PG + 1, PG, PG, MREMAP_MAYMOVE, 0), -EFAULT);
	mm_put(mm);
	all_given_back(phys);
	mm_phys_put(phys);

	/* Limits that leave nothing, and invalid addresses. */
	config.task_size = ~0ull;
	code = mm_new(&config, NULL, NULL, &mm);
	if (code == 0) {
		mm_mmap(mm, 0, PG, RW, ANON, NULL, 0);
		sound(mm);
		mm_put(mm);
	}
	mm_config_default(&config);
	config.overcommit = 3;
	SAME(mm_new(&config, NULL, NULL, &mm), -EINVAL);
	mm_config_default(&config);
	config.mmap_base = 0;
	config.legacy_base = ~0ull;
	if (mm_new(&config, NULL, NULL, &mm) == 0) {
		CHECK(mm_mmap(mm, 0, PG, RW, ANON, NULL, 0) != 0);
		sound(mm);
		mm_put(mm);
	}
	memset(&config, 0, sizeof config);
	if (mm_new(&config, NULL, NULL, &mm) == 0) {
		mm_mmap(mm, 0, PG, RW, ANON, NULL, 0);
		sound(mm);
		mm_put(mm);
	}
	memset(&config, 0xff, sizeof config);
	config.overcommit = 1;
	config.ipc_lock = true;
	phys = phys_new(MM_X86_64, 64);
	code = mm_new(&config, phys, NULL, &mm);
	if (code == 0) {
		int64_t at = mm_mmap(mm, 0, PG, RW, ANON, NULL, 0);

		if (at > 0)
			put(mm, (uint64_t)at, 1);
		mm_brk(mm, ~0ull);
		mm_fault(mm, ~0ull - 5, MM_WRITE, &code);
		sound(mm);
		mm_put(mm);
	}
	mm_phys_put(phys);
}

/* ---- threads that wait for each other while there is no memory ---- */
#define WAITERS 16 /* too many for a list of woken threads on the stack */
static atomic_int held;            /* set while the first thread holds the lock of the address space */
static atomic_int waiter[WAITERS]; /* the thread's number, once it is about to wait */

/* Returns true if a thread sleeps, by its own line of /proc. */
static int sleeps(int thread)
{
	char path[64], text[512], *state;
	FILE *stat;
	size_t n;

	snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
	stat = fopen(path, "r");
	CHECK(stat);
	n = fread(text, 1, sizeof text - 1, stat);
	fclose(stat);
	text[n] = 0;
	state = strrchr(text, ')');
	return state && state[2] == 'S';
}

/* Holds the lock of the address space until all other threads sleep. */
static int hold(void *ctx, uint64_t start, uint64_t end)
{
	int i;

	(void)ctx, (void)start, (void)end;
	if (atomic_exchange(&held, 1))
		return 0;
	for (i = 0; i < WAITERS; i++)
		while (!atomic_load(&waiter[i]) || !sleeps(atomic_load(&waiter[i])))
			sched_yield();
	return 0;
}

static void *wait_for_it(void *argument)
{
	unsigned number = (unsigned)(uintptr_t)argument;
	uint64_t at = AT + 2 * (number + 1) * PG;
	char line[64];
	int result;

	while (!atomic_load(&held))
		sched_yield();
	left = 0;
	atomic_store(&waiter[number], (int)syscall(SYS_gettid));
	if (number % 2) {
		result = mm_munmap(mm, at, PG);
		CHECK(result == 0 || result == -ENOMEM);
	} else {
		mm_maps(mm, line, sizeof line);
	}
	left = -1;
	return NULL;
}

static void waiting(int paged)
{
	struct mm_backend holder = {NULL, NULL, hold, NULL, NULL};
	struct mm_config config;
	pthread_t threads[WAITERS];
	unsigned i;

	phys = paged ? phys_new(MM_X86_64, 256) : NULL;
	mm_config_default(&config);
	SAME(mm_new(&config, phys, &holder, &mm), 0);
	for (i = 0; i <= WAITERS; i++)
		SAME(mm_mmap(mm, AT + 2 * i * PG, PG, RW, ANON | MAP_FIXED, NULL, 0), AT + 2 * i * PG);
	atomic_store(&held, 0);
	for (i = 0; i < WAITERS; i++) {
		atomic_store(&waiter[i], 0);
		SAME(pthread_create(&threads[i], NULL, wait_for_it, (void *)(uintptr_t)i), 0);
	}
	SAME(mm_munmap(mm, AT, PG), 0);
	for (i = 0; i < WAITERS; i++)
		SAME(pthread_join(threads[i], NULL), 0);
	sound(mm);
	mm_put(mm);
	if (phys)
		mm_phys_put(phys);
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	waiting(0);
	waiting(1);
	no_arguments();
	refusals(0);
	refusals(1);
	puts("ok");
	return 0;
}
