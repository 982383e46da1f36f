/*
 * Code written for Linux's maple tree also expects this, besides the functions: loops, locks by
 * state, an external lock named in the initialiser, numbers as entries.
 *
 * These are only macros and inline functions for maple_tree.h. They have a header of their own, so
 * that programs with their own definitions need not include them.
 */
#ifndef MAPLE_TREE_LINUX_H
#define MAPLE_TREE_LINUX_H
#include <samara/maple_tree.h>

/* A tree with the caller's lock. The library never uses the lock: sizeof only checks that it
 * exists. */
#define MTREE_INIT_EXT(name, flags, lock) MTREE_INIT(name, (flags) | MT_FLAGS_LOCK_EXTERN | 0 * (unsigned int)sizeof(lock))
#define mt_set_external_lock(mt, lock) ((void)((mt)->ma_flags |= MT_FLAGS_LOCK_EXTERN | 0 * (unsigned int)sizeof(lock)))
/* Trees on the stack need no special treatment. */
#define mt_on_stack(mt) ((void)&(mt))

/* The tree's own lock, given by a state. There are no interrupts to disable. */
#define mas_lock(mas) mtree_lock((mas)->tree)
#define mas_lock_nested(mas, subclass) mas_lock(mas)
#define mas_unlock(mas) mtree_unlock((mas)->tree)
#define mas_lock_bh(mas) mas_lock(mas)
#define mas_unlock_bh(mas) mas_unlock(mas)
#define mas_lock_irq(mas) mas_lock(mas)
#define mas_unlock_irq(mas) mas_unlock(mas)
#define mas_lock_irqsave(mas, flags) ((void)((flags) = 0), mas_lock(mas))
#define mas_unlock_irqrestore(mas, flags) ((void)(flags), mas_unlock(mas))
#define mtree_lock_nested(mt, subclass) mtree_lock(mt)
#define mtree_lock_bh(mt) mtree_lock(mt)
#define mtree_unlock_bh(mt) mtree_unlock(mt)
#define mtree_lock_irq(mt) mtree_lock(mt)
#define mtree_unlock_irq(mt) mtree_unlock(mt)
#define mtree_lock_irqsave(mt, flags) ((void)((flags) = 0), mtree_lock(mt))
#define mtree_unlock_irqrestore(mt, flags) ((void)(flags), mtree_unlock(mt))

/* True if any thread holds the lock, and always true for an external one. Readers and writers of
 * a tree share one lock. */
#define mt_locked(mt) mt_lock_is_held(mt)
#define mt_write_locked(mt) mt_lock_is_held(mt)
#define mt_write_lock_is_held(mt) mt_lock_is_held(mt)

/* The status of a state. */
#define mas_is_start(mas) ((mas)->status == ma_start)
#define mas_is_none(mas) ((mas)->status == ma_none)
#define mas_is_paused(mas) ((mas)->status == ma_pause)
#define mas_is_overflow(mas) ((mas)->status == ma_overflow)
#define mas_is_underflow(mas) ((mas)->status == ma_underflow)

/* Loops over each entry that has a part at or above `index` and starts at or below `max`. Skips
 * entries that read as NULL. Takes no lock between entries. `index` ends after the last entry. */
#define mt_for_each(mt, entry, index, max)                                     \
	for ((entry) = mt_find((mt), &(index), (max)); (entry);                \
	     (entry) = mt_find_after((mt), &(index), (max)))

/* Loop over each entry from the state's index up to `max`, or down to `min`. The state is on the
 * entry. The caller locks. */
#define mas_for_each(mas, entry, max) \
	while (((entry) = mas_find((mas), (max))) != NULL)
#define mas_for_each_rev(mas, entry, min) \
	while (((entry) = mas_find_rev((mas), (min))) != NULL)

/* Converts a number to an entry, which is never NULL or reserved, and back. The highest bit is
 * lost. */
static inline void *xa_mk_value(unsigned long number)
{
	return (void *)((number << 1) | 1ul);
}

static inline unsigned long xa_to_value(const void *entry)
{
	return (unsigned long)entry >> 1;
}

static inline bool xa_is_value(const void *entry)
{
	return ((unsigned long)entry & 1ul) != 0;
}

static inline bool xa_is_zero(const void *entry)
{
	return entry == XA_ZERO_ENTRY;
}

/* Error codes in `node` of a state in error, as negative numbers. 0 for anything else. */
static inline bool xa_is_err(const void *entry)
{
	return ((unsigned long)entry & 3ul) == 2ul && (unsigned long)entry >= (unsigned long)MA_ERROR(-4095);
}

static inline int xa_err(const void *entry)
{
	return xa_is_err(entry) ? (int)((long)entry >> 2) : 0;
}
#endif
