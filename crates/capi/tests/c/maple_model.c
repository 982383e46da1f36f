/* Random histories of both interfaces, compared with a flat array. The structure is checked
 * after every change. */
#include "maple_check.h"

enum { SPACE = 600 };

static struct maple_tree tree;
/* The entry of each index, and the number of the store that wrote it: neighbours with the same
 * entry stay separate. */
static void *entries[SPACE];
static int stamps[SPACE];
static int stamp;

static void put(unsigned long first, unsigned long last, void *entry)
{
	stamp++;
	for (unsigned long i = first; i <= last; i++) {
		entries[i] = entry;
		stamps[i] = entry ? stamp : 0;
	}
}

/* Finds the slot that covers an index. Everything after the array is a gap. */
static void slot(unsigned long at, unsigned long *first, unsigned long *last, void **entry)
{
	int here = at < SPACE ? stamps[at] : 0;
	unsigned long from = at, to = at;

	*entry = at < SPACE ? entries[at] : NULL;
	while (from > 0 && (from > SPACE ? 0 : stamps[from - 1]) == here)
		from--;
	while (to != ULONG_MAX && (to + 1 < SPACE ? stamps[to + 1] : 0) == here)
		to = to + 1 >= SPACE ? ULONG_MAX : to + 1;
	*first = from;
	*last = to;
}

/* Splits a stored range into two slots: gives the upper part a stamp of its own. */
static void cut(unsigned long at)
{
	if (at > 0 && at < SPACE && stamps[at] && stamps[at] == stamps[at - 1]) {
		int old = stamps[at];

		stamp++;
		for (unsigned long i = at; i < SPACE && stamps[i] == old; i++)
			stamps[i] = stamp;
	}
}

static void store(unsigned long first, unsigned long last, void *entry)
{
	cut(first);
	cut(last + 1);
	put(first, last, entry);
}

/* Finds the next or previous slot from `at` up to a limit. Only entries unless `holes`. */
static int step_up(unsigned long *first, unsigned long *last, void **entry, unsigned long limit, int holes)
{
	while (*last < limit) {
		slot(*last + 1, first, last, entry);
		if (*entry || holes)
			return 1;
	}
	return 0;
}

static int step_down(unsigned long *first, unsigned long *last, void **entry, unsigned long limit, int holes)
{
	while (*first > limit) {
		slot(*first - 1, first, last, entry);
		if (*entry || holes)
			return 1;
	}
	return 0;
}

static int has_nodes(void)
{
	return mt_height(&tree) > 0;
}

/* Walks from a random index some steps up and down, all four ways. */
static void wander(uint64_t *seed)
{
	unsigned long at = rnd(seed) % (SPACE + 50), first, last, limit;
	void *entry, *got;
	MA_STATE(mas, &tree, at, at);

	slot(at, &first, &last, &entry);
	got = mas_walk(&mas);
	SAME(got, entry);
	SAME(mas.index, first);
	SAME(mas.last, last);
	if (!has_nodes())
		return;
	for (int steps = rnd(seed) % 12; steps > 0; steps--) {
		int up = rnd(seed) % 2, holes = rnd(seed) % 2, found;

		if (rnd(seed) % 8 == 0)
			/* Continues from index as a new state does: next and previous are those of the same slot. */
			mas_reset(&mas);
		if (up) {
			limit = rnd(seed) % 3 ? ULONG_MAX : rnd(seed) % SPACE;
			found = step_up(&first, &last, &entry, limit, holes);
			got = holes ? mas_next_range(&mas, limit) : mas_next(&mas, limit);
			SAME(mas.status, found ? ma_active : ma_overflow);
		} else {
			limit = rnd(seed) % 3 ? 0 : rnd(seed) % SPACE;
			found = step_down(&first, &last, &entry, limit, holes);
			got = holes ? mas_prev_range(&mas, limit) : mas_prev(&mas, limit);
			SAME(mas.status, found ? ma_active : ma_underflow);
		}
		SAME(got, found ? entry : NULL);
		SAME(mas.index, first);
		SAME(mas.last, last);
		if (!found)
			/* Stays on the slot: the way back begins with it. */
			mas_walk(&mas);
	}
}

static void compare(void)
{
	MA_STATE(mas, &tree, 0, 0);
	unsigned long index = 0, first, last = 0, n = 0, m = 0;
	void *entry;

	for (unsigned long i = 0; i < SPACE; i++)
		SAME(mtree_load(&tree, i), entries[i]);
	slot(0, &first, &last, &entry);
	if (!entry && last != ULONG_MAX)
		step_up(&first, &last, &entry, ULONG_MAX, 0);
	while (entry) {
		SAME(mas_find(&mas, ULONG_MAX), entry);
		SAME(mas.index, first);
		SAME(mas.last, last);
		SAME(mt_find(&tree, &index, ULONG_MAX), entry);
		SAME(index, last + 1);
		n++;
		if (!step_up(&first, &last, &entry, ULONG_MAX, 0))
			break;
	}
	CHECK(mas_find(&mas, ULONG_MAX) == NULL && mt_find(&tree, &index, ULONG_MAX) == NULL);
	mas_set(&mas, ULONG_MAX);
	while (mas_find_rev(&mas, 0))
		m++;
	SAME(n, m);
	SAME(mtree_empty(&tree), n == 0);
}

static void history(unsigned int flags, uint64_t seed, int rounds)
{
	mt_init_flags(&tree, flags);
	put(0, SPACE - 1, NULL);
	for (int round = 0; round < rounds; round++) {
		unsigned long first = rnd(&seed) % SPACE, last, from, to;
		unsigned long most = round / 500 % 2 ? 4 : 40;
		void *entry = V(rnd(&seed) % 3), *there;
		MA_STATE(mas, &tree, 0, 0);

		last = first + rnd(&seed) % most;
		if (rnd(&seed) % 40 == 0)
			last = first + rnd(&seed) % SPACE;
		if (last >= SPACE)
			last = SPACE - 1;
		if (rnd(&seed) % 20 == 0)
			first = 0;
		mtree_lock(&tree);
		mas_set_range(&mas, first, last);
		switch (rnd(&seed) % 6) {
		case 0:
			SAME(mas_store_gfp(&mas, entry, GFP_KERNEL), 0);
			store(first, last, entry);
			break;
		case 1:
			SAME(mas_store_gfp(&mas, NULL, GFP_KERNEL), 0);
			store(first, last, NULL);
			break;
		case 2:
			SAME(mas_preallocate(&mas, entry, GFP_KERNEL), 0);
			mas_store_prealloc(&mas, entry);
			store(first, last, entry);
			break;
		case 3:
			mas_set(&mas, first);
			slot(first, &from, &to, &there);
			SAME(mas_erase(&mas), there);
			SAME(mas.index, from);
			SAME(mas.last, to);
			if (there)
				put(from, to, NULL);
			break;
		case 4:
			mtree_unlock(&tree);
			slot(first, &from, &to, &there);
			int taken = there || to < last;
			SAME(mtree_insert_range(&tree, first, last, entry, GFP_KERNEL), taken ? -EEXIST : 0);
			if (!taken)
				put(first, last, entry);
			mtree_lock(&tree);
			break;
		case 5:
			/* The whole entry is exchanged where the state found it. */
			mas_set(&mas, first);
			there = mas_find(&mas, SPACE - 1);
			if (there) {
				from = mas.index;
				to = mas.last;
				SAME(mas_store(&mas, entry), there);
				put(from, to, entry);
			}
			break;
		}
		SAME(mt_validate(&tree), 0);
		wander(&seed);
		mtree_unlock(&tree);
		if (round % 64 == 0)
			compare();
	}
	compare();
	mtree_destroy(&tree);
	SAME(nodes_live, 0);
}

/* Ascending stores fill the nodes: the height of a tree with this many entries. */
static void heights(void)
{
	/* The capacity of a leaf, and the number of entries that need three levels, on machines of
	 * either width. */
	const unsigned long leaf = sizeof(long) == 8 ? 16 : 32, many = sizeof(long) == 8 ? 1200 : 5000;
	unsigned long i;

	for (unsigned int flags = 0; flags < 2; flags++) {
		mt_init_flags(&tree, flags);
		SAME(mt_height(&tree), 0);
		for (i = 0; i < leaf; i++) {
			/* The last slot is the gap after the entries. */
			SAME(mt_height(&tree), i > 0);
			SAME(mtree_store_range(&tree, i * 10, i * 10 + 9, V(i), GFP_KERNEL), 0);
		}
		SAME(mt_height(&tree), 2);
		for (; i <= many; i++)
			SAME(mtree_store_range(&tree, i * 10, i * 10 + 9, V(i), GFP_KERNEL), 0);
		SAME(mt_height(&tree), 3);
		SAME(mt_validate(&tree), 0);
		for (; i > 0; i--)
			SAME(mtree_store_range(&tree, i * 10 - 10, i * 10 - 1, NULL, GFP_KERNEL), 0);
		SAME(mt_height(&tree), 0);
		CHECK(mtree_empty(&tree));
	}
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	int rounds = argc > 2 ? atoi(argv[2]) : 6000;

	count_nodes();
	for (unsigned int flags = 0; flags < 4; flags++)
		history(flags, seed + flags, rounds);
	heights();
	passed();
	return 0;
}
