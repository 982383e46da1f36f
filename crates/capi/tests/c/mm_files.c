/* Files: the open that serves their pages, their ends, holes, errors, and what is written back. */
#include "mm_check.h"

static struct ram ram;
static struct mm_phys *phys;

#define BOTH (MM_FILE_READ | MM_FILE_WRITE)

static struct mm *fresh(void)
{
	return mm_in(MM_X86_64, phys);
}

static void map(struct mm *mm, uint64_t at, uint64_t pages, int flags, struct mm_file *file, uint64_t offset)
{
	SAME(mm_mmap(mm, at, pages * PG, RW, flags | MAP_FIXED, file, offset), at);
}

static void contents(void)
{
	static struct disk disk;
	struct mm_file *file;
	struct mm *mm = fresh();

	disk_new(&disk, 3 * PG + 100);
	file = disk_open(&disk, 1, BOTH);
	SAME(disk.reads, 0);
	map(mm, AT, 6, MAP_SHARED, file, 0);
	SAME(get(mm, AT + 2 * PG), 3);
	SAME(get(mm, AT + 3 * PG + 99), 4);
	/* Zeroes beyond the end in the last page, SIGBUS beyond that page. */
	SAME(get(mm, AT + 3 * PG + 100), 0);
	SAME(fault(mm, AT + 4 * PG, MM_READ), ADRERR);
	SAME(fault(mm, AT + 5 * PG, MM_WRITE), ADRERR);
	SAME(get(mm, AT + 4 * PG), -1);
	/* Growth needs no notice. */
	disk.size = 5 * PG;
	SAME(get(mm, AT + 4 * PG), 0);
	SAME(fault(mm, AT + 5 * PG, MM_READ), ADRERR);
	/* A page is read once. */
	SAME(get(mm, AT + 2 * PG + 1), 3);
	CHECK(disk.reads <= 5);
	sound(mm);
	mm_put(mm);
	SAME(disk.writes, 0);
	mm_file_put(file);
	SAME(disk.released, 1);
	all_given_back(phys);
}

/* "The same device and inode: the same pages, on one mm_phys" */
static void same_inode(void)
{
	static struct disk one, two, other;
	struct mm_file *a, *b, *c;
	struct mm *mm = fresh(), *second = fresh();

	disk_new(&one, 4 * PG);
	disk_new(&two, 4 * PG);
	disk_new(&other, 4 * PG);
	two.bytes[0] = 200;
	a = disk_open(&one, 1, BOTH);
	b = disk_open(&two, 1, BOTH);
	c = disk_open(&other, 2, BOTH);
	map(mm, AT, 4, MAP_SHARED, b, 0);
	map(second, AT, 4, MAP_SHARED, a, 0);
	map(second, AT + 8 * PG, 4, MAP_SHARED, c, 0);
	/* The oldest open serves, whichever is mapped. */
	SAME(get(mm, AT), 1);
	SAME(two.reads, 0);
	CHECK(put(mm, AT + 1, 50));
	SAME(get(second, AT + 1), 50);
	SAME(get(second, AT + 8 * PG + 1), 1);
	SAME(page_at(mm, AT), MM_PAGE_PRESENT | MM_PAGE_FILE);
	/* When the oldest is gone, the next one serves. */
	mm_put(second);
	SAME(page_at(mm, AT), MM_PAGE_PRESENT | MM_PAGE_FILE | MM_PAGE_EXCLUSIVE);
	mm_file_put(a);
	SAME(one.released, 1);
	SAME(two.released, 0);
	SAME(get(mm, AT + 1), 50);
	SAME(mm_msync(mm, AT, PG, MS_SYNC), 0);
	CHECK(two.writes == 1 || one.writes == 1);
	CHECK(two.bytes[1] == 50 || one.bytes[1] == 50);
	mm_put(mm);
	mm_file_put(b);
	mm_file_put(c);
	SAME(two.released, 1);
	SAME(other.released, 1);
	all_given_back(phys);
}

/* Mappings keep a file. The last one to go releases it, and writes dirty pages. */
static void lifetimes(void)
{
	static struct disk disk;
	struct mm_file *file;
	struct mm *mm = fresh(), *child;

	disk_new(&disk, 4 * PG);
	file = disk_open(&disk, 1, BOTH);
	map(mm, AT, 2, MAP_SHARED, file, PG);
	mm_file_put(file);
	SAME(disk.released, 0);
	SAME(get(mm, AT), 2);
	CHECK(put(mm, AT, 60));
	SAME(mm_fork(mm, MM_FORK_COPY, &child), 0);
	SAME(mm_munmap(mm, AT, 2 * PG), 0);
	SAME(disk.released, 0);
	CHECK(put(child, AT + 1, 61));
	SAME(disk.writes, 0);
	mm_put(child);
	SAME(disk.released, 1);
	SAME(disk.writes, 1);
	SAME(disk.bytes[PG], 60);
	SAME(disk.bytes[PG + 1], 61);
	mm_put(mm);
	all_given_back(phys);
	/* Pages that were only read are not written. */
	disk_new(&disk, 4 * PG);
	file = disk_open(&disk, 1, BOTH);
	mm = fresh();
	map(mm, AT, 2, MAP_SHARED, file, 0);
	SAME(get(mm, AT), 1);
	mm_put(mm);
	mm_file_put(file);
	SAME(disk.writes, 0);
	all_given_back(phys);
	/* A file that was never mapped. */
	disk_new(&disk, PG);
	mm_file_put(disk_open(&disk, 1, BOTH));
	SAME(disk.released, 1);
}

static void synced(void)
{
	static struct disk disk;
	struct mm_file *file;
	struct mm *mm = fresh();

	disk_new(&disk, 4 * PG);
	file = disk_open(&disk, 1, BOTH);
	map(mm, AT, 4, MAP_SHARED, file, 0);
	CHECK(put(mm, AT + PG, 70));
	SAME(mm_msync(mm, AT, 4 * PG, MS_ASYNC), 0);
	SAME(mm_msync(mm, AT, 4 * PG, MS_SYNC), 0);
	SAME(disk.writes, 1);
	SAME(disk.bytes[PG], 70);
	/* Clean now. The next store makes it dirty again. */
	SAME(mm_msync(mm, AT, 4 * PG, MS_SYNC), 0);
	SAME(disk.writes, 1);
	CHECK(put(mm, AT + PG, 71));
	SAME(mm_msync(mm, AT, 4 * PG, MS_SYNC), 0);
	SAME(disk.writes, 2);
	SAME(disk.bytes[PG], 71);
	/* Private copies are never written. */
	map(mm, AT + 8 * PG, 4, MAP_PRIVATE, file, 0);
	CHECK(put(mm, AT + 8 * PG, 72));
	SAME(mm_msync(mm, AT + 8 * PG, 4 * PG, MS_SYNC), 0);
	SAME(disk.writes, 2);
	mm_put(mm);
	mm_file_put(file);
	SAME(disk.writes, 2);
	all_given_back(phys);
}

static void errors(void)
{
	static struct disk disk;
	struct mm_file *file;
	struct mm *mm = fresh();

	disk_new(&disk, 4 * PG);
	disk.bad = 2;
	file = disk_open(&disk, 1, BOTH);
	map(mm, AT, 4, MAP_SHARED, file, 0);
	SAME(fault(mm, AT + 2 * PG, MM_READ), ADRERR);
	SAME(fault(mm, AT + 2 * PG, MM_WRITE), ADRERR);
	SAME(get(mm, AT + PG), 2);
	disk.bad = ~0ull;
	SAME(get(mm, AT + 2 * PG), 3);
	mm_put(mm);
	mm_file_put(file);
	all_given_back(phys);
}

/* The last page beyond the end is zeroed in the file's page, not in private copies. */
static void truncated(void)
{
	static struct disk disk;
	struct mm_file *file;
	struct mm *mm = fresh(), *child;

	disk_new(&disk, 4 * PG);
	file = disk_open(&disk, 1, BOTH);
	map(mm, AT, 4, MAP_SHARED, file, 0);
	map(mm, AT + 8 * PG, 4, MAP_PRIVATE, file, 0);
	CHECK(put(mm, AT + PG + 500, 80));
	CHECK(put(mm, AT + 8 * PG + PG + 501, 81));
	CHECK(put(mm, AT + 8 * PG + 2 * PG, 82));
	SAME(get(mm, AT + 3 * PG), 4);
	SAME(mm_fork(mm, MM_FORK_SHARE, &child), 0);
	disk.size = PG + 400;
	mm_file_truncate(phys, file, disk.size);
	SAME(get(mm, AT + PG + 399), 2);
	SAME(get(mm, AT + PG + 400), 0);
	SAME(get(mm, AT + PG + 500), 0);
	SAME(get(mm, AT + 8 * PG + PG + 501), 81);
	SAME(get(mm, AT + 8 * PG + PG + 500), 80);
	SAME(page_at(mm, AT + 8 * PG + 2 * PG), 0);
	SAME(page_at(child, AT + 8 * PG + 2 * PG), 0);
	SAME(page_at(mm, AT + 3 * PG), 0);
	SAME(fault(mm, AT + 2 * PG, MM_READ), ADRERR);
	SAME(fault(mm, AT + 8 * PG + 2 * PG, MM_READ), ADRERR);
	SAME(fault(child, AT + 8 * PG + 2 * PG, MM_READ), ADRERR);
	sound(mm);
	sound(child);
	/* Longer again: zeroes. */
	disk.size = 4 * PG;
	memset(disk.bytes + PG + 400, 0, sizeof disk.bytes - PG - 400);
	SAME(get(mm, AT + 2 * PG), 0);
	SAME(get(child, AT + 8 * PG + 2 * PG), 0);
	mm_put(mm);
	mm_put(child);
	mm_file_put(file);
	all_given_back(phys);
}

/* Bytes that were stored beyond the end become zero when the file grows with a notice. Without
 * notice they belong to the file. Bytes stored during the write-out are zeroed in any case. */
static void extended(void)
{
	static struct disk disk;
	struct mm_file *file;
	struct mm *mm = fresh();

	disk_new(&disk, 4 * PG);
	disk.size = PG + 400;
	memset(disk.bytes + disk.size, 0, sizeof disk.bytes - disk.size);
	file = disk_open(&disk, 1, BOTH);
	map(mm, AT, 4, MAP_SHARED, file, 0);
	CHECK(put(mm, AT + PG + 500, 80));
	SAME(mm_msync(mm, AT, 4 * PG, MS_SYNC), 0);
	SAME(get(mm, AT + PG + 500), 0);
	SAME(disk.bytes[PG + 500], 0);
	CHECK(put(mm, AT + PG + 500, 81));
	disk.size = PG + 600;
	mm_file_extend(phys, file, PG + 400);
	SAME(get(mm, AT + PG + 500), 0);
	CHECK(put(mm, AT + PG + 500, 82));
	CHECK(put(mm, AT + PG + 700, 83));
	disk.size = 3 * PG;
	SAME(mm_msync(mm, AT, 4 * PG, MS_SYNC), 0);
	SAME(disk.bytes[PG + 500], 82);
	SAME(disk.bytes[PG + 700], 83);
	sound(mm);
	mm_put(mm);
	mm_file_put(file);
	all_given_back(phys);
}

/* Reads and writes by offset use the pages of shared mappings, and written bytes go to
 * write_page as stores do. */
static void by_offset(void)
{
	static struct disk disk, memory;
	static unsigned char bytes[2 * 4096];
	struct mm_file *file, *reader, *shm;
	struct mm *mm = fresh(), *child;
	uint64_t i;

	disk_new(&disk, 4 * PG);
	disk.size = 2 * PG + 100;
	file = disk_open(&disk, 1, BOTH);
	reader = disk_open(&disk, 1, MM_FILE_READ);
	map(mm, AT, 4, MAP_SHARED, file, 0);
	map(mm, AT + 8 * PG, 4, MAP_PRIVATE, file, 0);
	/* Nothing is in memory yet. */
	SAME(mm_file_read(phys, reader, PG - 2, bytes, 4), 4);
	SAME(bytes[0], 1);
	SAME(bytes[2], 2);
	/* Across a boundary. The bytes around it stay. */
	CHECK(put(mm, AT + PG - 1, 70) && put(mm, AT + PG + 2, 71));
	SAME(mm_file_read(phys, reader, PG - 2, bytes, 5), 5);
	SAME(bytes[0], 1);
	SAME(bytes[1], 70);
	SAME(bytes[2], 2);
	SAME(bytes[4], 71);
	CHECK(put(mm, AT + 8 * PG + 5, 60));
	memset(bytes, 72, sizeof bytes);
	SAME(mm_file_write(phys, file, 3, bytes, PG), PG);
	SAME(get(mm, AT + 2), 1);
	SAME(get(mm, AT + 3), 72);
	SAME(get(mm, AT + PG + 2), 72);
	SAME(get(mm, AT + PG + 3), 2);
	/* A private copy stays. A page without a copy follows. */
	SAME(get(mm, AT + 8 * PG + 3), 1);
	SAME(get(mm, AT + 8 * PG + 5), 60);
	SAME(get(mm, AT + 8 * PG + PG + 2), 72);
	SAME(mm_fork(mm, MM_FORK_SHARE, &child), 0);
	SAME(mm_file_write(phys, file, PG, "abc", 3), 3);
	SAME(get(child, AT + PG + 1), 'b');
	/* The end. The file does not grow. */
	SAME(mm_file_read(phys, file, 2 * PG + 98, bytes, 50), 2);
	SAME(mm_file_read(phys, file, 2 * PG + 100, bytes, 50), 0);
	SAME(mm_file_read(phys, file, ~0ull, bytes, 50), 0);
	SAME(mm_file_write(phys, file, 2 * PG + 99, "xyz", 3), 1);
	SAME(mm_file_write(phys, file, 3 * PG, "xyz", 3), 0);
	disk.size = 3 * PG;
	mm_file_extend(phys, file, 2 * PG + 100);
	SAME(mm_file_write(phys, file, 3 * PG - 1, "xyz", 3), 1);
	SAME(get(mm, AT + 3 * PG - 1), 'x');
	SAME(get(mm, AT + 2 * PG + 100), 0);
	/* The library writes it back when it must. */
	SAME(disk.bytes[3], 1);
	SAME(mm_msync(mm, AT, 3 * PG, MS_SYNC), 0);
	SAME(disk.bytes[3], 72);
	SAME(disk.bytes[PG + 1], 'b');
	SAME(disk.bytes[2 * PG + 99], 'x');
	SAME(mm_file_write(phys, file, 10, "late", 4), 4);
	/* Rights, and invalid arguments. */
	SAME(mm_file_write(phys, reader, 0, "a", 1), -EBADF);
	SAME(mm_file_read(phys, file, 0, NULL, 1), -EFAULT);
	SAME(mm_file_write(phys, file, 0, NULL, 1), -EFAULT);
	SAME(mm_file_read(NULL, file, 0, bytes, 1), -EINVAL);
	SAME(mm_file_write(phys, NULL, 0, bytes, 1), -EINVAL);
	/* A page that cannot be read: -EIO at once, fewer bytes after others. */
	disk.size = 4 * PG;
	disk.bad = 3;
	SAME(mm_file_read(phys, file, 3 * PG, bytes, 10), -EIO);
	SAME(mm_file_read(phys, file, 3 * PG - 4, bytes, 10), 4);
	SAME(mm_file_write(phys, file, 3 * PG - 4, bytes, 10), 4);
	disk.bad = ~0ull;
	/* Memory has no other copy. */
	disk_new(&memory, 4 * PG);
	shm = disk_open(&memory, 9, BOTH | MM_FILE_SHMEM);
	SAME(mm_file_write(phys, shm, PG - 1, "yz", 2), 2);
	map(mm, AT + 16 * PG, 4, MAP_SHARED, shm, 0);
	SAME(get(mm, AT + 16 * PG + PG - 1), 'y');
	CHECK(put(mm, AT + 16 * PG + PG, 'w'));
	SAME(mm_file_read(phys, shm, PG - 2, bytes, 3), 3);
	CHECK(!memcmp(bytes, "\0yw", 3));
	/* Without memory. */
	ram.countdown = 0;
	SAME(mm_file_read(phys, shm, 3 * PG, bytes, 1), -ENOMEM);
	SAME(mm_file_read(phys, shm, PG, bytes, 1), 1);
	ram.countdown = -1;
	sound(mm);
	mm_put(mm);
	mm_put(child);
	for (i = 0; i < 2; i++)
		mm_file_put(i ? file : reader);
	mm_file_put(shm);
	CHECK(!memcmp(disk.bytes + 10, "late", 4));
	all_given_back(phys);
}

/* References of the caller are counted, and one is enough. */
static void counted(void)
{
	static struct disk disk;
	struct mm_file *file;
	struct mm *mm = fresh();
	unsigned char byte;

	disk_new(&disk, 4 * PG);
	file = disk_open(&disk, 1, BOTH);
	CHECK(mm_file_get(file) == file && mm_file_get(file) == file);
	mm_file_put(file);
	mm_file_put(file);
	SAME(mm_file_read(phys, file, 0, &byte, 1), 1);
	map(mm, AT, 4, MAP_SHARED, file, 0);
	mm_file_put(file);
	SAME(disk.released, 0);
	/* An area has it: a caller that has been notified of that may take a reference again. */
	CHECK(mm_file_get(file) == file);
	SAME(mm_munmap(mm, AT, 4 * PG), 0);
	SAME(disk.released, 0);
	SAME(mm_file_read(phys, file, 0, &byte, 1), 1);
	mm_file_put(file);
	SAME(disk.released, 1);
	CHECK(mm_file_get(NULL) == NULL);
	mm_put(mm);
	all_given_back(phys);
}

/* "They leave every mapping. Private copies stay." */
static void punched(void)
{
	static struct disk disk;
	struct mm_file *file;
	struct mm *mm = fresh(), *child;

	disk_new(&disk, 4 * PG);
	file = disk_open(&disk, 1, BOTH);
	map(mm, AT, 4, MAP_SHARED, file, 0);
	map(mm, AT + 8 * PG, 4, MAP_PRIVATE, file, 0);
	SAME(get(mm, AT + PG), 2);
	CHECK(put(mm, AT + 8 * PG + PG, 90));
	SAME(get(mm, AT + 8 * PG + 2 * PG), 3);
	SAME(mm_fork(mm, MM_FORK_COPY, &child), 0);
	memset(disk.bytes + PG, 0, 2 * PG);
	mm_file_punch(phys, file, PG, 3 * PG);
	SAME(page_at(mm, AT + PG), 0);
	SAME(page_at(mm, AT + 8 * PG + 2 * PG), 0);
	SAME(get(mm, AT + PG), 0);
	SAME(get(mm, AT + 8 * PG + PG), 90);
	SAME(get(child, AT + 8 * PG + PG), 90);
	SAME(get(mm, AT + 8 * PG + 2 * PG), 0);
	SAME(get(mm, AT + 3 * PG), 4);
	/* MADV_REMOVE asks the file to do it. */
	SAME(disk.punches, 0);
	CHECK(put(mm, AT, 91));
	SAME(mm_madvise(mm, AT, PG, MADV_REMOVE), 0);
	SAME(disk.punches, 1);
	SAME(get(child, AT), 0);
	sound(mm);
	mm_put(mm);
	mm_put(child);
	mm_file_put(file);
	SAME(disk.bytes[0], 0);
	all_given_back(phys);
}

/* NULL members: reads return zeroes, and the size is unlimited. No write_page: dirty pages are dropped. No punch:
 * write_page with zeroes. */
static void without_members(void)
{
	static struct disk disk;
	struct mm_file_info info = {"/nothing", 8, 1, 33, BOTH};
	struct mm_file_ops ops = {NULL, NULL, NULL, NULL, NULL};
	struct mm_file *file;
	struct mm *mm = fresh();
	int with;

	for (with = 0; with < 2; with++) {
		SAME(mm_file_open(&info, with ? &ops : NULL, NULL, &file), 0);
		map(mm, AT, 2, MAP_SHARED, file, 1ull << 40);
		SAME(get(mm, AT), 0);
		CHECK(put(mm, AT, 5));
		SAME(get(mm, AT), 5);
		SAME(mm_msync(mm, AT, PG, MS_SYNC), 0);
		SAME(mm_munmap(mm, AT, 2 * PG), 0);
		mm_file_put(file);
		SAME(stats_of(phys).file, 0);
	}
	disk_new(&disk, 4 * PG);
	ops = disk_ops;
	ops.punch = NULL;
	SAME(mm_file_open(&info, &ops, &disk, &file), 0);
	map(mm, AT, 4, MAP_SHARED, file, 0);
	SAME(get(mm, AT + PG), 2);
	SAME(mm_madvise(mm, AT + PG, 2 * PG, MADV_REMOVE), 0);
	SAME(disk.writes, 2);
	SAME(disk.bytes[PG], 0);
	SAME(disk.bytes[3 * PG - 1], 0);
	SAME(disk.bytes[3 * PG], 4);
	SAME(get(mm, AT + PG), 0);
	mm_put(mm);
	mm_file_put(file);
	all_given_back(phys);
}

/* "The pages of a SHMEM file live in the library until its last open and mapping are gone, and are never written out." */
static void memory_files(void)
{
	static struct disk disk;
	struct mm_file *file, *again;
	struct mm *mm = fresh();

	disk_new(&disk, 4 * PG);
	file = disk_open(&disk, 1, BOTH | MM_FILE_SHMEM);
	map(mm, AT, 5, MAP_SHARED, file, 0);
	SAME(get(mm, AT), 0);
	CHECK(put(mm, AT, 7));
	SAME(fault(mm, AT + 4 * PG, MM_READ), ADRERR);
	SAME(mm_msync(mm, AT, 4 * PG, MS_SYNC), 0);
	mm_put(mm);
	CHECK(stats_of(phys).file >= 1);
	/* Still there for the next mapping, also through another open. */
	again = disk_open(&disk, 1, BOTH | MM_FILE_SHMEM);
	mm_file_put(file);
	mm = fresh();
	map(mm, AT, 4, MAP_PRIVATE, again, 0);
	SAME(get(mm, AT), 7);
	mm_file_put(again);
	SAME(get(mm, AT), 7);
	SAME(disk.released, 1);
	mm_put(mm);
	all_given_back(phys);
	SAME(disk.released, 2);
	SAME(disk.writes, 0);
	SAME(disk.reads, 0);
}

/* The permitted kinds of mappings. */
static void permissions(void)
{
	static struct disk disk;
	struct mm_file *reader, *writer, *noexec;
	struct mm *mm = fresh();

	disk_new(&disk, 4 * PG);
	reader = disk_open(&disk, 1, MM_FILE_READ);
	writer = disk_open(&disk, 1, MM_FILE_WRITE);
	noexec = disk_open(&disk, 1, BOTH | MM_FILE_NOEXEC);
	SAME(mm_mmap(mm, AT, PG, RW, MAP_SHARED | MAP_FIXED, reader, 0), -EACCES);
	SAME(mm_mmap(mm, AT, PG, PROT_READ, MAP_SHARED | MAP_FIXED, writer, 0), -EACCES);
	SAME(mm_mmap(mm, AT, PG, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, noexec, 0), -EPERM);
	SAME(mm_mmap(mm, AT, PG, PROT_READ, MAP_SHARED | MAP_FIXED, reader, 0), AT);
	SAME(mm_mprotect(mm, AT, PG, RW), -EACCES);
	SAME(mm_mmap(mm, AT, PG, PROT_READ, MAP_SHARED | MAP_FIXED, noexec, 0), AT);
	SAME(mm_mprotect(mm, AT, PG, PROT_READ | PROT_EXEC), -EACCES);
	SAME(mm_mmap(mm, AT, PG, PROT_READ, MAP_SHARED, NULL, 0), -EBADF);
	SAME(mm_mmap(mm, AT, PG, PROT_READ, MAP_SHARED, reader, 1), -EINVAL);
	mm_put(mm);
	mm_file_put(reader);
	mm_file_put(writer);
	mm_file_put(noexec);
	SAME(disk.released, 3);
	all_given_back(phys);
}

/* Counts the mappings of three pages of a file that are mapped one by one: the first, the last,
 * and then the one in between. */
static int areas_of(struct mm *mm, unsigned flags)
{
	static struct disk disk;
	struct mm_file *file;
	struct mm_area area;
	uint64_t at = AT;
	int count = 0;

	disk_new(&disk, 4 * PG);
	file = disk_open(&disk, 1, BOTH | flags);
	map(mm, AT, 1, MAP_SHARED, file, 0);
	map(mm, AT + 2 * PG, 1, MAP_SHARED, file, 2 * PG);
	map(mm, AT + PG, 1, MAP_SHARED, file, PG);
	for (; mm_find(mm, at, &area); at = area.end)
		++count;
	SAME(at, AT + 3 * PG);
	mm_file_put(file);
	return count;
}

/* The rules of file systems. */
static void file_systems(void)
{
	static const struct { unsigned flags; int areas; } all[] = {
		{0, 1}, {MM_FILE_SHMEM, 1}, {MM_FILE_UNALIGNED, 1}, {MM_FILE_PLACED, 1}, {MM_FILE_FUSE, 2}, {MM_FILE_STACKED, 3}};
	struct mm_file_info info = {"/disk", 8, 1, 1, MM_FILE_READ | MM_FILE_SHMEM | MM_FILE_FUSE};
	struct mm_file *file = NULL;
	struct disk disk;
	struct mm *mm;
	size_t i;

	for (i = 0; i < sizeof all / sizeof *all; i++) {
		mm = fresh();
		SAME(areas_of(mm, all[i].flags), all[i].areas);
		mm_put(mm);
	}
	/* Several mappings move at once, except those that choose their address: the ones before have
	 * moved then. */
	mm = fresh();
	disk_new(&disk, 4 * PG);
	file = disk_open(&disk, 1, BOTH | MM_FILE_PLACED);
	SAME(mm_mmap(mm, AT, PG, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, NULL, 0), AT);
	map(mm, AT + 2 * PG, 1, MAP_SHARED, file, 0);
	SAME(mm_mremap(mm, AT, 3 * PG, 3 * PG, MREMAP_MAYMOVE | MREMAP_FIXED, AT + 8 * PG), -EFAULT);
	SAME(mm_mremap(mm, AT + 2 * PG, PG, PG, MREMAP_MAYMOVE | MREMAP_FIXED, AT + 10 * PG), AT + 10 * PG);
	mm_put(mm);
	mm_file_put(file);
	file = NULL;
	SAME(mm_file_open(&info, &disk_ops, &disk, &file), -EINVAL);
	CHECK(!file);
	SAME(disk.released, 1);
	all_given_back(phys);
}

/* A shared anonymous mapping that grew raises SIGBUS beyond its first size. */
static void grown(void)
{
	struct mm *mm = fresh();

	SAME(mm_mmap(mm, AT, 2 * PG, RW, SHARED_ANON | MAP_FIXED, NULL, 0), AT);
	SAME(mm_mremap(mm, AT, 2 * PG, 4 * PG, 0, 0), AT);
	CHECK(put(mm, AT + PG, 1));
	SAME(fault(mm, AT + 2 * PG, MM_READ), ADRERR);
	mm_put(mm);
	all_given_back(phys);
}

int main(void)
{
	struct mm_phys_ops ops = ram_new(&ram, 4096);

	SAME(mm_phys_new(MM_X86_64, &ops, 0, &phys), 0);
	contents();
	same_inode();
	lifetimes();
	synced();
	errors();
	truncated();
	extended();
	by_offset();
	counted();
	punched();
	without_members();
	memory_files();
	permissions();
	file_systems();
	grown();
	mm_phys_put(phys);
	ram_end(&ram);
	mm_file_put(NULL);
	puts("ok");
	return 0;
}
