/* Every allocation of a frame is refused, one after the other: the state is what the header
 * says, and nothing leaks. */
#include "mm_check.h"

static enum mm_format format;
static struct ram ram;
static struct mm_phys *phys;

static void build(struct mm *mm)
{
	uint64_t i;

	SAME(mm_mmap(mm, AT, 1100 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
	SAME(mm_mmap(mm, AT + 2000 * PG, 8 * PG, RW, SHARED_ANON | MAP_FIXED, NULL, 0), AT + 2000 * PG);
	for (i = 0; i < 1100; i += 90)
		CHECK(put(mm, AT + i * PG, (int)(1 + i / 90)));
	CHECK(put(mm, AT + 2001 * PG, 77));
}

static void intact(struct mm *mm, uint64_t skip, uint64_t end)
{
	uint64_t i;

	for (i = 0; i < 1100; i += 90)
		if (i < skip || i >= end)
			SAME(get(mm, AT + i * PG), 1 + i / 90);
	SAME(get(mm, AT + 2001 * PG), 77);
}

enum { NEW, FORK_COPY, FORK_SHARE, MOVE, STORE, POPULATE, LOCK, LOCK_AT_MMAP, PROTECT, UNMAP, DISCARD, KINDS };

/* Performs one operation with the n-th allocation refused. Returns true if that allocation was
 * reached. */
static int attempt(int kind, int64_t n, int shared)
{
	struct mm *mm = mm_in(format, phys), *other = NULL, *child = NULL;
	static char before[4096], after[4096];
	uint64_t live;
	int64_t result = 0;
	int refused;

	build(mm);
	if (shared)
		SAME(mm_fork(mm, MM_FORK_SHARE, &other), 0);
	mm_maps(mm, before, sizeof before);
	live = ram.live;
	ram.countdown = n;
	switch (kind) {
	case NEW: {
		struct mm_config config = config_for(format);

		result = mm_new(&config, phys, NULL, &child);
		CHECK(result == 0 || result == -ENOMEM);
		break;
	}
	case FORK_COPY:
	case FORK_SHARE:
		result = mm_fork(mm, kind == FORK_SHARE, &child);
		CHECK(result == 0 || result == -ENOMEM);
		break;
	case MOVE:
		result = mm_mremap(mm, AT + 500 * PG, 100 * PG, 100 * PG, MREMAP_MAYMOVE | MREMAP_FIXED, AT + 5000 * PG);
		CHECK(result == (int64_t)(AT + 5000 * PG) || result == -ENOMEM);
		break;
	case STORE: {
		int code;

		result = mm_fault(mm, AT + 600 * PG, MM_WRITE, &code);
		CHECK(result == 0 || result == -ENOMEM);
		break;
	}
	case POPULATE:
		/* Population ignores the lack of memory. */
		SAME(mm_mmap(mm, AT + 3000 * PG, 4 * PG, RW, ANON | MAP_FIXED | MAP_POPULATE, NULL, 0), AT + 3000 * PG);
		break;
	case LOCK_AT_MMAP:
		SAME(mm_mmap(mm, AT + 3000 * PG, 4 * PG, RW, ANON | MAP_FIXED | MAP_LOCKED, NULL, 0), AT + 3000 * PG);
		break;
	case LOCK:
		result = mm_mlock2(mm, AT + 90 * PG, 4 * PG, 0);
		CHECK(result == 0 || result == -ENOMEM || result == -EAGAIN);
		break;
	case PROTECT:
		result = mm_mprotect(mm, AT + 100 * PG, 800 * PG, PROT_READ);
		CHECK(result == 0 || result == -ENOMEM);
		break;
	case UNMAP:
		result = mm_munmap(mm, AT + 100 * PG, 800 * PG);
		CHECK(result == 0 || result == -ENOMEM);
		break;
	case DISCARD:
		result = mm_madvise(mm, AT + 100 * PG, 800 * PG, MADV_DONTNEED);
		CHECK(result == 0 || result == -ENOMEM);
		break;
	}
	refused = ram.countdown == 0;
	ram.countdown = -1;
	sound(mm);
	if (other)
		sound(other);
	if (result < 0) {
		CHECK(!child);
		if (kind == NEW || kind == FORK_COPY || kind == FORK_SHARE || kind == MOVE) {
			/* Nothing has changed. */
			mm_maps(mm, after, sizeof after);
			CHECK(!strcmp(before, after));
			intact(mm, 0, 0);
			if (kind == NEW)
				SAME(ram.live, live);
		}
	}
	if (kind == PROTECT)
		intact(mm, 0, 0);
	else if (kind == UNMAP || kind == DISCARD)
		intact(mm, 100, 900);
	if (child && kind != NEW) {
		sound(child);
		intact(child, 0, 0);
	}
	if (other)
		intact(other, 0, 0);
	/* And once more, with memory. */
	if (result < 0 && kind == MOVE)
		SAME(mm_mremap(mm, AT + 500 * PG, 100 * PG, 100 * PG, MREMAP_MAYMOVE | MREMAP_FIXED, AT + 5000 * PG), AT + 5000 * PG);
	if (result < 0 && kind == UNMAP)
		SAME(mm_munmap(mm, AT + 100 * PG, 800 * PG), 0);
	sound(mm);
	/* Exits need no memory. */
	ram.countdown = 0;
	mm_put(child);
	mm_put(mm);
	mm_put(other);
	ram.countdown = -1;
	all_given_back(phys);
	return refused;
}

int main(void)
{
	unsigned f;

	for (f = 0; f < FORMATS; f++) {
		struct mm_phys_ops ops = ram_new(&ram, 4096);
		int kind, shared;
		int64_t n;

		format = formats[f];
		SAME(mm_phys_new(format, &ops, 0, &phys), 0);
		for (kind = 0; kind < KINDS; kind++)
			for (shared = 0; shared < 2; shared++)
				for (n = 0; attempt(kind, n, shared); n++)
					CHECK(n < 100);
		mm_phys_put(phys);
		ram_end(&ram);
	}
	puts("ok");
	return 0;
}
