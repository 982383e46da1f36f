/*
 * Three threads on two trees, through both interfaces, with hooks for memory and RCU of this
 * program: memory that fails at random, and grace periods that are counted explicitly. Run it
 * plain, under ThreadSanitizer and under AddressSanitizer. At the end no node may be left.
 *
 *   maple_threads [SEED [ROUNDS]]
 *
 * The trees:
 *   areas in RCU mode, with sizes of gaps, and the library's lock. Each entry is a pointer to an
 *   area that contains its range, so that a reader can check what it finds. Areas are freed after a
 *   grace period.
 *   ids with a lock of the program's own (MT_FLAGS_LOCK_EXTERN), cyclic numbers, read under the
 *   same lock.
 *
 * The threads:
 *   writer changes `areas` through the normal and the advanced interface, and remembers the
 *   expected content in an array.
 *   reader walks `areas` in read-side sections, upwards, downwards and by single loads.
 *   numbers allocates ids and frees them; inserts into and erases from its own part of `areas`
 *   between the writer's changes; reads there what it has just written; duplicates trees.
 */
#include "maple_check.h"

/* ---- RCU by hand: readers announce the period that they began in ---- */

enum { READERS = 3 };
#define IDLE 0ul

static atomic_ulong period = 1;
static atomic_ulong reading_since[READERS];
static _Thread_local int myself = -1;
static _Thread_local int depth;
static atomic_int readers;

struct callback {
	struct maple_rcu_head *head;
	void (*fn)(struct maple_rcu_head *);
	unsigned long since;
	struct callback *next;
};

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static struct callback *queue;
static atomic_long callbacks_run;

static void rcu_register(void)
{
	myself = atomic_fetch_add(&readers, 1);
	CHECK(myself < READERS);
}

static void hook_read_lock(void *ctx)
{
	(void)ctx;
	if (myself >= 0 && depth++ == 0)
		/* Not a plain store: no access of the section may come before it. */
		atomic_exchange(&reading_since[myself], atomic_load(&period));
}

static void hook_read_unlock(void *ctx)
{
	(void)ctx;
	if (myself >= 0 && --depth == 0)
		atomic_store(&reading_since[myself], IDLE);
}

/* Returns the oldest period in which a reader may still be. */
static unsigned long oldest_reader(void)
{
	unsigned long oldest = ULONG_MAX;

	for (int i = 0; i < READERS; i++) {
		unsigned long since = atomic_load(&reading_since[i]);

		if (since != IDLE && since < oldest)
			oldest = since;
	}
	return oldest;
}

static void hook_call_rcu(void *ctx, struct maple_rcu_head *head, void (*fn)(struct maple_rcu_head *))
{
	struct callback *cb = malloc(sizeof(*cb));

	(void)ctx;
	CHECK(cb);
	/* The head belongs to the environment until the callback: sanitizers detect other accesses. */
	head->opaque[0] = cb;
	head->opaque[1] = NULL;
	cb->head = head;
	cb->fn = fn;
	pthread_mutex_lock(&queue_lock);
	cb->since = atomic_fetch_add(&period, 1);
	cb->next = queue;
	queue = cb;
	pthread_mutex_unlock(&queue_lock);
}

/* Runs the callbacks that no reader blocks. Called without any lock. */
static void run_callbacks(void)
{
	struct callback *ready = NULL, **link, *cb;
	unsigned long oldest;

	pthread_mutex_lock(&queue_lock);
	/* After the queue was read under the lock: a reader that begins now is in a later period. */
	oldest = oldest_reader();
	for (link = &queue; (cb = *link);) {
		if (cb->since < oldest) {
			*link = cb->next;
			cb->next = ready;
			ready = cb;
		} else {
			link = &cb->next;
		}
	}
	pthread_mutex_unlock(&queue_lock);
	while ((cb = ready)) {
		ready = cb->next;
		CHECK(cb->head->opaque[0] == cb);
		cb->fn(cb->head);
		free(cb);
		atomic_fetch_add(&callbacks_run, 1);
	}
}

/* ---- memory that fails at random ---- */

static atomic_long failures;
static _Thread_local uint64_t luck;
/* One in this many requests fails. 0: none. */
static atomic_int odds;
static int context;

static void *hook_alloc(void *ctx, size_t size, size_t align, gfp_t gfp)
{
	int one_in = atomic_load(&odds);

	SAME(ctx, &context);
	if (one_in && luck) {
		/* Requests that may block fail less often. */
		if (rnd(&luck) % (gfp & __GFP_DIRECT_RECLAIM ? one_in * 8 : one_in) == 0) {
			atomic_fetch_add(&failures, 1);
			return NULL;
		}
	}
	return counting_alloc(NULL, size, align, gfp);
}

static void hook_free(void *ctx, void *p, size_t size, size_t align)
{
	SAME(ctx, &context);
	/* A late reader finds garbage. */
	memset(p, 0x5a, size);
	counting_free(NULL, p, size, align);
}

/* ---- areas ---- */

enum { UNIT = 16, SPACE = 400, OWN = 1ul << 20 };

struct area {
	struct maple_rcu_head rcu; /* first: the callback gets it */
	unsigned long first, last; /* what it was stored at; parts may have been overwritten since */
	atomic_ulong alive;
};
#define ALIVE 0xa11feul

static struct maple_tree areas = MTREE_INIT(areas, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU);
static struct area *model[SPACE];
static atomic_long areas_live;
static atomic_int stop;

static struct area *area_new(unsigned long first, unsigned long last)
{
	struct area *area = malloc(sizeof(*area));

	CHECK(area);
	area->first = first;
	area->last = last;
	atomic_init(&area->alive, ALIVE);
	atomic_fetch_add(&areas_live, 1);
	return area;
}

static void area_free(struct maple_rcu_head *head)
{
	struct area *area = (struct area *)head;

	SAME(atomic_load(&area->alive), ALIVE);
	atomic_store(&area->alive, 0);
	atomic_fetch_sub(&areas_live, 1);
	free(area);
}

/* Frees the areas that the array contained and contains no more. */
static void sweep(struct area **before)
{
	for (int i = 0; i < SPACE; i++) {
		struct area *gone = before[i];
		int there = 0, j;

		if (!gone || (i > 0 && before[i - 1] == gone))
			continue;
		for (j = 0; j < SPACE && !there; j++)
			there = model[j] == gone;
		/* Parts of one area may be separate. */
		for (j = 0; j < i && !there; j++)
			there = before[j] == gone;
		if (!there)
			hook_call_rcu(NULL, &gone->rcu, area_free);
	}
}

static void check_writer_view(void)
{
	for (unsigned long i = 0; i < SPACE; i++)
		SAME(mtree_load(&areas, i * UNIT + i % UNIT), model[i]);
}

static void fill(unsigned long first, unsigned long last, struct area *area)
{
	struct area *before[SPACE];

	memcpy(before, model, sizeof(model));
	for (unsigned long i = first; i <= last; i++)
		model[i] = area;
	sweep(before);
}

static int stored(int ret, struct area *area)
{
	if (ret) {
		CHECK(ret == -ENOMEM || ret == -EEXIST || ret == -EBUSY);
		/* No reader has seen it. */
		if (area)
			area_free(&area->rcu);
		return 0;
	}
	return 1;
}

struct job {
	uint64_t seed;
	int rounds;
	unsigned long done;
};

static void *writer(void *arg)
{
	struct job *job = arg;
	uint64_t seed = job->seed;

	rcu_register();
	luck = seed + 1;
	for (int round = 0; round < job->rounds; round++) {
		unsigned long a = rnd(&seed) % SPACE, b = a + rnd(&seed) % (round % 16 ? 6 : 120), at = 0, from, to;
		struct area *area, *there;
		MA_STATE(mas, &areas, 0, 0);

		if (b >= SPACE)
			b = SPACE - 1;
		from = a * UNIT;
		to = b * UNIT + UNIT - 1;
		area = area_new(from, to);
		switch (rnd(&seed) % 8) {
		case 0:
			if (stored(mtree_store_range(&areas, from, to, area, GFP_KERNEL), area))
				fill(a, b, area);
			break;
		case 1:
			area_free(&area->rcu);
			if (stored(mtree_store_range(&areas, from, to, NULL, GFP_NOWAIT), NULL))
				fill(a, b, NULL);
			break;
		case 2:
			if (stored(mtree_insert_range(&areas, from, to, area, GFP_ATOMIC), area)) {
				for (unsigned long i = a; i <= b; i++)
					CHECK(!model[i]);
				fill(a, b, area);
			}
			break;
		case 3:
			area_free(&area->rcu);
			mtree_lock(&areas);
			mas_set(&mas, from);
			there = mas_erase(&mas);
			if (there) {
				SAME(there, model[a]);
				fill(mas.index / UNIT, mas.last / UNIT, NULL);
			} else {
				CHECK(!model[a] || mas_is_err(&mas));
			}
			mtree_unlock(&areas);
			break;
		case 4:
			/* Explicitly: store, and allocate while there is no memory. */
			mtree_lock(&areas);
			mas_set_range(&mas, from, to);
			do {
				mas_store(&mas, area);
			} while (mas_nomem(&mas, GFP_KERNEL));
			if (stored(mas_is_err(&mas) ? -ENOMEM : 0, area))
				fill(a, b, area);
			mas_destroy(&mas);
			mtree_unlock(&areas);
			break;
		case 5:
			mtree_lock(&areas);
			mas_set_range(&mas, from, to);
			if (stored(mas_preallocate(&mas, area, GFP_KERNEL), area)) {
				mas_store_prealloc(&mas, area);
				CHECK(!mas_is_err(&mas));
				fill(a, b, area);
			}
			mtree_unlock(&areas);
			break;
		case 6: {
			/* A gap, whose entry gets its range afterwards: no reader may see it before. */
			mtree_lock(&areas);
			int ret = mas_empty_area_rev(&mas, 0, SPACE * UNIT - 1, 2 * UNIT);
			if (!ret) {
				at = mas.index / UNIT;
				SAME(mas.index % UNIT, 0);
				area->first = mas.index;
				area->last = mas.last;
				ret = mas_store_gfp(&mas, area, GFP_KERNEL);
			}
			if (stored(ret, area))
				fill(at, at + 1, area);
			mas_destroy(&mas);
			mtree_unlock(&areas);
			break;
		}
		default:
			/* Visits all entries in a range, and replaces every other one by a new area. */
			area_free(&area->rcu);
			mtree_lock(&areas);
			mas_set(&mas, from);
			for (int n = 0; (there = mas_find(&mas, to)); n++) {
				unsigned long x = mas.index / UNIT, y = mas.last / UNIT;

				SAME(there, model[x]);
				SAME(there, model[y]);
				if (n % 2)
					continue;
				area = area_new(mas.index, mas.last);
				if (stored(mas_store_gfp(&mas, area, GFP_KERNEL), area))
					fill(x, y, area);
				else
					break;
			}
			mas_destroy(&mas);
			mtree_unlock(&areas);
			break;
		}
		if (round % 32 == 0)
			run_callbacks();
		if (round % 256 == 0) {
			check_writer_view();
			mtree_lock(&areas);
			SAME(mt_validate(&areas), 0);
			mtree_unlock(&areas);
		}
		job->done++;
	}
	check_writer_view();
	atomic_store(&stop, 1);
	return NULL;
}

/* Checks the entry that a reader has found: a live area that was stored over that range. */
static void look(struct area *area, unsigned long first, unsigned long last)
{
	SAME(atomic_load_explicit(&area->alive, memory_order_relaxed), ALIVE);
	CHECK(area->first <= first && last <= area->last && first <= last);
}

static void *reader(void *arg)
{
	struct job *job = arg;
	uint64_t seed = job->seed;

	rcu_register();
	do {
		unsigned long at = rnd(&seed) % (SPACE * UNIT), before, seen = 0;
		struct area *area;
		MA_STATE(mas, &areas, at, at);

		hook_read_lock(NULL);
		switch (rnd(&seed) % 4) {
		case 0:
			area = mtree_load(&areas, at);
			if (area)
				look(area, at, at);
			break;
		case 1:
			/* Upwards: each range begins after the one before. */
			before = at;
			while ((area = mas_find(&mas, SPACE * UNIT - 1))) {
				look(area, mas.index, mas.last);
				CHECK(mas.last >= before);
				before = mas.last + 1;
				if (++seen == 40) {
					/* The section ends, and the walk continues in another. */
					mas_pause(&mas);
					hook_read_unlock(NULL);
					hook_read_lock(NULL);
				}
			}
			break;
		case 2:
			before = at;
			while ((area = mas_find_rev(&mas, 0))) {
				look(area, mas.index, mas.last);
				CHECK(mas.index <= before);
				before = mas.index;
			}
			break;
		case 3:
			before = at;
			for (int n = 0; n < 20 && (area = mt_find(&areas, &at, SPACE * UNIT - 1)); n++) {
				SAME(atomic_load_explicit(&area->alive, memory_order_relaxed), ALIVE);
				CHECK(at > before);
				before = at;
			}
			area = mt_next(&areas, before, SPACE * UNIT - 1);
			if (area)
				SAME(atomic_load_explicit(&area->alive, memory_order_relaxed), ALIVE);
			area = mt_prev(&areas, before, 0);
			if (area)
				SAME(atomic_load_explicit(&area->alive, memory_order_relaxed), ALIVE);
			break;
		}
		hook_read_unlock(NULL);
		job->done++;
	} while (!atomic_load(&stop));
	return NULL;
}

static pthread_mutex_t ids_lock = PTHREAD_MUTEX_INITIALIZER;
static struct maple_tree ids = MTREE_INIT(ids, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_LOCK_EXTERN);

static void *numbers(void *arg)
{
	struct job *job = arg;
	uint64_t seed = job->seed;
	unsigned long next = 0, given = 0, id;

	rcu_register();
	luck = seed + 2;
	do {
		unsigned long own = OWN + rnd(&seed) % 500;
		int ret;

		pthread_mutex_lock(&ids_lock);
		MA_STATE(mas, &ids, 0, 0);
		if (given < 700 && rnd(&seed) % 5) {
			ret = mas_alloc_cyclic(&mas, &id, V(given), 1, 1000, &next, GFP_KERNEL);
			if (ret >= 0) {
				SAME(next, id + 1);
				SAME(mtree_load(&ids, id), V(given));
				given++;
			} else {
				SAME(ret, -ENOMEM);
			}
		} else if (given) {
			mas_set(&mas, rnd(&seed) % 1001);
			if (mas_find(&mas, 1000) || (mas_set(&mas, 1000), mas_find_rev(&mas, 1))) {
				if (mas_erase(&mas))
					given--;
				else
					SAME(mas.node, MA_ERROR(-ENOMEM));
			}
		}
		mas_destroy(&mas);
		if (job->done % 128 == 0) {
			struct maple_tree copy = MTREE_INIT(copy, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_LOCK_EXTERN);
			unsigned long n = 0, m = 0, i;

			SAME(mt_validate(&ids), 0);
			ret = __mt_dup(&ids, &copy, GFP_KERNEL);
			CHECK(ret == 0 || (ret == -ENOMEM && mtree_empty(&copy)));
			for (i = 0; mt_find(&ids, &i, 1000); n++)
				;
			for (i = 0; mt_find(&copy, &i, 1000); m++)
				;
			SAME(n, given);
			SAME(m, ret ? 0 : given);
			__mt_destroy(&copy);
		}
		pthread_mutex_unlock(&ids_lock);

		/* A second writer of the shared tree, in a range of its own. */
		ret = mtree_insert(&areas, own, V(own), GFP_KERNEL);
		CHECK(ret == 0 || ret == -EEXIST || ret == -ENOMEM);
		if (ret != -ENOMEM) {
			SAME(mtree_load(&areas, own), V(own));
			if (mtree_erase(&areas, own) == NULL)
				SAME(mtree_load(&areas, own), V(own));
		}
		if (job->done % 16 == 0)
			run_callbacks();
		job->done++;
	} while (!atomic_load(&stop));
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 12345;
	int rounds = argc > 2 ? atoi(argv[2]) : 20000;
	struct maple_hooks hooks = {
		.ctx = &context,
		.alloc = hook_alloc,
		.free = hook_free,
		.read_lock = hook_read_lock,
		.read_unlock = hook_read_unlock,
		.call_rcu = hook_call_rcu,
	};
	struct job jobs[3] = {
		{ .seed = seed * 3 + 1, .rounds = rounds },
		{ .seed = seed * 5 + 2 },
		{ .seed = seed * 7 + 3 },
	};
	void *(*const bodies[3])(void *) = { writer, reader, numbers };
	pthread_t threads[3];

	maple_set_hooks(&hooks);
	atomic_store(&odds, 6);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&threads[i], NULL, bodies[i], &jobs[i]) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	atomic_store(&odds, 0);

	SAME(mt_validate(&areas), 0);
	fill(0, SPACE - 1, NULL);
	mtree_destroy(&areas);
	mtree_destroy(&ids);
	CHECK(mtree_empty(&areas) && mtree_empty(&ids));
	/* A callback may queue another. */
	while (queue)
		run_callbacks();
	SAME(atomic_load(&areas_live), 0);
	CHECK(jobs[1].done > 0 && jobs[2].done > 0 && atomic_load(&failures) > 0 && atomic_load(&callbacks_run) > 0);
	printf("writes %lu, reads %lu, numbers %lu, failed allocations %ld, callbacks %ld\n", jobs[0].done, jobs[1].done,
	       jobs[2].done, atomic_load(&failures), atomic_load(&callbacks_run));
	passed();
	return 0;
}
