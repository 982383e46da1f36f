/*
 * The statements of Linux's documentation about each function, checked against a list of ranges.
 * Random calls of both interfaces, in all modes, at both ends of the indices and around the middle.
 * Corner cases of each: index 0, the largest index, NULL, reserved entries, numbers.
 */
#include "maple_check.h"
#include <samara/maple_tree_linux.h>

enum { MOST = 400 };

/* The expected content: ranges in order, which do not touch unless they are different stores. */
struct range {
	unsigned long first, last;
	void *entry;
};
struct list {
	struct range r[MOST];
	int n;
};

static struct list now;
static struct maple_tree tree;
/* Set if mtree_alloc_cyclic() has returned the largest index last. */
static int gave_largest;
static pthread_mutex_t mine = PTHREAD_MUTEX_INITIALIZER;

/* Returns the first range that ends at or above an index. */
static int at_or_above(const struct list *l, unsigned long index)
{
	int i = 0;

	while (i < l->n && l->r[i].last < index)
		i++;
	return i;
}

/* Returns the range of an index, or the gap that contains it. */
static struct range slot(const struct list *l, unsigned long index)
{
	int i = at_or_above(l, index);

	if (i < l->n && l->r[i].first <= index)
		return l->r[i];
	return (struct range){ i ? l->r[i - 1].last + 1 : 0, i < l->n ? l->r[i].first - 1 : ULONG_MAX, NULL };
}

static void *first_in(const struct list *l, unsigned long first, unsigned long last)
{
	int i = at_or_above(l, first);

	return i < l->n && l->r[i].first <= last ? l->r[i].entry : NULL;
}

static void put(struct list *l, unsigned long first, unsigned long last, void *entry)
{
	static struct list old;
	int i = 0;

	old = *l;
	l->n = 0;
	for (; i < old.n && old.r[i].last < first; i++)
		l->r[l->n++] = old.r[i];
	if (i < old.n && old.r[i].first < first)
		l->r[l->n++] = (struct range){ old.r[i].first, first - 1, old.r[i].entry };
	if (entry)
		l->r[l->n++] = (struct range){ first, last, entry };
	for (; i < old.n; i++) {
		if (old.r[i].last <= last)
			continue;
		if (old.r[i].first <= last)
			old.r[i].first = last + 1;
		l->r[l->n++] = old.r[i];
	}
	CHECK(l->n < MOST - 3);
}

/* Finds the lowest or highest `size` free indices in `min..=max`. Returns 0 if there are none. */
static int hole(const struct list *l, unsigned long min, unsigned long max, unsigned long size, int up, unsigned long *found)
{
	int any = 0;

	for (int i = 0; i <= l->n; i++) {
		unsigned long from = i ? l->r[i - 1].last + 1 : 0, to = i < l->n ? l->r[i].first - 1 : ULONG_MAX;

		if ((i && l->r[i - 1].last == ULONG_MAX) || (i < l->n && l->r[i].first == from))
			continue;
		if (from < min)
			from = min;
		if (to > max)
			to = max;
		if (from > to || to - from < size - 1)
			continue;
		if (!any || !up)
			*found = up ? from : to - (size - 1);
		any = 1;
	}
	return any;
}

static void *shown(void *entry)
{
	return entry == XA_ZERO_ENTRY ? NULL : entry;
}

/* Returns an index that matters: an end, a power of two, or one of their neighbours. */
static unsigned long somewhere(uint64_t *seed)
{
	static const unsigned long bases[] = { 0, 0, 1ul << 12, ULONG_MAX / 2, ULONG_MAX - 40, ULONG_MAX - 40 };
	unsigned long base = bases[rnd(seed) % 6], at = base + rnd(seed) % 41;

	return at;
}

static void *something(uint64_t *seed)
{
	switch (rnd(seed) % 12) {
	case 0:
		return NULL;
	case 1:
		return XA_ZERO_ENTRY;
	case 2:
		return xa_mk_value(0);
	case 3:
		return (void *)4096ul;
	case 4:
		return (void *)4098ul;
	case 5:
		return (void *)~1ul;
	default:
		return xa_mk_value(rnd(seed) % 1000);
	}
}

static void hold(struct maple_tree *mt, const struct list *l)
{
	MA_STATE(mas, mt, 0, 0);
	unsigned long index = 0;
	void *entry;
	int i = 0, visible = 0, seen = 0;

	mas_for_each(&mas, entry, ULONG_MAX) {
		CHECK(i < l->n);
		SAME(entry, l->r[i].entry);
		SAME(mas.index, l->r[i].first);
		SAME(mas.last, l->r[i].last);
		SAME(mtree_load(mt, mas.index), shown(entry));
		SAME(mtree_load(mt, mas.last), shown(entry));
		visible += entry != XA_ZERO_ENTRY;
		i++;
	}
	SAME(i, l->n);
	mas_set(&mas, ULONG_MAX);
	mas_for_each_rev(&mas, entry, 0) {
		i--;
		SAME(entry, l->r[i].entry);
		SAME(mas.index, l->r[i].first);
		SAME(mas.last, l->r[i].last);
	}
	SAME(i, 0);
	mt_for_each(mt, entry, index, ULONG_MAX)
		seen++;
	SAME(seen, visible);
	SAME(mtree_empty(mt), l->n == 0);
	SAME(mt_validate(mt), 0);
}

/* Reads the tree in every way from one index. */
static void look(uint64_t *seed)
{
	unsigned long at = somewhere(seed), limit = somewhere(seed), index = at;
	struct range here = slot(&now, at);
	int i = at_or_above(&now, at);
	MA_STATE(mas, &tree, at, at);
	void *want;

	SAME(mtree_load(&tree, at), shown(here.entry));
	SAME(mas_walk(&mas), here.entry);
	SAME(mas.index, here.first);
	SAME(mas.last, here.last);

	/* find: at or above. The state is on the entry that was found. */
	mas_set(&mas, at);
	want = i < now.n && now.r[i].first <= limit && at <= limit ? now.r[i].entry : NULL;
	SAME(mas_find(&mas, limit), want);
	if (want) {
		SAME(mas.index, now.r[i].first);
		SAME(mas.last, now.r[i].last);
		/* The next entry from there on. */
		want = i + 1 < now.n && now.r[i + 1].first <= limit ? now.r[i + 1].entry : NULL;
		mas_pause(&mas);
		SAME(mas_find(&mas, limit), want);
	}
	for (; i < now.n && now.r[i].entry == XA_ZERO_ENTRY; i++)
		;
	want = i < now.n && now.r[i].first <= limit && at <= limit ? now.r[i].entry : NULL;
	SAME(mt_find(&tree, &index, limit), want);
	SAME(index, want ? now.r[i].last + 1 : at);
	index = at;
	SAME(mt_find_after(&tree, &index, limit), at ? want : NULL);

	/* find_rev: at or below. */
	i = at_or_above(&now, at);
	if (i == now.n || now.r[i].first > at)
		i--;
	mas_set(&mas, at);
	want = i >= 0 && now.r[i].last >= limit && at >= limit ? now.r[i].entry : NULL;
	SAME(mas_find_rev(&mas, limit), want);
	if (want) {
		SAME(mas.index, now.r[i].first);
		SAME(mas.last, now.r[i].last);
		want = i > 0 && now.r[i - 1].last >= limit && now.r[i].first > limit ? now.r[i - 1].entry : NULL;
		SAME(mas_find_rev(&mas, limit), want);
	}

	/* next and prev: from the entry at `at`, if there is one. */
	i = at_or_above(&now, at);
	if (i < now.n && now.r[i].first <= at)
		i++;
	mas_set(&mas, at);
	want = i < now.n && now.r[i].first <= limit && at < limit ? now.r[i].entry : NULL;
	SAME(mas_next(&mas, limit), want);
	SAME(mt_next(&tree, at, limit), want);
	i = at_or_above(&now, at) - 1;
	mas_set(&mas, at);
	want = i >= 0 && now.r[i].last >= limit && at > limit ? now.r[i].entry : NULL;
	SAME(mas_prev(&mas, limit), want);
	SAME(mt_prev(&tree, at, limit), want);
	if (want)
		SAME(mas.index, now.r[i].first);

	/* Ranges one by one, gaps included. */
	mas_set(&mas, at);
	want = slot(&now, at).entry;
	SAME(mas_find_range(&mas, ULONG_MAX), want ? want : here.last == ULONG_MAX ? NULL : slot(&now, here.last + 1).entry);
	mas_set(&mas, at);
	SAME(mas_next_range(&mas, ULONG_MAX), here.last == ULONG_MAX ? NULL : slot(&now, here.last + 1).entry);
	mas_set(&mas, at);
	SAME(mas_prev_range(&mas, 0), here.first == 0 ? NULL : slot(&now, here.first - 1).entry);
}

/* Performs one call of the normal interface. */
static void normal(uint64_t *seed, unsigned int flags)
{
	unsigned long first = somewhere(seed), last = somewhere(seed), size, found = 77, next, old;
	void *entry = something(seed);
	struct range there = slot(&now, first);
	int ret, any, up = rnd(seed) % 2;

	switch (rnd(seed) % 9) {
	case 0:
		SAME(mtree_store(&tree, first, entry, GFP_KERNEL), 0);
		put(&now, first, first, entry);
		break;
	case 1:
		SAME(mtree_store_range(&tree, first, last, entry, GFP_KERNEL), first > last ? -EINVAL : 0);
		if (first <= last)
			put(&now, first, last, entry);
		break;
	case 2:
		if (!entry)
			break;
		SAME(mtree_insert(&tree, first, entry, GFP_KERNEL), there.entry ? -EEXIST : 0);
		if (!there.entry)
			put(&now, first, first, entry);
		break;
	case 3:
		if (!entry)
			break;
		ret = first > last ? -EINVAL : first_in(&now, first, last) ? -EEXIST : 0;
		SAME(mtree_insert_range(&tree, first, last, entry, GFP_KERNEL), ret);
		if (!ret)
			put(&now, first, last, entry);
		break;
	case 4:
		SAME(mtree_erase(&tree, first), there.entry);
		if (there.entry)
			put(&now, there.first, there.last, NULL);
		break;
	case 5:
		/* Reserved for the advanced interface. */
		ret = mtree_store(&tree, first, (void *)(unsigned long)(rnd(seed) % 1024 * 4 + 2), GFP_KERNEL);
		if (ret)
			SAME(ret, -EINVAL);
		else
			put(&now, first, first, XA_ZERO_ENTRY);
		break;
	case 6:
		if (!(flags & MT_FLAGS_ALLOC_RANGE)) {
			SAME(mtree_alloc_range(&tree, &found, xa_mk_value(1), 1, 0, ULONG_MAX, GFP_KERNEL), -EINVAL);
			SAME(mtree_alloc_rrange(&tree, &found, xa_mk_value(1), 1, 0, ULONG_MAX, GFP_KERNEL), -EINVAL);
			SAME(mtree_alloc_cyclic(&tree, &found, xa_mk_value(1), 0, ULONG_MAX, &found, GFP_KERNEL), -EINVAL);
			SAME(found, 77);
			break;
		}
		entry = xa_mk_value(rnd(seed) % 99);
		size = rnd(seed) % 8 ? rnd(seed) % 12 : somewhere(seed);
		if (first > last && rnd(seed) % 4) {
			old = first;
			first = last;
			last = old;
		}
		any = size && first <= last && hole(&now, first, last, size, up, &old);
		ret = any ? 0 : !size || first > last || last - first < size - 1 ? -EINVAL : -EBUSY;
		SAME(up ? mtree_alloc_range(&tree, &found, entry, size, first, last, GFP_KERNEL) :
			  mtree_alloc_rrange(&tree, &found, entry, size, first, last, GFP_KERNEL),
		     ret);
		SAME(found, any ? old : 77);
		if (any)
			put(&now, old, old + size - 1, entry);
		break;
	case 7:
		if (!(flags & MT_FLAGS_ALLOC_RANGE) || first > last)
			break;
		entry = xa_mk_value(rnd(seed) % 99);
		next = old = rnd(seed) % 3 ? first + rnd(seed) % 20 : somewhere(seed);
		/* The next allocation reports that the largest index was allocated. */
		ret = !!(tree.ma_flags & MT_FLAGS_ALLOC_WRAPPED);
		SAME(ret, gave_largest);
		any = next <= last && hole(&now, next > first ? next : first, last, 1, 1, &size);
		if (!any) {
			any = hole(&now, first, last, 1, 1, &size);
			ret = 1;
		}
		if (any) {
			SAME(mtree_alloc_cyclic(&tree, &found, entry, first, last, &next, GFP_KERNEL), ret);
			SAME(found, size);
			SAME(next, size + 1);
			gave_largest = size == ULONG_MAX;
			put(&now, size, size, entry);
		} else {
			SAME(mtree_alloc_cyclic(&tree, &found, entry, first, last, &next, GFP_KERNEL), -EBUSY);
			SAME(found, 77);
			SAME(next, old);
		}
		break;
	case 8:
		look(seed);
		break;
	}
}

/* Checks the range of a state after a store: after NULL the whole gap. */
static void about(const struct ma_state *mas, unsigned long first, unsigned long last, void *entry)
{
	struct range there = slot(&now, first);

	SAME(mas->index, entry ? first : there.first);
	SAME(mas->last, entry ? last : there.last);
}

/* Performs one call of the advanced interface, perhaps with the state of the previous call. */
static void advanced(uint64_t *seed, struct ma_state *mas)
{
	unsigned long first = somewhere(seed), last = somewhere(seed), size, old;
	void *entry = rnd(seed) % 10 ? something(seed) : (void *)(unsigned long)(rnd(seed) % 1024 * 4 + 2), *was;
	struct range there;
	int up = rnd(seed) % 2, any, ret;

	if (first > last) {
		old = first;
		first = last;
		last = old;
	}
	there = slot(&now, first);
	mas_lock(mas);
	switch (rnd(seed) % 8) {
	case 0:
		mas_set_range(mas, first, last);
		was = first_in(&now, first, last);
		SAME(mas_store(mas, entry), was);
		CHECK(!mas_is_err(mas));
		put(&now, first, last, entry);
		about(mas, first, last, entry);
		break;
	case 1:
		mas_set_range(mas, first, last);
		SAME(mas_store_gfp(mas, entry, rnd(seed) % 2 ? GFP_KERNEL : GFP_NOWAIT), 0);
		put(&now, first, last, entry);
		about(mas, first, last, entry);
		break;
	case 2:
		mas_set_range(mas, first, last);
		SAME(mas_preallocate(mas, entry, GFP_KERNEL), 0);
		fail_from(1, 1);
		mas_store_prealloc(mas, entry);
		fail_never();
		put(&now, first, last, entry);
		about(mas, first, last, entry);
		break;
	case 3:
		mas_set(mas, first);
		SAME(mas_erase(mas), there.entry);
		SAME(mas->index, there.first);
		SAME(mas->last, there.last);
		if (there.entry)
			put(&now, there.first, there.last, NULL);
		SAME(mas_walk(mas), NULL);
		CHECK(mas->index <= there.first && there.last <= mas->last);
		break;
	case 4:
		/* The end of an inverted range comes before its start. */
		if (first == last)
			break;
		mas_set_range(mas, last, first);
		SAME(mas_store_gfp(mas, entry, GFP_KERNEL), -EINVAL);
		SAME(xa_err(mas->node), -EINVAL);
		mas_reset(mas);
		break;
	case 5:
		size = rnd(seed) % 30 + 1;
		any = hole(&now, first, last, size, up, &old);
		ret = any ? 0 : last - first < size - 1 ? -EINVAL : -EBUSY;
		mas_set(mas, first);
		SAME(up ? mas_empty_area(mas, first, last, size) : mas_empty_area_rev(mas, first, last, size), ret);
		if (any) {
			SAME(mas->index, old);
			SAME(mas->last, old + size - 1);
			/* The state is ready to store there. */
			CHECK(mas_store(mas, xa_mk_value(5)) == NULL && !mas_is_err(mas));
			put(&now, old, old + size - 1, xa_mk_value(5));
		}
		break;
	case 6:
		/* Erased, exchanged and split on the way. */
		mas_set(mas, first);
		mas_for_each(mas, was, last) {
			there = slot(&now, mas->index);
			SAME(was, there.entry);
			SAME(mas->last, there.last);
			switch (rnd(seed) % 5) {
			case 0:
				SAME(mas_erase(mas), was);
				put(&now, there.first, there.last, NULL);
				break;
			case 1:
				SAME(mas_store(mas, xa_mk_value(8)), was);
				put(&now, there.first, there.last, xa_mk_value(8));
				break;
			case 2:
				__mas_set_range(mas, there.first, there.first + (there.last - there.first) / 2);
				SAME(mas_store(mas, xa_mk_value(9)), was);
				put(&now, there.first, there.first + (there.last - there.first) / 2, xa_mk_value(9));
				break;
			case 3:
				mas_pause(mas);
				mas_unlock(mas);
				look(seed);
				mas_lock(mas);
				break;
			}
		}
		break;
	case 7:
		if (rnd(seed) % 4)
			break;
		mas_set(mas, 0);
		CHECK(mas_walk(mas) == slot(&now, 0).entry);
		SAME(mas_expected_entries(mas, 20), 0);
		/* After all entries, if there is space. */
		first = now.n ? now.r[now.n - 1].last : 0;
		for (int i = 1; i <= 20 && first < ULONG_MAX - 100; i++) {
			fail_from(1, 1);
			mas_set_range(mas, first + i * 3, first + i * 3 + 1);
			SAME(mas_store(mas, xa_mk_value(i)), NULL);
			fail_never();
			put(&now, first + i * 3, first + i * 3 + 1, xa_mk_value(i));
		}
		mas_destroy(mas);
		CHECK(mas->alloc == NULL);
		break;
	}
	mas_unlock(mas);
}

static void copies(unsigned int flags, uint64_t *seed)
{
	struct maple_tree other = MTREE_INIT(other, flags);
	static struct list before;

	before = now;
	if (rnd(seed) % 2) {
		mtree_lock(&tree);
		mtree_lock(&other);
		SAME(__mt_dup(&tree, &other, GFP_KERNEL), 0);
		mtree_unlock(&other);
		mtree_unlock(&tree);
	} else {
		SAME(mtree_dup(&tree, &other, GFP_KERNEL), 0);
	}
	hold(&other, &before);
	/* The two trees are independent from now on. */
	for (int i = 0; i < 30; i++)
		normal(seed, flags);
	hold(&other, &before);
	mtree_destroy(&other);
	CHECK(mtree_empty(&other));
	hold(&tree, &now);
	if (now.n && rnd(seed) % 2) {
		/* A duplicate into a tree that is not empty, or of another kind, is refused, and the tree is
		 * unchanged. */
		SAME(mtree_store(&other, 5, xa_mk_value(5), GFP_KERNEL), 0);
		SAME(mtree_dup(&tree, &other, GFP_KERNEL), -EINVAL);
		SAME(mtree_load(&other, 5), xa_mk_value(5));
		mtree_destroy(&other);
		mt_init_flags(&other, flags ^ MT_FLAGS_ALLOC_RANGE);
		SAME(mtree_dup(&tree, &other, GFP_KERNEL), -EINVAL);
		CHECK(mtree_empty(&other));
	}
}

static void history(unsigned int flags, uint64_t seed, int rounds)
{
	MA_STATE(mas, &tree, 0, 0);

	mt_init_flags(&tree, flags);
	if (flags & MT_FLAGS_LOCK_EXTERN)
		mt_set_external_lock(&tree, &mine);
	now.n = gave_largest = 0;
	for (int round = 0; round < rounds; round++) {
		if (rnd(&seed) % 2)
			normal(&seed, flags);
		else
			advanced(&seed, &mas);
		look(&seed);
		SAME(mt_validate(&tree), 0);
		if (now.n > MOST / 2 || round % 701 == 700) {
			/* Emptied, and reused with the same modes and the same state. */
			mtree_destroy(&tree);
			SAME(tree.ma_flags & ~(MT_FLAGS_HEIGHT_MASK | MT_FLAGS_ALLOC_WRAPPED | MT_FLAGS_USE_RCU),
			     flags & ~MT_FLAGS_USE_RCU);
			now.n = 0;
		}
		if (round % 97 == 0) {
			if (round % 2)
				mt_set_in_rcu(&tree);
			else
				mt_clear_in_rcu(&tree);
			SAME(mt_in_rcu(&tree), round % 2);
			copies(tree.ma_flags & ~(MT_FLAGS_HEIGHT_MASK | MT_FLAGS_ALLOC_WRAPPED), &seed);
		}
		if (round % 16 == 0)
			hold(&tree, &now);
	}
	mas_destroy(&mas);
	mtree_destroy(&tree);
	SAME(nodes_live, 0);
}

/* The statements of the documentation that need no history. */
static void sentences(void)
{
	MA_STATE(mas, &tree, 10, 20);
	struct maple_tree on_stack;

	mt_init(&tree);
	/* "A freshly-initialised maple tree contains a NULL pointer for the range 0 - ULONG_MAX." */
	mas_lock(&mas);
	AT(mas_walk(&mas), NULL, &mas, 0, ULONG_MAX, ma_none);
	/* "mas_store() will overwrite any entry with the new entry and return the first existing entry that is overwritten." */
	mas_set_range(&mas, 10, 20);
	SAME(mas_store(&mas, V(1)), NULL);
	mas_set_range(&mas, 30, 40);
	SAME(mas_store(&mas, V(2)), NULL);
	mas_set_range(&mas, 0, 9);
	SAME(mas_store(&mas, V(3)), NULL);
	mas_set_range(&mas, 25, 29);
	SAME(mas_store(&mas, V(4)), NULL);
	mas_set_range(&mas, 15, 35);
	SAME(mas_store(&mas, V(5)), V(1));
	mas_set_range(&mas, 22, 29);
	SAME(mas_store(&mas, NULL), V(5));
	mas_set_range(&mas, 24, 50);
	SAME(mas_store(&mas, V(6)), V(5));
	mas_set_range(&mas, 50, ULONG_MAX);
	SAME(mas_store(&mas, NULL), V(6));
	mas_set_range(&mas, 45, ULONG_MAX);
	SAME(mas_store(&mas, NULL), V(6));
	mas_set_range(&mas, 45, ULONG_MAX);
	SAME(mas_store(&mas, NULL), NULL);
	/* "You can use mas_erase() to erase an entire range": the state then has the erased range. */
	mas_set(&mas, 30);
	SAME(mas_erase(&mas), V(6));
	SAME(mas.index, 24);
	SAME(mas.last, 44);
	SAME(mas_erase(&mas), NULL);
	/* A store of NULL leaves the state at the whole gap, a failed one at the requested range. */
	mas_set_range(&mas, 100, 199);
	SAME(mas_store(&mas, V(7)), NULL);
	mas_set_range(&mas, 150, 159);
	SAME(mas_store_gfp(&mas, NULL, GFP_KERNEL), 0);
	SAME(mas.index, 150);
	SAME(mas.last, 159);
	mas_set_range(&mas, 160, 169);
	SAME(mas_preallocate(&mas, NULL, GFP_KERNEL), 0);
	mas_store_prealloc(&mas, NULL);
	SAME(mas.index, 150);
	SAME(mas.last, 169);
	mas_set_range(&mas, 190, 250);
	SAME(mas_store(&mas, NULL), V(7));
	SAME(mas.index, 190);
	SAME(mas.last, ULONG_MAX);
	mas_set_range(&mas, 180, 170);
	SAME(mas_store_gfp(&mas, NULL, GFP_KERNEL), -EINVAL);
	SAME(mas.index, 180);
	SAME(mas.last, 170);
	mas_unlock(&mas);
	/* "mtree_store() call with an entry of NULL may be used to partially erase a range or many ranges at once." */
	SAME(mtree_store(&tree, 5, NULL, GFP_KERNEL), 0);
	SAME(mtree_load(&tree, 4), V(3));
	SAME(mtree_load(&tree, 5), NULL);
	SAME(mtree_store_range(&tree, 1, ULONG_MAX, NULL, GFP_KERNEL), 0);
	CHECK(mtree_load(&tree, 0) == V(3) && !mtree_load(&tree, 1));
	/* "insert ... return -EEXIST if the range is not empty": a reserved range is not empty. */
	SAME(mtree_store(&tree, 8, XA_ZERO_ENTRY, GFP_KERNEL), 0);
	SAME(mtree_insert_range(&tree, 5, 9, V(1), GFP_KERNEL), -EEXIST);
	SAME(mtree_load(&tree, 8), NULL);
	mas_set(&mas, 8);
	SAME(mas_walk(&mas), XA_ZERO_ENTRY);
	mtree_destroy(&tree);
	/* The error of the state, as a number. */
	mas_set_range(&mas, 2, 1);
	mas_store(&mas, V(1));
	CHECK(mas_is_err(&mas) && xa_is_err(mas.node));
	SAME(xa_err(mas.node), -EINVAL);
	CHECK(!xa_is_err(NULL) && !xa_is_err(XA_ZERO_ENTRY) && !xa_is_err(xa_mk_value(~0ul >> 1)) && !xa_is_err(&tree));
	for (int error = 1; error <= 4095; error++)
		SAME(xa_err(MA_ERROR(-error)), -error);
	CHECK(!xa_is_err(MA_ERROR(-4096)) && !xa_is_err(MA_ERROR(0)));
	/* Any tree may be on the stack, and be initialised late. */
	mt_init_flags(&on_stack, MT_FLAGS_ALLOC_RANGE);
	mt_on_stack(on_stack);
	mtree_lock_nested(&on_stack, 1);
	mtree_unlock(&on_stack);
	SAME(mtree_insert(&on_stack, ULONG_MAX, V(1), GFP_KERNEL), 0);
	SAME(mtree_insert(&on_stack, 0, V(2), GFP_KERNEL), 0);
	SAME(mtree_erase(&on_stack, ULONG_MAX), V(1));
	SAME(mtree_erase(&on_stack, ULONG_MAX), NULL);
	mtree_destroy(&on_stack);
	SAME(nodes_live, 0);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	int rounds = argc > 2 ? atoi(argv[2]) : 6000;

	count_nodes_exactly();
	sentences();
	for (unsigned int flags = 0; flags < 4; flags++)
		history(flags, seed * 4 + flags, rounds);
	history(MT_FLAGS_ALLOC_RANGE | MT_FLAGS_LOCK_EXTERN, seed, rounds);
	passed();
	return 0;
}
