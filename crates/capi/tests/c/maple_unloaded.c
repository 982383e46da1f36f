/* A library that is opened by name, used by threads, and closed before they end. */
#include "maple_check.h"
#include <dlfcn.h>

static void (*read_lock)(void), (*read_unlock)(void);
static void *(*load)(struct maple_tree *, unsigned long);
static struct maple_tree *tree;
static pthread_barrier_t turns;

static void *reads(void *unused)
{
	(void)unused;
	read_lock();
	CHECK(load(tree, 7) == tree);
	read_unlock();
	pthread_barrier_wait(&turns);
	/* The library is closed here. */
	pthread_barrier_wait(&turns);
	return NULL;
}

static void *name(void *library, const char *of)
{
	void *it = dlsym(library, of);

	CHECK(it != NULL);
	return it;
}

int main(int argc, char **argv)
{
	pthread_t threads[3];
	int round, i;

	CHECK(argc == 2);
	CHECK(pthread_barrier_init(&turns, NULL, 4) == 0);
	for (round = 0; round < 3; round++) {
		void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
		struct maple_tree here = MTREE_INIT(here, MT_FLAGS_USE_RCU);

		CHECK(library != NULL);
		*(void **)&read_lock = name(library, "maple_read_lock");
		*(void **)&read_unlock = name(library, "maple_read_unlock");
		*(void **)&load = name(library, "mtree_load");
		tree = &here;
		int (*store)(struct maple_tree *, unsigned long, void *, gfp_t);
		void (*destroy)(struct maple_tree *);

		*(void **)&store = name(library, "mtree_store");
		*(void **)&destroy = name(library, "mtree_destroy");
		CHECK(store(tree, 7, tree, GFP_KERNEL) == 0);
		for (i = 0; i < 3; i++)
			CHECK(pthread_create(&threads[i], NULL, reads, NULL) == 0);
		pthread_barrier_wait(&turns);
		destroy(tree);
		CHECK(dlclose(library) == 0);
		pthread_barrier_wait(&turns);
		for (i = 0; i < 3; i++)
			CHECK(pthread_join(threads[i], NULL) == 0);
	}
	puts("ok");
	return 0;
}
