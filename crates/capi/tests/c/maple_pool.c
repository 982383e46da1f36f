/*
 * The pool of programs without hooks: what it keeps and frees, threads that end while others free
 * their nodes, fork at any moment, a system without memory. Also the hooks for many pieces at once.
 */
#include "maple_check.h"
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Machines with words of half the width need more entries for the same memory. */
enum { NODE = 256, CHUNK = 65536, MANY = 200000 * (8 / (int)sizeof(void *)), THREADS = 4 };

/* Returns the bytes of nodes that may be in use without a tree: none. */
static size_t used(void)
{
	struct maple_pool_stats stats;

	maple_pool_stats(&stats);
	return stats.used;
}

static size_t mapped(void)
{
	struct maple_pool_stats stats;

	maple_pool_stats(&stats);
	CHECK(stats.used + stats.kept <= stats.mapped);
	return stats.mapped;
}

static void fill(struct maple_tree *tree, unsigned long entries)
{
	for (unsigned long i = 0; i < entries; i++)
		SAME(mtree_store_range(tree, i * 10, i * 10 + 5, V(i), GFP_KERNEL), 0);
}

static void holds(struct maple_tree *tree, unsigned long entries)
{
	unsigned long index = 0, n = 0;
	void *entry;

	SAME(mt_validate(tree), 0);
	for (entry = mt_find(tree, &index, ULONG_MAX); entry; entry = mt_find_after(tree, &index, ULONG_MAX))
		SAME(entry, V(n++));
	SAME(n, entries);
}

static void keeps_and_gives_back(void)
{
	DEFINE_MTREE(tree);
	size_t at_most;

	SAME(used(), 0);
	SAME(mtree_store(&tree, 5, V(5), GFP_KERNEL), 0);
	SAME(used(), NODE);
	SAME(mapped(), CHUNK);
	mtree_destroy(&tree);
	SAME(used(), 0);
	SAME(mapped(), CHUNK);
	SAME(maple_trim(), CHUNK);
	SAME(mapped(), 0);

	/* Most of a large amount is freed automatically, and the rest on request. */
	fill(&tree, MANY);
	at_most = mapped();
	CHECK(at_most > 100 * CHUNK);
	mtree_destroy(&tree);
	SAME(used(), 0);
	CHECK(mapped() <= 64 * CHUNK + at_most / 4);
	CHECK(mapped() >= 32 * CHUNK);
	CHECK(maple_trim() > 0);
	SAME(mapped(), 0);

	/* Pages without nodes are freed although the chunk has some. */
	fill(&tree, MANY);
	mtree_store_range(&tree, 40, MANY * 10 - 40, NULL, GFP_KERNEL);
	maple_trim();
	fill(&tree, MANY);
	holds(&tree, MANY);
	mtree_destroy(&tree);
	maple_trim();
	SAME(mapped(), 0);
}

static void duplicates(void)
{
	static const unsigned long sizes[] = { 1, 2, 14, 15, 16, 134, 1000, 4023, 50000 };

	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct maple_tree tree = MTREE_INIT(tree, MT_FLAGS_ALLOC_RANGE);
		struct maple_tree copies[8];
		size_t one;

		fill(&tree, sizes[i]);
		one = used();
		for (int c = 0; c < 8; c++) {
			mt_init_flags(&copies[c], MT_FLAGS_ALLOC_RANGE);
			SAME(mtree_dup(&tree, &copies[c], GFP_KERNEL), 0);
			SAME(used(), one * (c + 2));
		}
		for (int c = 0; c < 8; c += 2)
			mtree_destroy(&copies[c]);
		for (int c = 0; c < 8; c += 2)
			SAME(mtree_dup(&tree, &copies[c], GFP_KERNEL), 0);
		for (int c = 0; c < 8; c++) {
			holds(&copies[c], sizes[i]);
			mtree_destroy(&copies[c]);
		}
		holds(&tree, sizes[i]);
		mtree_destroy(&tree);
		SAME(used(), 0);
	}
}

/* ---- threads that end, and leave their trees to others ---- */
struct handed {
	struct maple_tree tree;
	unsigned long entries;
	struct handed *next;
};
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct handed *list;
static atomic_int stop;

static void hand_on(struct handed *handed)
{
	pthread_mutex_lock(&mutex);
	handed->next = list;
	list = handed;
	pthread_mutex_unlock(&mutex);
}

static struct handed *take_one(void)
{
	struct handed *handed;

	pthread_mutex_lock(&mutex);
	handed = list;
	if (handed)
		list = handed->next;
	pthread_mutex_unlock(&mutex);
	return handed;
}

static void *makes(void *arg)
{
	uint64_t seed = 99 + (uintptr_t)arg;

	for (int n = 0; n < 6; n++) {
		struct handed *handed = malloc(sizeof *handed);

		handed->entries = 1 + rnd(&seed) % 3000;
		mt_init_flags(&handed->tree, rnd(&seed) % 2 ? MT_FLAGS_USE_RCU : 0);
		fill(&handed->tree, handed->entries);
		hand_on(handed);
		handed = take_one();
		if (handed) {
			holds(&handed->tree, handed->entries);
			mtree_destroy(&handed->tree);
			free(handed);
		}
	}
	return NULL;
}

static void *trims(void *arg)
{
	while (!atomic_load(&stop))
		maple_trim();
	return arg;
}

static void *churns(void *arg)
{
	uint64_t seed = 5 + (uintptr_t)arg;
	DEFINE_MTREE(tree);

	while (!atomic_load(&stop)) {
		unsigned long entries = 1 + rnd(&seed) % 2000;

		fill(&tree, entries);
		mtree_destroy(&tree);
	}
	return NULL;
}

static void threads_end(void)
{
	pthread_t threads[THREADS], trimmer;
	struct handed *handed;

	atomic_store(&stop, 0);
	CHECK(pthread_create(&trimmer, NULL, trims, NULL) == 0);
	for (int round = 0; round < 8; round++) {
		for (uintptr_t i = 0; i < THREADS; i++)
			CHECK(pthread_create(&threads[i], NULL, makes, (void *)i) == 0);
		for (int i = 0; i < THREADS; i++)
			CHECK(pthread_join(threads[i], NULL) == 0);
	}
	atomic_store(&stop, 1);
	CHECK(pthread_join(trimmer, NULL) == 0);
	while ((handed = take_one())) {
		holds(&handed->tree, handed->entries);
		mtree_destroy(&handed->tree);
		free(handed);
	}
	SAME(used(), 0);
}

/* A child uses the pool whatever the threads that it does not have were doing. What it keeps
 * does not grow from child to child. */
static void forks(void)
{
	struct maple_tree tree = MTREE_INIT(tree, MT_FLAGS_ALLOC_RANGE);
	pthread_t threads[THREADS];

	fill(&tree, 1000);
	atomic_store(&stop, 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, i ? churns : trims, (void *)i) == 0);
	for (int n = 0; n < 100; n++) {
		int status;
		pid_t child = fork();

		CHECK(child >= 0);
		if (child == 0) {
			struct maple_tree copy = MTREE_INIT(copy, MT_FLAGS_ALLOC_RANGE);

			/* A lock that is never released ends here. */
			alarm(60);
			SAME(__mt_dup(&tree, &copy, GFP_KERNEL), 0);
			fill(&tree, 3000);
			holds(&copy, 1000);
			holds(&tree, 3000);
			mtree_destroy(&copy);
			mtree_destroy(&tree);
			maple_trim();
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	holds(&tree, 1000);
	mtree_destroy(&tree);
	SAME(used(), 0);
}

/* Runs in a child, since the limit stays. */
static void without_memory(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	/* A sanitizer's own mappings need the whole address space. */
	return;
#endif
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		struct maple_tree tree = MTREE_INIT(tree, MT_FLAGS_ALLOC_RANGE), copy = MTREE_INIT(copy, MT_FLAGS_ALLOC_RANGE);
		struct rlimit limit = { 0, 0 };
		unsigned long n = 0;

		maple_trim();
		SAME(mapped(), 0);
		/* Nothing more can be mapped. */
		CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
		SAME(mtree_store_range(&tree, 5, 9, V(1), GFP_KERNEL), -ENOMEM);
		CHECK(mtree_empty(&tree));
		limit.rlim_cur = limit.rlim_max = RLIM_INFINITY;
		if (setrlimit(RLIMIT_AS, &limit) != 0)
			_exit(0);
		fill(&tree, 4000);
		limit.rlim_cur = limit.rlim_max = 0;
		CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
		while (mtree_dup(&tree, &copy, GFP_KERNEL) == 0) {
			holds(&copy, 4000);
			/* Not destroyed, until the kept nodes are used up. */
			mt_init_flags(&copy, MT_FLAGS_ALLOC_RANGE);
			n++;
		}
		CHECK(mtree_empty(&copy));
		CHECK(n < 10);
		holds(&tree, 4000);
		mtree_destroy(&tree);
		/* These nodes are free now. */
		fill(&copy, 2000);
		holds(&copy, 2000);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- hooks for many pieces at once ---- */
static atomic_long bulk_asks, bulk_pieces, bulk_frees;
static int give;

static size_t bulk_alloc(void *ctx, size_t size, size_t align, gfp_t gfp, size_t count, void **pieces)
{
	size_t n;

	CHECK(ctx == &give && size == NODE && align == NODE);
	atomic_fetch_add(&bulk_asks, 1);
	for (n = 0; n < count && (give < 0 || n < (size_t)give); n++) {
		pieces[n] = counting_alloc(NULL, size, align, gfp);
		if (!pieces[n])
			break;
		atomic_fetch_add(&bulk_pieces, 1);
	}
	return n;
}

static void bulk_free(void *ctx, size_t size, size_t align, size_t count, void **pieces)
{
	CHECK(ctx == &give && count > 0);
	for (size_t i = 0; i < count; i++)
		counting_free(NULL, pieces[i], size, align);
	atomic_fetch_add(&bulk_frees, (long)count);
}

static void many_at_once(void)
{
	static const struct maple_bulk_hooks hooks = { &give, bulk_alloc, bulk_free };
	static const int gifts[] = { -1, 0, 1, 5, 31, 32, 33 };

	count_nodes();
	maple_set_bulk_hooks(&hooks);
	for (unsigned i = 0; i < sizeof gifts / sizeof *gifts; i++) {
		DEFINE_MTREE(tree);
		DEFINE_MTREE(copy);
		MA_STATE(mas, &copy, 0, 0);
		long live;

		give = gifts[i];
		atomic_store(&bulk_pieces, 0);
		atomic_store(&bulk_frees, 0);
		fill(&tree, 3000);
		live = atomic_load(&nodes_live);
		SAME(mtree_dup(&tree, &copy, GFP_KERNEL), 0);
		SAME(atomic_load(&nodes_live), 2 * live);
		SAME(atomic_load(&bulk_pieces), give < 0 || give > 31 ? live : give == 0 ? 0 : atomic_load(&bulk_pieces));
		holds(&copy, 3000);
		__mt_destroy(&copy);
		SAME(atomic_load(&bulk_frees), live);
		SAME(atomic_load(&nodes_live), live);

		/* Each request is refused in turn: nothing leaks, and nothing changes. */
		for (long at = 1; at < live + 2; at += live / 7) {
			atomic_store(&fail_at, atomic_load(&nodes_asked) + at);
			atomic_store(&fail_all, 1);
			if (at <= live) {
				SAME(mtree_dup(&tree, &copy, GFP_KERNEL), -ENOMEM);
				CHECK(mtree_empty(&copy));
			}
			SAME(mas_expected_entries(&mas, 100000), -ENOMEM);
			atomic_store(&fail_all, 0);
			atomic_store(&fail_at, 0);
			SAME(atomic_load(&nodes_live), live);
		}
		SAME(mas_expected_entries(&mas, 5000), 0);
		CHECK(atomic_load(&nodes_live) > live);
		mas_destroy(&mas);
		SAME(atomic_load(&nodes_live), live);
		mtree_destroy(&tree);
		SAME(atomic_load(&nodes_live), 0);
	}
	/* The other call removes them. */
	count_nodes();
	{
		DEFINE_MTREE(tree);
		long asks = atomic_load(&bulk_asks);

		fill(&tree, 3000);
		mtree_destroy(&tree);
		SAME(atomic_load(&bulk_asks), asks);
		SAME(atomic_load(&nodes_live), 0);
	}
	maple_set_hooks(NULL);
}

int main(void)
{
	keeps_and_gives_back();
	duplicates();
	threads_end();
	forks();
	without_memory();
	many_at_once();
	duplicates();
	/* With nodes left, at the end of the program. */
	{
		static struct maple_tree tree;

		fill(&tree, 1000);
	}
	puts("ok");
	return 0;
}
