/* A small program on a disk, for the tests of mm_exec: a page of code, then data followed by
 * zeroes. */
#ifndef MM_PROGRAM_H
#define MM_PROGRAM_H
#include "mm_check.h"

#define CODE 0x400000ull
#define DATA 0x600000ull
#define FILLED 0x123ull
#define ZEROED 0x2345ull

static inline void word_at(struct disk *disk, unsigned at, uint64_t value, unsigned bytes)
{
	unsigned i;

	for (i = 0; i < bytes; i++)
		disk->bytes[at + i] = (unsigned char)(value >> 8 * i);
}

static inline void segment_at(struct disk *disk, unsigned at, unsigned flags, uint64_t offset, uint64_t address, uint64_t in_file, uint64_t in_memory)
{
	word_at(disk, at, 1, 4);
	word_at(disk, at + 4, flags, 4);
	word_at(disk, at + 8, offset, 8);
	word_at(disk, at + 16, address, 8);
	word_at(disk, at + 32, in_file, 8);
	word_at(disk, at + 40, in_memory, 8);
}

/* Page 0 has the headers and code, page 1 has data. */
static inline void program_new(struct disk *disk)
{
	disk_new(disk, 3 * PG);
	memset(disk->bytes, 0, PG);
	memcpy(disk->bytes, "\177ELF\2\1\1", 7);
	word_at(disk, 16, 2, 2);
	word_at(disk, 18, 62, 2);
	word_at(disk, 20, 1, 4);
	word_at(disk, 24, CODE + 0x100, 8);
	word_at(disk, 32, 64, 8);
	word_at(disk, 54, 56, 2);
	word_at(disk, 56, 2, 2);
	segment_at(disk, 64, 5, 0, CODE, PG, PG);
	segment_at(disk, 120, 6, PG, DATA, FILLED, FILLED + ZEROED);
}

static inline int64_t program_read(void *ctx, uint64_t offset, void *to, size_t len)
{
	struct disk *disk = (struct disk *)ctx;

	if (offset >= disk->size)
		return 0;
	if (len > disk->size - offset)
		len = disk->size - offset;
	memcpy(to, disk->bytes + offset, len);
	return (int64_t)len;
}
#endif
