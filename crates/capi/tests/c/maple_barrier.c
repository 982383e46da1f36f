/*
 * One barrier is enough: when a tree has been destroyed and all callbacks requested until then have
 * run, no node is left. This holds however many grace periods were pending, and whatever memory was
 * refused.
 */
#include "maple_check.h"

/* ---- a slow RCU: no grace period ends before a barrier waits for it ---- */
struct waiting {
	struct waiting *next;
	void (*fn)(struct maple_rcu_head *);
};
_Static_assert(sizeof(struct waiting) <= sizeof(struct maple_rcu_head), "it is kept in the head");

static void call_rcu(void *ctx, struct maple_rcu_head *head, void (*fn)(struct maple_rcu_head *));
static void (*asked_of)(void *, struct maple_rcu_head *, void (*)(struct maple_rcu_head *)) = call_rcu;
static struct waiting *first, **end = &first;
static unsigned long under_way;

static void call_rcu(void *ctx, struct maple_rcu_head *head, void (*fn)(struct maple_rcu_head *))
{
	struct waiting *waiting = (struct waiting *)head;

	(void)ctx;
	waiting->next = NULL;
	waiting->fn = fn;
	*end = waiting;
	end = &waiting->next;
	under_way++;
}

/* Runs the callbacks requested so far, but not those that these callbacks request. */
static void barrier(void)
{
	struct waiting *next = first;

	first = NULL;
	end = &first;
	while (next) {
		struct waiting *waiting = next;

		next = waiting->next;
		under_way--;
		if (asked_of == call_rcu) {
			waiting->fn((struct maple_rcu_head *)waiting);
		} else {
			struct maple_rcu_head *head;

			memcpy(&head, waiting + 1, sizeof(head));
			waiting->fn(head);
			free(waiting);
		}
	}
}

static void nothing_is_left(void)
{
	barrier();
	SAME(under_way, 0);
	SAME(atomic_load(&nodes_live), 0);
}

/* The words of a head belong to the environment. A reader that used them would go astray. */
static void call_rcu_and_overwrite(void *ctx, struct maple_rcu_head *head, void (*fn)(struct maple_rcu_head *))
{
	struct waiting *record = malloc(sizeof(*record) + sizeof(head));

	(void)ctx;
	CHECK(record);
	memset(head, 0xa5, sizeof(*head));
	memcpy(record + 1, &head, sizeof(head));
	record->next = NULL;
	record->fn = fn;
	*end = record;
	end = &record->next;
	under_way++;
}

/* Freed pieces go to the two hooks in turn, so that neither may depend on the origin of a piece. */
static unsigned long in_bulk;

static size_t alloc_bulk(void *ctx, size_t size, size_t align, gfp_t gfp, size_t count, void **pieces)
{
	size_t got;

	for (got = 0; got < count && (pieces[got] = counting_alloc(ctx, size, align, gfp)); got++)
		in_bulk++;
	return got;
}

static void free_bulk(void *ctx, size_t size, size_t align, size_t count, void **pieces)
{
	for (size_t i = 0; i < count; i++, in_bulk++)
		counting_free(ctx, pieces[i], size, align);
}

static void free_bulk_backwards(void *ctx, size_t size, size_t align, size_t count, void **pieces)
{
	while (count--)
		counting_free(ctx, pieces[count], size, align);
	in_bulk++;
}

static const struct maple_bulk_hooks bulk[] = {
	{ .alloc_bulk = alloc_bulk, .free_bulk = free_bulk },
	{ .free_bulk = free_bulk_backwards },
	{ .alloc_bulk = alloc_bulk },
};

static void set_hooks(void)
{
	struct maple_hooks hooks = { .alloc = counting_alloc, .free = counting_free, .call_rcu = asked_of };

	maple_set_hooks(&hooks);
}

static void many_periods(void)
{
	for (unsigned flags = 0; flags < 2; flags++) {
		struct maple_tree tree = MTREE_INIT(tree, MT_FLAGS_USE_RCU | (flags ? MT_FLAGS_ALLOC_RANGE : 0));

		for (unsigned long i = 0; i < 5000; i++)
			SAME(mtree_store_range(&tree, i * 10, i * 10 + 5, V(i), GFP_KERNEL), 0);
		for (unsigned long i = 0; i < 5000; i += 3)
			SAME(mtree_erase(&tree, i * 10), V(i));
		CHECK(under_way > 5000);
		SAME(mt_validate(&tree), 0);
		mtree_destroy(&tree);
		nothing_is_left();
	}
}

static void many_trees(void)
{
	enum { TREES = 3000 };
	static struct maple_tree trees[TREES];

	for (int i = 0; i < TREES; i++) {
		mt_init_flags(&trees[i], MT_FLAGS_USE_RCU);
		/* Trees with one entry at index 0 have no node. Those with one node were only written once. */
		SAME(mtree_store_range(&trees[i], 0, i % 3, V(i), GFP_KERNEL), 0);
		for (int n = 0; n < i % 40; n++)
			SAME(mtree_store(&trees[i], 10 + n * 2, V(n), GFP_KERNEL), 0);
	}
	for (int i = 0; i < TREES; i++)
		mtree_destroy(&trees[i]);
	nothing_is_left();
}

/* The number of entries in a leaf of 256 bytes: one word each, and one for each bound between
 * two. */
enum { FULL = 256 / (2 * sizeof(void *)) };

/* Trees with only full nodes have no space for a head: thousands of them, small and large. */
static void full_trees(void)
{
	enum { TREES = 6000 };
	static struct maple_tree trees[TREES];

	for (int i = 0; i < TREES; i++) {
		int entries = i % 100 ? FULL - 1 : FULL * FULL;

		mt_init_flags(&trees[i], MT_FLAGS_USE_RCU);
		for (int n = 0; n < entries; n++)
			SAME(mtree_store_range(&trees[i], n, n == entries - 1 ? ULONG_MAX : (unsigned long)n, V(n), GFP_KERNEL), 0);
		if (entries == FULL - 1)
			SAME(mtree_store(&trees[i], FULL - 2, V(99), GFP_KERNEL), 0);
		SAME(mt_validate(&trees[i]), 0);
	}
	barrier();
	for (int i = 0; i < TREES; i++)
		mtree_destroy(&trees[i]);
	CHECK(under_way > 5000);
	nothing_is_left();
	/* The same with some trees, without any memory at the end. */
	for (int i = 0; i < 1000; i++) {
		mt_init_flags(&trees[i], MT_FLAGS_USE_RCU);
		for (int n = 0; n < FULL; n++)
			SAME(mtree_store_range(&trees[i], n, n == FULL - 1 ? ULONG_MAX : (unsigned long)n, V(n), GFP_KERNEL), 0);
	}
	barrier();
	fail_from(1, 1);
	for (int i = 0; i < 1000; i++)
		mtree_destroy(&trees[i]);
	fail_never();
	nothing_is_left();
}

/* Full leaves are replaced again and again, each by one as full. Each write takes a preallocated
 * node, or fails. */
static void full_leaves(void)
{
	for (int refused = 0; refused < 3; refused++) {
		struct maple_tree tree = MTREE_INIT(tree, MT_FLAGS_USE_RCU);
		unsigned long failed = 0;

		for (unsigned long i = 0; i < FULL; i++)
			SAME(mtree_store_range(&tree, i * 100, i < FULL - 1 ? i * 100 + 99 : ULONG_MAX, V(i), GFP_KERNEL), 0);
		for (unsigned long i = 0; i < 12000; i++) {
			/* The bound between two entries goes down by 5, and back. */
			unsigned long bound = (i / 2 % (FULL - 2) + 1) * 100;
			unsigned long at = i % 2 ? bound - 100 : bound - 5;
			unsigned long last = i % 2 ? bound - 1 : bound + 99;
			void *before = mtree_load(&tree, at);
			int error;

			/* Neither of two nodes, or one of them. */
			if (refused && i % 3 == 0)
				fail_from(refused, 1);
			error = mtree_store_range(&tree, at, last, V(i), GFP_KERNEL);
			fail_never();
			if (error) {
				SAME(error, -ENOMEM);
				SAME(mtree_load(&tree, at), before);
				failed++;
				SAME(mtree_store_range(&tree, at, last, V(i), GFP_KERNEL), 0);
			}
			SAME(mtree_load(&tree, at), V(i));
			SAME(mtree_load(&tree, last), V(i));
		}
		SAME(failed, refused ? 4000 : 0);
		SAME(mt_height(&tree), 1);
		CHECK(under_way > 5000);
		SAME(mt_validate(&tree), 0);
		fail_from(1, 1);
		mtree_destroy(&tree);
		fail_never();
		nothing_is_left();
	}
}

/* A tree whose entries are erased keeps no node, without being destroyed, and can be reused. */
static void erased(void)
{
	struct maple_tree tree = MTREE_INIT(tree, MT_FLAGS_USE_RCU);

	for (int round = 0; round < 50; round++) {
		for (unsigned long i = 0; i < 30; i++)
			SAME(mtree_store_range(&tree, i * 10, i * 10 + 5, V(i), GFP_KERNEL), 0);
		if (round % 2)
			SAME(mtree_store_range(&tree, 0, ULONG_MAX, NULL, GFP_KERNEL), 0);
		else
			for (unsigned long i = 0; i < 30; i++)
				SAME(mtree_erase(&tree, i * 10), V(i));
		CHECK(mtree_empty(&tree));
		if (round % 5 == 0)
			nothing_is_left();
	}
	nothing_is_left();
}

/* Enters and leaves RCU mode, with nodes. */
static void changes_of_mode(void)
{
	for (int refused = 0; refused < 2; refused++) {
		DEFINE_MTREE(tree);

		for (int round = 0; round < 5; round++) {
			for (unsigned long i = 0; i < 100; i++)
				SAME(mtree_store_range(&tree, i * 10, i * 10 + round, V(i), GFP_KERNEL), 0);
			if (refused)
				fail_from(1, 1);
			mt_set_in_rcu(&tree);
			fail_never();
			for (unsigned long i = 0; i < 100; i += 2)
				SAME(mtree_store_range(&tree, i * 10, i * 10 + 7, V(i), GFP_KERNEL), 0);
			mt_clear_in_rcu(&tree);
		}
		if (refused) {
			/* Enters the mode, runs without memory, and is then destroyed. */
			fail_from(1, 1);
			mt_set_in_rcu(&tree);
			mtree_destroy(&tree);
			fail_never();
		} else {
			mtree_destroy(&tree);
		}
		nothing_is_left();
	}
}

static void duplicates(void)
{
	struct maple_tree tree = MTREE_INIT(tree, MT_FLAGS_USE_RCU), copy = MTREE_INIT(copy, MT_FLAGS_USE_RCU);
	long live, asked;

	for (unsigned long i = 0; i < 500; i++)
		SAME(mtree_store_range(&tree, i * 10, i * 10 + 5, V(i), GFP_KERNEL), 0);
	barrier();
	live = atomic_load(&nodes_live);
	for (asked = 1;; asked++) {
		int error;

		fail_from(asked, 0);
		error = mtree_dup(&tree, &copy, GFP_KERNEL);
		fail_never();
		if (!error)
			break;
		SAME(error, -ENOMEM);
		SAME(atomic_load(&nodes_live), live);
	}
	CHECK(asked > 30);
	SAME(mtree_store(&copy, 3, V(3), GFP_KERNEL), 0);
	mtree_destroy(&tree);
	mtree_destroy(&copy);
	nothing_is_left();
}

/* Preallocated nodes suffice, and no memory is requested. */
static void set_aside(void)
{
	struct maple_tree tree = MTREE_INIT(tree, MT_FLAGS_USE_RCU);
	MA_STATE(mas, &tree, 0, 0);

	for (unsigned long i = 0; i < 200; i++) {
		mas_set_range(&mas, i * 10, i * 10 + 5);
		SAME(mas_preallocate(&mas, V(i), GFP_KERNEL), 0);
		fail_from(1, 1);
		mas_store_prealloc(&mas, V(i));
		fail_never();
		SAME(mtree_load(&tree, i * 10), V(i));
	}
	SAME(mas_expected_entries(&mas, 1000), 0);
	fail_from(1, 1);
	for (unsigned long i = 200; i < 1200; i++) {
		mas_set_range(&mas, i * 10, i * 10 + 5);
		mas_store(&mas, V(i));
		CHECK(!mas_is_err(&mas));
	}
	fail_never();
	mas_destroy(&mas);
	SAME(mt_validate(&tree), 0);
	fail_from(1, 1);
	mtree_destroy(&tree);
	fail_never();
	nothing_is_left();
}

/* Most requests are refused. A write that fails changes nothing, and destruction needs no
 * memory. */
static void storm(void)
{
	uint64_t seed = 20230726;

	for (int round = 0; round < 20; round++) {
		struct maple_tree tree = MTREE_INIT(tree, MT_FLAGS_USE_RCU | (round % 2 ? MT_FLAGS_ALLOC_RANGE : 0));
		unsigned long failed = 0;

		for (int n = 0; n < 4000; n++) {
			unsigned long at = rnd(&seed) % 4000, last = at + rnd(&seed) % (n % 50 ? 6 : 1000);
			void *before, *entry = rnd(&seed) % 4 ? V(n) : NULL;
			int error;

			before = mtree_load(&tree, at);
			if (rnd(&seed) % 4)
				fail_from(1 + (long)(rnd(&seed) % 3), 1);
			error = mtree_store_range(&tree, at, last, entry, GFP_KERNEL);
			fail_never();
			if (error) {
				SAME(error, -ENOMEM);
				SAME(mtree_load(&tree, at), before);
				failed++;
			} else {
				SAME(mtree_load(&tree, at), entry);
				SAME(mtree_load(&tree, last), entry);
			}
			if (rnd(&seed) % 1500 == 0)
				barrier();
		}
		CHECK(failed > 100);
		SAME(mt_validate(&tree), 0);
		fail_from(1, 1);
		mtree_destroy(&tree);
		fail_never();
		nothing_is_left();
	}
}

/* The pieces are freed by other hooks than those at the time of their retirement. */
static void changes_of_hooks(void)
{
	struct maple_tree tree = MTREE_INIT(tree, MT_FLAGS_USE_RCU);
	size_t round = 0;

	for (unsigned long i = 0; i < 6000; i++) {
		if (i % 500 == 0)
			maple_set_bulk_hooks(round++ % 4 ? &bulk[round % 3] : NULL);
		SAME(mtree_store_range(&tree, i * 10, i * 10 + 5, V(i), GFP_KERNEL), 0);
	}
	CHECK(under_way > 5000);
	mtree_destroy(&tree);
	maple_set_bulk_hooks(&bulk[0]);
	in_bulk = 0;
	nothing_is_left();
	CHECK(in_bulk > 6000);
	maple_set_bulk_hooks(NULL);
}

static void all(void)
{
	set_hooks();
	many_periods();
	many_trees();
	full_trees();
	full_leaves();
	erased();
	changes_of_mode();
	duplicates();
	set_aside();
	storm();
	changes_of_hooks();
}

int main(void)
{
	all();
	asked_of = call_rcu_and_overwrite;
	all();
	passed();
	return 0;
}
