/* The advanced interface: stores through a state, erasing, preallocated nodes, missing memory. */
#include "maple_check.h"

static struct maple_tree tree;

/* The expected ranges of the tree, from the lowest: first, last, entry. A first of 1 with a last
 * of 0 terminates them. */
struct row {
	unsigned long first, last;
	void *entry;
};

static void holds(const struct row *rows, int n)
{
	MA_STATE(mas, &tree, 0, 0);
	void *entry;
	int i = 0;

	for (entry = mas_find(&mas, ULONG_MAX); entry; entry = mas_find(&mas, ULONG_MAX), i++) {
		CHECK(i < n);
		SAME(mas.index, rows[i].first);
		SAME(mas.last, rows[i].last);
		SAME(entry, rows[i].entry);
	}
	SAME(i, n);
	SAME(mt_validate(&tree), 0);
}
#define HOLDS(...)                                              \
	do {                                                    \
		const struct row rows_[] = { __VA_ARGS__ };     \
		holds(rows_, sizeof(rows_) / sizeof(rows_[0])); \
	} while (0)

static void stores(unsigned int flags)
{
	MA_STATE(mas, &tree, 10, 19);

	mt_init_flags(&tree, flags);
	mtree_lock(&tree);
	CHECK(mas_store(&mas, V(1)) == NULL && !mas_is_err(&mas) && mas_is_active(&mas));
	SAME(mas.index, 10);
	SAME(mas.last, 19);
	/* Within the range, at its ends, beyond it: the first entry of the range is returned. */
	mas_set_range(&mas, 15, 15);
	SAME(mas_store(&mas, V(2)), V(1));
	mas_set_range(&mas, 19, 25);
	SAME(mas_store(&mas, V(3)), V(1));
	mas_set_range(&mas, 8, 10);
	SAME(mas_store(&mas, V(4)), V(1));
	HOLDS({ 8, 10, V(4) }, { 11, 14, V(1) }, { 15, 15, V(2) }, { 16, 18, V(1) }, { 19, 25, V(3) });
	/* Neighbours with the same entry stay separate. */
	mas_set_range(&mas, 26, 30);
	CHECK(mas_store(&mas, V(3)) == NULL);
	mas_set(&mas, 28);
	AT(mas_walk(&mas), V(3), &mas, 26, 30, ma_active);
	/* Exactly over one entry. */
	SAME(mas_store(&mas, V(5)), V(3));
	HOLDS({ 8, 10, V(4) }, { 11, 14, V(1) }, { 15, 15, V(2) }, { 16, 18, V(1) }, { 19, 25, V(3) }, { 26, 30, V(5) });
	/* An active state that is set to a part of its range, and continues after it. */
	mas_set(&mas, 12);
	SAME(mas_walk(&mas), V(1));
	__mas_set_range(&mas, 12, 13);
	SAME(mas_store(&mas, V(6)), V(1));
	AT(mas_next(&mas, ULONG_MAX), V(1), &mas, 14, 14, ma_active);
	AT(mas_prev(&mas, 0), V(6), &mas, 12, 13, ma_active);
	AT(mas_prev(&mas, 0), V(1), &mas, 11, 11, ma_active);
	mas_set_range(&mas, 0, ULONG_MAX);
	SAME(mas_store(&mas, V(7)), V(4));
	HOLDS({ 0, ULONG_MAX, V(7) });
	mas_set(&mas, ULONG_MAX);
	SAME(mas_store(&mas, V(8)), V(7));
	mas_set(&mas, 0);
	SAME(mas_store(&mas, V(9)), V(7));
	HOLDS({ 0, 0, V(9) }, { 1, ULONG_MAX - 1, V(7) }, { ULONG_MAX, ULONG_MAX, V(8) });
	mas_set_range(&mas, 5, 4);
	CHECK(mas_store(&mas, V(1)) == NULL && mas_is_err(&mas));
	SAME(mas.node, MA_ERROR(-EINVAL));
	SAME(mas_store_gfp(&mas, V(1), GFP_KERNEL), -EINVAL);
	SAME(mas_preallocate(&mas, V(1), GFP_KERNEL), -EINVAL);
	/* Reserved entries, like any others. */
	mas_set_range(&mas, 1, 9);
	SAME(mas_store_gfp(&mas, (void *)2ul, GFP_KERNEL), 0);
	mas_set(&mas, 3);
	AT(mas_walk(&mas), 2, &mas, 1, 9, ma_active);
	mtree_unlock(&tree);
	mtree_destroy(&tree);
	SAME(nodes_live, 0);
}

static void holes(unsigned int flags)
{
	MA_STATE(mas, &tree, 0, 0);
	unsigned long i;

	mt_init_flags(&tree, flags);
	for (i = 0; i < 100; i++)
		SAME(mtree_store_range(&tree, i * 10, i * 10 + 9, V(i), GFP_KERNEL), 0);
	mtree_lock(&tree);
	/* Gaps that touch are one gap. */
	mas_set(&mas, 55);
	SAME(mas_erase(&mas), V(5));
	SAME(mas.index, 50);
	SAME(mas.last, 59);
	mas_set(&mas, 70);
	SAME(mas_erase(&mas), V(7));
	mas_set(&mas, 69);
	SAME(mas_erase(&mas), V(6));
	mas_set(&mas, 65);
	AT(mas_walk(&mas), NULL, &mas, 50, 79, ma_active);
	CHECK(mas_erase(&mas) == NULL);
	/* From the last entry the gap continues to the end. */
	mas_set(&mas, 999);
	SAME(mas_erase(&mas), V(99));
	mas_set(&mas, 999);
	AT(mas_walk(&mas), NULL, &mas, 990, ULONG_MAX, ma_active);
	/* Part of an entry. */
	mas_set_range(&mas, 85, 86);
	SAME(mas_store(&mas, NULL), V(8));
	mas_set(&mas, 85);
	AT(mas_walk(&mas), NULL, &mas, 85, 86, ma_active);
	AT(mas_next(&mas, ULONG_MAX), V(8), &mas, 87, 89, ma_active);
	AT(mas_prev_range(&mas, 0), NULL, &mas, 85, 86, ma_active);
	AT(mas_prev(&mas, 0), V(8), &mas, 80, 84, ma_active);
	AT(mas_prev_range(&mas, 0), NULL, &mas, 50, 79, ma_active);
	/* A gap over many entries. Then the state continues after it. */
	mas_set_range(&mas, 75, 904);
	mas_store(&mas, NULL);
	AT(mas_next(&mas, ULONG_MAX), V(90), &mas, 905, 909, ma_active);
	mas_set(&mas, 300);
	AT(mas_walk(&mas), NULL, &mas, 50, 904, ma_active);
	SAME(mt_validate(&tree), 0);
	/* NULL over a gap changes nothing. */
	mas_set_range(&mas, 100, 200);
	CHECK(mas_store(&mas, NULL) == NULL && !mas_is_err(&mas));
	AT(mas_walk(&mas), NULL, &mas, 50, 904, ma_active);
	mtree_unlock(&tree);
	mtree_destroy(&tree);

	/* NULL over a tree with a single entry, on it and next to it, and over an empty tree. */
	mtree_lock(&tree);
	mas_set_range(&mas, 0, ULONG_MAX);
	CHECK(mas_store(&mas, NULL) == NULL && mtree_empty(&tree));
	mas_set(&mas, 0);
	mas_store(&mas, V(1));
	mas_set_range(&mas, 5, ULONG_MAX);
	mas_store(&mas, NULL);
	HOLDS({ 0, 0, V(1) });
	mas_set_range(&mas, 0, 5);
	SAME(mas_store(&mas, NULL), V(1));
	CHECK(mtree_empty(&tree));
	mtree_unlock(&tree);
	SAME(nodes_live, 0);
}

/* Iteration with changes in between. */
static void iterate_and_change(unsigned int flags)
{
	MA_STATE(mas, &tree, 0, 0);
	unsigned long i, seen = 0;
	void *entry;

	mt_init_flags(&tree, flags);
	for (i = 0; i < 500; i++)
		SAME(mtree_insert_range(&tree, i * 10, i * 10 + 9, V(i), GFP_KERNEL), 0);
	mtree_lock(&tree);
	for (entry = mas_find(&mas, ULONG_MAX); entry; entry = mas_find(&mas, ULONG_MAX)) {
		i = (unsigned long)entry >> 1;
		SAME(i, seen);
		SAME(mas.index, i * 10);
		if (i % 7 == 0) {
			/* The front part becomes another entry. The rest is visited next. */
			mas.last = mas.index + 4;
			mas_store(&mas, V(10000 + i));
			AT(mas_find(&mas, ULONG_MAX), entry, &mas, i * 10 + 5, i * 10 + 9, ma_active);
		} else if (i % 7 == 1) {
			SAME(mas_erase(&mas), entry);
		} else if (i % 7 == 2) {
			/* The lock is dropped, and other threads write. */
			mas_pause(&mas);
			mtree_unlock(&tree);
			SAME(mtree_store(&tree, i * 10 + 3, V(20000 + i), GFP_KERNEL), 0);
			mtree_lock(&tree);
		}
		seen++;
	}
	SAME(seen, 500);
	SAME(mt_validate(&tree), 0);
	mtree_unlock(&tree);
	for (i = 0; i < 500; i++) {
		void *front = i % 7 == 0 ? V(10000 + i) : i % 7 == 1 ? NULL : V(i);

		SAME(mtree_load(&tree, i * 10), front);
		SAME(mtree_load(&tree, i * 10 + 9), i % 7 == 1 ? NULL : V(i));
		SAME(mtree_load(&tree, i * 10 + 3), i % 7 == 2 ? V(20000 + i) : front);
	}
	/* Everything is erased, from the end. */
	mtree_lock(&tree);
	mas_set(&mas, ULONG_MAX);
	while ((entry = mas_find_rev(&mas, 0)))
		SAME(mas_erase(&mas), entry);
	CHECK(mtree_empty(&tree));
	mtree_unlock(&tree);
	SAME(nodes_live, 0);
}

/* A store with preallocated nodes does not allocate, whatever it changes in the tree. */
static void preallocated(unsigned int flags)
{
	uint64_t seed = 42 + flags;
	int round;

	mt_init_flags(&tree, flags);
	for (round = 0; round < 4000; round++) {
		unsigned long first = rnd(&seed) % 3000, last = first + rnd(&seed) % (round % 10 ? 20 : 900);
		void *entry = rnd(&seed) % 4 ? V(round) : NULL;
		MA_STATE(mas, &tree, first, last);
		long asked;

		mtree_lock(&tree);
		if (round % 5 == 0) {
			/* The nodes may be freed unused, and preallocated again. */
			SAME(mas_preallocate(&mas, entry, GFP_KERNEL), 0);
			mas_destroy(&mas);
		}
		SAME(mas_preallocate(&mas, entry, GFP_KERNEL), 0);
		fail_from(1, 1);
		asked = nodes_asked;
		mas_store_prealloc(&mas, entry);
		SAME(nodes_asked, asked);
		fail_never();
		CHECK(!mas_is_err(&mas) && mas.alloc == NULL);
		mtree_unlock(&tree);
		SAME(mtree_load(&tree, first), entry);
		SAME(mtree_load(&tree, last), entry);
		if (round % 50 == 0)
			SAME(mt_validate(&tree), 0);
	}
	SAME(mt_validate(&tree), 0);
	mtree_destroy(&tree);
	SAME(nodes_live, 0);
	/* There is no memory. */
	MA_STATE(mas, &tree, 5, 9);
	fail_from(1, 1);
	mtree_lock(&tree);
	SAME(mas_preallocate(&mas, V(1), GFP_KERNEL), -ENOMEM);
	CHECK(!mas_is_err(&mas));
	mtree_unlock(&tree);
	fail_never();
	mas_destroy(&mas);
	CHECK(mtree_empty(&tree));
}

/* A failed allocation leaves state and tree unchanged. */
static void out_of_memory(unsigned int flags)
{
	MA_STATE(mas, &tree, 0, 0);
	unsigned long i;
	int kind;

	mt_init_flags(&tree, flags);
	for (i = 0; i < 300; i++)
		SAME(mtree_store_range(&tree, i * 10, i * 10 + 5, V(i), GFP_KERNEL), 0);
	for (kind = 0; kind < 6; kind++) {
		long nth, live = nodes_live;

		for (nth = 1;; nth++) {
			static unsigned long start, next;
			int ret = 0;

			next = 0;
			mtree_lock(&tree);
			mas_set_range(&mas, 502, 503);
			fail_from(nth, 1);
			switch (kind) {
			case 0:
				ret = mas_store_gfp(&mas, V(9999), GFP_NOWAIT);
				break;
			case 1:
				mas_set_range(&mas, 102, 2904);
				ret = mas_store_gfp(&mas, NULL, GFP_KERNEL);
				break;
			case 2:
				mtree_unlock(&tree);
				ret = mtree_insert(&tree, 507, V(9999), GFP_KERNEL);
				mtree_lock(&tree);
				break;
			case 3:
				mas_set(&mas, 500);
				ret = mas_erase(&mas) ? 0 : -ENOMEM;
				CHECK(!ret == !mas_is_err(&mas));
				break;
			case 4:
				if (!(flags & MT_FLAGS_ALLOC_RANGE))
					break;
				mtree_unlock(&tree);
				ret = mtree_alloc_range(&tree, &start, V(9999), 4, 500, 900, GFP_KERNEL);
				mtree_lock(&tree);
				if (!ret)
					SAME(start, 506);
				break;
			case 5:
				if (!(flags & MT_FLAGS_ALLOC_RANGE))
					break;
				mtree_unlock(&tree);
				ret = mtree_alloc_cyclic(&tree, &start, V(9999), 500, 900, &next, GFP_KERNEL);
				mtree_lock(&tree);
				if (!ret)
					SAME(next, 507);
				else
					SAME(next, 0);
				break;
			}
			fail_never();
			mtree_unlock(&tree);
			if (!ret)
				break;
			SAME(ret, -ENOMEM);
			if (kind < 2)
				SAME(mas.node, MA_ERROR(-ENOMEM));
			mas_destroy(&mas);
			SAME(nodes_live, live);
			SAME(mt_validate(&tree), 0);
			for (i = 0; i < 3000; i++)
				SAME(mtree_load(&tree, i), i % 10 <= 5 ? V(i / 10) : NULL);
		}
		/* The content is unchanged. */
		for (i = 0; i < 300; i++)
			SAME(mtree_store_range(&tree, i * 10, i * 10 + 5, V(i), GFP_KERNEL), 0);
		for (i = 0; i < 300; i++)
			SAME(mtree_store_range(&tree, i * 10 + 6, i * 10 + 9, NULL, GFP_KERNEL), 0);
	}
	mtree_destroy(&tree);
	SAME(nodes_live, 0);
}

/* Memory that only a caller that may block can get: the store fails, mas_nomem() allocates, the
 * store is repeated. */
static void retry(unsigned int flags)
{
	MA_STATE(mas, &tree, 0, 0);
	unsigned long i, again = 0, next = 0, at;

	mt_init_flags(&tree, flags);
	atomic_store(&fail_nonblocking, 1);
	for (i = 0; i < 1000; i++) {
		mtree_lock(&tree);
		mas_set_range(&mas, i * 10, i * 10 + 4);
		do {
			mas_store(&mas, V(i));
			again++;
		} while (mas_nomem(&mas, GFP_KERNEL));
		CHECK(!mas_is_err(&mas));
		/* The range is the requested one, however often it was looked up. */
		SAME(mas.index, i * 10);
		SAME(mas.last, i * 10 + 4);
		mas_destroy(&mas);
		mtree_unlock(&tree);
	}
	CHECK(again > 1000);
	SAME(gfp_seen & __GFP_DIRECT_RECLAIM, __GFP_DIRECT_RECLAIM);
	/* Without blocking there is no memory. */
	mtree_lock(&tree);
	mas_set_range(&mas, 2, 2);
	CHECK(mas_store(&mas, V(1)) == NULL && (mas_is_err(&mas) || !(flags & MT_FLAGS_USE_RCU)));
	CHECK(!mas_nomem(&mas, GFP_NOWAIT));
	mas_destroy(&mas);
	mtree_unlock(&tree);
	SAME(mtree_store_range(&tree, 20, 2999, V(3), GFP_NOWAIT), -ENOMEM);
	SAME(mtree_store_range(&tree, 20, 2999, V(3), GFP_KERNEL), 0);
	SAME(mtree_insert(&tree, 9999, V(4), GFP_KERNEL), 0);
	SAME(mtree_load(&tree, 500), V(3));
	SAME(mtree_erase(&tree, 500), V(3));
	if (flags & MT_FLAGS_ALLOC_RANGE) {
		SAME(mtree_alloc_range(&tree, &at, V(5), 100, 0, ULONG_MAX, GFP_KERNEL), 0);
		/* After the entry at 10-14. */
		SAME(at, 15);
		SAME(mtree_alloc_rrange(&tree, &at, V(5), 100, 0, ULONG_MAX, GFP_KERNEL), 0);
		SAME(at, ULONG_MAX - 99);
		SAME(mtree_alloc_cyclic(&tree, &at, V(6), 0, ULONG_MAX, &next, GFP_KERNEL), 0);
		SAME(at, 5);
	}
	fail_never();
	SAME(mt_validate(&tree), 0);
	mtree_destroy(&tree);
	SAME(nodes_live, 0);
}

static void others_store_wide(void)
{
	SAME(mtree_store_range(&tree, 480, 530, V(7777), GFP_NOWAIT), 0);
}

static void others_take_the_gap(void)
{
	SAME(mtree_store_range(&tree, 505, 509, V(8888), GFP_NOWAIT), 0);
}

static void others_erase(void)
{
	SAME(mtree_erase(&tree, 500), V(50));
}

static void refill(unsigned int flags)
{
	fail_never();
	mtree_destroy(&tree);
	mt_init_flags(&tree, flags);
	for (unsigned long i = 0; i < 300; i++)
		SAME(mtree_store_range(&tree, i * 10, i * 10 + 4, V(i), GFP_KERNEL), 0);
	atomic_store(&fail_nonblocking, 1);
}

/* The lock is dropped to allocate, and the tree has changed when it is taken again. Nothing that
 * was read before is valid. */
static void race_for_the_lock(unsigned int flags)
{
	MA_STATE(mas, &tree, 0, 0);
	unsigned long at = 0, next = 0;

	flags |= MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU;
	mt_init_flags(&tree, flags);

	/* The range of the store, not the gap that it would have been. */
	refill(flags);
	meanwhile = others_store_wide;
	mtree_lock(&tree);
	mas_set_range(&mas, 506, 507);
	SAME(mas_store_gfp(&mas, V(1), GFP_KERNEL), 0);
	SAME(mas.index, 506);
	SAME(mas.last, 507);
	mtree_unlock(&tree);
	CHECK(!meanwhile);
	SAME(mtree_load(&tree, 505), V(7777));
	SAME(mtree_load(&tree, 506), V(1));
	SAME(mtree_load(&tree, 508), V(7777));

	refill(flags);
	meanwhile = others_store_wide;
	mtree_lock(&tree);
	mas_set_range(&mas, 506, 507);
	do {
		mas_store(&mas, NULL);
	} while (mas_nomem(&mas, GFP_KERNEL));
	SAME(mas.index, 505);
	SAME(mas.last, 509);
	mas_destroy(&mas);
	mtree_unlock(&tree);
	/* A gap over a gap needed no memory. */
	CHECK(meanwhile == others_store_wide);

	/* The gap is taken. */
	refill(flags);
	meanwhile = others_take_the_gap;
	SAME(mtree_insert_range(&tree, 506, 507, V(1), GFP_KERNEL), -EEXIST);
	SAME(mtree_load(&tree, 506), V(8888));

	/* The lowest gap is taken: the next one is used. */
	refill(flags);
	meanwhile = others_take_the_gap;
	SAME(mtree_alloc_range(&tree, &at, V(1), 4, 500, 999, GFP_KERNEL), 0);
	CHECK(!meanwhile);
	SAME(at, 515);
	refill(flags);
	meanwhile = others_take_the_gap;
	SAME(mtree_alloc_rrange(&tree, &at, V(1), 4, 450, 509, GFP_KERNEL), 0);
	SAME(at, 496);
	refill(flags);
	meanwhile = others_take_the_gap;
	next = 500;
	SAME(mtree_alloc_cyclic(&tree, &at, V(1), 100, 999, &next, GFP_KERNEL), 0);
	SAME(at, 515);
	SAME(next, 516);

	/* The entry is another one, with another range, or gone. */
	refill(flags);
	meanwhile = others_store_wide;
	SAME(mtree_erase(&tree, 500), V(7777));
	CHECK(!mtree_load(&tree, 480) && !mtree_load(&tree, 530));
	SAME(mtree_load(&tree, 531), V(53));
	refill(flags);
	meanwhile = others_erase;
	CHECK(mtree_erase(&tree, 502) == NULL);
	CHECK(!meanwhile);
	refill(flags);
	meanwhile = others_store_wide;
	mtree_lock(&tree);
	mas_set(&mas, 502);
	SAME(mas_erase(&mas), V(7777));
	SAME(mas.index, 480);
	SAME(mas.last, 530);
	mtree_unlock(&tree);
	fail_never();
	meanwhile = NULL;
	SAME(mt_validate(&tree), 0);
	mtree_destroy(&tree);
	SAME(nodes_live, 0);
}

/* Memory for many ascending stores at once. None of them allocates. */
static void bulk(unsigned int flags)
{
	static const unsigned long numbers[] = { 0, 1, 2, 15, 16, 17, 100, 1000, 20000 };

	for (unsigned int n = 0; n < sizeof(numbers) / sizeof(numbers[0]); n++) {
		for (int apart = 0; apart < 2; apart++) {
			MA_STATE(mas, &tree, 0, 0);
			unsigned long i;

			mt_init_flags(&tree, flags);
			mtree_lock(&tree);
			SAME(mas_expected_entries(&mas, numbers[n]), 0);
			/* Two slots each, in nodes of at least sixteen. With readers, a copy of a leaf for each. */
			CHECK((unsigned long)nodes_live <= numbers[n] * 2 / 16 * 8 / 7 + 8 + (flags & MT_FLAGS_USE_RCU ? numbers[n] * 5 / 4 : 0));
			fail_from(1, 1);
			for (i = 0; i < numbers[n]; i++) {
				mas_set_range(&mas, i * 10, i * 10 + (apart ? 4 : 9));
				mas_store(&mas, V(i));
				CHECK(!mas_is_err(&mas));
			}
			SAME(nodes_asked, 0);
			fail_never();
			mas_destroy(&mas);
			SAME(mt_validate(&tree), 0);
			mtree_unlock(&tree);
			for (i = 0; i < numbers[n]; i++)
				SAME(mtree_load(&tree, i * 10 + 4), V(i));
			if (numbers[n] == 20000 && !apart)
				/* Sixteen slots per leaf, nearly all of them in use. */
				CHECK(nodes_live < 20000 / 12);
			mtree_destroy(&tree);
			SAME(nodes_live, 0);
		}
	}
	MA_STATE(mas, &tree, 0, 0);
	fail_from(100, 1);
	SAME(mas_expected_entries(&mas, 100000), -ENOMEM);
	fail_never();
	mas_destroy(&mas);
	SAME(nodes_live, 0);
}

/* The library does not touch the lock of a tree with an external lock. */
static void external_lock(void)
{
	unsigned char zeros[MT_LOCK_BYTES] = { 0 };
	unsigned long at, next = 0;
	MA_STATE(mas, &tree, 0, 0);

	mt_init_flags(&tree, MT_FLAGS_LOCK_EXTERN | MT_FLAGS_ALLOC_RANGE);
	/* Any use of it would wait for ever. */
	memset(&tree.ma_lock, 0xff, sizeof(tree.ma_lock));
	CHECK(mt_external_lock(&tree));
	mtree_lock(&tree);
	mtree_unlock(&tree);
	atomic_store(&fail_nonblocking, 1);
	SAME(mtree_store_range(&tree, 5, 9, V(1), GFP_KERNEL), 0);
	SAME(mtree_alloc_range(&tree, &at, V(2), 5, 0, 99, GFP_KERNEL), 0);
	SAME(mtree_alloc_cyclic(&tree, &at, V(2), 0, 99, &next, GFP_KERNEL), 0);
	SAME(mtree_erase(&tree, 7), V(1));
	mas_set_range(&mas, 1000, 2000);
	SAME(mas_store_gfp(&mas, V(3), GFP_KERNEL), 0);
	mas_set(&mas, 1500);
	SAME(mas_erase(&mas), V(3));
	mt_set_in_rcu(&tree);
	mt_clear_in_rcu(&tree);
	fail_never();
	mtree_destroy(&tree);
	SAME(memcmp(&tree.ma_lock, zeros, 1) != 0, 1);
	SAME(tree.ma_flags, MT_FLAGS_LOCK_EXTERN | MT_FLAGS_ALLOC_RANGE);
	SAME(nodes_live, 0);
	/* The lock variants of Linux are the same lock, all zero while it is free. */
	mt_init_flags(&tree, MT_FLAGS_LOCK_IRQ);
	CHECK(!mt_external_lock(&tree));
	mtree_lock(&tree);
	CHECK(memcmp(&tree.ma_lock, zeros, sizeof(zeros)) != 0);
	mtree_unlock(&tree);
	SAME(memcmp(&tree.ma_lock, zeros, sizeof(zeros)), 0);
}

/* Modes are switched while the tree is in use. */
static void rcu_on_and_off(void)
{
	unsigned long i;

	mt_init(&tree);
	for (i = 0; i < 1000; i++) {
		if (i % 100 == 50)
			mt_set_in_rcu(&tree);
		if (i % 100 == 0)
			mt_clear_in_rcu(&tree);
		SAME(mt_in_rcu(&tree), i % 100 >= 50);
		SAME(mtree_store_range(&tree, i * 7 % 1000, i * 7 % 1000 + 3, V(i), GFP_KERNEL), 0);
	}
	SAME(mt_validate(&tree), 0);
	mtree_destroy(&tree);
	SAME(nodes_live, 0);
}

int main(void)
{
	unsigned int flags;

	count_nodes_exactly();
	for (flags = 0; flags < 4; flags++) {
		stores(flags);
		holes(flags);
		iterate_and_change(flags);
		preallocated(flags);
		out_of_memory(flags);
		retry(flags);
		bulk(flags);
	}
	race_for_the_lock(0);
	external_lock();
	rcu_on_and_off();
	passed();
	return 0;
}
