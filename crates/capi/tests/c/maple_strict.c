/* The headers in strict C99. */
#include <samara/maple_tree.h>
#include <samara/maple_tree_linux.h>
#include <samara/memblock.h>
#include <stdio.h>

static int lock;
DEFINE_MTREE(plain);
static struct maple_tree gaps = MTREE_INIT(gaps, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU);
static struct {
	int before;
	struct maple_tree inside;
} theirs = { 1, MTREE_INIT_EXT(theirs.inside, MT_FLAGS_ALLOC_RANGE, lock) };

int main(void)
{
	unsigned long index = 0;
	int number = 3;
	void *entry;
	MA_STATE(mas, &plain, number, number + 4);

	if (mas.tree != &plain || mas.index != 3 || mas.last != 7 || mas.max != ~0ul || mas.status != ma_start || mas.alloc)
		return 1;
	if (plain.ma_flags || gaps.ma_flags != 3 || !mt_external_lock(&theirs.inside) || plain.ma_root)
		return 1;
	if (mt_lock_is_held(&plain) || !mas_is_start(&mas) || mt_dump_dec == mt_dump_hex)
		return 1;
	mas_lock_irqsave(&mas, index);
	mas_unlock_irqrestore(&mas, index);
	mas_lock_nested(&mas, 1);
	mas_store(&mas, xa_mk_value(5));
	mas_unlock(&mas);
	mt_for_each(&plain, entry, index, ~0ul)
		number += (int)xa_to_value(entry);
	mas_set(&mas, 0);
	mas_for_each(&mas, entry, ~0ul)
		number += xa_is_value(entry);
	mas_set(&mas, ~0ul);
	mas_for_each_rev(&mas, entry, 0)
		number += !xa_is_zero(entry) && !xa_is_err(entry);
	mtree_destroy(&plain);
	return number == 10 && puts("ok") >= 0 ? 0 : 1;
}
