/*
 * Dispatch of memory-mapped devices in a virtual machine monitor: processors look up devices
 * without a lock while devices are plugged and unplugged. Memory and read-side sections are the
 * program's own, through the hooks.
 *
 *   cc -I include examples/c/maple_bus.c libsamara.a -lpthread -ldl -lm
 */
#include <samara/maple_tree.h>
#include <stdio.h>
#include <stdlib.h>

struct device {
	const char *name;
	unsigned long base;
};

/* One processor, which is outside of all sections whenever it plugs: a grace period ends at
 * once. */
static int inside;
static long nodes;

static void *get(void *ctx, size_t size, size_t align, gfp_t gfp)
{
	(void)ctx;
	(void)gfp;
	nodes++;
	return aligned_alloc(align, size);
}

static void put(void *ctx, void *p, size_t size, size_t align)
{
	(void)ctx;
	(void)size;
	(void)align;
	nodes--;
	free(p);
}

static void enter(void *ctx)
{
	(void)ctx;
	inside++;
}

static void leave(void *ctx)
{
	(void)ctx;
	inside--;
}

static void after_grace_period(void *ctx, struct maple_rcu_head *head, void (*fn)(struct maple_rcu_head *))
{
	(void)ctx;
	if (inside)
		abort();
	fn(head);
}

DEFINE_MTREE(bus);

static void read_from(unsigned long address)
{
	struct device *device;

	enter(NULL);
	device = mtree_load(&bus, address);
	if (device)
		printf("%lx: register %lx of %s\n", address, address - device->base, device->name);
	else
		printf("%lx: nobody answers\n", address);
	leave(NULL);
}

int main(void)
{
	const struct maple_hooks hooks = { .alloc = get, .free = put, .read_lock = enter, .read_unlock = leave,
					   .call_rcu = after_grace_period };
	struct device uart = { "uart", 0x9000000 }, disk = { "disk", 0xa000000 };

	maple_set_hooks(&hooks);
	mt_set_in_rcu(&bus);
	mtree_insert_range(&bus, uart.base, uart.base + 0xfff, &uart, GFP_KERNEL);
	mtree_insert_range(&bus, disk.base, disk.base + 0x1ff, &disk, GFP_KERNEL);
	printf("twice: %d\n", mtree_insert(&bus, uart.base + 8, &disk, GFP_KERNEL));
	read_from(0x9000018);
	read_from(0xa000200);
	read_from(0xa0001fc);
	mtree_erase(&bus, disk.base);
	read_from(0xa0001fc);
	mtree_destroy(&bus);
	printf("nodes left: %ld\n", nodes);
	return 0;
}
