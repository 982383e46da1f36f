/* Areas, and the map as text. */
#include "mm_check.h"

static struct mm_phys *phys;

static void areas(void)
{
	struct mm_config config = config_for(MM_X86_64);
	struct mm_file_info info = {"/a/rather/long/name/that/does/not/fit/into/the/structure/that/tells/of/areas", 8, 1, 77, MM_FILE_READ};
	struct mm_file *file;
	struct mm_area area;
	struct mm *mm;

	config.stack_top = AT + 100 * PG - 8;
	SAME(mm_new(&config, phys, NULL, &mm), 0);
	CHECK(!mm_find(mm, 0, &area));
	SAME(mm_file_open(&info, NULL, NULL, &file), 0);
	SAME(mm_mmap(mm, AT, 4 * PG, PROT_READ, MAP_SHARED | MAP_FIXED, file, 3 * PG), AT);
	SAME(mm_mmap(mm, AT + 8 * PG, PG, RW, ANON | MAP_FIXED | MAP_LOCKED, NULL, 0), AT + 8 * PG);
	SAME(mm_mmap(mm, AT + 98 * PG, 2 * PG, RW, ANON | MAP_FIXED | MAP_GROWSDOWN, NULL, 0), AT + 98 * PG);
	CHECK(mm_find(mm, 0, &area));
	SAME(area.start, AT);
	SAME(area.end, AT + 4 * PG);
	SAME(area.offset, 3 * PG);
	SAME(area.prot, PROT_READ);
	CHECK(area.shared);
	SAME(area.inode, 77);
	SAME(area.vm_flags & 0xff, 0xd1); /* rd mr me ms; of a description that is only for reading: neither sh nor mw */
	SAME(strlen(area.name), 63);
	CHECK(!strncmp(area.name, info.name, 63));
	SAME(mm_munmap(mm, AT, PG), 0);
	CHECK(mm_find(mm, AT, &area));
	SAME(area.start, AT + PG);
	SAME(area.offset, 4 * PG);
	CHECK(mm_find(mm, AT + 4 * PG, &area));
	SAME(area.start, AT + 8 * PG);
	CHECK(!area.shared && !area.inode && !area.name[0]);
	CHECK(area.vm_flags & 0x2000);
	CHECK(mm_find(mm, AT + 9 * PG, &area));
	CHECK(!strcmp(area.name, "[stack]"));
	CHECK(area.vm_flags & 0x100);
	CHECK(mm_find(mm, AT + 8 * PG, NULL));
	CHECK(!mm_find(mm, AT + 100 * PG, &area));
	mm_put(mm);
	mm_file_put(file);
}

static void text(void)
{
	struct mm *mm = mm_in(MM_X86_64, phys);
	char all[4096], some[4096];
	char maps[256];
	static struct disk disk;
	struct mm_file *file;
	size_t n, length;

	/* The name is in column 74. */
	snprintf(maps, sizeof maps, "%s\n%-73s%s\n", "2000000000-2000002000 rw-p 00000000 00:00 0 ",
		 "2000008000-2000009000 r--s 00001000 08:01 5 ", "/disk");
	SAME(mm_maps(mm, all, sizeof all), 0);
	SAME(all[0], 0);
	disk_new(&disk, 3 * PG);
	file = disk_open(&disk, 5, MM_FILE_READ | MM_FILE_WRITE);
	SAME(mm_mmap(mm, AT, 2 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
	SAME(mm_mmap(mm, AT + 8 * PG, PG, PROT_READ, MAP_SHARED | MAP_FIXED, file, PG), AT + 8 * PG);
	length = mm_maps(mm, all, sizeof all);
	SAME(length, strlen(maps));
	CHECK(!strcmp(all, maps));
	/* Like snprintf: with a buffer of any size, and with none. */
	for (n = 0; n <= length + 3; n++) {
		memset(some, 'x', sizeof some);
		SAME(mm_maps(mm, some, n), length);
		if (n) {
			size_t kept = n - 1 < length ? n - 1 : length;

			CHECK(!memcmp(some, maps, kept));
			SAME(some[kept], 0);
		}
		SAME(some[n < length + 1 ? n : length + 1], 'x');
	}
	SAME(mm_maps(mm, NULL, 0), length);
	length = mm_smaps(mm, NULL, 0);
	SAME(mm_smaps(mm, some, sizeof some), length);
	SAME(strlen(some), length);
	some[5] = 'y';
	SAME(mm_smaps(mm, some, 3), length);
	SAME(some[2], 0);
	SAME(some[5], 'y');
	mm_put(mm);
	mm_file_put(file);
}

/* Returns a figure of smaps in KiB, of the n-th area. */
static long figure(const char *text, int area, const char *label)
{
	const char *at = text;

	for (; area >= 0; area--) {
		at = strstr(at, "\nSize:");
		CHECK(at);
		at++;
	}
	at = strstr(at, label);
	CHECK(at);
	return strtol(at + strlen(label), NULL, 10);
}

static void figures(void)
{
	struct mm *mm = mm_in(MM_X86_64, phys), *child;
	static char text[16384];
	static struct disk disk;
	struct mm_file *file;

	disk_new(&disk, 8 * PG);
	file = disk_open(&disk, 5, MM_FILE_READ | MM_FILE_WRITE);
	SAME(mm_mmap(mm, AT, 8 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
	SAME(mm_mmap(mm, AT + 16 * PG, 4 * PG, RW, MAP_SHARED | MAP_FIXED, file, 0), AT + 16 * PG);
	CHECK(put(mm, AT, 1) && put(mm, AT + PG, 1) && put(mm, AT + 2 * PG, 1));
	SAME(get(mm, AT + 5 * PG), 0);
	CHECK(put(mm, AT + 16 * PG, 1));
	SAME(mm_fork(mm, MM_FORK_COPY, &child), 0);
	CHECK(put(child, AT, 2));
	mm_smaps(mm, text, sizeof text);
	SAME(figure(text, 0, "Size:"), 32);
	SAME(figure(text, 0, "KernelPageSize:"), 4);
	SAME(figure(text, 0, "MMUPageSize:"), 4);
	SAME(figure(text, 0, "Rss:"), 12);
	SAME(figure(text, 0, "Pss:"), 8);
	SAME(figure(text, 0, "Anonymous:"), 12);
	SAME(figure(text, 0, "Private_Dirty:"), 4);
	SAME(figure(text, 0, "Shared_Dirty:"), 8);
	SAME(figure(text, 0, "Private_Clean:"), 0);
	SAME(figure(text, 0, "Locked:"), 0);
	SAME(figure(text, 1, "Rss:"), 4);
	SAME(figure(text, 1, "Anonymous:"), 0);
	SAME(figure(text, 1, "Private_Dirty:"), 4);
	CHECK(strstr(text, "VmFlags: rd wr mr mw me ac sd \n") || strstr(text, "VmFlags: rd wr mr mw me ac \n"));
	CHECK(strstr(text, "VmFlags: rd wr sh mr mw me ms \n") || strstr(text, "VmFlags: rd wr sh mr mw me ms sd \n"));
	mm_put(child);
	SAME(mm_mlock2(mm, AT, 3 * PG, 0), 0);
	mm_smaps(mm, text, sizeof text);
	SAME(figure(text, 0, "Locked:"), 12);
	SAME(figure(text, 0, "Pss:"), 12);
	SAME(figure(text, 0, "Private_Dirty:"), 12);
	mm_put(mm);
	mm_file_put(file);
}

static void checks(void)
{
	struct mm *mm = mm_in(MM_X86_64, phys);
	char why[8] = "before";

	SAME(mm_check(mm, why, sizeof why), 0);
	CHECK(!strcmp(why, "before"));
	SAME(mm_check(mm, NULL, 0), 0);
	mm_put(mm);
}

int main(void)
{
	phys = phys_new(MM_X86_64, 4096);
	areas();
	text();
	figures();
	checks();
	all_given_back(phys);
	mm_phys_put(phys);
	puts("ok");
	return 0;
}
