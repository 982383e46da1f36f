/* Faults, copies, translations, and page status. */
#include "mm_check.h"

static enum mm_format format;
static struct ram ram;
static struct mm_phys *phys;

static struct mm *fresh(void)
{
	return mm_in(format, phys);
}

static void map(struct mm *mm, uint64_t at, uint64_t pages, int prot, int flags)
{
	SAME(mm_mmap(mm, at, pages * PG, prot, flags | MAP_FIXED, NULL, 0), at);
}

static void signals(void)
{
	struct mm *mm = fresh();

	SAME(fault(mm, AT, MM_READ), MAPERR);
	SAME(fault(mm, AT, MM_WRITE), MAPERR);
	SAME(fault(mm, AT, MM_EXEC), MAPERR);
	map(mm, AT, 1, PROT_READ, ANON);
	map(mm, AT + PG, 1, PROT_NONE, ANON);
	map(mm, AT + 2 * PG, 1, PROT_READ | PROT_EXEC, ANON);
	map(mm, AT + 3 * PG, 1, RW, ANON);
	SAME(fault(mm, AT, MM_WRITE), ACCERR);
	SAME(fault(mm, AT, MM_EXEC), ACCERR);
	SAME(fault(mm, AT, MM_READ), 0);
	SAME(fault(mm, AT, MM_READ | MM_WRITE), ACCERR);
	SAME(fault(mm, AT + PG, MM_READ), ACCERR);
	SAME(fault(mm, AT + PG, MM_WRITE), ACCERR);
	SAME(fault(mm, AT + 2 * PG, MM_EXEC), 0);
	SAME(fault(mm, AT + 2 * PG, MM_READ | MM_EXEC), 0);
	SAME(fault(mm, AT + 3 * PG, MM_READ | MM_WRITE), 0);
	SAME(page_at(mm, AT + 3 * PG), MM_PAGE_PRESENT | MM_PAGE_EXCLUSIVE);
	/* Nothing to do. */
	SAME(fault(mm, AT + 3 * PG, MM_WRITE), 0);
	/* Beyond what a program can address. */
	SAME(fault(mm, ~0ull, MM_READ), MAPERR);
	SAME(fault(mm, 1ull << 63, MM_WRITE), MAPERR);
	/* Guards. */
	SAME(mm_madvise(mm, AT + 3 * PG, PG, 102), 0);
	SAME(fault(mm, AT + 3 * PG, MM_READ), MAPERR);
	SAME(mm_madvise(mm, AT + 3 * PG, PG, 103), 0);
	SAME(get(mm, AT + 3 * PG), 0);
	sound(mm);
	mm_put(mm);
}

/* "On x86-64 a load succeeds wherever a store would" */
static void write_only(void)
{
	struct mm *mm = fresh();

	map(mm, AT, 1, PROT_WRITE, ANON);
	CHECK(put(mm, AT, 5));
	if (format == MM_X86_64 || format == MM_X86_64_LA57) {
		SAME(get(mm, AT), 5);
		map(mm, AT, 1, PROT_WRITE, ANON);
		SAME(fault(mm, AT, MM_READ), 0);
		/* Although it is refused here. */
		SAME(mm_madvise(mm, AT, PG, 22), -EINVAL);
	}
	mm_put(mm);
}

static void pages(void)
{
	struct mm *mm = fresh();
	uint64_t where = 1;
	unsigned prot = 77;

	map(mm, AT, 4, RW | PROT_EXEC, ANON);
	SAME(page_at(mm, AT), 0);
	SAME(mm_translate(mm, AT, &where, &prot), -ENOENT);
	SAME(get(mm, AT), 0);
	SAME(page_at(mm, AT), MM_PAGE_PRESENT | MM_PAGE_ZERO);
	SAME(fault(mm, AT + PG, MM_EXEC), 0);
	SAME(page_at(mm, AT + PG), MM_PAGE_PRESENT | MM_PAGE_ZERO);
	SAME(mm_translate(mm, AT + PG + 9, &where, &prot), 0);
	SAME(where % PG, 9);
	SAME(prot, MM_READ | MM_EXEC);
	CHECK(put(mm, AT + PG, 1));
	SAME(page_at(mm, AT + PG), MM_PAGE_PRESENT | MM_PAGE_EXCLUSIVE);
	SAME(mm_translate(mm, AT + PG + 9, &where, &prot), 0);
	SAME(prot, MM_READ | MM_WRITE | MM_EXEC);
	/* "A present page without any access is -ENOENT" */
	SAME(mm_mprotect(mm, AT, 4 * PG, PROT_NONE), 0);
	SAME(mm_translate(mm, AT + PG, &where, &prot), -ENOENT);
	SAME(page_at(mm, AT + PG), MM_PAGE_PRESENT | MM_PAGE_EXCLUSIVE);
	SAME(mm_mprotect(mm, AT, 4 * PG, PROT_READ), 0);
	SAME(mm_translate(mm, AT + PG, &where, &prot), 0);
	SAME(prot, MM_READ);
	SAME(get(mm, AT + PG), 1);
	SAME(mm_madvise(mm, AT, 4 * PG, MADV_DONTNEED), 0);
	SAME(page_at(mm, AT + PG), 0);
	SAME(get(mm, AT + PG), 0);
	/* Outside of all mappings. */
	SAME(page_at(mm, ~0ull), 0);
	SAME(mm_translate(mm, ~0ull, &where, &prot), -ENOENT);
	sound(mm);
	mm_put(mm);
}

static void copies(void)
{
	struct mm *mm = fresh();
	static unsigned char from[5 * 4096], to[5 * 4096];
	unsigned i;

	for (i = 0; i < sizeof from; i++)
		from[i] = (unsigned char)(i * 7 + i / 4096);
	map(mm, AT, 4, RW, ANON);
	SAME(mm_copy_in(mm, AT + 100, from, 3 * PG), 3 * PG);
	SAME(mm_copy_out(mm, AT + 100, to, 3 * PG), 3 * PG);
	CHECK(!memcmp(from, to, 3 * PG));
	/* Up to the first byte that raises a signal. */
	SAME(mm_copy_in(mm, AT + 3 * PG + 10, from, 5 * PG), PG - 10);
	SAME(fault(mm, AT + 4 * PG, MM_WRITE), MAPERR);
	SAME(mm_copy_out(mm, AT + PG, to, 5 * PG), 3 * PG);
	SAME(mm_copy_out(mm, AT - 1, to, 2), 0);
	SAME(mm_copy_out(mm, AT, to, 0), 0);
	SAME(mm_copy_out(mm, ~0ull, to, 9), 0);
	SAME(mm_mprotect(mm, AT + PG, PG, PROT_READ), 0);
	SAME(mm_copy_in(mm, AT, from, 3 * PG), PG);
	SAME(mm_mprotect(mm, AT + PG, PG, PROT_NONE), 0);
	SAME(mm_copy_out(mm, AT, to, 3 * PG), PG);
	sound(mm);
	mm_put(mm);
}

/* Walks the tables as the manuals of the architectures describe, and returns what the processor
 * would find. */
static int walk(uint64_t root, uint64_t addr, uint64_t *phys_out, unsigned *prot_out)
{
	int levels = format == MM_X86_64_LA57 ? 5 : format == MM_RISCV_SV39 ? 3 : 4, level;
	uint64_t table = root;

	for (level = levels - 1; level >= 0; level--) {
		uint64_t entry, next, size = 1ull << (12 + 9 * level);
		unsigned prot = 0;
		int leaf;

		memcpy(&entry, (char *)ram_virt(&ram, table) + (addr >> (12 + 9 * level) & 511) * 8, 8);
		switch (format) {
		case MM_X86_64:
		case MM_X86_64_LA57:
			if (!(entry & 1))
				return 0;
			leaf = level == 0 || entry >> 7 & 1;
			next = entry & 0x000ffffffffff000ull;
			if (!(entry >> 2 & 1))
				return 0;
			prot = MM_READ | (entry & 2 ? MM_WRITE : 0) | (entry >> 63 ? 0 : MM_EXEC);
			break;
		case MM_AARCH64_4K:
			if (!(entry & 1))
				return 0;
			leaf = level == 0 || !(entry & 2);
			next = entry & 0x0000fffffffff000ull;
			if (leaf) {
				if (!(entry >> 6 & 1))
					return 0;
				prot = MM_READ | (entry >> 7 & 1 ? 0 : MM_WRITE) | (entry >> 54 & 1 ? 0 : MM_EXEC);
			}
			break;
		default:
			if (!(entry & 1))
				return 0;
			leaf = (entry & 14) != 0;
			next = (entry >> 10 & ((1ull << 44) - 1)) << 12;
			if (leaf) {
				if (!(entry >> 4 & 1))
					return 0;
				prot = (entry & 2 ? MM_READ : 0) | (entry & 4 ? MM_WRITE : 0) | (entry & 8 ? MM_EXEC : 0);
			}
			break;
		}
		if (leaf) {
			*phys_out = (next & ~(size - 1)) | (addr & (size - 1));
			*prot_out = prot;
			return 1;
		}
		table = next;
	}
	return 0;
}

static void hardware(void)
{
	struct mm *mm = fresh();
	uint64_t at, state = 3, a = 0, b = 0;
	unsigned p = 0, q = 0;

	map(mm, AT, 1030, RW, ANON);
	map(mm, AT + 2000 * PG, 8, PROT_READ | PROT_EXEC, ANON);
	for (at = 0; at < 300; at++) {
		uint64_t page = AT + random_below(&state, 1030) * PG;

		if (random_below(&state, 2))
			put(mm, page, 1);
		else
			get(mm, page);
	}
	SAME(fault(mm, AT + 2001 * PG, MM_EXEC), 0);
	SAME(mm_mprotect(mm, AT + 500 * PG, 40 * PG, PROT_READ), 0);
	SAME(mm_mprotect(mm, AT + 600 * PG, 40 * PG, PROT_NONE), 0);
	for (at = AT - PG; at < AT + 2010 * PG; at += PG) {
		int found = mm_translate(mm, at + 77, &a, &p) == 0;

		SAME(walk(mm_root(mm), at + 77, &b, &q), found);
		if (found) {
			SAME(a, b);
			SAME(p, q);
		}
	}
	mm_put(mm);
}

static void stacks(void)
{
	struct mm *mm = fresh();
	struct mm_area area;
	uint64_t top = AT + 4096 * PG;

	map(mm, top - 2 * PG, 2, RW, ANON | MAP_GROWSDOWN);
	CHECK(put(mm, top - 3 * PG, 1));
	CHECK(mm_find(mm, top - 1, &area));
	SAME(area.start, top - 3 * PG);
	CHECK(put(mm, top - 100 * PG, 1));
	CHECK(mm_find(mm, top - 1, &area));
	SAME(area.start, top - 100 * PG);
	/* A load grows it, too. The pages in between are not present. */
	SAME(get(mm, top - 101 * PG), 0);
	SAME(page_at(mm, top - 50 * PG), 0);
	/* Without any access it grows first, and then raises SEGV_ACCERR. */
	map(mm, AT + 8192 * PG, 2, PROT_NONE, ANON | MAP_GROWSDOWN);
	SAME(fault(mm, AT + 8191 * PG, MM_READ), ACCERR);
	CHECK(mm_find(mm, AT + 8192 * PG, &area));
	SAME(area.start, AT + 8191 * PG);
	/* It does not grow if an accessible area lies within 256 pages below. */
	map(mm, AT + 8191 * PG - 200 * PG, 1, PROT_READ, ANON);
	SAME(fault(mm, AT + 8190 * PG, MM_READ), MAPERR);
	sound(mm);
	mm_put(mm);
}

/* A fault fails with -ENOMEM only if the frames are used up. Afterwards everything is unchanged. */
static void no_memory(void)
{
	struct mm *mm = fresh();
	uint64_t live;
	int code = 0;

	map(mm, AT, 4, RW, ANON);
	live = ram.live;
	ram.countdown = 0;
	SAME(mm_fault(mm, AT, MM_WRITE, &code), -ENOMEM);
	SAME(mm_copy_in(mm, AT, "x", 1), 0);
	SAME(ram.live, live);
	sound(mm);
	ram.countdown = -1;
	CHECK(put(mm, AT, 1));
	mm_put(mm);
}

/* Copies of zeroes or of another's page: the zero page and file pages stay unchanged. */
static void copies_on_write(void)
{
	struct mm *mm = fresh();
	struct disk disk;
	struct mm_file *file;
	uint64_t before, after;
	unsigned prot;

	disk_new(&disk, 3 * PG);
	file = disk_open(&disk, 5, MM_FILE_READ | MM_FILE_WRITE);
	SAME(mm_mmap(mm, AT, 3 * PG, RW, MAP_PRIVATE | MAP_FIXED, file, 0), AT);
	SAME(get(mm, AT + PG), 2);
	CHECK((page_at(mm, AT + PG) & (MM_PAGE_PRESENT | MM_PAGE_FILE)) == (MM_PAGE_PRESENT | MM_PAGE_FILE));
	SAME(mm_translate(mm, AT + PG, &before, &prot), 0);
	SAME(prot, MM_READ);
	CHECK(put(mm, AT + PG + 1, 77));
	SAME(page_at(mm, AT + PG), MM_PAGE_PRESENT | MM_PAGE_EXCLUSIVE);
	SAME(mm_translate(mm, AT + PG, &after, &prot), 0);
	CHECK(before != after);
	SAME(get(mm, AT + PG), 2);
	SAME(mm_madvise(mm, AT + PG, PG, MADV_DONTNEED), 0);
	SAME(get(mm, AT + PG + 1), 2);
	/* Discarded, not written to: the file's bytes are unchanged. */
	SAME(disk.writes, 0);
	sound(mm);
	mm_put(mm);
	mm_file_put(file);
	SAME(disk.released, 1);
}

/* Execute-only memory has a protection key that forbids loads: translations report that as
 * faults do. With PROT_SEM it gets no key. */
static void execute_only(void)
{
	struct mm *mm = fresh();
	uint64_t where;
	unsigned prot;

	map(mm, AT, 2, PROT_EXEC, ANON);
	SAME(fault(mm, AT, MM_EXEC), 0);
	SAME(mm_translate(mm, AT, &where, &prot), 0);
	SAME(prot, MM_EXEC);
	SAME(fault(mm, AT, MM_READ), 1000 * SIGSEGV + 4 /* SEGV_PKUERR */);
	SAME(mm_mprotect(mm, AT, 2 * PG, PROT_EXEC | 8 /* PROT_SEM */), 0);
	SAME(fault(mm, AT, MM_READ), 0);
	SAME(mm_translate(mm, AT, &where, &prot), 0);
	SAME(prot, MM_READ | MM_EXEC);
	map(mm, AT + 8 * PG, 1, PROT_EXEC | 8, ANON);
	SAME(fault(mm, AT + 8 * PG, MM_READ), 0);
	SAME(mm_mprotect(mm, AT, PG, RW), 0);
	CHECK(put(mm, AT, 5));
	SAME(mm_mprotect(mm, AT, PG, PROT_EXEC), 0);
	SAME(mm_translate(mm, AT, &where, &prot), 0);
	SAME(prot, MM_EXEC);
	sound(mm);
	mm_put(mm);
}

static void prefilled(void)
{
	struct mm *mm = fresh();

	map(mm, AT, 4, RW, ANON | MAP_POPULATE);
	SAME(page_at(mm, AT + 3 * PG), MM_PAGE_PRESENT | MM_PAGE_EXCLUSIVE);
	map(mm, AT + 8 * PG, 4, RW, ANON);
	SAME(mm_mlock2(mm, AT + 8 * PG, 2 * PG, 0), 0);
	SAME(page_at(mm, AT + 9 * PG), MM_PAGE_PRESENT | MM_PAGE_EXCLUSIVE);
	SAME(page_at(mm, AT + 10 * PG), 0);
	SAME(mm_mlock2(mm, AT + 10 * PG, PG, 1 /* MLOCK_ONFAULT */), 0);
	SAME(page_at(mm, AT + 10 * PG), 0);
	/* ENOMEM, and locked nevertheless. */
	map(mm, AT + 16 * PG, 1, PROT_NONE, ANON);
	SAME(mm_mlock2(mm, AT + 16 * PG, PG, 0), -ENOMEM);
	SAME(mm_madvise(mm, AT + 16 * PG, PG, MADV_DONTNEED), -EINVAL);
	sound(mm);
	mm_put(mm);
}

int main(void)
{
	unsigned f;

	for (f = 0; f < FORMATS; f++) {
		struct mm_phys_ops ops = ram_new(&ram, 8192);

		format = formats[f];
		SAME(mm_phys_new(format, &ops, 0, &phys), 0);
		signals();
		write_only();
		pages();
		copies();
		hardware();
		stacks();
		no_memory();
		copies_on_write();
		prefilled();
		if (format == MM_X86_64 || format == MM_X86_64_LA57)
			execute_only();
		all_given_back(phys);
		mm_phys_put(phys);
		ram_end(&ram);
	}
	puts("ok");
	return 0;
}
