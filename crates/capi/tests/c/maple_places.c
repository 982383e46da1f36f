/*
 * States that continue from the slot that they remember, and store there. Whatever another state
 * under the same lock has done to the leaf, their results and stores agree with the tree. Each case
 * fails if the check that it tests is removed.
 */
#include "maple_check.h"

static struct maple_tree tree;

/* Stores entries 1.. at 10..=19, 30..=39, and so on, in RCU mode if `rcu`. */
static void fill(unsigned long entries, int rcu)
{
	unsigned long i;

	mt_init_flags(&tree, MT_FLAGS_ALLOC_RANGE | (rcu ? MT_FLAGS_USE_RCU : 0));
	for (i = 0; i < entries; i++)
		SAME(mtree_store_range(&tree, 20 * i + 10, 20 * i + 19, V(i + 1), GFP_KERNEL), 0);
}

static void done(void)
{
	SAME(mt_validate(&tree), 0);
	mtree_destroy(&tree);
}

/* Returns a state on the entry at `index`. */
static struct ma_state on(unsigned long index)
{
	MA_STATE(mas, &tree, index, index);

	CHECK(mas_walk(&mas) != NULL);
	return mas;
}

static void put(unsigned long first, unsigned long last, void *entry)
{
	MA_STATE(mas, &tree, first, last);

	SAME(mas_store_gfp(&mas, entry, GFP_KERNEL), 0);
}

/* The slots of the leaf move to the right, or to the left, under a state. */
static void slots_move(int rcu)
{
	struct ma_state up, down;

	fill(5, rcu);
	up = on(50);
	down = on(50);
	put(0, 4, V(99)); /* one slot more before it */
	AT(mas_next(&up, ULONG_MAX), V(4), &up, 70, 79, ma_active);
	AT(mas_prev(&down, 0), V(2), &down, 30, 39, ma_active);
	up = on(50);
	down = on(50);
	put(0, 4, NULL);
	put(10, 39, NULL);
	AT(mas_find(&up, ULONG_MAX), V(4), &up, 70, 79, ma_active);
	AT(mas_find_rev(&down, 0), NULL, &down, 0, 49, ma_underflow);
	done();
}

/* The slot of a state becomes longer, or is split. */
static void slot_changes(int rcu)
{
	struct ma_state up, down;

	fill(5, rcu);
	up = on(50);
	down = on(50);
	put(45, 64, V(88));
	/* After and before the current slot. */
	AT(mas_next(&up, ULONG_MAX), V(4), &up, 70, 79, ma_active);
	AT(mas_prev(&down, 0), V(2), &down, 30, 39, ma_active);
	up = on(50);
	down = on(50);
	put(50, 52, V(77));
	AT(mas_next_range(&up, ULONG_MAX), NULL, &up, 65, 69, ma_active);
	AT(mas_prev_range(&down, 0), NULL, &down, 40, 44, ma_active);
	done();
}

/* A state on a part of its slot continues after the slot, and splits it by a store. */
static void part_of_a_slot(int rcu)
{
	struct ma_state mas;

	fill(5, rcu);
	mas = on(50);
	__mas_set_range(&mas, 52, 53);
	AT(mas_next(&mas, ULONG_MAX), V(4), &mas, 70, 79, ma_active);
	mas = on(50);
	__mas_set_range(&mas, 52, 53);
	AT(mas_prev(&mas, 0), V(2), &mas, 30, 39, ma_active);
	/* Both ends equal to the slot's, one end, none. */
	mas = on(50);
	SAME(mas_store(&mas, V(60)), V(3));
	AT(mas_walk(&mas), V(60), &mas, 50, 59, ma_active);
	__mas_set_range(&mas, 50, 54);
	SAME(mas_store(&mas, V(61)), V(60));
	mas = on(55);
	__mas_set_range(&mas, 57, 59);
	SAME(mas_store(&mas, V(62)), V(60));
	mas = on(10);
	__mas_set_range(&mas, 12, 13);
	SAME(mas_store(&mas, V(63)), V(1));
	SAME(mtree_load(&tree, 54), V(61));
	SAME(mtree_load(&tree, 55), V(60));
	SAME(mtree_load(&tree, 56), V(60));
	SAME(mtree_load(&tree, 57), V(62));
	SAME(mtree_load(&tree, 11), V(1));
	SAME(mtree_load(&tree, 13), V(63));
	SAME(mtree_load(&tree, 14), V(1));
	done();
}

/* A store over a slot that has changed since the state's look-up. */
static void stale_stores(int rcu)
{
	struct ma_state mas;

	fill(5, rcu);
	mas = on(50);
	put(50, 54, V(99));
	SAME(mas_store(&mas, V(60)), V(99));
	AT(mas_walk(&mas), V(60), &mas, 50, 59, ma_active);
	put(0, 4, V(98)); /* moves the slot */
	SAME(mas_store(&mas, V(61)), V(60));
	SAME(mtree_load(&tree, 45), NULL);
	SAME(mtree_load(&tree, 59), V(61));
	/* A new gap is reported to the nodes above when it is filled. */
	put(50, 59, NULL);
	SAME(mas_store(&mas, V(62)), NULL);
	done();
}

/* The search for gaps knows a gap that was filled exactly, and emptied again. */
static void holes(int rcu)
{
	struct ma_state mas, gap;
	unsigned long i;

	fill(100, rcu);
	for (i = 0; i + 1 < 100; i++)
		if (i != 60)
			put(20 * i + 20, 20 * i + 29, V(7));
	put(0, 9, V(7));
	mas = on(20 * 60 + 10);
	AT(mas_next_range(&mas, ULONG_MAX), NULL, &mas, 1220, 1229, ma_active);
	gap = mas;
	SAME(mas_empty_area(&gap, 0, 1999, 10), 0);
	AT(mas_store(&mas, V(8)), NULL, &mas, 1220, 1229, ma_active);
	mas_reset(&gap);
	SAME(mas_empty_area(&gap, 0, 1999, 1), -EBUSY);
	AT(mas_walk(&mas), V(8), &mas, 1220, 1229, ma_active);
	AT(mas_store(&mas, NULL), V(8), &mas, 1220, 1229, ma_active);
	SAME(mas_empty_area_rev(&gap, 0, 1999, 10), 0);
	SAME(gap.index, 1220);
	/* From the gap on, and into it. */
	AT(mas_next(&gap, ULONG_MAX), V(62), &gap, 1230, 1239, ma_active);
	SAME(mas_empty_area(&gap, 0, 1999, 4), 0);
	AT(mas_prev(&gap, 0), V(61), &gap, 1210, 1219, ma_active);
	SAME(mas_empty_area(&gap, 0, 1999, 4), 0);
	AT(mas_store(&gap, V(9)), NULL, &gap, 1220, 1223, ma_active);
	AT(mas_next_range(&gap, ULONG_MAX), NULL, &gap, 1224, 1229, ma_active);
	done();
}

/* The leaf is split, merged, or emptied under a state, and under a copy of it. */
static void leaves_move(int rcu)
{
	struct ma_state mas, copy, gone;
	unsigned long i;

	fill(100, rcu);
	mas = on(20 * 50 + 10);
	memcpy(&copy, &mas, sizeof(mas));
	gone = on(20 * 51 + 10);
	for (i = 0; i < 10; i++)
		put(1000 + i, 1000 + i, V(200 + i));
	SAME(mas_store(&mas, V(500)), V(51));
	SAME(mtree_load(&tree, 1015), V(500));
	/* The copy does not know, but the tree does. */
	SAME(mas_store(&copy, V(501)), V(500));
	SAME(mtree_load(&tree, 1015), V(501));
	AT(mas_next(&copy, ULONG_MAX), V(52), &copy, 1030, 1039, ma_active);
	put(0, 1999, NULL);
	AT(mas_next(&copy, ULONG_MAX), NULL, &copy, 0, ULONG_MAX, ma_none);
	SAME(mas_store(&gone, V(1)), NULL);
	SAME(mtree_load(&tree, 1035), V(1));
	SAME(mtree_load(&tree, 1029), NULL);
	done();
}

/* A gap that continues in the next leaf moves the bound between the two, under states that are
 * in them. */
static void bounds_move(int rcu)
{
	struct ma_state mas, before, after;
	unsigned long i;

	fill(100, rcu);
	for (i = 1; i < 99; i++) {
		unsigned long first = 20 * i + 10;

		before = on(first - 20);
		after = on(first + 20);
		mas = on(first);
		AT(mas_store(&mas, NULL), V(i + 1), &mas, first - 10, first + 19, ma_active);
		AT(mas_next_range(&before, ULONG_MAX), NULL, &before, first - 10, first + 19, ma_active);
		AT(mas_prev_range(&after, 0), NULL, &after, first - 10, first + 19, ma_active);
		mas = on(first + 20);
		AT(mas_prev_range(&mas, 0), NULL, &mas, first - 10, first + 19, ma_active);
		put(first, first + 9, V(i + 1));
		put(first - 10, first - 1, V(1));
		put(first - 10, first - 1, NULL);
	}
	done();
}

/* The leaf has fewer slots than the state remembers. What follows its last slot is not a slot of
 * all indices. */
static void behind_the_last_slot(int rcu)
{
	struct ma_state mas;

	fill(5, rcu);
	mas = on(90);
	AT(mas_next_range(&mas, ULONG_MAX), NULL, &mas, 100, ULONG_MAX, ma_active);
	__mas_set_range(&mas, 0, ULONG_MAX);
	put(30, 99, NULL);
	SAME(mas_store(&mas, V(5)), V(1));
	SAME(mtree_load(&tree, 0), V(5));
	SAME(mtree_load(&tree, 15), V(5));
	SAME(mtree_load(&tree, ULONG_MAX), V(5));
	done();
}

/* The first and the last index. */
static void ends(int rcu)
{
	struct ma_state mas;

	fill(5, rcu);
	put(0, 3, V(90));
	put(ULONG_MAX - 3, ULONG_MAX, V(91));
	mas = on(10);
	AT(mas_prev(&mas, 0), V(90), &mas, 0, 3, ma_active);
	SAME(mas_store(&mas, V(92)), V(90));
	AT(mas_prev(&mas, 0), NULL, &mas, 0, 3, ma_underflow);
	AT(mas_next(&mas, ULONG_MAX), V(92), &mas, 0, 3, ma_active);
	mas = on(90);
	AT(mas_next(&mas, ULONG_MAX), V(91), &mas, ULONG_MAX - 3, ULONG_MAX, ma_active);
	SAME(mas_store(&mas, V(93)), V(91));
	AT(mas_next(&mas, ULONG_MAX), NULL, &mas, ULONG_MAX - 3, ULONG_MAX, ma_overflow);
	AT(mas_prev(&mas, 0), V(93), &mas, ULONG_MAX - 3, ULONG_MAX, ma_active);
	AT(mas_prev(&mas, 0), V(5), &mas, 90, 99, ma_active);
	/* Limits within a gap, at its end, and after it. */
	AT(mas_next(&mas, 100), NULL, &mas, 100, ULONG_MAX - 4, ma_overflow);
	mas = on(50);
	AT(mas_find(&mas, 69), NULL, &mas, 60, 69, ma_active);
	AT(mas_find(&mas, 70), V(4), &mas, 70, 79, ma_active);
	mas = on(50);
	AT(mas_find_rev(&mas, 40), NULL, &mas, 40, 49, ma_underflow);
	AT(mas_find_rev(&mas, 39), V(2), &mas, 30, 39, ma_active);
	done();
}

/* After a pause, after an error, and with preallocated nodes. */
static void paused_failed_and_prepared(int rcu)
{
	struct ma_state mas;

	fill(5, rcu);
	mas = on(50);
	mas_pause(&mas);
	SAME(mas_store(&mas, V(60)), V(3));
	AT(mas_find(&mas, ULONG_MAX), V(4), &mas, 70, 79, ma_active);
	mas.index = 80;
	CHECK(mas_store_gfp(&mas, V(1), GFP_KERNEL) == -EINVAL);
	mas = on(70);
	SAME(mas_preallocate(&mas, V(61), GFP_KERNEL), 0);
	mas_store_prealloc(&mas, V(61));
	AT(mas_next(&mas, ULONG_MAX), V(5), &mas, 90, 99, ma_active);
	/* Nodes that were preallocated in excess of the store are freed. */
	mas = on(70);
	__mas_set_range(&mas, 72, 73);
	SAME(mas_preallocate(&mas, V(62), GFP_KERNEL), 0);
	__mas_set_range(&mas, 70, 79);
	mas_store_prealloc(&mas, V(63));
	CHECK(mas.alloc == NULL);
	SAME(mtree_load(&tree, 72), V(63));
	/* mas_store keeps preallocated nodes, for mas_destroy. */
	SAME(mas_expected_entries(&mas, 100), 0);
	SAME(mas_store(&mas, V(64)), V(63));
	CHECK(mas.alloc != NULL);
	mas_destroy(&mas);
	AT(mas_erase(&mas), V(64), &mas, 70, 79, ma_active);
	AT(mas_next(&mas, ULONG_MAX), V(5), &mas, 90, 99, ma_active);
	done();
}

/* Through all leaves and back, whatever nodes end between two of them, and turning around at
 * each entry. */
static void from_leaf_to_leaf(int rcu, int gaps)
{
	const unsigned long entries = 3000;
	unsigned long i, before = 0;
	MA_STATE(up, &tree, 0, 0);
	MA_STATE(down, &tree, ULONG_MAX, ULONG_MAX);
	MA_STATE(turning, &tree, 0, 0);

	mt_init_flags(&tree, (gaps ? MT_FLAGS_ALLOC_RANGE : 0) | (rcu ? MT_FLAGS_USE_RCU : 0));
	for (i = 0; i < entries; i++)
		SAME(mtree_store_range(&tree, 20 * i + 10, 20 * i + 19, V(i + 1), GFP_KERNEL), 0);
	/* Leaves are not equally full. */
	for (i = 1; i < entries; i++)
		if (i % 3 == 1 || (i > 1000 && i < 1100))
			SAME(mtree_erase(&tree, 20 * i + 10), V(i + 1));
	for (i = 0; i < entries; i++) {
		if (!mtree_load(&tree, 20 * i + 10))
			continue;
		AT(mas_find(&up, ULONG_MAX), V(i + 1), &up, 20 * i + 10, 20 * i + 19, ma_active);
		AT(mas_next(&turning, ULONG_MAX), V(i + 1), &turning, 20 * i + 10, 20 * i + 19, ma_active);
		if (i > 0) {
			AT(mas_prev(&turning, 0), V(before + 1), &turning, 20 * before + 10, 20 * before + 19, ma_active);
			AT(mas_next(&turning, ULONG_MAX), V(i + 1), &turning, 20 * i + 10, 20 * i + 19, ma_active);
		}
		before = i;
	}
	SAME(mas_find(&up, ULONG_MAX), NULL);
	for (i = entries; i-- > 0;)
		if (mtree_load(&tree, 20 * i + 10))
			AT(mas_prev(&down, 0), V(i + 1), &down, 20 * i + 10, 20 * i + 19, ma_active);
	SAME(mas_prev(&down, 0), NULL);
	done();
}

/* Stores from each slot of several leaves, without gaps in between: over exactly the slot, to
 * the end of all indices, from one index before it. */
static void first_and_last_slots(int rcu)
{
	const unsigned long entries = 50;
	unsigned long i, way;

	for (way = 0; way < 3; way++) {
		for (i = 1; i < entries; i++) {
			struct ma_state mas;
			unsigned long k;

			mt_init_flags(&tree, MT_FLAGS_ALLOC_RANGE | (rcu ? MT_FLAGS_USE_RCU : 0));
			for (k = 0; k < entries; k++)
				SAME(mtree_store_range(&tree, 10 * k, 10 * k + 9, V(k + 1), GFP_KERNEL), 0);
			mas = on(10 * i);
			mas.index -= way == 2;
			mas.last = way == 1 ? ULONG_MAX : mas.last;
			SAME(mas_store(&mas, V(99)), V(way == 2 ? i : i + 1));
			SAME(mtree_load(&tree, 10 * i - 2), V(i));
			SAME(mtree_load(&tree, 10 * i - 1), V(way == 2 ? 99 : i));
			SAME(mtree_load(&tree, 10 * i), V(99));
			SAME(mtree_load(&tree, 10 * i + 9), V(99));
			SAME(mtree_load(&tree, ULONG_MAX), way == 1 ? V(99) : NULL);
			if (i + 1 < entries)
				SAME(mtree_load(&tree, 10 * i + 10), V(way == 1 ? 99 : i + 2));
			done();
		}
	}
}

int main(void)
{
	int rcu;

	for (rcu = 0; rcu < 2; rcu++) {
		slots_move(rcu);
		slot_changes(rcu);
		part_of_a_slot(rcu);
		stale_stores(rcu);
		holes(rcu);
		leaves_move(rcu);
		bounds_move(rcu);
		behind_the_last_slot(rcu);
		ends(rcu);
		first_and_last_slots(rcu);
		paused_failed_and_prepared(rcu);
		from_leaf_to_leaf(rcu, 0);
		from_leaf_to_leaf(rcu, 1);
	}
	printf("ok\n");
	return 0;
}
