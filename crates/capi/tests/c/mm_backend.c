/* The backend: it is notified in order, so that a mirror of the map stays correct, and its
 * refusals undo the whole call. */
#include "mm_check.h"

#define MOST 512

/* A map of pages that only notifications change: for each page its protection, and the origin of
 * its mapping. */
struct mirror {
	struct { int there, prot, mark; } pages[MOST];
	int countdown;    /* < 0: nothing is refused; at 0 it is, once */
	int refused;      /* how often */
	char last[16][8]; /* the names of the latest calls */
	int told;
	struct mm_file *file;
	uint64_t offset;
	int flags;
};

static int refuses(struct mirror *mirror, const char *name)
{
	if (mirror->countdown == 0) {
		mirror->countdown = -1;
		mirror->refused++;
		return 1;
	}
	if (mirror->countdown > 0)
		mirror->countdown--;
	strcpy(mirror->last[mirror->told++ % 16], name);
	return 0;
}

#define PAGE_OF(addr) ((int)(((addr) - AT) / PG))

static void in_range(uint64_t start, uint64_t end)
{
	CHECK(start % PG == 0 && end % PG == 0 && start < end);
	CHECK(start >= AT && end <= AT + MOST * PG);
}

static int on_map(void *ctx, uint64_t start, uint64_t end, int prot, int flags, struct mm_file *file, uint64_t offset)
{
	struct mirror *mirror = (struct mirror *)ctx;
	int i;

	in_range(start, end);
	if (refuses(mirror, "map"))
		return -EOVERFLOW;
	mirror->file = file;
	mirror->offset = offset;
	mirror->flags = flags;
	for (i = PAGE_OF(start); i < PAGE_OF(end); i++) {
		CHECK(!mirror->pages[i].there);
		mirror->pages[i].there = 1;
		mirror->pages[i].prot = prot;
		mirror->pages[i].mark = 0;
	}
	return 0;
}

static int on_unmap(void *ctx, uint64_t start, uint64_t end)
{
	struct mirror *mirror = (struct mirror *)ctx;
	int i;

	in_range(start, end);
	if (refuses(mirror, "unmap"))
		return -EOVERFLOW;
	for (i = PAGE_OF(start); i < PAGE_OF(end); i++) {
		CHECK(mirror->pages[i].there);
		mirror->pages[i].there = 0;
	}
	return 0;
}

static int on_protect(void *ctx, uint64_t start, uint64_t end, int prot)
{
	struct mirror *mirror = (struct mirror *)ctx;
	int i;

	in_range(start, end);
	if (refuses(mirror, "protect"))
		return -EOVERFLOW;
	for (i = PAGE_OF(start); i < PAGE_OF(end); i++) {
		CHECK(mirror->pages[i].there);
		mirror->pages[i].prot = prot;
	}
	return 0;
}

static int on_move(void *ctx, uint64_t from, uint64_t to, uint64_t len)
{
	struct mirror *mirror = (struct mirror *)ctx;
	int i;

	in_range(from, from + len);
	in_range(to, to + len);
	CHECK(from + len <= to || to + len <= from);
	if (refuses(mirror, "move"))
		return -EOVERFLOW;
	for (i = 0; i < (int)(len / PG); i++) {
		CHECK(mirror->pages[PAGE_OF(from) + i].there && !mirror->pages[PAGE_OF(to) + i].there);
		mirror->pages[PAGE_OF(to) + i] = mirror->pages[PAGE_OF(from) + i];
		mirror->pages[PAGE_OF(from) + i].there = 0;
	}
	return 0;
}

static void same_as_map(const struct mirror *mirror, struct mm *mm)
{
	uint64_t addr = AT;
	struct mm_area area;
	int i;

	for (i = 0; i < MOST; i++, addr += PG) {
		int there = mm_find(mm, addr, &area) && area.start <= addr;

		SAME(mirror->pages[i].there, there);
		if (there)
			SAME(mirror->pages[i].prot, area.prot);
	}
}

static struct mm *mirrored(struct mirror *mirror, struct mm_phys *phys)
{
	struct mm_backend backend = {mirror, on_map, on_unmap, on_protect, on_move};
	struct mm_config config = config_for(MM_X86_64);
	struct mm *mm = NULL;

	memset(mirror, 0, sizeof *mirror);
	mirror->countdown = -1;
	config.ipc_lock = true;
	SAME(mm_new(&config, phys, &backend, &mm), 0);
	/* The library has copied the structure. */
	memset(&backend, 0xff, sizeof backend);
	return mm;
}

static void in_order(struct mm_phys *phys)
{
	static struct mirror mirror;
	struct mm *mm = mirrored(&mirror, phys), *child;
	static struct disk disk;
	struct mm_file *file;

	SAME(mm_mmap(mm, AT, 4 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
	SAME(mirror.told, 1);
	CHECK(!mirror.file);
	SAME(mirror.flags, ANON);
	disk_new(&disk, 8 * PG);
	file = disk_open(&disk, 9, MM_FILE_READ | MM_FILE_WRITE);
	/* Over an existing mapping: that is unmapped first. */
	SAME(mm_mmap(mm, AT + PG, 2 * PG, PROT_READ, MAP_SHARED | MAP_FIXED, file, 3 * PG), AT + PG);
	SAME(mirror.told, 3);
	CHECK(!strcmp(mirror.last[1], "unmap") && !strcmp(mirror.last[2], "map"));
	CHECK(mirror.file == file);
	SAME(mirror.offset, 3 * PG);
	SAME(mirror.flags, MAP_SHARED);
	SAME(mm_mprotect(mm, AT, PG, PROT_NONE), 0);
	CHECK(!strcmp(mirror.last[3], "protect"));
	SAME(mm_mremap(mm, AT + 3 * PG, PG, PG, MREMAP_MAYMOVE | MREMAP_FIXED, AT + 9 * PG), AT + 9 * PG);
	CHECK(!strcmp(mirror.last[4], "move"));
	/* The growth of a file's mapping is reported with its file, although the caller has dropped its
	 * reference. */
	mm_file_put(file);
	SAME(mm_mremap(mm, AT + PG, 2 * PG, 3 * PG, 0, 0), AT + PG);
	CHECK(!strcmp(mirror.last[5], "map"));
	CHECK(mirror.file == file);
	SAME(mirror.offset, 5 * PG);
	same_as_map(&mirror, mm);
	/* Calls that change no page are not reported. */
	SAME(mirror.told, 6);
	SAME(mm_madvise(mm, AT, PG, MADV_DONTFORK), 0);
	SAME(mm_mseal(mm, AT, PG, 0), 0);
	SAME(mirror.told, 6);
	/* A child has no backend. */
	SAME(mm_fork(mm, MM_FORK_COPY, &child), 0);
	SAME(mm_munmap(child, AT + PG, PG), 0);
	SAME(mirror.told, 6);
	mm_put(child);
	mm_put(mm);
	SAME(disk.released, 1);
}

/* The growth of a stack is reported, whatever causes the fault. If it is refused, the stack does
 * not grow. */
static void growth(struct mm_phys *phys)
{
	static struct mirror mirror;
	struct mm *mm = mirrored(&mirror, phys);
	unsigned char bytes[5 * 4096];

	SAME(mm_mmap(mm, AT + 400 * PG, 2 * PG, RW, ANON | MAP_FIXED | MAP_GROWSDOWN, NULL, 0), AT + 400 * PG);
	SAME(fault(mm, AT + 398 * PG, MM_WRITE), 0);
	SAME(mirror.told, 2);
	same_as_map(&mirror, mm);
	mirror.countdown = 0;
	SAME(fault(mm, AT + 397 * PG, MM_WRITE), MAPERR);
	same_as_map(&mirror, mm);
	if (phys) {
		memset(bytes, 1, sizeof bytes);
		SAME(mm_copy_in(mm, AT + 395 * PG + 9, bytes, sizeof bytes), sizeof bytes);
		SAME(mm_copy_out(mm, AT + 394 * PG, bytes, 5), 5);
		SAME(get(mm, AT + 396 * PG), 1);
		same_as_map(&mirror, mm);
	}
	sound(mm);
	mm_put(mm);
}

/* NULL members are skipped. */
static void without_members(struct mm_phys *phys)
{
	struct mm_backend backend = {NULL, NULL, NULL, NULL, NULL};
	struct mm *mm;

	SAME(mm_new(NULL, phys, &backend, &mm), 0);
	SAME(mm_mmap(mm, AT, 4 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
	SAME(mm_mprotect(mm, AT, PG, PROT_READ), 0);
	SAME(mm_mremap(mm, AT, PG, PG, MREMAP_MAYMOVE | MREMAP_FIXED, AT + 9 * PG), AT + 9 * PG);
	SAME(mm_munmap(mm, AT, 16 * PG), 0);
	mm_put(mm);
}

/* Performs a random call. */
static int64_t some_call(struct mm *mm, uint64_t *state)
{
	uint64_t at = AT + random_below(state, 40) * PG, len = (1 + random_below(state, 8)) * PG, to = AT + (60 + random_below(state, 40)) * PG;
	static const int prots[] = {PROT_NONE, PROT_READ, RW, RW};
	int prot = prots[random_below(state, 4)];

	if (random_below(state, 3) == 0)
		to = AT + random_below(state, 40) * PG;
	switch (random_below(state, 8)) {
	case 0:
	case 1:
		return mm_mmap(mm, at, len, prot, (random_below(state, 3) ? ANON : SHARED_ANON) | MAP_FIXED, NULL, 0);
	case 2:
		return mm_munmap(mm, at, len);
	case 3:
	case 4:
		return mm_mprotect(mm, at, len, prot);
	case 5:
		return mm_mremap(mm, at, len, random_below(state, 2) ? len : (1 + random_below(state, 8)) * PG,
				 MREMAP_MAYMOVE | MREMAP_FIXED | (random_below(state, 4) ? 0 : 4), to);
	case 6:
		return mm_mremap(mm, at, len, (1 + random_below(state, 8)) * PG, 0, 0);
	default:
		return mm_mlock2(mm, at, len, 0);
	}
}

static void refusals(struct mm_phys *phys)
{
	static struct mirror mirror;
	static char before[8192], after[8192];
	struct mm *mm = mirrored(&mirror, phys);
	uint64_t state = 11;
	int i, refused = 0;

	for (i = 0; i < 1500; i++) {
		int bytes[100], j, had = mirror.refused;
		int64_t result;

		mm_maps(mm, before, sizeof before);
		for (j = 0; j < 100 && phys; j += 7)
			bytes[j] = get(mm, AT + (unsigned)j * PG);
		if (random_below(&state, 3) == 0)
			mirror.countdown = (int)random_below(&state, 4);
		result = some_call(mm, &state);
		if (mirror.refused > had) {
			refused++;
			/* The notifications of an undo cannot be refused. */
			SAME(result, -EOVERFLOW);
			mm_maps(mm, after, sizeof after);
			if (strcmp(before, after)) {
				fprintf(stderr, "before:\n%safter:\n%s", before, after);
				abort();
			}
			for (j = 0; j < 100 && phys; j += 7)
				SAME(bytes[j], get(mm, AT + (unsigned)j * PG));
		}
		mirror.countdown = -1;
		same_as_map(&mirror, mm);
		sound(mm);
		if (phys)
			put(mm, AT + random_below(&state, 100) * PG, i);
	}
	CHECK(refused > 100);
	mm_put(mm);
}

int main(void)
{
	struct mm_phys *phys = phys_new(MM_X86_64, 2048);

	in_order(NULL);
	in_order(phys);
	growth(NULL);
	growth(phys);
	without_members(NULL);
	without_members(phys);
	refusals(NULL);
	refusals(phys);
	all_given_back(phys);
	mm_phys_put(phys);
	puts("ok");
	return 0;
}
