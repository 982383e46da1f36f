/* Programs: what they find at their first instruction, and how an exec fails. */
#include "mm_program.h"

static struct disk program, script, broken;

static int open_file(void *ctx, const char *path, struct mm_program *opened)
{
	struct disk *disk = !strcmp(path, "/program") ? &program
			    : !strcmp(path, "/script") ? &script
			    : !strcmp(path, "/broken") ? &broken
						       : NULL;

	++*(int *)ctx;
	if (!disk)
		return -ENOENT;
	opened->file = disk_open(disk, (uint64_t)(disk == &program ? 1 : disk == &script ? 2 : 3), MM_FILE_READ);
	opened->size = disk->size;
	opened->ctx = disk;
	return 0;
}

static uint64_t word(struct mm *mm, uint64_t at)
{
	uint64_t value = 0;

	SAME(mm_copy_out(mm, at, &value, 8), 8);
	return value;
}

static void text_is(struct mm *mm, uint64_t at, const char *text)
{
	size_t i;

	for (i = 0; i <= strlen(text); i++)
		SAME(get(mm, at + i), text[i]);
}

static int opened;
static const char *const arguments[] = {"name", "second", NULL}, *const environment[] = {"A=B", "", NULL};

static struct mm_exec exec_of(const char *path, const struct mm_config *config)
{
	struct mm_exec exec;

	memset(&exec, 0, sizeof exec);
	exec.path = path;
	exec.argv = arguments;
	exec.envp = environment;
	exec.config = config;
	exec.ctx = &opened;
	exec.open = open_file;
	exec.read = program_read;
	exec.uid = 7;
	memcpy(exec.random, "sixteen letters!", 16);
	return exec;
}

/* Returns the value of an entry of the auxiliary vector, which follows the pointers. */
static uint64_t auxiliary(struct mm *mm, uint64_t at, uint64_t kind)
{
	while (word(mm, at) && word(mm, at) != kind)
		at += 16;
	return word(mm, at + 8);
}

static void in_format(enum mm_format format, uint64_t seed)
{
	struct mm_config config = config_for(format);
	struct mm_phys *phys = phys_new(format, 256);
	struct mm_special special[] = {{"[vvar]", 4, false}, {"[vdso]", 2, true}};
	struct mm_exec exec;
	struct mm_started started;
	struct mm *mm = NULL;
	struct mm_area area;
	uint64_t sp, i;

	config.seed = seed;
	exec = exec_of("/program", &config);
	exec.special = special;
	exec.specials = 2;
	SAME(mm_exec(&exec, phys, NULL, &mm, &started), 0);
	SAME(started.start, CODE + 0x100);
	SAME(started.entry, CODE + 0x100);
	SAME(started.headers, CODE + 64);
	SAME(started.bits, 64);
	SAME(started.interpreter, 0);
	sp = started.stack_pointer;
	SAME(sp % 16, 0);
	SAME(word(mm, sp), 2);
	text_is(mm, word(mm, sp + 8), "name");
	text_is(mm, word(mm, sp + 16), "second");
	SAME(word(mm, sp + 24), 0);
	text_is(mm, word(mm, sp + 32), "A=B");
	text_is(mm, word(mm, sp + 40), "");
	SAME(word(mm, sp + 48), 0);
	SAME(auxiliary(mm, sp + 56, 9), started.entry);
	SAME(auxiliary(mm, sp + 56, 33), started.vdso);
	SAME(auxiliary(mm, sp + 56, 11), 7);
	SAME(auxiliary(mm, sp + 56, 17), 100);
	text_is(mm, auxiliary(mm, sp + 56, 31), "/program");
	text_is(mm, auxiliary(mm, sp + 56, 15), "x86_64");
	for (i = 0; i < FILLED + ZEROED; i++)
		SAME(get(mm, DATA + i), i < FILLED ? 2 : 0);
	CHECK(mm_find(mm, started.vdso, &area) && !strcmp(area.name, "[vdso]"));
	CHECK(mm_find(mm, sp, &area) && !strcmp(area.name, "[stack]"));
	SAME(area.end, started.stack_end);
	SAME(fault(mm, started.start, MM_EXEC), 0);
	SAME(fault(mm, CODE, MM_WRITE), ACCERR);
	/* There is a heap, and the program continues like any other. */
	i = mm_brk(mm, 0);
	SAME(mm_brk(mm, i + 2 * PG), i + 2 * PG);
	CHECK(put(mm, i, 5));
	sound(mm);
	mm_put(mm);
	SAME(atomic_load(&program.released), opened);
	all_given_back(phys);
	mm_phys_put(phys);
}

/* An interpreter of binfmt_misc is laid out as that of a script, and gets the descriptor. */
static void of_formats(void)
{
	const uint32_t descriptor = 3;
	struct mm_exec exec = exec_of("/script", NULL);
	struct mm_started without, started;
	struct mm_phys *phys = phys_new(MM_X86_64, 256);
	struct mm *mm = NULL;

	SAME(mm_exec(&exec, phys, NULL, &mm, &without), 0);
	mm_put(mm);
	exec.descriptor = &descriptor;
	SAME(mm_exec(&exec, phys, NULL, &mm, &started), 0);
	SAME(started.stack_pointer, without.stack_pointer - 16);
	SAME(auxiliary(mm, started.stack_pointer + 72, 2), 3);
	text_is(mm, auxiliary(mm, started.stack_pointer + 72, 31), "/script");
	mm_put(mm);
	all_given_back(phys);
	mm_phys_put(phys);
}

static void of_scripts(void)
{
	struct mm_phys *phys = phys_new(MM_X86_64, 256);
	struct mm_exec exec = exec_of("/script", NULL);
	struct mm_started started;
	struct mm *mm = NULL;
	uint64_t sp;

	SAME(mm_exec(&exec, phys, NULL, &mm, &started), 0);
	sp = started.stack_pointer;
	SAME(word(mm, sp), 4);
	text_is(mm, word(mm, sp + 8), "/program");
	text_is(mm, word(mm, sp + 16), "one argument");
	text_is(mm, word(mm, sp + 24), "/script");
	text_is(mm, word(mm, sp + 32), "second");
	text_is(mm, auxiliary(mm, sp + 72, 31), "/script");
	SAME(auxiliary(mm, sp + 72, 2), 0);
	/* A fork of it, and the exit of both. */
	{
		struct mm *child = NULL;

		SAME(mm_fork(mm, MM_FORK_SHARE, &child), 0);
		CHECK(put(child, sp, 9));
		SAME(word(mm, sp), 4);
		mm_put(mm);
		SAME(get(child, sp), 9);
		mm_put(child);
	}
	all_given_back(phys);
	mm_phys_put(phys);
}

static void failures(void)
{
	struct mm_phys *phys = phys_new(MM_X86_64, 256);
	struct mm_config config = config_for(MM_X86_64);
	struct mm_exec exec = exec_of("/nothing", &config);
	struct mm_started started;
	struct mm *mm = NULL;
	static char large[200000];
	const char *const too_long[] = {large, NULL};

	SAME(mm_exec(&exec, phys, NULL, &mm, &started), -ENOENT);
	exec.path = "/broken";
	SAME(mm_exec(&exec, phys, NULL, &mm, &started), -ENOEXEC);
	exec.path = "/program";
	memset(large, 'x', sizeof large - 1);
	exec.argv = too_long;
	SAME(mm_exec(&exec, phys, NULL, &mm, &started), -E2BIG);
	exec.argv = arguments;
	/* No space for the second segment: too late to refuse. */
	config.rlim_as = 36 * PG;
	SAME(mm_exec(&exec, phys, NULL, &mm, &started), SIGSEGV);
	config.rlim_as = MM_UNLIMITED;
	exec.open = NULL;
	SAME(mm_exec(&exec, phys, NULL, &mm, &started), -EINVAL);
	exec.open = open_file;
	exec.path = NULL;
	SAME(mm_exec(&exec, phys, NULL, &mm, &started), -EFAULT);
	SAME(mm_exec(NULL, phys, NULL, &mm, &started), -EINVAL);
	exec.path = "/program";
	SAME(mm_exec(&exec, phys, NULL, NULL, &started), -EINVAL);
	CHECK(!mm);
	/* Without arguments and environment there is an empty name. `started` may be NULL. */
	exec.argv = exec.envp = NULL;
	SAME(mm_exec(&exec, phys, NULL, &mm, NULL), 0);
	mm_put(mm);
	/* The map alone. */
	SAME(mm_exec(&exec, NULL, NULL, &mm, &started), 0);
	sound(mm);
	mm_put(mm);
	all_given_back(phys);
	mm_phys_put(phys);
}

/* Each allocation of frames is refused. */
static void without_frames(void)
{
	int64_t n;
	int result;

	for (n = 0;; n++) {
		struct ram ram;
		struct mm_phys_ops ops = ram_new(&ram, 256);
		struct mm_exec exec = exec_of("/script", NULL);
		struct mm_phys *phys = NULL;
		struct mm *mm = NULL;

		SAME(mm_phys_new(MM_X86_64, &ops, 0, &phys), 0);
		ram.countdown = n;
		result = mm_exec(&exec, phys, NULL, &mm, NULL);
		ram.countdown = -1;
		CHECK(result == 0 || (result == SIGSEGV && !mm));
		mm_put(mm);
		mm_phys_put(phys);
		ram_end(&ram);
		if (result == 0)
			break;
	}
	CHECK(n > 4);
}

int main(void)
{
	size_t i;

	program_new(&program);
	disk_new(&script, 0);
	script.size = (uint64_t)sprintf((char *)script.bytes, "#! /program one argument \n");
	disk_new(&broken, PG);
	for (i = 0; i < FORMATS; i++) {
		opened = 0;
		atomic_store(&program.released, 0);
		in_format(formats[i], 0);
		in_format(formats[i], 1 + i);
	}
	of_scripts();
	of_formats();
	failures();
	without_frames();
	puts("ok");
	return 0;
}
