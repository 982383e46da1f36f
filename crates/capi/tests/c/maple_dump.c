/* Trees and states as text, on standard output in order with the program's own text, or in a
 * sink. Also the state of locks. */
#include "maple_check.h"
#include <samara/maple_tree_linux.h>

static char text[1 << 20];
static size_t length;

static void keep(void *ctx, const char *part, size_t bytes)
{
	CHECK(ctx == &length && bytes > 0 && bytes <= 256 && length + bytes < sizeof text);
	memcpy(text + length, part, bytes);
	length += bytes;
	text[length] = '\0';
}

static int has(const char *words)
{
	return strstr(text, words) != NULL;
}

static void clear(void)
{
	length = 0;
	text[0] = '\0';
}

static void dumps(void)
{
	struct maple_tree tree = MTREE_INIT(tree, MT_FLAGS_ALLOC_RANGE);
	MA_STATE(mas, &tree, 20, 29);

	maple_set_dump(keep, &length);
	mt_dump(&tree, mt_dump_dec);
	CHECK(has("empty\n"));
	clear();
	SAME(mtree_store(&tree, 0, V(7), GFP_KERNEL), 0);
	mt_dump(&tree, mt_dump_hex);
	CHECK(has("0x0: 0xf\n"));
	for (unsigned long i = 0; i < 300; i++)
		SAME(mtree_store_range(&tree, i * 10, i * 10 + 5, V(i), GFP_KERNEL), 0);
	clear();
	mt_dump(&tree, mt_dump_dec);
	CHECK(has("height 2, tracks gaps\n") || has("height 3, tracks gaps\n"));
	CHECK(has(" 20-25: 0x5\n") && has(" 26-29: hole\n") && has(" 2990-2995: 0x257\n"));
	clear();
	mt_dump(&tree, mt_dump_hex);
	CHECK(has(" 0x14-0x19: 0x5\n") && has(" 0x1a-0x1d: hole\n"));

	clear();
	mas_dump(&mas);
	CHECK(has("0x14-0x1d, start"));
	SAME(mas_find(&mas, 100), V(2));
	clear();
	mas_dump(&mas);
	CHECK(has("0x14-0x19, active") && text[length - 1] == '\n');
	SAME(mas_preallocate(&mas, V(1), GFP_KERNEL), 0);
	SAME(mas_expected_entries(&mas, 100), 0);
	clear();
	mas_dump(&mas);
	CHECK(has("nodes set aside"));
	mas_destroy(&mas);

	/* On standard output. */
	maple_set_dump(NULL, NULL);
	clear();
	mas_dump(&mas);
	mt_dump(&tree, mt_dump_hex);
	SAME(length, 0);
	mtree_destroy(&tree);
}

static void locks(void)
{
	static int lock;
	DEFINE_MTREE(tree);
	struct maple_tree theirs = MTREE_INIT_EXT(theirs, 0, lock);
	MA_STATE(mas, &tree, 0, 0);
	MA_STATE(their, &theirs, 0, 0);
	unsigned long flags = 1;

	CHECK(!mt_lock_is_held(&tree) && !mt_locked(&tree) && !mt_write_locked(&tree));
	mas_lock_irqsave(&mas, flags);
	CHECK(mt_lock_is_held(&tree) && mt_locked(&tree) && mt_write_locked(&tree) && mt_write_lock_is_held(&tree));
	mas_unlock_irqrestore(&mas, flags);
	CHECK(!mt_lock_is_held(&tree));
	mtree_lock_irqsave(&tree, flags);
	CHECK(mt_lock_is_held(&tree));
	mtree_unlock_irqrestore(&tree, flags);
	mtree_lock_irq(&tree);
	mtree_unlock_irq(&tree);
	mtree_lock_bh(&tree);
	CHECK(mt_lock_is_held(&tree));
	mtree_unlock_bh(&tree);
	mtree_lock_nested(&tree, 1);
	mtree_unlock(&tree);
	CHECK(!mt_lock_is_held(&tree));

	/* The caller's lock: nothing is taken, and it counts as held. */
	mas_lock_irqsave(&their, flags);
	mas_lock_irq(&their);
	mas_unlock_irq(&their);
	mas_unlock_irqrestore(&their, flags);
	CHECK(mt_lock_is_held(&theirs));
	mt_init(&theirs);
	CHECK(!mt_lock_is_held(&theirs));
	mt_set_external_lock(&theirs, lock);
	mt_on_stack(theirs);
	CHECK(mt_external_lock(&theirs));

	CHECK(mas_is_start(&mas) && !mas_is_none(&mas) && !mas_is_paused(&mas));
	mas_pause(&mas);
	CHECK(mas_is_paused(&mas) && !mas_is_overflow(&mas) && !mas_is_underflow(&mas));
}

int main(void)
{
	dumps();
	locks();
	puts("ok");
	return 0;
}
