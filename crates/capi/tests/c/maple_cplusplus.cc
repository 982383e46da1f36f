// The headers in C++: declarations with C linkage, initialisers, loops.
#include <samara/maple_tree.h>
#include <samara/maple_tree_linux.h>
#include <samara/memblock.h>
#include <cstdio>

static int lock;
DEFINE_MTREE(plain);
static struct maple_tree gaps = MTREE_INIT(gaps, MT_FLAGS_ALLOC_RANGE);
static struct maple_tree theirs = MTREE_INIT_EXT(theirs, MT_FLAGS_ALLOC_RANGE, lock);

int main()
{
	struct maple_tree tree;
	struct ma_state mas;
	unsigned long index = 0;
	void *entry;
	int number = 3;

	mt_init_flags(&tree, MT_FLAGS_ALLOC_RANGE);
	mas_init(&mas, &tree, 7);
	if (mas_store_gfp(&mas, &tree, GFP_KERNEL) || mtree_load(&tree, 7) != &tree)
		return 1;
	if (mt_find(&tree, &index, ~0ul) != &tree || index != 8)
		return 1;
	mtree_destroy(&tree);

	MA_STATE(range, &plain, number, number + 4);
	if (range.tree != &plain || range.index != 3 || range.last != 7 || range.max != ~0ul || range.status != ma_start)
		return 1;
	if (plain.ma_flags != 0 || gaps.ma_flags != MT_FLAGS_ALLOC_RANGE || !mt_external_lock(&theirs))
		return 1;
	mas_lock_irqsave(&range, index);
	if (!mt_write_locked(&plain))
		return 1;
	mas_unlock_irqrestore(&range, index);
	mas_lock(&range);
	mas_store(&range, xa_mk_value(5));
	mas_unlock(&range);
	index = 0;
	mt_for_each(&plain, entry, index, ~0ul)
		number += xa_to_value(entry);
	mas_set(&range, 0);
	mas_for_each(&range, entry, ~0ul)
		number += xa_is_value(entry);
	mas_set(&range, ~0ul);
	mas_for_each_rev(&range, entry, 0)
		number += !xa_is_zero(entry) && xa_err(entry) == 0;
	if (number != 10)
		return 1;
	mtree_destroy(&plain);
	std::puts("ok");
	return 0;
}
