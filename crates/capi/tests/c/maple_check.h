/* Shared code of the C tests of the maple tree: checks that report their location, and a
 * counting, failing allocator. */
#ifndef MAPLE_CHECK_H
#define MAPLE_CHECK_H
#include <samara/maple_tree.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(cond)                                                                          \
	do {                                                                                 \
		if (!(cond)) {                                                               \
			fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, __func__, #cond); \
			abort();                                                             \
		}                                                                            \
	} while (0)

/* Checks that two numbers or pointers are equal, and prints both otherwise. */
#define SAME(a, b)                                                                            \
	do {                                                                                  \
		unsigned long a_ = (unsigned long)(a), b_ = (unsigned long)(b);               \
		if (a_ != b_) {                                                               \
			fprintf(stderr, "%s:%d: %s: %s is %#lx, expected %s = %#lx\n", __FILE__, \
				__LINE__, __func__, #a, a_, #b, b_);                          \
			abort();                                                              \
		}                                                                             \
	} while (0)

/* A number as an entry, as xa_mk_value() creates it. */
#define V(n) ((void *)(((unsigned long)(n) << 1) | 1ul))

/* Checks an entry and the position of the state. */
#define AT(entry, want, m, first, end, how)          \
	do {                                         \
		void *entry_ = (entry);              \
		SAME(entry_, want);                  \
		SAME((m)->index, first);             \
		SAME((m)->last, end);                \
		SAME((m)->status, how);              \
	} while (0)

/* ---- an allocator that counts, and fails on request ---- */
static atomic_long nodes_live;
static atomic_long nodes_asked;
static atomic_long gfp_seen;
/* The number of the request that fails, counted from 1. With `fail_all`, all later ones fail,
 * too. No request fails if it is 0. */
static atomic_long fail_at;
static atomic_int fail_all;
/* Requests that may not block fail. */
static atomic_int fail_nonblocking;

/* Called once, by the next request that may block: the lock is free then, and other threads
 * write. */
static void (*meanwhile)(void);

static inline void *counting_alloc(void *ctx, size_t size, size_t align, gfp_t gfp)
{
	long nr = atomic_fetch_add(&nodes_asked, 1) + 1;
	long at = atomic_load(&fail_at);
	void *p = NULL;

	(void)ctx;
	CHECK(size <= 256 && align <= 256);
	atomic_store(&gfp_seen, (long)gfp);
	if (at && (nr == at || (nr > at && atomic_load(&fail_all))))
		return NULL;
	if (atomic_load(&fail_nonblocking) && !(gfp & __GFP_DIRECT_RECLAIM))
		return NULL;
	if (meanwhile && (gfp & __GFP_DIRECT_RECLAIM)) {
		void (*others)(void) = meanwhile;

		meanwhile = NULL;
		atomic_store(&fail_nonblocking, 0);
		others();
		atomic_store(&fail_nonblocking, 1);
	}
	p = aligned_alloc(align, size);
	if (p)
		atomic_fetch_add(&nodes_live, 1);
	return p;
}

static inline void counting_free(void *ctx, void *p, size_t size, size_t align)
{
	(void)ctx;
	(void)size;
	(void)align;
	CHECK(p != NULL);
	atomic_fetch_sub(&nodes_live, 1);
	free(p);
}

/* Grace periods of a program with one thread, outside of all sections: they end at once. */
static inline void call_at_once(void *ctx, struct maple_rcu_head *head, void (*fn)(struct maple_rcu_head *))
{
	(void)ctx;
	fn(head);
}

/* Counts nodes exactly: none ever waits for readers. */
static inline void count_nodes_exactly(void)
{
	struct maple_hooks hooks = { .alloc = counting_alloc, .free = counting_free, .call_rcu = call_at_once };

	maple_set_hooks(&hooks);
}

static inline void count_nodes(void)
{
	struct maple_hooks hooks = { .alloc = counting_alloc, .free = counting_free };

	maple_set_hooks(&hooks);
}

static inline void fail_from(long nth, int all)
{
	atomic_store(&nodes_asked, 0);
	atomic_store(&fail_all, all);
	atomic_store(&fail_at, nth);
}

static inline void fail_never(void)
{
	atomic_store(&fail_at, 0);
	atomic_store(&fail_all, 0);
	atomic_store(&fail_nonblocking, 0);
}

/* ---- small pseudo-random numbers ---- */
static inline uint64_t rnd(uint64_t *seed)
{
	uint64_t x = *seed;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*seed = x;
	return x * 0x2545f4914f6cdd1dull;
}

static inline void passed(void)
{
	SAME(atomic_load(&nodes_live), 0);
	puts("ok");
}
#endif
