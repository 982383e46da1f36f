/* Corner cases: initialisers, loops that change what they walk over, entries of every bit
 * pattern at both ends, states that are copied, kept too long or used after an error,
 * preallocated nodes that are not used. */
#include "maple_check.h"
#include <samara/maple_tree_linux.h>

static pthread_mutex_t mine = PTHREAD_MUTEX_INITIALIZER;
DEFINE_MTREE(plain);
static struct maple_tree gaps = MTREE_INIT(gaps, MT_FLAGS_ALLOC_RANGE);
static struct maple_tree theirs = MTREE_INIT_EXT(theirs, MT_FLAGS_ALLOC_RANGE, mine);
static struct maple_tree zeroed;

static void initialisers(void)
{
	struct maple_tree *all[] = { &plain, &gaps, &theirs, &zeroed };
	const unsigned int flags[] = { 0, MT_FLAGS_ALLOC_RANGE, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_LOCK_EXTERN, 0 };

	for (int i = 0; i < 4; i++) {
		struct maple_tree *mt = all[i];
		MA_STATE(mas, mt, 3, 8);

		SAME(mt->ma_flags, flags[i]);
		CHECK(mtree_empty(mt) && mt->ma_root == NULL && mt_height(mt) == 0 && mtree_load(mt, 0) == NULL);
		CHECK(mas.status == ma_start && mas.node == NULL && mas.alloc == NULL && mas.max == ULONG_MAX && mas.min == 0);
		CHECK(!mas_is_active(&mas) && !mas_is_err(&mas));
		mas_lock(&mas);
		SAME(mas_store_gfp(&mas, xa_mk_value(i), GFP_KERNEL), 0);
		mas_unlock(&mas);
		SAME(mtree_load(mt, 3), xa_mk_value(i));
		SAME(mt_external_lock(mt), i == 2);
		mtree_destroy(mt);
		SAME(mt->ma_flags, flags[i]);
	}
	mt_init(&zeroed);
	mt_set_external_lock(&zeroed, mine);
	CHECK(mt_external_lock(&zeroed));
	mt_init(&zeroed);
	/* The height is in the flags, as in Linux. */
	for (unsigned long i = 0; i < 2000; i++) {
		SAME(mtree_store(&gaps, i, xa_mk_value(i), GFP_KERNEL), 0);
		SAME((gaps.ma_flags & MT_FLAGS_HEIGHT_MASK) >> MT_FLAGS_HEIGHT_OFFSET, mt_height(&gaps));
		SAME(gaps.ma_flags & ~MT_FLAGS_HEIGHT_MASK, MT_FLAGS_ALLOC_RANGE);
	}
	mtree_destroy(&gaps);
	SAME(nodes_live, 0);
}

static void loops(void)
{
	unsigned long index, nr = 0, seen;
	void *entry;
	MA_STATE(mas, &plain, 0, 0);

	for (nr = 0; nr < 300; nr++)
		SAME(mtree_store_range(&plain, nr * 10, nr * 10 + 4, nr % 3 ? xa_mk_value(nr) : XA_ZERO_ENTRY, GFP_KERNEL), 0);
	/* The zero entries are skipped here and not there. The ends of the walk overlap entries. */
	seen = index = 0;
	mt_for_each(&plain, entry, index, ULONG_MAX) {
		CHECK(xa_is_value(entry) && xa_to_value(entry) % 3);
		SAME(index, xa_to_value(entry) * 10 + 5);
		seen++;
	}
	SAME(seen, 200);
	seen = 0;
	index = 12;
	mt_for_each(&plain, entry, index, 41)
		seen++;
	SAME(seen, 3);
	seen = 0;
	mas_for_each(&mas, entry, ULONG_MAX) {
		SAME(mas.index, seen * 10);
		SAME(xa_is_zero(entry), seen % 3 == 0);
		seen++;
	}
	SAME(seen, 300);
	mas_set(&mas, ULONG_MAX);
	mas_for_each_rev(&mas, entry, 0) {
		seen--;
		SAME(mas.index, seen * 10);
		SAME(mas.last, seen * 10 + 4);
	}
	SAME(seen, 0);
	/* Erased during the walk, split during the walk, and the lock dropped during the walk. */
	mas_set(&mas, 0);
	mas_lock(&mas);
	mas_for_each(&mas, entry, ULONG_MAX) {
		nr = mas.index / 10;
		seen++;
		switch (nr % 4) {
		case 0:
			SAME(mas_erase(&mas), entry);
			SAME(mas.index, nr * 10);
			SAME(mas.last, nr * 10 + 4);
			break;
		case 1:
			mas_pause(&mas);
			mas_unlock(&mas);
			mtree_erase(&plain, nr * 10 + 12);
			mas_lock(&mas);
			break;
		case 3:
			mas_set_range(&mas, mas.index + 1, mas.index + 2);
			mas_store(&mas, xa_mk_value(7000));
			AT(mas_next(&mas, ULONG_MAX), entry, &mas, nr * 10 + 3, nr * 10 + 4, ma_active);
			break;
		}
	}
	mas_unlock(&mas);
	/* The third of every four was gone when the walk arrived there. */
	SAME(seen, 225);
	SAME(mt_validate(&plain), 0);
	mtree_destroy(&plain);
	SAME(nodes_live, 0);
}

/* Every pattern of low bits, alone at index 0, at the largest index, and over everything:
 * stored, copied, read and erased. */
static void bit_patterns(unsigned int flags)
{
	static const unsigned long entries[] = { 1, 2, 3, 4, 0x406, 0x402, 4094, 4096, 4098, 0x1000, 0x1002, 0x100e, 0xff06,
						 ULONG_MAX, ULONG_MAX - 1, ULONG_MAX - 2, ULONG_MAX - 3, ~0xfful, ~0xfful | 6, ~0xfful | 0xe };
	static const unsigned long ranges[][2] = { { 0, 0 }, { 0, ULONG_MAX }, { ULONG_MAX, ULONG_MAX }, { 1, ULONG_MAX },
						   { 0, ULONG_MAX - 1 }, { 0, 1 }, { 1, 1 } };

	for (unsigned int e = 0; e < sizeof(entries) / sizeof(entries[0]); e++) {
		for (unsigned int r = 0; r < sizeof(ranges) / sizeof(ranges[0]); r++) {
			unsigned long first = ranges[r][0], last = ranges[r][1];
			void *entry = (void *)entries[e];
			struct maple_tree tree, copy;
			MA_STATE(mas, &tree, first, last);

			mt_init_flags(&tree, flags);
			mt_init_flags(&copy, flags);
			mas_lock(&mas);
			CHECK(mas_store(&mas, entry) == NULL && !mas_is_err(&mas));
			SAME(mas.index, first);
			SAME(mas.last, last);
			SAME(mt_validate(&tree), 0);
			mas_unlock(&mas);
			SAME(mtree_dup(&tree, &copy, GFP_KERNEL), 0);
			SAME(mt_validate(&copy), 0);
			for (int second = 0; second < 2; second++) {
				MA_STATE(at, second ? &copy : &tree, 0, 0);

				CHECK(!mtree_empty(at.tree));
				SAME(mtree_load(at.tree, last), entry == XA_ZERO_ENTRY ? NULL : entry);
				mas_lock(&at);
				SAME(mas_find(&at, ULONG_MAX), entry);
				SAME(at.index, first);
				SAME(at.last, last);
				CHECK(mas_find(&at, ULONG_MAX) == NULL);
				mas_set(&at, ULONG_MAX);
				SAME(mas_find_rev(&at, 0), entry);
				/* Exchanged for another, and back. */
				mas_set_range(&at, first, last);
				SAME(mas_store(&at, (void *)0x2006ul), entry);
				SAME(mas_store(&at, entry), 0x2006ul);
				mas_set(&at, last);
				SAME(mas_erase(&at), entry);
				SAME(at.index, first);
				SAME(at.last, last);
				mas_unlock(&at);
				CHECK(mtree_empty(at.tree) && mt_height(at.tree) == 0);
			}
			SAME(nodes_live, 0);
		}
	}
}

/* A state whose copies go different ways, one that outlives the content of the tree, and one in
 * an error. */
static void states(unsigned int flags)
{
	struct maple_tree tree;
	MA_STATE(mas, &tree, 0, 0);
	struct ma_state up, down;
	unsigned long i;

	mt_init_flags(&tree, flags);
	for (i = 0; i < 200; i++)
		SAME(mtree_store_range(&tree, i * 10, i * 10 + 9, xa_mk_value(i), GFP_KERNEL), 0);
	mas_lock(&mas);
	mas_set(&mas, 1005);
	SAME(mas_walk(&mas), xa_mk_value(100));
	up = mas;
	down = mas;
	for (i = 1; i <= 50; i++) {
		AT(mas_next(&up, ULONG_MAX), xa_mk_value(100 + i), &up, 1000 + i * 10, 1009 + i * 10, ma_active);
		AT(mas_prev(&down, 0), xa_mk_value(100 - i), &down, 1000 - i * 10, 1009 - i * 10, ma_active);
		/* The third state writes in between, far from both. */
		mas_set_range(&mas, 1000, 1000 + i % 9);
		mas_store(&mas, xa_mk_value(5000 + i));
		CHECK(!mas_is_err(&mas));
	}
	/* Everything is gone. The states are not reset, as the documentation demands, but they find
	 * nothing rather than the old entries. */
	mas_unlock(&mas);
	mtree_destroy(&tree);
	mas_lock(&mas);
	CHECK(mas_walk(&up) == NULL && up.status == ma_none);
	CHECK(mas_next(&down, ULONG_MAX) == NULL && mas_prev(&mas, 0) == NULL);
	/* And they store. */
	mas_set_range(&up, 5, 6);
	mas_store(&up, xa_mk_value(1));
	mas_set_range(&down, 7, 8);
	mas_store(&down, xa_mk_value(2));
	AT(mas_prev(&down, 0), xa_mk_value(1), &down, 5, 6, ma_active);
	/* An error ends when the state is set, reset, or used to store with flags. */
	mas_set_range(&mas, 9, 3);
	CHECK(mas_store(&mas, xa_mk_value(1)) == NULL && mas_is_err(&mas) && mas.node == MA_ERROR(-EINVAL));
	CHECK(!mas_nomem(&mas, GFP_KERNEL) && mas_is_err(&mas));
	mas.index = 3;
	mas.last = 9;
	SAME(mas_store_gfp(&mas, xa_mk_value(3), GFP_KERNEL), 0);
	CHECK(!mas_is_err(&mas));
	SAME(mas_walk(&mas), xa_mk_value(3));
	mas_unlock(&mas);
	SAME(mt_validate(&tree), 0);
	mtree_destroy(&tree);
	SAME(nodes_live, 0);
}

/* Nodes that are preallocated twice, for something else than is stored, or for nothing. */
static void set_aside(unsigned int flags)
{
	struct maple_tree tree;
	MA_STATE(mas, &tree, 0, 0);
	unsigned long i;

	mt_init_flags(&tree, flags);
	mas_destroy(&mas);
	mas_destroy(&mas);
	SAME(mas_expected_entries(&mas, 0), 0);
	mas_destroy(&mas);
	for (i = 0; i < 300; i++) {
		mas_lock(&mas);
		mas_set_range(&mas, i * 10, i * 10 + 5);
		SAME(mas_preallocate(&mas, xa_mk_value(i), GFP_KERNEL), 0);
		SAME(mas_preallocate(&mas, xa_mk_value(i), GFP_KERNEL), 0);
		if (i % 3 == 0)
			/* Something else is stored, which may need more nodes. */
			mas_set_range(&mas, i * 10, i * 10 + 9);
		if (i % 3 == 1)
			mas_store(&mas, xa_mk_value(i));
		else
			mas_store_prealloc(&mas, xa_mk_value(i));
		CHECK(!mas_is_err(&mas));
		mas_destroy(&mas);
		CHECK(mas.alloc == NULL);
		mas_unlock(&mas);
	}
	/* Bulk mode, left in the middle. Then the entries come in no order. */
	mas_lock(&mas);
	SAME(mas_expected_entries(&mas, 100), 0);
	for (i = 0; i < 30; i++) {
		mas_set_range(&mas, 4000 + i * 10, 4000 + i * 10 + 5);
		mas_store(&mas, xa_mk_value(i));
	}
	mas_set(&mas, 17);
	mas_store(&mas, xa_mk_value(1));
	mas_destroy(&mas);
	mas_unlock(&mas);
	SAME(mtree_load(&tree, 4295), xa_mk_value(29));
	SAME(mt_validate(&tree), 0);
	mtree_destroy(&tree);
	SAME(nodes_live, 0);
}

/* Every gap is found and filled until there is none, upwards and downwards. The state that found
 * the gap stores. */
static void fill_gaps(unsigned int flags)
{
	struct maple_tree tree;
	MA_STATE(mas, &tree, 0, 0);
	unsigned long i, found = 0;

	mt_init_flags(&tree, flags | MT_FLAGS_ALLOC_RANGE);
	for (i = 0; i < 100; i++)
		SAME(mtree_store_range(&tree, i * 100, i * 100 + 49, xa_mk_value(i), GFP_KERNEL), 0);
	mas_lock(&mas);
	for (i = 0;; i++) {
		int ret;

		mas_set(&mas, 0);
		ret = i % 2 ? mas_empty_area(&mas, 0, 9999, 10) : mas_empty_area_rev(&mas, 0, 9999, 10);
		if (ret) {
			SAME(ret, -EBUSY);
			break;
		}
		SAME(mas.last - mas.index, 9);
		CHECK(mas.index % 100 >= 50);
		CHECK(mas_store(&mas, xa_mk_value(9999)) == NULL && !mas_is_err(&mas));
		found++;
	}
	SAME(found, 500);
	mas_unlock(&mas);
	SAME(mt_validate(&tree), 0);
	/* Both ends of the indices. */
	mtree_destroy(&tree);
	SAME(mtree_alloc_rrange(&tree, &i, xa_mk_value(1), 1, 0, ULONG_MAX, GFP_KERNEL), 0);
	SAME(i, ULONG_MAX);
	SAME(mtree_alloc_rrange(&tree, &i, xa_mk_value(1), ULONG_MAX, 0, ULONG_MAX, GFP_KERNEL), 0);
	SAME(i, 0);
	SAME(mtree_alloc_range(&tree, &i, xa_mk_value(1), 1, 0, ULONG_MAX, GFP_KERNEL), -EBUSY);
	mtree_destroy(&tree);
	SAME(nodes_live, 0);
}

int main(void)
{
	count_nodes_exactly();
	initialisers();
	loops();
	for (unsigned int flags = 0; flags < 4; flags++) {
		bit_patterns(flags);
		states(flags);
		set_aside(flags);
		fill_gaps(flags);
	}
	passed();
	return 0;
}
