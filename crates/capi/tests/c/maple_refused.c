/* Threads that read, write and end while malloc refuses: every allocation of each thread, one
 * after the other. */
#include "maple_check.h"

#ifdef __GLIBC__

/* The program's own malloc, which is glibc's until it refuses. glibc also uses it for its own
 * allocations. */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

/* The number of this thread's allocations that are still granted. Negative: all. */
static __thread long granted = -1;
static __thread int refused;

static int grant(void)
{
	if (granted < 0)
		return 1;
	if (granted > 0)
		return granted--, 1;
	refused = 1;
	return 0;
}

void *malloc(size_t size)
{
	return grant() ? __libc_malloc(size) : NULL;
}

void *calloc(size_t count, size_t size)
{
	return grant() ? __libc_calloc(count, size) : NULL;
}

void *realloc(void *old, size_t size)
{
	return grant() ? __libc_realloc(old, size) : NULL;
}

void *aligned_alloc(size_t align, size_t size)
{
	return grant() ? __libc_memalign(align, size) : NULL;
}

void *memalign(size_t align, size_t size)
{
	return aligned_alloc(align, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
	void *p = aligned_alloc(align, size);

	if (!p)
		return ENOMEM;
	*out = p;
	return 0;
}

void free(void *p)
{
	__libc_free(p);
}

static struct maple_tree tree = MTREE_INIT(tree, MT_FLAGS_USE_RCU);
static int value[64];

static void look(void)
{
	unsigned long i, index = 0;

	maple_read_lock();
	for (i = 0; i < 32; i++)
		CHECK(mtree_load(&tree, i * 10) == &value[i]);
	CHECK(mt_find(&tree, &index, ULONG_MAX) == &value[0]);
	maple_read_unlock();
}

/* The life of a thread whose allocations after the n-th are refused. Returns whether one was
 * refused. */
static void *reads(void *n)
{
	granted = (long)n;
	look();
	look();
	granted = -1;
	return (void *)(long)refused;
}

static void *writes(void *n)
{
	struct maple_tree copy = MTREE_INIT(copy, MT_FLAGS_USE_RCU);
	int error;

	granted = (long)n;
	error = mtree_store_range(&tree, 1000, 2000, &value[40], GFP_KERNEL);
		CHECK(error == 0 || error == -ENOMEM);
	look();
	CHECK(mtree_load(&tree, 1500) == (error ? NULL : &value[40]));
	mtree_erase(&tree, 1500);
	error = mtree_dup(&tree, &copy, GFP_KERNEL);
		CHECK(error == 0 || error == -ENOMEM);
	mtree_destroy(&copy);
	granted = -1;
	/* Erases what could not be erased for lack of memory. */
	mtree_erase(&tree, 1500);
	look();
	return (void *)(long)refused;
}

static void all(void *(*life)(void *))
{
	void *met = (void *)1;
	long n;

	for (n = 0; met; n++) {
		pthread_t thread;

		CHECK(n < 1000);
		CHECK(pthread_create(&thread, NULL, life, (void *)n) == 0);
		CHECK(pthread_join(thread, &met) == 0);
	}
}

int main(void)
{
	pthread_key_t key;
	unsigned long i;

	/* The first keys of a program need no memory in glibc. */
	for (i = 0; i < 40; i++)
		CHECK(pthread_key_create(&key, NULL) == 0);
	for (i = 0; i < 32; i++)
		CHECK(mtree_store(&tree, i * 10, &value[i], GFP_KERNEL) == 0);
	all(reads);
	all(writes);
	mtree_destroy(&tree);
	puts("ok");
	return 0;
}

#else

int main(void)
{
	puts("ok");
	return 0;
}

#endif
