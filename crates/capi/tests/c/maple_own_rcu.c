/*
 * The library's own grace periods: no hooks but those of memory. Readers continue while the tree is
 * changed and destroyed. Once they have left, no node is left either.
 */
#include "maple_check.h"
#include <sched.h>

enum { SPACE = 3000, THREADS = 3 };

static struct maple_tree tree = MTREE_INIT(tree, MT_FLAGS_USE_RCU);
static atomic_int stop;
static atomic_ulong looks;

static void *reader(void *arg)
{
	uint64_t seed = 77 + (uintptr_t)arg;

	while (!atomic_load(&stop)) {
		unsigned long at = rnd(&seed) % SPACE, index = at, before = at;
		void *entry = mtree_load(&tree, at);

		/* Entries contain the range at which they were stored. */
		if (entry) {
			unsigned long packed = (unsigned long)entry >> 1;

			CHECK(packed / SPACE <= at && at <= packed % SPACE);
		}
		for (int n = 0; n < 10 && mt_find(&tree, &index, SPACE); n++) {
			CHECK(index > before);
			before = index;
		}
		mt_next(&tree, at, SPACE);
		mt_prev(&tree, at, 0);

		/* A walk of the program's own, in a section of its own. */
		maple_read_lock();
		{
			MA_STATE(mas, &tree, at, at);
			unsigned long end = 0;

			for (int n = 0; n < 10 && (entry = mas_find(&mas, SPACE)); n++) {
				unsigned long packed = (unsigned long)entry >> 1;

				CHECK(packed / SPACE <= mas.index && mas.last <= packed % SPACE);
				/* It may begin earlier if it was stored concurrently. */
				CHECK(n == 0 || mas.last > end);
				end = mas.last;
				if (n == 5) {
					maple_read_lock();
					mtree_load(&tree, end);
					maple_read_unlock();
				}
			}
		}
		maple_read_unlock();
		atomic_fetch_add(&looks, 1);
	}
	return NULL;
}

int main(void)
{
	uint64_t seed = 4711;

	count_nodes();
	for (int round = 0; round < 20; round++) {
		pthread_t threads[THREADS];

		atomic_store(&stop, 0);
		for (uintptr_t i = 0; i < THREADS; i++)
			CHECK(pthread_create(&threads[i], NULL, reader, (void *)i) == 0);
		/* Waits until the readers run, however late they get a processor. */
		for (unsigned long seen = atomic_load(&looks); atomic_load(&looks) == seen;)
			sched_yield();
		for (int n = 0; n < 2000; n++) {
			unsigned long first = rnd(&seed) % SPACE, last = first + rnd(&seed) % (n % 20 ? 8 : 500);

			if (last >= SPACE)
				last = SPACE - 1;
			SAME(mtree_store_range(&tree, first, last, rnd(&seed) % 3 ? V(first * SPACE + last) : NULL, GFP_KERNEL), 0);
		}
		SAME(mt_validate(&tree), 0);
		mtree_destroy(&tree);
		CHECK(mtree_empty(&tree) && mt_in_rcu(&tree));
		atomic_store(&stop, 1);
		for (int i = 0; i < THREADS; i++)
			CHECK(pthread_join(threads[i], NULL) == 0);
		SAME(atomic_load(&nodes_live), 0);
	}
	passed();
	return 0;
}
