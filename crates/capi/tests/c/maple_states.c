/* Every operation from every status: its result, and the new index, last and status. */
#include "maple_check.h"

static struct maple_tree tree;
static void *const one = V(1), *const two = V(2), *const three = V(3);

static void empty_tree(void)
{
	MA_STATE(mas, &tree, 0, 0);

	AT(mas_walk(&mas), NULL, &mas, 0, ULONG_MAX, ma_none);
	mas_set(&mas, 77);
	AT(mas_walk(&mas), NULL, &mas, 0, ULONG_MAX, ma_none);
	mas_set(&mas, 77);
	AT(mas_find(&mas, ULONG_MAX), NULL, &mas, 0, ULONG_MAX, ma_none);
	mas_set(&mas, 77);
	CHECK(mas_find_rev(&mas, 0) == NULL);
	mas_set(&mas, 77);
	AT(mas_next(&mas, ULONG_MAX), NULL, &mas, 0, ULONG_MAX, ma_none);
	mas_set(&mas, 77);
	CHECK(mas_prev(&mas, 0) == NULL);
	/* The limit comes first. */
	mas_set(&mas, 0);
	AT(mas_prev(&mas, 0), NULL, &mas, 0, 0, ma_underflow);
	mas_set(&mas, 9);
	AT(mas_next(&mas, 9), NULL, &mas, 9, 9, ma_overflow);
	mas_set(&mas, 9);
	AT(mas_find(&mas, 8), NULL, &mas, 9, 9, ma_start);
	mas_set(&mas, 7);
	AT(mas_find_rev(&mas, 8), NULL, &mas, 7, 7, ma_start);
}

/* One entry, at index 0, which needs no node. */
static void single_entry(void)
{
	MA_STATE(mas, &tree, 0, 0);
	int i;

	SAME(mas_store_gfp(&mas, one, GFP_KERNEL), 0);
	SAME(mt_height(&tree), 0);

	mas_set(&mas, 0);
	AT(mas_prev(&mas, 0), NULL, &mas, 0, 0, ma_underflow);
	for (i = 0; i < 2; i++) {
		mas_set(&mas, 10);
		if (i)
			mas_pause(&mas);
		AT(mas_prev(&mas, 0), one, &mas, 0, 0, ma_root);
		mas_set(&mas, i ? 10 : 0);
		AT(mas_next(&mas, ULONG_MAX), NULL, &mas, 1, ULONG_MAX, ma_none);
	}
	/* find: the entry, then nothing. */
	mas_set(&mas, 0);
	AT(mas_find(&mas, ULONG_MAX), one, &mas, 0, 0, ma_root);
	AT(mas_find(&mas, ULONG_MAX), NULL, &mas, 1, ULONG_MAX, ma_none);
	AT(mas_find(&mas, ULONG_MAX), NULL, &mas, 1, ULONG_MAX, ma_none);
	/* and back. */
	AT(mas_find_rev(&mas, 0), one, &mas, 0, 0, ma_root);
	AT(mas_find_rev(&mas, 0), NULL, &mas, 0, 0, ma_none);
	AT(mas_find_rev(&mas, 0), NULL, &mas, 0, 0, ma_none);
	mas_set(&mas, 10);
	AT(mas_find(&mas, ULONG_MAX), NULL, &mas, 1, ULONG_MAX, ma_none);
	mas_set(&mas, 10);
	AT(mas_find_rev(&mas, 0), one, &mas, 0, 0, ma_root);
	mas_set(&mas, 0);
	AT(mas_find_rev(&mas, 0), one, &mas, 0, 0, ma_root);
	/* A find that starts at 0 and is paused there finds nothing more. */
	mas_set(&mas, 0);
	AT(mas_find(&mas, ULONG_MAX), one, &mas, 0, 0, ma_root);
	mas_pause(&mas);
	AT(mas_find(&mas, ULONG_MAX), NULL, &mas, 1, ULONG_MAX, ma_none);

	/* walk, from each status, on the gap and on the entry. */
	for (i = ma_active; i <= ma_error; i++) {
		mas_set(&mas, 10);
		mas.status = i;
		AT(mas_walk(&mas), NULL, &mas, 1, ULONG_MAX, ma_none);
		mas_set(&mas, 0);
		mas.status = i;
		AT(mas_walk(&mas), one, &mas, 0, 0, ma_root);
	}
	mas.index = mas.last = 10;
	AT(mas_walk(&mas), NULL, &mas, 1, ULONG_MAX, ma_none);
	AT(mas_walk(&mas), NULL, &mas, 1, ULONG_MAX, ma_none);
	mas.index = mas.last = 0;
	AT(mas_walk(&mas), one, &mas, 0, 0, ma_root);
	AT(mas_walk(&mas), one, &mas, 0, 0, ma_root);
	mtree_destroy(&tree);
}

/* 0x1000-0x1500 one, 0x2000-0x2500 two, 0x3000-0x3500 three. */
static void next_and_prev(void)
{
	MA_STATE(mas, &tree, 0, 0);

	AT(mas_next(&mas, ULONG_MAX), one, &mas, 0x1000, 0x1500, ma_active);
	mas_set(&mas, 0);
	mas_pause(&mas);
	AT(mas_next(&mas, ULONG_MAX), one, &mas, 0x1000, 0x1500, ma_active);
	mas.index = mas.last = 0;
	mas.offset = 0;
	mas.status = ma_none;
	AT(mas_next(&mas, ULONG_MAX), one, &mas, 0x1000, 0x1500, ma_active);
	/* From none, the slot at the position is skipped. */
	mas.status = ma_none;
	mas.offset = 0;
	AT(mas_next(&mas, ULONG_MAX), two, &mas, 0x2000, 0x2500, ma_active);

	/* An entry that starts below the limit and ends above it is returned. */
	mas_set(&mas, 0x1200);
	CHECK(mas_walk(&mas) == one);
	AT(mas_next(&mas, 0x2100), two, &mas, 0x2000, 0x2500, ma_active);
	/* The limit lies in the gap, on which the state is then. */
	AT(mas_next(&mas, 0x2999), NULL, &mas, 0x2501, 0x2fff, ma_overflow);
	AT(mas_next(&mas, 0x2999), NULL, &mas, 0x2501, 0x2fff, ma_overflow);
	AT(mas_next(&mas, ULONG_MAX), three, &mas, 0x3000, 0x3500, ma_active);
	AT(mas_next(&mas, ULONG_MAX), NULL, &mas, 0x3501, ULONG_MAX, ma_overflow);
	AT(mas_next(&mas, ULONG_MAX), NULL, &mas, 0x3501, ULONG_MAX, ma_overflow);
	AT(mas_prev(&mas, 0), three, &mas, 0x3000, 0x3500, ma_active);

	AT(mas_prev(&mas, 0), two, &mas, 0x2000, 0x2500, ma_active);
	AT(mas_prev(&mas, 0x1600), NULL, &mas, 0x1501, 0x1fff, ma_underflow);
	AT(mas_prev(&mas, 0), one, &mas, 0x1000, 0x1500, ma_active);
	AT(mas_prev(&mas, 0), NULL, &mas, 0, 0xfff, ma_underflow);
	AT(mas_prev(&mas, 0), NULL, &mas, 0, 0xfff, ma_underflow);
	AT(mas_next(&mas, ULONG_MAX), one, &mas, 0x1000, 0x1500, ma_active);
	/* The limit is at the state's position: the state stays next to its entry, and the way back
	 * begins with it. */
	AT(mas_prev(&mas, 0x1000), NULL, &mas, 0x1000, 0x1500, ma_underflow);
	AT(mas_find(&mas, ULONG_MAX), one, &mas, 0x1000, 0x1500, ma_active);
	AT(mas_prev(&mas, 0x1000), NULL, &mas, 0x1000, 0x1500, ma_underflow);
	AT(mas_next(&mas, ULONG_MAX), one, &mas, 0x1000, 0x1500, ma_active);
	AT(mas_next(&mas, 0x1500), NULL, &mas, 0x1000, 0x1500, ma_overflow);
	AT(mas_prev(&mas, 0), one, &mas, 0x1000, 0x1500, ma_active);
	AT(mas_next(&mas, 0x1500), NULL, &mas, 0x1000, 0x1500, ma_overflow);
	AT(mas_next(&mas, ULONG_MAX), two, &mas, 0x2000, 0x2500, ma_active);

	mas_set(&mas, 0x3600);
	AT(mas_prev(&mas, 0), three, &mas, 0x3000, 0x3500, ma_active);
	mas_pause(&mas);
	AT(mas_prev(&mas, 0), two, &mas, 0x2000, 0x2500, ma_active);
	mas_set(&mas, ULONG_MAX);
	AT(mas_prev(&mas, 0), three, &mas, 0x3000, 0x3500, ma_active);
	mas_set(&mas, ULONG_MAX);
	AT(mas_next(&mas, ULONG_MAX), NULL, &mas, ULONG_MAX, ULONG_MAX, ma_overflow);
	mas_set(&mas, 0x3600);
	AT(mas_next(&mas, ULONG_MAX), NULL, &mas, 0x3501, ULONG_MAX, ma_overflow);
	/* An error persists. */
	mas_set_range(&mas, 9, 3);
	CHECK(mas_store(&mas, one) == NULL && mas_is_err(&mas));
	SAME(mas.node, MA_ERROR(-EINVAL));
	CHECK(mas_next(&mas, ULONG_MAX) == NULL && mas_prev(&mas, 0) == NULL && mas_find(&mas, ULONG_MAX) == NULL);
	CHECK(mas_is_err(&mas) && !mas_nomem(&mas, GFP_KERNEL));
	mas_reset(&mas);
	CHECK(!mas_is_err(&mas));
}

static void ranges(void)
{
	MA_STATE(mas, &tree, 0x1200, 0x1200);

	AT(mas_next_range(&mas, ULONG_MAX), NULL, &mas, 0x1501, 0x1fff, ma_active);
	AT(mas_next_range(&mas, ULONG_MAX), two, &mas, 0x2000, 0x2500, ma_active);
	AT(mas_next_range(&mas, 0x2501), NULL, &mas, 0x2501, 0x2fff, ma_active);
	AT(mas_next_range(&mas, 0x2fff), NULL, &mas, 0x2501, 0x2fff, ma_overflow);
	AT(mas_next_range(&mas, ULONG_MAX), three, &mas, 0x3000, 0x3500, ma_active);
	AT(mas_next_range(&mas, ULONG_MAX), NULL, &mas, 0x3501, ULONG_MAX, ma_active);
	AT(mas_next_range(&mas, ULONG_MAX), NULL, &mas, 0x3501, ULONG_MAX, ma_overflow);
	AT(mas_prev_range(&mas, 0), three, &mas, 0x3000, 0x3500, ma_active);
	AT(mas_prev_range(&mas, 0x2700), NULL, &mas, 0x2501, 0x2fff, ma_active);
	AT(mas_prev_range(&mas, 0x2700), NULL, &mas, 0x2501, 0x2fff, ma_underflow);
	AT(mas_prev_range(&mas, 0), two, &mas, 0x2000, 0x2500, ma_active);

	mas_set(&mas, 0x1200);
	AT(mas_find_range(&mas, ULONG_MAX), one, &mas, 0x1000, 0x1500, ma_active);
	AT(mas_find_range(&mas, ULONG_MAX), NULL, &mas, 0x1501, 0x1fff, ma_active);
	AT(mas_find_range(&mas, ULONG_MAX), two, &mas, 0x2000, 0x2500, ma_active);
	mas_set(&mas, 0x2200);
	AT(mas_find_range_rev(&mas, 0), two, &mas, 0x2000, 0x2500, ma_active);
	AT(mas_find_range_rev(&mas, 0), NULL, &mas, 0x1501, 0x1fff, ma_active);
	AT(mas_find_range_rev(&mas, 0), one, &mas, 0x1000, 0x1500, ma_active);
	AT(mas_find_range_rev(&mas, 0), NULL, &mas, 0, 0xfff, ma_active);
}

static void find_and_rev(void)
{
	MA_STATE(mas, &tree, 0, 0);

	AT(mas_find(&mas, ULONG_MAX), one, &mas, 0x1000, 0x1500, ma_active);
	mas_set(&mas, 0x1200);
	AT(mas_find(&mas, ULONG_MAX), one, &mas, 0x1000, 0x1500, ma_active);
	AT(mas_find(&mas, 0x2100), two, &mas, 0x2000, 0x2500, ma_active);
	/* Already at the limit: finds nothing, and changes nothing. */
	AT(mas_find(&mas, 0x2400), NULL, &mas, 0x2000, 0x2500, ma_active);
	/* The limit lies in the gap after it. A find that found nothing stays active. */
	AT(mas_find(&mas, 0x2700), NULL, &mas, 0x2501, 0x2fff, ma_active);
	AT(mas_find(&mas, 0x4100), three, &mas, 0x3000, 0x3500, ma_active);
	AT(mas_find(&mas, ULONG_MAX), NULL, &mas, 0x3501, ULONG_MAX, ma_active);
	AT(mas_find_rev(&mas, 0), three, &mas, 0x3000, 0x3500, ma_active);
	AT(mas_find_rev(&mas, 0), two, &mas, 0x2000, 0x2500, ma_active);
	mas_pause(&mas);
	AT(mas_find_rev(&mas, 0), one, &mas, 0x1000, 0x1500, ma_active);
	AT(mas_find_rev(&mas, 0), NULL, &mas, 0, 0xfff, ma_underflow);
	AT(mas_find_rev(&mas, 0), NULL, &mas, 0, 0xfff, ma_underflow);
	AT(mas_find(&mas, ULONG_MAX), one, &mas, 0x1000, 0x1500, ma_active);
	mas_pause(&mas);
	AT(mas_find(&mas, ULONG_MAX), two, &mas, 0x2000, 0x2500, ma_active);
	/* Paused in the middle: index and last are kept, and say where it continues. */
	mas_pause(&mas);
	SAME(mas.index, 0x2000);
	SAME(mas.last, 0x2500);
	SAME(mas.status, ma_pause);
	AT(mas_find(&mas, 0x2500), NULL, &mas, 0x2000, 0x2500, ma_pause);
	/* From none, the search begins at `last`. */
	mas_set(&mas, 0x2200);
	mas.status = ma_none;
	AT(mas_find(&mas, ULONG_MAX), two, &mas, 0x2000, 0x2500, ma_active);
	mas_set(&mas, 0x2200);
	mas.status = ma_none;
	AT(mas_find_rev(&mas, 0), two, &mas, 0x2000, 0x2500, ma_active);
	/* After an overflow on an entry, the next one is after it. */
	AT(mas_next(&mas, 0x2500), NULL, &mas, 0x2000, 0x2500, ma_overflow);
	AT(mas_find(&mas, ULONG_MAX), three, &mas, 0x3000, 0x3500, ma_active);
	/* In a gap, downwards and upwards. */
	mas_set(&mas, 0x1700);
	AT(mas_find_rev(&mas, 0), one, &mas, 0x1000, 0x1500, ma_active);
	mas_set(&mas, 0x1700);
	AT(mas_find(&mas, ULONG_MAX), two, &mas, 0x2000, 0x2500, ma_active);
	mas_set(&mas, 0x1700);
	AT(mas_find_rev(&mas, 0x1600), NULL, &mas, 0x1501, 0x1fff, ma_underflow);
	mas_set(&mas, 0x1700);
	AT(mas_find(&mas, 0x1800), NULL, &mas, 0x1501, 0x1fff, ma_active);

	/* walk returns the range, entry or gap, from any status. */
	for (int i = ma_active; i <= ma_error; i++) {
		mas_set(&mas, 0x1200);
		mas.status = i;
		AT(mas_walk(&mas), one, &mas, 0x1000, 0x1500, ma_active);
		mas_set(&mas, 0x1600);
		mas.status = i;
		AT(mas_walk(&mas), NULL, &mas, 0x1501, 0x1fff, ma_active);
		CHECK(mas_is_active(&mas));
	}
	/* A copy is an independent state. */
	mas_set(&mas, 0);
	CHECK(mas_find(&mas, ULONG_MAX) == one);
	struct ma_state copy;
	memcpy(&copy, &mas, sizeof(copy));
	AT(mas_find(&copy, ULONG_MAX), two, &copy, 0x2000, 0x2500, ma_active);
	AT(mas_find(&mas, ULONG_MAX), two, &mas, 0x2000, 0x2500, ma_active);
}

int main(void)
{
	unsigned int mode;

	count_nodes();
	for (mode = 0; mode < 4; mode++) {
		/* With and without sizes of gaps, with and without readers. */
		mt_init_flags(&tree, (mode & 1 ? MT_FLAGS_ALLOC_RANGE : 0) | (mode & 2 ? MT_FLAGS_USE_RCU : 0));
		empty_tree();
		single_entry();
		SAME(mtree_store_range(&tree, 0x1000, 0x1500, one, GFP_KERNEL), 0);
		SAME(mtree_store_range(&tree, 0x2000, 0x2500, two, GFP_KERNEL), 0);
		SAME(mtree_store_range(&tree, 0x3000, 0x3500, three, GFP_KERNEL), 0);
		next_and_prev();
		ranges();
		find_and_rev();
		SAME(mt_validate(&tree), 0);
		mtree_destroy(&tree);
		CHECK(mtree_empty(&tree));
	}
	passed();
	return 0;
}
