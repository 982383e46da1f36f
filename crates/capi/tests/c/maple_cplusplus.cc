// The header in C++: declarations with C linkage.
#include <samara/maple_tree.h>
#include <cstdio>

int main()
{
	struct maple_tree tree;
	struct ma_state mas;
	unsigned long index = 0;

	mt_init_flags(&tree, MT_FLAGS_ALLOC_RANGE);
	mas_init(&mas, &tree, 7);
	if (mas_store_gfp(&mas, &tree, GFP_KERNEL) || mtree_load(&tree, 7) != &tree)
		return 1;
	if (mt_find(&tree, &index, ~0ul) != &tree || index != 8)
		return 1;
	mtree_destroy(&tree);
	std::puts("ok");
	return 0;
}
