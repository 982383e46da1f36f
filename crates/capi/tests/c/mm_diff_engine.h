/* The engine's side: the same operations through samara/mm.h, on memory and files of the test's
 * own. */
#ifndef MM_DIFF_ENGINE_H
#define MM_DIFF_ENGINE_H
#include "mm_check.h"
#include "mm_diff_kernel.h"

#define FRAMES 8192

struct engine {
	struct ram ram;
	struct mm_phys *phys;
	struct mm *mm[PROCESSES];
	struct disk disks[3]; /* the inodes: a regular file, memory, a short regular file */
	struct mm_file *files[FILES];
	struct mm *warm;
};

/* True if the last pages of the real files keep what is stored beyond the end when they grow. */
static int tail_stays;

/* The disk of each open. */
static const int disk_of[FILES] = {0, 0, 1, 2, 0};
static const unsigned open_flags[FILES] = {
	MM_FILE_READ | MM_FILE_WRITE, MM_FILE_READ, MM_FILE_READ | MM_FILE_WRITE | MM_FILE_SHMEM, MM_FILE_READ | MM_FILE_WRITE,
	MM_FILE_READ | MM_FILE_WRITE,
};
static const uint64_t disk_sizes[3] = {FILE_PAGES * PAGE, FILE_PAGES * PAGE, 3 * PAGE + 1000};

static void engine_start(struct engine *engine, enum mm_format format, const struct mm_config *config, const int *fds, char names[][256])
{
	struct mm_phys_ops ops;
	int i;

	memset(engine, 0, sizeof *engine);
	ops = ram_new(&engine->ram, FRAMES);
	madvise(engine->ram.bytes, FRAMES * PAGE, MADV_DONTFORK);
	SAME(mm_phys_new(format, &ops, 0, &engine->phys), 0);
	for (i = 0; i < 3; i++)
		disk_new(&engine->disks[i], disk_sizes[i]);
	memset(engine->disks[1].bytes, 0, sizeof engine->disks[1].bytes);
	for (i = 0; i < FILES; i++) {
		struct stat status;
		struct mm_file_info info = {0};

		fstat(fds[i], &status);
		info.name = names[i];
		info.major = (uint32_t)(status.st_dev >> 8 & 0xfff);
		info.minor = (uint32_t)((status.st_dev & 0xff) | (status.st_dev >> 12 & 0xfff00));
		info.inode = status.st_ino;
		info.flags = open_flags[i];
		SAME(mm_file_open(&info, &disk_ops, &engine->disks[disk_of[i]], &engine->files[i]), 0);
	}
	/* The kernel has the regular files in memory, too. */
	SAME(mm_new(config, engine->phys, NULL, &engine->warm), 0);
	for (i = 0; i < FILES; i++) {
		static unsigned char all[FILE_PAGES * PAGE];
		int64_t at;

		if (open_flags[i] & MM_FILE_SHMEM)
			continue;
		at = mm_mmap(engine->warm, WINDOW, sizeof all, PROT_READ, MAP_SHARED | MAP_FIXED, engine->files[i], 0);
		SAME(at, WINDOW);
		SAME(mm_copy_out(engine->warm, WINDOW, all, disk_sizes[disk_of[i]]), disk_sizes[disk_of[i]]);
	}
	mm_put(engine->warm);
}

static void engine_access(struct mm *mm, const struct op *op, struct outcome *out)
{
	unsigned char bytes[8192];
	int store = op->kind == OP_STORE || op->kind == OP_FILL;
	uint64_t i, done;

	if (store)
		for (i = 0; i < op->len; i++)
			bytes[i] = (unsigned char)(op->flags + i);
	done = store ? mm_copy_in(mm, op->addr, bytes, op->len) : mm_copy_out(mm, op->addr, bytes, op->len);
	out->result = (int64_t)done;
	out->hash = 2166136261u;
	for (i = 0; i < done && !store; i++)
		out->hash = hash_byte(out->hash, bytes[i]);
	if (done < op->len)
		out->signal = mm_fault(mm, op->addr + done, store ? MM_WRITE : MM_READ, &out->code);
}

static void engine_fetch(struct mm *mm, const struct op *op, struct outcome *out)
{
	out->signal = mm_fault(mm, op->addr, MM_EXEC, &out->code);
	if (out->signal == 0) {
		out->result = 1;
		out->code = 0;
	}
}

static void engine_do(struct engine *engine, int number, const struct op *op, int child, int mode, struct outcome *out)
{
	struct mm *mm = engine->mm[number];
	static unsigned char vec[PAGES * 2];
	uint64_t i;

	memset(out, 0, sizeof *out);
	switch (op->kind) {
	case OP_MMAP:
		out->result = mm_mmap(mm, op->addr, op->len, op->prot, op->flags, op->file == FILES ? NULL : engine->files[op->file], op->offset);
		break;
	case OP_MUNMAP:
		out->result = mm_munmap(mm, op->addr, op->len);
		break;
	case OP_MPROTECT:
		out->result = mm_mprotect(mm, op->addr, op->len, op->prot);
		break;
	case OP_MREMAP:
		out->result = mm_mremap(mm, op->addr, op->len, op->new_len, op->flags, op->to);
		break;
	case OP_MADVISE:
		out->result = mm_madvise(mm, op->addr, op->len, op->flags);
		break;
	case OP_MLOCK:
		out->result = mm_mlock2(mm, op->addr, op->len, op->flags);
		break;
	case OP_MUNLOCK:
		out->result = mm_munlock(mm, op->addr, op->len);
		break;
	case OP_MSYNC:
		out->result = mm_msync(mm, op->addr, op->len, op->flags);
		break;
	case OP_MINCORE:
		memset(vec, 0, sizeof vec);
		out->result = mm_mincore(mm, op->addr, op->len, vec);
		out->hash = 2166136261u;
		for (i = 0; i < PAGES && out->result == 0; i++)
			out->hash = hash_byte(out->hash, vec[i] & 1);
		break;
	case OP_MSEAL:
		out->result = mm_mseal(mm, op->addr, op->len, 0);
		break;
	case OP_REMAP:
		out->result = mm_remap_file_pages(mm, op->addr, op->len, 0, op->offset, 0);
		break;
	case OP_LOAD:
	case OP_STORE:
	case OP_COPY:
	case OP_FILL:
		engine_access(mm, op, out);
		break;
	case OP_FETCH:
		engine_fetch(mm, op, out);
		break;
	case OP_FORK:
		out->result = mm_fork(mm, mode, &engine->mm[child]);
		break;
	case OP_EXIT:
		mm_put(mm);
		engine->mm[number] = NULL;
		break;
	default:
		break;
	}
}

/* ftruncate() and fallocate() of a file, by its owner. */
static void engine_file(struct engine *engine, const struct op *op)
{
	struct disk *disk = &engine->disks[disk_of[op->file]];

	if (op->kind == OP_TRUNCATE) {
		uint64_t old = disk->size;

		disk->size = op->len;
		if (op->len < old) {
			memset(disk->bytes + op->len, 0, sizeof disk->bytes - op->len);
			mm_file_truncate(engine->phys, engine->files[op->file], op->len);
		} else if (op->len > old && !tail_stays) {
			mm_file_extend(engine->phys, engine->files[op->file], old);
		}
	} else {
		disk_punch(disk, op->addr, op->addr + op->len);
		mm_file_punch(engine->phys, engine->files[op->file], op->addr, op->addr + op->len);
	}
}

static void engine_pages(struct mm *mm, uint64_t start, int count, unsigned char *bits)
{
	int i;

	for (i = 0; i < count; i++)
		bits[i] = (unsigned char)(mm_page(mm, start + (uint64_t)i * PAGE) & ~MM_PAGE_SOFT_DIRTY);
}

/* Ends with every process gone, files closed, and all frames counted. */
static const char *engine_end(struct engine *engine)
{
	struct mm_phys_stats stats;
	const char *wrong = NULL;
	int i;

	for (i = 0; i < PROCESSES; i++)
		mm_put(engine->mm[i]);
	for (i = 0; i < FILES; i++)
		mm_file_put(engine->files[i]);
	stats = stats_of(engine->phys);
	if (stats.tables || stats.anon || stats.file || stats.shared_tables)
		wrong = "frames are in use after the last exit and close";
	if (engine->disks[0].released != 3 || engine->disks[1].released != 1 || engine->disks[2].released != 1)
		wrong = "files have not been released once for each open";
	mm_phys_put(engine->phys);
	if (engine->ram.live)
		wrong = "frames have not been given back";
	engine->ram.live = 0;
	ram_end(&engine->ram);
	return wrong;
}
#endif
