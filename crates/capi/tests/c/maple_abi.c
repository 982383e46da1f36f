/* Sizes, offsets and constants as C sees them, for comparison with the library's. */
#include <samara/maple_tree.h>
#include <samara/maple_tree.h>
#include <stdio.h>

#define SIZE(t) printf("sizeof %s %zu\n", #t, sizeof(t))
#define OFF(t, m) printf("offsetof %s.%s %zu\n", #t, #m, offsetof(t, m))
#define NUM(n) printf("value %s %lu\n", #n, (unsigned long)(n))

DEFINE_MTREE(at_rest);
static struct maple_tree with_gaps = MTREE_INIT(with_gaps, MT_FLAGS_ALLOC_RANGE);

int main(void)
{
	MA_STATE(mas, &at_rest, 5, 9);

	SIZE(struct maple_tree);
	OFF(struct maple_tree, ma_lock);
	OFF(struct maple_tree, ma_flags);
	OFF(struct maple_tree, ma_root);
	SIZE(struct ma_state);
	OFF(struct ma_state, tree);
	OFF(struct ma_state, index);
	OFF(struct ma_state, last);
	OFF(struct ma_state, node);
	OFF(struct ma_state, min);
	OFF(struct ma_state, max);
	OFF(struct ma_state, alloc);
	OFF(struct ma_state, status);
	OFF(struct ma_state, depth);
	OFF(struct ma_state, offset);
	OFF(struct ma_state, mas_flags);
	OFF(struct ma_state, end);
	OFF(struct ma_state, store_type);
	SIZE(struct maple_rcu_head);
	SIZE(struct maple_hooks);
	OFF(struct maple_hooks, ctx);
	OFF(struct maple_hooks, alloc);
	OFF(struct maple_hooks, free);
	OFF(struct maple_hooks, read_lock);
	OFF(struct maple_hooks, read_unlock);
	OFF(struct maple_hooks, call_rcu);
	SIZE(struct maple_bulk_hooks);
	OFF(struct maple_bulk_hooks, ctx);
	OFF(struct maple_bulk_hooks, alloc_bulk);
	OFF(struct maple_bulk_hooks, free_bulk);
	SIZE(struct maple_pool_stats);
	OFF(struct maple_pool_stats, mapped);
	OFF(struct maple_pool_stats, used);
	OFF(struct maple_pool_stats, kept);
	NUM(ma_active);
	NUM(ma_start);
	NUM(ma_root);
	NUM(ma_none);
	NUM(ma_pause);
	NUM(ma_overflow);
	NUM(ma_underflow);
	NUM(ma_error);
	/* The macros create the same states as the functions. */
	struct ma_state set;
	mas_init(&set, &at_rest, 5);
	set.last = 9;
	NUM(mas.tree == set.tree && mas.index == set.index && mas.last == set.last && mas.node == set.node &&
	    mas.min == set.min && mas.max == set.max && mas.alloc == set.alloc && mas.status == set.status);
	NUM(mtree_empty(&with_gaps));
	return 0;
}
