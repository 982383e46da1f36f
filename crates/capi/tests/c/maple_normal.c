/* The normal interface: the results and refusals of each function. */
#include "maple_check.h"

static struct maple_tree tree;

static void load_store(void)
{
	mt_init(&tree);
	CHECK(mtree_empty(&tree) && mt_height(&tree) == 0);
	CHECK(mtree_load(&tree, 0) == NULL && mtree_load(&tree, ULONG_MAX) == NULL);
	SAME(mtree_store(&tree, 0, V(7), GFP_KERNEL), 0);
	/* Index 0 alone needs no node. */
	SAME(nodes_live, 0);
	SAME(mt_height(&tree), 0);
	SAME(mtree_load(&tree, 0), V(7));
	CHECK(mtree_load(&tree, 1) == NULL && !mtree_empty(&tree));
	SAME(mtree_store(&tree, 0, NULL, GFP_KERNEL), 0);
	CHECK(mtree_empty(&tree));
	/* A pointer whose low bits are those of a node cannot be in the root by itself. */
	SAME(mtree_store(&tree, 0, (void *)0x123456ul, GFP_KERNEL), 0);
	SAME(mtree_load(&tree, 0), 0x123456ul);
	CHECK(mtree_load(&tree, 1) == NULL);
	SAME(mt_height(&tree), 1);
	SAME(mtree_store(&tree, ULONG_MAX, V(9), GFP_KERNEL), 0);
	SAME(mtree_load(&tree, ULONG_MAX), V(9));
	CHECK(mtree_load(&tree, ULONG_MAX - 1) == NULL);
	/* Over everything, and nothing. */
	SAME(mtree_store_range(&tree, 0, ULONG_MAX, V(1), GFP_KERNEL), 0);
	SAME(mtree_load(&tree, 0), V(1));
	SAME(mtree_load(&tree, ULONG_MAX), V(1));
	SAME(mtree_store_range(&tree, 0, ULONG_MAX, NULL, GFP_KERNEL), 0);
	CHECK(mtree_empty(&tree));
	SAME(nodes_live, 0);
	/* The middle of a range is erased. */
	SAME(mtree_store_range(&tree, 10, 20, V(1), GFP_KERNEL), 0);
	SAME(mtree_store_range(&tree, 14, 16, V(2), GFP_KERNEL), 0);
	SAME(mtree_load(&tree, 13), V(1));
	SAME(mtree_load(&tree, 14), V(2));
	SAME(mtree_load(&tree, 17), V(1));
	SAME(mtree_store(&tree, 15, NULL, GFP_KERNEL), 0);
	CHECK(mtree_load(&tree, 15) == NULL);
	SAME(mtree_load(&tree, 16), V(2));
	SAME(mtree_store_range(&tree, 20, 10, V(1), GFP_KERNEL), -EINVAL);
	SAME(mt_validate(&tree), 0);
	mtree_destroy(&tree);
	SAME(nodes_live, 0);
}

static void reserved(void)
{
	unsigned long at = 99, next = 0, i;

	mt_init_flags(&tree, MT_FLAGS_ALLOC_RANGE);
	for (i = 2; i < 4096; i += 4) {
		if ((void *)i == XA_ZERO_ENTRY)
			continue;
		SAME(mtree_store(&tree, 5, (void *)i, GFP_KERNEL), -EINVAL);
		SAME(mtree_store_range(&tree, 5, 6, (void *)i, GFP_KERNEL), -EINVAL);
		SAME(mtree_insert(&tree, 5, (void *)i, GFP_KERNEL), -EINVAL);
		SAME(mtree_insert_range(&tree, 5, 6, (void *)i, GFP_KERNEL), -EINVAL);
		SAME(mtree_alloc_range(&tree, &at, (void *)i, 1, 0, 9, GFP_KERNEL), -EINVAL);
		SAME(mtree_alloc_rrange(&tree, &at, (void *)i, 1, 0, 9, GFP_KERNEL), -EINVAL);
		SAME(mtree_alloc_cyclic(&tree, &at, (void *)i, 0, 9, &next, GFP_KERNEL), -EINVAL);
	}
	CHECK(mtree_empty(&tree));
	SAME(at, 99);
	SAME(next, 0);
	/* But the advanced interface accepts them. */
	MA_STATE(mas, &tree, 5, 5);
	mtree_lock(&tree);
	SAME(mas_store_gfp(&mas, (void *)10ul, GFP_KERNEL), 0);
	mas_set(&mas, 5);
	SAME(mas_walk(&mas), 10);
	mtree_unlock(&tree);
	SAME(mtree_load(&tree, 5), 10);
	mtree_destroy(&tree);
}

/* The zero entry occupies its range and reads as NULL. */
static void zero_entry(void)
{
	unsigned long index = 0, at = 0;
	MA_STATE(mas, &tree, 10, 19);

	mt_init_flags(&tree, MT_FLAGS_ALLOC_RANGE);
	mtree_lock(&tree);
	SAME(mas_store_gfp(&mas, XA_ZERO_ENTRY, GFP_KERNEL), 0);
	mtree_unlock(&tree);
	CHECK(mtree_load(&tree, 15) == NULL && !mtree_empty(&tree));
	CHECK(mt_find(&tree, &index, ULONG_MAX) == NULL);
	SAME(mtree_insert(&tree, 15, V(1), GFP_KERNEL), -EEXIST);
	SAME(mtree_store_range(&tree, 30, 39, V(3), GFP_KERNEL), 0);
	SAME(mt_find(&tree, &index, ULONG_MAX), V(3));
	SAME(index, 40);
	index = 12;
	SAME(mt_find(&tree, &index, ULONG_MAX), V(3));
	index = 0;
	CHECK(mt_find(&tree, &index, 29) == NULL);
	mas_set(&mas, 0);
	AT(mas_find(&mas, ULONG_MAX), XA_ZERO_ENTRY, &mas, 10, 19, ma_active);
	SAME(mt_next(&tree, 0, ULONG_MAX), XA_ZERO_ENTRY);
	SAME(mtree_alloc_range(&tree, &at, V(4), 5, 8, 29, GFP_KERNEL), 0);
	SAME(at, 20);
	SAME(mtree_store(&tree, 0, XA_ZERO_ENTRY, GFP_KERNEL), 0);
	CHECK(mtree_load(&tree, 0) == NULL);
	SAME(mtree_insert(&tree, 0, V(1), GFP_KERNEL), -EEXIST);
	SAME(mtree_erase(&tree, 15), XA_ZERO_ENTRY);
	SAME(mtree_insert(&tree, 15, V(1), GFP_KERNEL), 0);
	SAME(mt_validate(&tree), 0);
	mtree_destroy(&tree);

	/* Also as the only entry. */
	SAME(mtree_store(&tree, 0, XA_ZERO_ENTRY, GFP_KERNEL), 0);
	CHECK(mtree_load(&tree, 0) == NULL && !mtree_empty(&tree));
	index = 0;
	CHECK(mt_find(&tree, &index, ULONG_MAX) == NULL);
	mas_set(&mas, 0);
	AT(mas_walk(&mas), XA_ZERO_ENTRY, &mas, 0, 0, ma_root);
	mtree_destroy(&tree);
}

static void insert_erase(void)
{
	unsigned long i;

	mt_init(&tree);
	SAME(mtree_insert_range(&tree, 10, 20, V(1), GFP_KERNEL), 0);
	SAME(mtree_insert(&tree, 10, V(2), GFP_KERNEL), -EEXIST);
	SAME(mtree_insert(&tree, 20, V(2), GFP_KERNEL), -EEXIST);
	SAME(mtree_insert_range(&tree, 0, 10, V(2), GFP_KERNEL), -EEXIST);
	SAME(mtree_insert_range(&tree, 20, ULONG_MAX, V(2), GFP_KERNEL), -EEXIST);
	SAME(mtree_insert_range(&tree, 5, 25, V(2), GFP_KERNEL), -EEXIST);
	SAME(mtree_insert_range(&tree, 9, 5, V(2), GFP_KERNEL), -EINVAL);
	SAME(mtree_insert_range(&tree, 21, ULONG_MAX, V(3), GFP_KERNEL), 0);
	SAME(mtree_insert_range(&tree, 0, 9, V(4), GFP_KERNEL), 0);
	CHECK(mtree_erase(&tree, 15) == V(1));
	for (i = 10; i <= 20; i++)
		CHECK(mtree_load(&tree, i) == NULL);
	CHECK(mtree_erase(&tree, 15) == NULL);
	SAME(mtree_load(&tree, 9), V(4));
	SAME(mtree_load(&tree, 21), V(3));
	SAME(mtree_erase(&tree, ULONG_MAX), V(3));
	SAME(mtree_erase(&tree, 0), V(4));
	CHECK(mtree_empty(&tree));
	SAME(nodes_live, 0);

	/* Filled and emptied, in several orders. */
	for (int order = 0; order < 3; order++) {
		for (i = 0; i < 2000; i++) {
			unsigned long at = order == 0 ? i : order == 1 ? 1999 - i : i * 733 % 2000;

			SAME(mtree_insert(&tree, at * 3, V(at), GFP_KERNEL), 0);
			SAME(mtree_insert(&tree, at * 3, V(at), GFP_KERNEL), -EEXIST);
		}
		SAME(mt_validate(&tree), 0);
		for (i = 0; i < 2000; i++) {
			unsigned long at = order == 0 ? i : order == 1 ? 1999 - i : i * 911 % 2000;

			SAME(mtree_load(&tree, at * 3), V(at));
			SAME(mtree_erase(&tree, at * 3), V(at));
			CHECK(mtree_load(&tree, at * 3) == NULL);
			if (i % 97 == 0)
				SAME(mt_validate(&tree), 0);
		}
		CHECK(mtree_empty(&tree));
		SAME(nodes_live, 0);
	}
}

static void find_next_prev(void)
{
	unsigned long index = 0, nr = 0;
	void *entry;

	mt_init(&tree);
	index = 5;
	CHECK(mt_find(&tree, &index, ULONG_MAX) == NULL && mt_find_after(&tree, &index, ULONG_MAX) == NULL);
	SAME(index, 5);
	SAME(mtree_store(&tree, 0, V(1), GFP_KERNEL), 0);
	index = 0;
	SAME(mt_find(&tree, &index, ULONG_MAX), V(1));
	SAME(index, 1);
	CHECK(mt_find(&tree, &index, ULONG_MAX) == NULL);
	index = 0;
	CHECK(mt_find_after(&tree, &index, ULONG_MAX) == NULL);
	SAME(mt_prev(&tree, 7, 0), V(1));
	CHECK(mt_prev(&tree, 0, 0) == NULL && mt_next(&tree, 0, ULONG_MAX) == NULL);

	SAME(mtree_store_range(&tree, 100, 199, V(2), GFP_KERNEL), 0);
	SAME(mtree_store_range(&tree, ULONG_MAX - 9, ULONG_MAX, V(3), GFP_KERNEL), 0);
	for (index = 0, entry = mt_find(&tree, &index, ULONG_MAX); entry;
	     entry = mt_find_after(&tree, &index, ULONG_MAX)) {
		nr++;
		SAME(entry, V(nr));
	}
	SAME(nr, 3);
	/* After the largest index comes 0, where a later search ends. */
	SAME(index, 0);
	index = 150;
	SAME(mt_find(&tree, &index, 150), V(2));
	SAME(index, 200);
	CHECK(mt_find(&tree, &index, 199) == NULL);
	SAME(index, 200);
	CHECK(mt_find(&tree, &index, 5000) == NULL);
	SAME(index, 200);

	SAME(mt_next(&tree, 0, ULONG_MAX), V(2));
	SAME(mt_next(&tree, 50, ULONG_MAX), V(2));
	SAME(mt_next(&tree, 0, 100), V(2));
	CHECK(mt_next(&tree, 0, 99) == NULL);
	SAME(mt_next(&tree, 100, ULONG_MAX), V(3));
	SAME(mt_next(&tree, 150, ULONG_MAX), V(3));
	CHECK(mt_next(&tree, ULONG_MAX, ULONG_MAX) == NULL);
	CHECK(mt_next(&tree, ULONG_MAX - 5, ULONG_MAX) == NULL);
	SAME(mt_prev(&tree, ULONG_MAX, 0), V(2));
	SAME(mt_prev(&tree, 5000, 0), V(2));
	SAME(mt_prev(&tree, 5000, 199), V(2));
	CHECK(mt_prev(&tree, 5000, 200) == NULL);
	SAME(mt_prev(&tree, 150, 0), V(1));
	CHECK(mt_prev(&tree, 150, 1) == NULL);
	mtree_destroy(&tree);
}

static void destroy_keeps_modes(void)
{
	mt_init_flags(&tree, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU | MT_FLAGS_LOCK_EXTERN);
	for (unsigned long i = 0; i < 300; i++)
		SAME(mtree_store_range(&tree, i * 10, i * 10 + 7, V(i), GFP_KERNEL), 0);
	CHECK(mt_height(&tree) >= 2 && mt_in_rcu(&tree) && mt_external_lock(&tree));
	mtree_destroy(&tree);
	CHECK(mtree_empty(&tree) && tree.ma_root == NULL);
	SAME(tree.ma_flags, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU | MT_FLAGS_LOCK_EXTERN);
	SAME(mtree_store(&tree, 5, V(1), GFP_KERNEL), 0);
	SAME(mtree_load(&tree, 5), V(1));
	__mt_destroy(&tree);
	SAME(tree.ma_flags, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU | MT_FLAGS_LOCK_EXTERN);
	SAME(nodes_live, 0);

	mt_init(&tree);
	CHECK(!mt_in_rcu(&tree) && !mt_external_lock(&tree));
	mt_set_in_rcu(&tree);
	CHECK(mt_in_rcu(&tree) && tree.ma_flags == MT_FLAGS_USE_RCU);
	mt_clear_in_rcu(&tree);
	CHECK(!mt_in_rcu(&tree) && tree.ma_flags == 0);
}

static void dup(void)
{
	struct maple_tree copy;
	unsigned long i, n;

	for (unsigned int flags = 0; flags < 4; flags++) {
		for (n = 0; n < 400; n += n < 40 ? 1 : 71) {
			mt_init_flags(&tree, flags);
			mt_init_flags(&copy, flags);
			for (i = 0; i < n; i++)
				SAME(mtree_store_range(&tree, i * 10, i * 10 + i % 10, V(i), GFP_KERNEL), 0);
			SAME(mtree_dup(&tree, &copy, GFP_KERNEL), 0);
			SAME(mt_validate(&copy), 0);
			SAME(copy.ma_flags, tree.ma_flags);
			for (i = 0; i < n * 10 + 10; i++)
				SAME(mtree_load(&tree, i), mtree_load(&copy, i));
			if (n) {
				/* Not empty any more. */
				SAME(mtree_dup(&tree, &copy, GFP_KERNEL), -EINVAL);
				/* The copy is independent. */
				mtree_erase(&copy, 0);
				SAME(mtree_load(&tree, 0), V(0));
			}
			mtree_destroy(&tree);
			SAME(mt_validate(&copy), 0);
			mtree_destroy(&copy);
			SAME(nodes_live, 0);
		}
	}
	mt_init_flags(&tree, MT_FLAGS_ALLOC_RANGE);
	mt_init_flags(&copy, 0);
	SAME(mtree_store(&tree, 5, V(5), GFP_KERNEL), 0);
	SAME(mtree_dup(&tree, &copy, GFP_KERNEL), -EINVAL);
	SAME(__mt_dup(&tree, &copy, GFP_KERNEL), -EINVAL);
	SAME(mtree_dup(&tree, &tree, GFP_KERNEL), -EINVAL);
	CHECK(mtree_empty(&copy));
	mtree_destroy(&tree);

	/* Each allocation fails in turn. */
	mt_init(&tree);
	mt_init(&copy);
	for (i = 0; i < 500; i++)
		SAME(mtree_store_range(&tree, i * 10, i * 10 + 5, V(i), GFP_KERNEL), 0);
	long before = nodes_live;
	for (n = 1;; n++) {
		int ret;

		fail_from(n, 0);
		mtree_lock(&tree);
		mtree_lock(&copy);
		ret = __mt_dup(&tree, &copy, GFP_NOWAIT);
		mtree_unlock(&copy);
		mtree_unlock(&tree);
		fail_never();
		if (!ret)
			break;
		SAME(ret, -ENOMEM);
		CHECK(mtree_empty(&copy) && copy.ma_flags == 0);
		SAME(nodes_live, before);
	}
	SAME(nodes_live, 2 * before);
	SAME(n, before + 1);
	mtree_destroy(&tree);
	mtree_destroy(&copy);
}

int main(void)
{
	maple_tree_init();
	count_nodes();
	load_store();
	reserved();
	zero_entry();
	insert_erase();
	find_next_prev();
	destroy_keeps_modes();
	dup();
	passed();
	return 0;
}
