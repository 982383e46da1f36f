/* Searches for gaps, and stores there. */
#include "maple_check.h"

static struct maple_tree tree;

static void areas(unsigned int flags)
{
	MA_STATE(mas, &tree, 0, 0);

	mt_init_flags(&tree, flags);
	mtree_lock(&tree);
	/* An empty tree, and one with a single entry at 0. */
	for (int i = 0; i < 2; i++) {
		mas_reset(&mas);
		SAME(mas_empty_area(&mas, 0, ULONG_MAX, 5), 0);
		SAME(mas.index, i);
		SAME(mas.last, i + 4);
		mas_reset(&mas);
		SAME(mas_empty_area_rev(&mas, 0, ULONG_MAX, 5), 0);
		SAME(mas.index, ULONG_MAX - 4);
		SAME(mas.last, ULONG_MAX);
		mas_reset(&mas);
		SAME(mas_empty_area(&mas, 20, 29, 10), 0);
		SAME(mas.index, 20);
		mas_reset(&mas);
		SAME(mas_empty_area(&mas, 0, ULONG_MAX, ULONG_MAX), i ? 0 : 0);
		mas_set(&mas, 0);
		mas_store(&mas, V(1));
	}
	mas_reset(&mas);
	SAME(mas_empty_area(&mas, 0, 0, 1), -EBUSY);
	/* Invalid requests. */
	mas_reset(&mas);
	SAME(mas_empty_area(&mas, 5, 9, 0), -EINVAL);
	SAME(mas_empty_area(&mas, 5, 9, 6), -EINVAL);
	SAME(mas_empty_area(&mas, 9, 5, 1), -EINVAL);
	SAME(mas_empty_area_rev(&mas, 5, 9, 0), -EINVAL);
	SAME(mas_empty_area_rev(&mas, 5, 9, 6), -EINVAL);
	SAME(mas_empty_area_rev(&mas, 9, 5, 1), -EINVAL);
	mtree_unlock(&tree);
	mtree_destroy(&tree);

	/* Entries at 0-9, 20-29, 40-49 … 980-989: gaps of ten, and the one after the last entry. */
	for (unsigned long i = 0; i < 50; i++)
		SAME(mtree_insert_range(&tree, i * 20, i * 20 + 9, V(i), GFP_KERNEL), 0);
	mtree_lock(&tree);
	mas_reset(&mas);
	SAME(mas_empty_area(&mas, 0, 989, 10), 0);
	SAME(mas.index, 10);
	SAME(mas.last, 19);
	mas_reset(&mas);
	SAME(mas_empty_area_rev(&mas, 0, 989, 10), 0);
	SAME(mas.index, 970);
	SAME(mas.last, 979);
	mas_reset(&mas);
	SAME(mas_empty_area(&mas, 0, 989, 11), -EBUSY);
	mas_reset(&mas);
	SAME(mas_empty_area_rev(&mas, 0, 989, 11), -EBUSY);
	mas_reset(&mas);
	SAME(mas_empty_area(&mas, 0, ULONG_MAX, 11), 0);
	SAME(mas.index, 990);
	/* Bounds within gaps, and within entries. */
	mas_reset(&mas);
	SAME(mas_empty_area(&mas, 15, 500, 5), 0);
	SAME(mas.index, 15);
	mas_reset(&mas);
	SAME(mas_empty_area(&mas, 16, 500, 5), 0);
	SAME(mas.index, 30);
	mas_reset(&mas);
	SAME(mas_empty_area_rev(&mas, 0, 214, 5), 0);
	SAME(mas.index, 210);
	mas_reset(&mas);
	SAME(mas_empty_area_rev(&mas, 0, 213, 5), 0);
	SAME(mas.index, 195);
	mas_reset(&mas);
	SAME(mas_empty_area_rev(&mas, 12, 28, 8), 0);
	SAME(mas.index, 12);
	mas_reset(&mas);
	SAME(mas_empty_area_rev(&mas, 13, 28, 8), -EBUSY);
	mas_reset(&mas);
	SAME(mas_empty_area(&mas, 20, 29, 1), -EBUSY);
	/* The state is ready to store there, and to continue from there. */
	mas_reset(&mas);
	SAME(mas_empty_area(&mas, 100, 500, 4), 0);
	SAME(mas.index, 110);
	CHECK(mas_store(&mas, V(1000)) == NULL);
	mas_set(&mas, 112);
	AT(mas_walk(&mas), V(1000), &mas, 110, 113, ma_active);
	AT(mas_next_range(&mas, ULONG_MAX), NULL, &mas, 114, 119, ma_active);
	mas_reset(&mas);
	SAME(mas_empty_area_rev(&mas, 100, 500, 4), 0);
	SAME(mas.index, 496);
	AT(mas_prev(&mas, 0), V(24), &mas, 480, 489, ma_active);
	SAME(mt_validate(&tree), 0);
	mtree_unlock(&tree);
	mtree_destroy(&tree);
}

static void allocate(void)
{
	unsigned long at, i;

	mt_init_flags(&tree, 0);
	SAME(mtree_alloc_range(&tree, &at, V(1), 1, 0, 9, GFP_KERNEL), -EINVAL);
	SAME(mtree_alloc_rrange(&tree, &at, V(1), 1, 0, 9, GFP_KERNEL), -EINVAL);
	mt_init_flags(&tree, MT_FLAGS_ALLOC_RANGE);
	SAME(mtree_alloc_range(&tree, &at, V(1), 0, 0, 9, GFP_KERNEL), -EINVAL);
	SAME(mtree_alloc_range(&tree, &at, V(1), 11, 0, 9, GFP_KERNEL), -EINVAL);
	for (i = 0; i < 100; i++) {
		SAME(mtree_alloc_range(&tree, &at, V(i), 5, 100, 599, GFP_KERNEL), 0);
		SAME(at, 100 + i * 5);
	}
	SAME(mtree_alloc_range(&tree, &at, V(i), 1, 100, 599, GFP_KERNEL), -EBUSY);
	SAME(at, 595);
	for (i = 0; i < 100; i++) {
		SAME(mtree_alloc_rrange(&tree, &at, V(i), 5, 600, 1099, GFP_KERNEL), 0);
		SAME(at, 1095 - i * 5);
	}
	SAME(mtree_alloc_rrange(&tree, &at, V(i), 1, 600, 1099, GFP_KERNEL), -EBUSY);
	SAME(mtree_erase(&tree, 300), V(40));
	SAME(mtree_alloc_rrange(&tree, &at, V(1), 5, 0, 1099, GFP_KERNEL), 0);
	SAME(at, 300);
	SAME(mtree_alloc_range(&tree, &at, V(1), ULONG_MAX - 1100, 0, ULONG_MAX, GFP_KERNEL), 0);
	SAME(at, 1100);
	SAME(mtree_alloc_range(&tree, &at, V(1), 1, 100, ULONG_MAX, GFP_KERNEL), 0);
	SAME(at, ULONG_MAX);
	SAME(mtree_alloc_range(&tree, &at, V(1), 1, 100, ULONG_MAX, GFP_KERNEL), -EBUSY);
	SAME(mt_validate(&tree), 0);
	mtree_destroy(&tree);
}

static void cyclic(void)
{
	unsigned long at, next = 0, i;
	MA_STATE(mas, &tree, 0, 0);

	mt_init(&tree);
	SAME(mtree_alloc_cyclic(&tree, &at, V(1), 0, 9, &next, GFP_KERNEL), -EINVAL);
	mt_init_flags(&tree, MT_FLAGS_ALLOC_RANGE);
	for (i = 0; i < 10; i++) {
		SAME(mtree_alloc_cyclic(&tree, &at, V(i), 3, 12, &next, GFP_KERNEL), 0);
		SAME(at, 3 + i);
		SAME(next, at + 1);
	}
	SAME(mtree_alloc_cyclic(&tree, &at, V(i), 3, 12, &next, GFP_KERNEL), -EBUSY);
	SAME(next, 13);
	/* Freed indices are not reused before the search wraps around. */
	SAME(mtree_erase(&tree, 5), V(2));
	SAME(mtree_alloc_cyclic(&tree, &at, V(50), 3, 12, &next, GFP_KERNEL), 1);
	SAME(at, 5);
	SAME(next, 6);
	SAME(mtree_erase(&tree, 3), V(0));
	SAME(mtree_erase(&tree, 9), V(6));
	SAME(mtree_alloc_cyclic(&tree, &at, V(60), 3, 12, &next, GFP_KERNEL), 0);
	SAME(at, 9);
	SAME(mtree_alloc_cyclic(&tree, &at, V(61), 3, 12, &next, GFP_KERNEL), 1);
	SAME(at, 3);
	/* A `next` below the range. */
	mtree_destroy(&tree);
	next = 2;
	SAME(mtree_alloc_cyclic(&tree, &at, V(1), 10, 12, &next, GFP_KERNEL), 0);
	SAME(at, 10);
	/* The largest index: 0 comes after it, and the next allocation reports that it wrapped around. */
	next = ULONG_MAX;
	SAME(mtree_alloc_cyclic(&tree, &at, V(2), 10, ULONG_MAX, &next, GFP_KERNEL), 0);
	SAME(at, ULONG_MAX);
	SAME(next, 0);
	SAME(mtree_alloc_cyclic(&tree, &at, V(3), 10, ULONG_MAX, &next, GFP_KERNEL), 1);
	SAME(at, 11);
	SAME(mtree_alloc_cyclic(&tree, &at, V(3), 10, ULONG_MAX, &next, GFP_KERNEL), 0);
	SAME(at, 12);
	mtree_lock(&tree);
	SAME(mas_alloc_cyclic(&mas, &at, V(4), 10, ULONG_MAX, &next, GFP_KERNEL), 0);
	mtree_unlock(&tree);
	SAME(at, 13);
	SAME(next, 14);
	mtree_destroy(&tree);
}

/* Compared with an array, over random gaps, both ways and with any bounds. */
static void model(unsigned int flags)
{
	enum { SPACE = 700 };
	static unsigned char used[SPACE];
	uint64_t seed = 7 + flags;

	mt_init_flags(&tree, flags);
	memset(used, 0, sizeof(used));
	for (int round = 0; round < 6000; round++) {
		unsigned long first = rnd(&seed) % SPACE, last = first + rnd(&seed) % 30, i;
		unsigned long lo = rnd(&seed) % SPACE, hi = lo + rnd(&seed) % (SPACE - lo);
		unsigned long size = 1 + rnd(&seed) % 25, run = 0, low = SPACE, high = SPACE;
		int set = rnd(&seed) % 2;
		MA_STATE(mas, &tree, 0, 0);

		if (last >= SPACE)
			last = SPACE - 1;
		SAME(mtree_store_range(&tree, first, last, set ? V(round) : NULL, GFP_KERNEL), 0);
		memset(used + first, set, last - first + 1);
		for (i = lo; i <= hi; i++) {
			run = used[i] ? 0 : run + 1;
			if (run >= size) {
				high = i - size + 1;
				if (low == SPACE)
					low = high;
			}
		}
		mtree_lock(&tree);
		int up = mas_empty_area(&mas, lo, hi, size);
		if (hi - lo < size - 1) {
			SAME(up, -EINVAL);
		} else if (low == SPACE) {
			SAME(up, -EBUSY);
			mas_reset(&mas);
			SAME(mas_empty_area_rev(&mas, lo, hi, size), -EBUSY);
		} else {
			SAME(up, 0);
			SAME(mas.index, low);
			SAME(mas.last, low + size - 1);
			mas_reset(&mas);
			SAME(mas_empty_area_rev(&mas, lo, hi, size), 0);
			SAME(mas.index, high);
			SAME(mas.last, high + size - 1);
		}
		mtree_unlock(&tree);
	}
	SAME(mt_validate(&tree), 0);
	mtree_destroy(&tree);
}

int main(void)
{
	count_nodes();
	for (unsigned int flags = 0; flags < 4; flags++) {
		areas(flags);
		model(flags);
	}
	allocate();
	cyclic();
	passed();
	return 0;
}
