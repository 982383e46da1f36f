/*
 * The areas of an address space: looked up by address, placed in the highest gap, split by an unmap
 * in the middle. The lock is the program's own, since an address space has one anyway.
 *
 *   cc -I include examples/c/maple_areas.c libsamara.a -lpthread -ldl -lm
 */
#include <samara/maple_tree.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE 4096ul
#define LOWEST 0x10000ul
#define HIGHEST 0x7ffffffful

struct space {
	pthread_mutex_t lock;
	struct maple_tree areas;
};

struct area {
	const char *name;
	/* The number of its mapped parts. */
	int parts;
};

static void put_area(struct area *area)
{
	if (--area->parts == 0)
		free(area);
}

/* Maps `length` bytes at the highest possible address. Returns the address, or a negative
 * number. */
static long map(struct space *space, unsigned long length, const char *name)
{
	struct area *area = malloc(sizeof(*area));
	MA_STATE(mas, &space->areas, 0, 0);
	long ret;

	if (!area)
		return -ENOMEM;
	*area = (struct area){ .name = name, .parts = 1 };
	pthread_mutex_lock(&space->lock);
	ret = mas_empty_area_rev(&mas, LOWEST, HIGHEST, length);
	if (!ret) {
		/* The state is at the gap that was found. */
		unsigned long address = mas.index;

		ret = mas_store_gfp(&mas, area, GFP_KERNEL);
		if (!ret)
			ret = (long)address;
	}
	pthread_mutex_unlock(&space->lock);
	if (ret < 0)
		free(area);
	return ret;
}

/* Unmaps first..=last, whatever is there: all or nothing. */
static int unmap(struct space *space, unsigned long first, unsigned long last)
{
	MA_STATE(mas, &space->areas, first, last);
	struct area *area;
	int ret;

	pthread_mutex_lock(&space->lock);
	/* The step that can fail comes first: memory for the store that removes the range. */
	ret = mas_preallocate(&mas, NULL, GFP_KERNEL);
	if (!ret) {
		MA_STATE(look, &space->areas, first, first);

		while ((area = mas_find(&look, last))) {
			int below = look.index < first, above = look.last > last;

			/* In the middle of an area: it has two parts now. At one of its ends: still one. */
			area->parts += below && above;
			if (!below && !above)
				put_area(area);
		}
		mas_store_prealloc(&mas, NULL);
	}
	pthread_mutex_unlock(&space->lock);
	return ret;
}

static void show(struct space *space)
{
	MA_STATE(mas, &space->areas, 0, 0);
	struct area *area;

	pthread_mutex_lock(&space->lock);
	while ((area = mas_find(&mas, ~0ul)))
		printf("%08lx-%08lx %s\n", mas.index, mas.last + 1, area->name);
	pthread_mutex_unlock(&space->lock);
}

int main(void)
{
	struct space space = { .lock = PTHREAD_MUTEX_INITIALIZER,
			       .areas = MTREE_INIT(areas, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_LOCK_EXTERN) };
	unsigned long stack = map(&space, 16 * PAGE, "stack");
	unsigned long heap = map(&space, 64 * PAGE, "heap");

	map(&space, 4 * PAGE, "library");
	printf("stack at %lx, heap at %lx\n", stack, heap);
	unmap(&space, heap + 8 * PAGE, heap + 12 * PAGE - 1);
	show(&space);
	/* The gap that the unmap made is the highest that fits. */
	printf("buffer at %lx\n", (unsigned long)map(&space, 4 * PAGE, "buffer"));
	/* The area of an address, and the area above it. */
	printf("at %lx: %s\n", heap, ((struct area *)mtree_load(&space.areas, heap))->name);
	printf("above: %s\n", ((struct area *)mt_next(&space.areas, heap, ~0ul))->name);
	unmap(&space, 0, ~0ul);
	printf("empty: %s\n", mtree_empty(&space.areas) ? "yes" : "no");
	mtree_destroy(&space.areas);
	return 0;
}
