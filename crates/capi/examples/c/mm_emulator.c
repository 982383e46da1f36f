/*
 * The memory of a user-mode emulator: a guest's system calls, loads and stores, forks and signals,
 * on samara/mm.h. The guest is a small program for an invented processor, whose instructions are
 * read from its own memory, too.
 *
 *   cc -I include examples/c/mm_emulator.c libsamara.a -lpthread -ldl -lm
 */
#include <samara/mm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROT_R = 1, PROT_W = 2, PROT_X = 4, SHARED = 1, PRIVATE = 2, FIXED = 0x10, ANONYMOUS = 0x20, SYNC = 4 };
enum { SEGV = 11, BUS = 7 };

/* ---- a file: some bytes of the host's ---- */
struct file {
	unsigned char bytes[8192];
	uint64_t size;
};

static int read_page(void *ctx, uint64_t pgoff, void *page)
{
	memcpy(page, ((struct file *)ctx)->bytes + pgoff * 4096, 4096); /* never beyond the size, rounded up to a page */
	return 0;
}

static int write_page(void *ctx, uint64_t pgoff, const void *page)
{
	memcpy(((struct file *)ctx)->bytes + pgoff * 4096, page, 4096);
	return 0;
}

static uint64_t file_size(void *ctx)
{
	return ((struct file *)ctx)->size;
}

static void file_release(void *ctx)
{
	(void)ctx;
	puts("the file is nobody's any more");
}

/* ---- a processor: one accumulator, one address register, and where it is ---- */
enum code { END, LOAD, STORE, ADD, POINT, MAP, UNMAP, PROTECT, MSYNC, FORK, PRINT, HANDLER };
struct instruction {
	uint32_t code, argument; /* of the calls: pages, or the protection */
	uint64_t address;
};
struct cpu {
	struct mm *mm;
	struct mm_file *file;
	const char *name;
	uint64_t pc, pointer, handler;
	int accumulator;
};

static void fail(const char *what)
{
	puts(what);
	exit(1);
}

/* An access of the guest, with its faults. An access that does not succeed raises a signal, and
 * a second fault there tells which. */
static int access_guest(struct cpu *cpu, uint64_t address, void *bytes, size_t size, unsigned kind)
{
	int code = 0, result;

	if (kind != MM_EXEC || !(result = mm_fault(cpu->mm, address, MM_EXEC, &code))) {
		if ((kind == MM_WRITE ? mm_copy_in(cpu->mm, address, bytes, size) : mm_copy_out(cpu->mm, address, bytes, size)) == size)
			return 1;
		result = mm_fault(cpu->mm, address, kind, &code);
	}
	if (result < 0)
		fail("no memory");
	printf("%s: signal %d (%s), code %d, at %#llx\n", cpu->name, result, result == SEGV ? "SEGV" : "BUS", code, (unsigned long long)address);
	return 0;
}

static void run(struct cpu *cpu);

static void fork_guest(const struct cpu *parent)
{
	struct cpu child = *parent;

	child.name = "child";
	child.accumulator = 0;
	/* Shares tables: almost free, however much memory the guest has. */
	if (mm_fork(parent->mm, MM_FORK_SHARE, &child.mm))
		fail("no memory for a child");
	run(&child);
	mm_put(child.mm);
}

/* Executes one instruction. Returns 0 when the guest has ended. */
static int step(struct cpu *cpu)
{
	struct instruction now;
	unsigned char byte = (unsigned char)cpu->accumulator;
	int64_t result = 0;

	if (!access_guest(cpu, cpu->pc, &now, sizeof now, MM_EXEC))
		return 0;
	cpu->pc += sizeof now;
	switch (now.code) {
	case LOAD:
	case STORE:
		if (!access_guest(cpu, cpu->pointer + now.address, &byte, 1, now.code == STORE ? MM_WRITE : MM_READ)) {
			if (!cpu->handler)
				return 0;
			cpu->pc = cpu->handler;
			cpu->handler = 0;
		}
		cpu->accumulator = byte;
		break;
	case ADD:
		cpu->accumulator += (int)now.argument;
		break;
	case POINT:
		cpu->pointer = now.address;
		break;
	case MAP: /* its file if the address is 0, memory of its own otherwise */
		result = now.address ? mm_mmap(cpu->mm, now.address, now.argument * 4096ull, PROT_R | PROT_W, PRIVATE | ANONYMOUS | FIXED, NULL, 0)
				     : mm_mmap(cpu->mm, 0, now.argument * 4096ull, PROT_R | PROT_W, SHARED, cpu->file, 0);
		cpu->pointer = (uint64_t)result;
		break;
	case UNMAP:
		result = mm_munmap(cpu->mm, now.address, now.argument * 4096ull);
		break;
	case PROTECT:
		result = mm_mprotect(cpu->mm, now.address, 4096, (int)now.argument);
		break;
	case MSYNC:
		result = mm_msync(cpu->mm, cpu->pointer, 4096, SYNC);
		break;
	case FORK:
		fork_guest(cpu);
		cpu->accumulator = 1;
		break;
	case PRINT:
		printf("%s: %d\n", cpu->name, cpu->accumulator);
		break;
	case HANDLER:
		cpu->handler = now.address;
		break;
	default:
		return 0;
	}
	if (result < 0)
		printf("%s: error %lld\n", cpu->name, (long long)-result);
	return 1;
}

static void run(struct cpu *cpu)
{
	while (step(cpu))
		;
}

#define TEXT 0x400000ull
#define DATA 0x600000ull
#define AT(n) (TEXT + (n) * sizeof(struct instruction))

static const struct instruction program[] = {
	{MAP, 4, DATA}, {ADD, 7, 0}, {STORE, 0, 0x10}, {FORK, 0, 0},
	/* The child has 0 in the accumulator, the parent 1. Each adds 10 to the value in its own
	 * memory. */
	{LOAD, 0, 0x10}, {ADD, 10, 0}, {STORE, 0, 0x10}, {PRINT, 0, 0},
	/* The file: its content, a store to it, and an access beyond its end. */
	{MAP, 2, 0}, {LOAD, 0, 0}, {PRINT, 0, 0}, {ADD, 1, 0}, {STORE, 0, 0}, {MSYNC, 0, 0}, {HANDLER, 0, AT(16)}, {LOAD, 0, 4096},
	/* A read-only page, with a handler and without. */
	{PROTECT, PROT_R, DATA}, {POINT, 0, DATA}, {HANDLER, 0, AT(20)}, {STORE, 0, 0x10},
	{LOAD, 0, 0x10}, {PRINT, 0, 0}, {UNMAP, 4, DATA}, {LOAD, 0, 0x10}, {END, 0, 0},
};

int main(void)
{
	struct mm_file_info info = {"/guest/file", 8, 1, 42, MM_FILE_READ | MM_FILE_WRITE};
	struct mm_file_ops ops = {read_page, write_page, NULL, file_size, file_release};
	static struct file file = {{'A'}, 100};
	struct mm_config config;
	struct mm_phys *phys;
	struct mm_phys_stats stats;
	struct cpu cpu;
	char maps[2048];

	memset(&cpu, 0, sizeof cpu);
	cpu.name = "parent";
	cpu.pc = TEXT;
	mm_config_default(&config);
	if (mm_phys_new(MM_X86_64, NULL, 4096, &phys) || mm_new(&config, phys, NULL, &cpu.mm) || mm_file_open(&info, &ops, &file, &cpu.file))
		fail("no memory");
	/* The loader: text that is written, and then made executable. */
	if (mm_mmap(cpu.mm, TEXT, 4096, PROT_R | PROT_W, PRIVATE | ANONYMOUS | FIXED, NULL, 0) != (int64_t)TEXT ||
	    mm_copy_in(cpu.mm, TEXT, program, sizeof program) != sizeof program || mm_mprotect(cpu.mm, TEXT, 4096, PROT_R | PROT_X))
		fail("the program does not load");
	run(&cpu);
	mm_maps(cpu.mm, maps, sizeof maps);
	fputs(maps, stdout);
	printf("the file begins with %c\n", file.bytes[0]);
	mm_file_put(cpu.file);
	mm_put(cpu.mm);
	mm_phys_stats(phys, &stats);
	printf("%llu frames of private memory, %llu of files, %llu of tables are left\n", (unsigned long long)stats.anon,
	       (unsigned long long)stats.file, (unsigned long long)stats.tables);
	mm_phys_put(phys);
	return 0;
}
