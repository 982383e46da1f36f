/*
 * Cyclic numbers for connections: a number that was just freed is not reused soon. Any thread looks
 * them up without a lock.
 *
 *   cc -I include examples/c/maple_ids.c libsamara.a -lpthread -ldl -lm
 */
#include <samara/maple_tree.h>
#include <stdio.h>
#include <stdlib.h>

struct connection {
	unsigned long id;
	const char *peer;
};

/* In a static: zeroes are a free lock and an empty tree. */
static struct maple_tree connections = MTREE_INIT(connections, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU);
static unsigned long next_id;

static struct connection *open_connection(const char *peer)
{
	struct connection *c = malloc(sizeof(*c));

	if (!c)
		return NULL;
	c->peer = peer;
	/* 0: found; 1: found after wrapping around to 100; negative: none free, or no memory. */
	if (mtree_alloc_cyclic(&connections, &c->id, c, 100, 104, &next_id, GFP_KERNEL) < 0) {
		free(c);
		return NULL;
	}
	return c;
}

static void close_connection(unsigned long id)
{
	/* With concurrent readers it would be freed after a grace period. */
	free(mtree_erase(&connections, id));
}

int main(void)
{
	const char *peers[] = { "ash", "birch", "cedar", "elm", "fir", "oak" };
	struct connection *c;
	unsigned long id = 0;

	for (int i = 0; i < 5; i++)
		open_connection(peers[i]);
	printf("full: %s\n", open_connection(peers[5]) ? "no" : "yes");
	close_connection(102);
	c = open_connection(peers[5]);
	printf("%s is %lu\n", c->peer, c->id);
	printf("101 is %s\n", ((struct connection *)mtree_load(&connections, 101))->peer);

	for (c = mt_find(&connections, &id, ~0ul); c; c = mt_find_after(&connections, &id, ~0ul)) {
		printf("%lu %s\n", c->id, c->peer);
		close_connection(c->id);
	}
	printf("empty: %s\n", mtree_empty(&connections) ? "yes" : "no");
	mtree_destroy(&connections);
	return 0;
}
