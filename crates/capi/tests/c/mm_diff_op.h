/* The operations of a history, drawn at random and printed as text. */
#ifndef MM_DIFF_OP_H
#define MM_DIFF_OP_H
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#define PAGE 4096ull
#define PAGES 64 /* of the window, in whose middle one last-level table ends and the next begins */
#ifndef WINDOW
#define WINDOW (0x2000000000ull + (2u << 20) - PAGES / 2 * PAGE)
#endif
#define WINDOW_END (WINDOW + PAGES * PAGE)
#define PROCESSES 4
#define FILES 5
#define FILE_PAGES 24

enum kind {
	OP_MMAP, OP_MUNMAP, OP_MPROTECT, OP_MREMAP, OP_MADVISE, OP_MLOCK, OP_MUNLOCK, OP_MLOCKALL, OP_MUNLOCKALL, OP_MSYNC,
	OP_MINCORE, OP_MSEAL, OP_REMAP, OP_LOAD, OP_STORE, OP_FETCH, OP_COPY, OP_FILL, OP_FORK, OP_EXIT, OP_TRUNCATE, OP_PUNCH,
	OP_KINDS
};

static const char *const kind_names[OP_KINDS] = {
	"mmap", "munmap", "mprotect", "mremap", "madvise", "mlock", "munlock", "mlockall", "munlockall", "msync",
	"mincore", "mseal", "remap_file_pages", "load", "store", "fetch", "copy", "fill", "fork", "exit", "truncate", "punch",
};

struct op {
	int kind, process;
	int ref;            /* 0: addresses in the window; n: an offset in what the n-th mmap of the history gave */
	int file;           /* FILES: none */
	uint64_t addr, len; /* in bytes */
	uint64_t to, new_len;
	uint64_t offset;
	int prot, flags;    /* flags: of the call; advice; byte to store; whether the fork shares */
};

static uint64_t draw_state;

static inline unsigned draw(unsigned below)
{
	draw_state = draw_state * 0x5851f42d4c957f2dull + 0x14057b7ef767814full;
	return (unsigned)((draw_state >> 33) % below);
}

static inline uint64_t draw_page(void)
{
	/* Mostly near the boundary of two tables, so that areas meet. */
	return draw(4) ? PAGES / 2 - 8 + draw(16) : draw(PAGES);
}

static inline uint64_t draw_length(uint64_t page)
{
	uint64_t n = draw(3) ? 1 + draw(4) : 1 + draw(12);

	if (page + n > PAGES)
		n = PAGES - page;
	return n * PAGE - (draw(12) ? 0 : draw(4095));
}

static const int advices[] = {
	MADV_DONTNEED, MADV_DONTNEED, MADV_DONTNEED, MADV_FREE, MADV_FREE, MADV_REMOVE, MADV_REMOVE, MADV_DONTFORK, MADV_DOFORK,
	MADV_WIPEONFORK, MADV_WIPEONFORK, MADV_KEEPONFORK, 22 /* POPULATE_READ */, 22, 23 /* POPULATE_WRITE */, 23,
	24 /* DONTNEED_LOCKED */, MADV_WILLNEED, MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_DONTDUMP, MADV_DODUMP,
	MADV_NOHUGEPAGE, 102 /* GUARD_INSTALL */, 102, 103 /* GUARD_REMOVE */, 103, 77 /* none */,
};

static inline int draw_prot(void)
{
	static const int some[] = {
		PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ, PROT_READ,
		PROT_NONE, PROT_WRITE, PROT_READ | PROT_EXEC, PROT_READ | PROT_WRITE | PROT_EXEC,
	};

	return some[draw(sizeof some / sizeof *some)];
}

/* Draws an operation. `free_place`: mappings also go where the kernel chooses. `maps`: the
 * number of mmaps drawn so far. */
static inline struct op draw_op(int free_place, int *maps)
{
	struct op op = {0};
	uint64_t page = draw_page();
	unsigned which = draw(*maps < 5 ? 190 : 1000); /* first something to work on */
	int ref = free_place && *maps && draw(3) ? 1 + (int)draw((unsigned)*maps) : 0;

	op.process = (int)draw(PROCESSES);
	op.file = FILES;
	op.addr = WINDOW + page * PAGE;
	op.len = draw_length(page);
	if (ref) {
		op.ref = ref;
		op.addr = draw(6) * PAGE;
	}
	if (which < 190) {
		op.kind = OP_MMAP;
		++*maps;
		op.ref = 0;
		op.prot = draw_prot();
		op.flags = draw(3) ? MAP_PRIVATE : MAP_SHARED;
		if (draw(2))
			op.flags |= MAP_ANONYMOUS;
		else
			op.file = (int)draw(FILES);
		op.offset = op.file == FILES ? 0 : draw(draw(4) ? 8 : FILE_PAGES) * PAGE;
		if (free_place && draw(2)) {
			op.addr = 0;
		} else {
			op.addr = WINDOW + page * PAGE;
			op.flags |= draw(4) ? MAP_FIXED : MAP_FIXED_NOREPLACE;
		}
		op.len = draw_length(page);
		if (draw(10) == 0)
			op.flags |= MAP_POPULATE;
		if (draw(20) == 0)
			op.flags |= MAP_LOCKED;
		if (draw(20) == 0)
			op.flags |= MAP_NORESERVE;
		if (draw(20) == 0)
			op.flags |= MAP_GROWSDOWN;
		if (draw(30) == 0)
			op.flags |= MAP_STACK;
	} else if (which < 240) {
		op.kind = OP_MUNMAP;
	} else if (which < 310) {
		op.kind = OP_MPROTECT;
		op.prot = draw_prot();
	} else if (which < 380) {
		uint64_t to = draw_page();
		static const int flags[] = {
			0, MREMAP_MAYMOVE | MREMAP_FIXED, MREMAP_MAYMOVE | MREMAP_FIXED, MREMAP_MAYMOVE | MREMAP_FIXED,
			MREMAP_MAYMOVE | MREMAP_FIXED | 4 /* DONTUNMAP */, MREMAP_FIXED,
		};

		op.kind = OP_MREMAP;
		op.flags = free_place && draw(3) == 0 ? MREMAP_MAYMOVE : flags[draw(6)];
		op.to = WINDOW + to * PAGE;
		op.new_len = draw(2) ? op.len : draw_length(to);
		if (to * PAGE + op.new_len > PAGES * PAGE)
			op.new_len = (PAGES - to) * PAGE;
		/* Growth in place stays within the window. */
		if (!op.ref && page * PAGE + op.new_len > PAGES * PAGE)
			op.new_len = (PAGES - page) * PAGE;
		if (draw(25) == 0)
			op.len = 0;
	} else if (which < 490) {
		op.kind = OP_MADVISE;
		op.flags = advices[draw(sizeof advices / sizeof *advices)];
	} else if (which < 510) {
		op.kind = OP_MLOCK;
		op.flags = draw(3) == 0;
	} else if (which < 525) {
		op.kind = OP_MUNLOCK;
	} else if (which < 545) {
		op.kind = OP_MSYNC;
		op.flags = (int)draw(8);
	} else if (which < 560) {
		op.kind = OP_MINCORE;
	} else if (which < 563) {
		op.kind = OP_MSEAL;
	} else if (which < 573) {
		op.kind = OP_REMAP;
		op.offset = draw(8);
	} else if (which < 660) {
		op.kind = OP_LOAD;
		op.addr += draw(4096);
		op.len = 1;
	} else if (which < 800) {
		op.kind = OP_STORE;
		op.addr += draw(4096);
		op.len = 1;
		op.flags = 1 + (int)draw(255);
	} else if (which < 815) {
		op.kind = OP_FETCH;
	} else if (which < 855) {
		op.kind = OP_COPY;
		op.addr += draw(4096);
		op.len = 1 + draw(6000);
	} else if (which < 915) {
		op.kind = OP_FILL;
		op.addr += draw(4096);
		op.len = 1 + draw(6000);
		op.flags = 1 + (int)draw(255);
	} else if (which < 950) {
		op.kind = OP_FORK;
		op.flags = (int)draw(2);
	} else if (which < 975) {
		op.kind = OP_EXIT;
	} else if (which < 988) {
		op.kind = OP_TRUNCATE;
		op.file = (int)draw(FILES);
		op.len = draw(FILE_PAGES + 1) * PAGE + (draw(2) ? draw(4096) : 0);
	} else {
		op.kind = OP_PUNCH;
		op.file = (int)draw(FILES);
		op.addr = draw(FILE_PAGES) * PAGE;
		op.len = (1 + draw(4)) * PAGE;
	}
	return op;
}

static inline void write_op(FILE *out, const struct op *op)
{
	fprintf(out, "%d %-9s", op->process, kind_names[op->kind]);
	if (op->ref)
		fprintf(out, " map %d +%#llx", op->ref, (unsigned long long)op->addr);
	else if (op->addr >= WINDOW && op->addr < WINDOW_END)
		fprintf(out, " page %llu+%#llx", (unsigned long long)((op->addr - WINDOW) / PAGE), (unsigned long long)(op->addr % PAGE));
	else
		fprintf(out, " %#llx", (unsigned long long)op->addr);
	fprintf(out, " len %#llx", (unsigned long long)op->len);
	if (op->kind == OP_MREMAP)
		fprintf(out, " new_len %#llx to page %llu", (unsigned long long)op->new_len, (unsigned long long)((op->to - WINDOW) / PAGE));
	fprintf(out, " prot %d flags %#x", op->prot, (unsigned)op->flags);
	if (op->file != FILES)
		fprintf(out, " file %d offset %#llx", op->file, (unsigned long long)op->offset);
	fputc('\n', out);
}
#endif
