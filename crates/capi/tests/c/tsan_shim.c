/*
 * Code that rustc instruments for ThreadSanitizer copies memory through these names, which gcc's
 * runtime library does not have. That library sees the same accesses in its own memcpy() and
 * related functions.
 */
#include <string.h>

void *__tsan_memcpy(void *to, const void *from, size_t n)
{
	return memcpy(to, from, n);
}

void *__tsan_memmove(void *to, const void *from, size_t n)
{
	return memmove(to, from, n);
}

void *__tsan_memset(void *to, int byte, size_t n)
{
	return memset(to, byte, n);
}
