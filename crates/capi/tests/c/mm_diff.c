/*
 * Random histories of the mmap family, of accesses, forks, exits and truncations, performed by real
 * processes on the running kernel and by the engine. After each step these are compared: result,
 * signal and code, bytes read, /proc/PID/maps, /proc/PID/pagemap of each page, and the bytes of
 * each present page.
 *
 *   mm_diff [-n steps] [-r runs] [-f format] [-m mode] [-x call] [-p] [-k] [-v] [seed]
 *
 * Without a seed, runs a fixed selection of all kinds. -m: forks copy (0), share (1), either (2).
 * -x: without this call, or kind of access. -p: mappings also go where the kernel chooses, among
 * everything that this program has mapped. -k: the kernel alone, to check that histories run. A
 * history that differs is reduced to the operations that matter, and printed.
 */
#include "mm_diff_engine.h"
#include <linux/magic.h>
#include <stdarg.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#define MAX_STEPS 4096

static int free_place, kernel_only, verbose;
static enum mm_format format;
static int left_out[OP_KINDS];
static int mode; /* 0: forks copy, 1: share, 2: by chance */

struct region {
	uint64_t at, len;
};

struct area {
	uint64_t start, end, offset, inode;
	char perms[5], device[16], name[200];
};

static char difference[2048];

/* Reports a difference. Always returns 0. */
__attribute__((format(printf, 1, 2))) static int differs(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(difference, sizeof difference, format, arguments);
	va_end(arguments);
	return 0;
}

/* Parses the lines of a map. Skips those outside of the window unless everything is compared. */
static int parse_maps(char *text, struct area *areas, int most)
{
	char *line, *rest = text;
	int n = 0;

	while ((line = strsep(&rest, "\n")) && n < most) {
		struct area *area = &areas[n];
		int at = 0;

		memset(area, 0, sizeof *area);
		if (sscanf(line, "%lx-%lx %4s %lx %15s %lu %n", (unsigned long *)&area->start, (unsigned long *)&area->end, area->perms,
			   (unsigned long *)&area->offset, area->device, (unsigned long *)&area->inode, &at) < 6)
			continue;
		snprintf(area->name, sizeof area->name, "%s", line + at);
		if (!strcmp(area->name, "[vsyscall]"))
			continue;
		if (free_place || (area->end > WINDOW - 512 * PAGE && area->start < WINDOW_END))
			n++;
	}
	return n;
}

static int in_window(const struct area *area)
{
	return area->start >= WINDOW - 512 * PAGE && area->end <= WINDOW_END;
}

static int same_area(const struct area *a, const struct area *b)
{
	if (a->start != b->start || a->end != b->end || strcmp(a->perms, b->perms))
		return 0;
	/* The program's own mappings are imitated only this far. Objects of shared anonymous memory
	 * have numbers of their own. */
	if (!in_window(a))
		return 1;
	if (a->offset != b->offset || strcmp(a->name, b->name))
		return 0;
	return !strncmp(a->name, "/dev/zero", 9) || (a->inode == b->inode && !strcmp(a->device, b->device));
}

static int compare_maps(const struct kernel_process *process, struct mm *mm, int number)
{
	static char kernel[1 << 16], engine[1 << 16];
	static struct area left[512], right[512];
	int n, m, i;

	kernel_text(process->maps, kernel, sizeof kernel);
	CHECK(mm_maps(mm, engine, sizeof engine) < sizeof engine);
	n = parse_maps(kernel, left, 512);
	m = parse_maps(engine, right, 512);
	for (i = 0; i < n || i < m; i++) {
		if (i < n && i < m && same_area(&left[i], &right[i]))
			continue;
		return differs("map of process %d: kernel %lx-%lx %s %lx %s %lu %s; engine %lx-%lx %s %lx %s %lu %s", number,
			       i < n ? (long)left[i].start : 0, i < n ? (long)left[i].end : 0, i < n ? left[i].perms : "",
			       i < n ? (long)left[i].offset : 0, i < n ? left[i].device : "", i < n ? (long)left[i].inode : 0,
			       i < n ? left[i].name : "", i < m ? (long)right[i].start : 0, i < m ? (long)right[i].end : 0,
			       i < m ? right[i].perms : "", i < m ? (long)right[i].offset : 0, i < m ? right[i].device : "",
			       i < m ? (long)right[i].inode : 0, i < m ? right[i].name : "");
	}
	return 1;
}

static int compare_pages(struct engine *engine, const struct kernel_process *process, struct mm *mm, int number, uint64_t start, int count,
			 int shared_before)
{
	unsigned char left[PAGES], right[PAGES], bytes[4096];
	int i;

	kernel_pages(process, start, count, left);
	engine_pages(mm, start, count, right);
	for (i = 0; i < count; i++) {
		uint64_t at = start + (uint64_t)i * PAGE, phys;
		unsigned prot;

		/* After a fork that shares, pages of shared mappings may be present already in the child, and
		 * so not only in one process. */
		if (shared_before && (left[i] | right[i]) & K_FILE && (left[i] == 0 || right[i] == 0 || ((left[i] ^ right[i]) == K_EXCLUSIVE)))
			left[i] = right[i];
		if (left[i] != right[i])
			return differs("process %d, page %lld (%#llx): kernel %#x, engine %#x (present 1, file 2, exclusive 4, zero 16, huge 32)",
				       number, ((long long)at - (long long)WINDOW) / 4096, (unsigned long long)at, left[i], right[i]);
		if (!(left[i] & K_PRESENT) || mm_translate(mm, at, &phys, &prot))
			continue;
		if (pread(process->memory, bytes, sizeof bytes, (off_t)at) != (ssize_t)sizeof bytes)
			continue;
		if (memcmp(bytes, ram_virt(&engine->ram, phys), sizeof bytes)) {
			const unsigned char *there = (const unsigned char *)ram_virt(&engine->ram, phys);
			int j = 0;

			while (bytes[j] == there[j])
				j++;
			return differs("process %d, page %lld, byte %#x: kernel %#x, engine %#x", number, ((long long)at - (long long)WINDOW) / 4096, j,
				       bytes[j], there[j]);
		}
	}
	return 1;
}

static char names[FILES][256];

static void open_files(int *fds)
{
	/* In memory if possible: for a file on disk the kernel decides which pages are mapped together,
	 * and unmapped together. */
	static const char *const dirs[] = {"/dev/shm", "/tmp"};
	struct statfs system;
	char path[128];
	int disk, i;

	for (disk = 0; disk < 3; disk += 2) {
		unsigned char *bytes = malloc(disk_sizes[disk]);
		uint64_t n;
		int fd = -1, d;

		for (n = 0; n < disk_sizes[disk]; n++)
			bytes[n] = (unsigned char)(1 + n / PAGE);
		for (d = 0; d < 2 && fd < 0; d++) {
			snprintf(path, sizeof path, "%s/mm_diff-%d-%d", dirs[d], (int)getpid(), disk);
			unlink(path);
			fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
		}
		CHECK(fd >= 0 && write(fd, bytes, disk_sizes[disk]) == (ssize_t)disk_sizes[disk]);
		free(bytes);
		/* Bytes that are stored beyond the end of a file in memory stay when the file grows. */
		tail_stays = !fstatfs(fd, &system) && system.f_type == TMPFS_MAGIC;
		for (i = 0; i < FILES; i++) {
			if (disk_of[i] != disk)
				continue;
			fds[i] = open(path, open_flags[i] & MM_FILE_WRITE ? O_RDWR : O_RDONLY);
			snprintf(names[i], sizeof names[i], "%s (deleted)", path);
		}
		close(fd);
		unlink(path);
	}
	fds[2] = memfd_create("diff", 0);
	CHECK(fds[2] >= 0 && ftruncate(fds[2], (off_t)disk_sizes[1]) == 0);
	snprintf(names[2], sizeof names[2], "/memfd:diff (deleted)");
}

static struct mm_config config_here(void)
{
	struct mm_config config = config_for(format);
	struct rlimit limit;
	char text[8192], *caps;
	int fd = open("/proc/self/status", O_RDONLY);

	kernel_text(fd, text, sizeof text);
	close(fd);
	caps = strstr(text, "CapEff:");
	config.ipc_lock = caps && (strtoull(caps + 7, NULL, 16) >> 14 & 1);
	getrlimit(RLIMIT_MEMLOCK, &limit);
	config.rlim_memlock = limit.rlim_cur;
	getrlimit(RLIMIT_AS, &limit);
	config.rlim_as = limit.rlim_cur;
	getrlimit(RLIMIT_DATA, &limit);
	config.rlim_data = limit.rlim_cur;
	getrlimit(RLIMIT_STACK, &limit);
	config.rlim_stack = limit.rlim_cur;
	return config;
}

/* Creates the map of the first process, from which the first one is forked, in the engine. */
static struct mm *imitate(struct engine *engine, const struct mm_config *config, const struct kernel_process *process)
{
	static char text[1 << 16];
	static struct area areas[512];
	struct mm *mm = NULL;
	int n, i;

	SAME(mm_new(config, engine->phys, NULL, &mm), 0);
	if (!free_place)
		return mm;
	kernel_text(process->maps, text, sizeof text);
	n = parse_maps(text, areas, 512);
	for (i = 0; i < n; i++) {
		struct area *area = &areas[i];
		int prot = (area->perms[0] == 'r') | (area->perms[1] == 'w') << 1 | (area->perms[2] == 'x') << 2, touched = 0;
		int flags = MAP_FIXED | (area->perms[3] == 's' ? MAP_SHARED : MAP_PRIVATE);
		struct mm_file *file = NULL;
		uint64_t at;

		for (at = area->start; at < area->end; at += PAGES * PAGE) {
			unsigned char bits[PAGES];
			int count = area->end - at < PAGES * PAGE ? (int)((area->end - at) / PAGE) : PAGES, j;

			kernel_pages(process, at, count, bits);
			for (j = 0; j < count; j++)
				touched |= (bits[j] & (K_PRESENT | K_FILE | K_ZERO)) == K_PRESENT;
		}
		if (!strcmp(area->name, "[stack]"))
			flags |= MAP_GROWSDOWN;
		if (area->perms[3] == 's' && !strncmp(area->name, "/dev/zero", 9)) {
			flags |= MAP_ANONYMOUS;
		} else if (area->inode || !strncmp(area->name, "[v", 2)) {
			struct mm_file_info info = {area->name, 99, 1, area->inode ? area->inode : (uint64_t)i + 1, MM_FILE_READ | MM_FILE_WRITE};

			SAME(mm_file_open(&info, NULL, NULL, &file), 0);
			touched &= area->inode != 0;
		} else {
			flags |= MAP_ANONYMOUS;
		}
		if (i && !file && area[-1].end == area->start && !area[-1].inode) {
			/* The heap follows the program's data, and does not merge with it. */
			SAME(mm_mmap(mm, area->start, area->end - area->start, PROT_NONE, flags, NULL, 0), area->start);
			SAME(mm_madvise(mm, area->start, area->end - area->start, MADV_DONTDUMP), 0);
			SAME(mm_mprotect(mm, area->start, area->end - area->start, touched ? RW : prot), 0);
		} else {
			SAME(mm_mmap(mm, area->start, area->end - area->start, touched ? RW : prot, flags, file, file ? area->offset : 0), area->start);
		}
		if (touched) {
			CHECK(put(mm, area->end - 1, 1));
			SAME(mm_mprotect(mm, area->start, area->end - area->start, prot), 0);
		}
		mm_file_put(file);
	}
	return mm;
}

static int live(struct kernel_process *processes, int wanted)
{
	int i;

	for (i = 0; i < PROCESSES; i++)
		if (processes[(wanted + i) % PROCESSES].pid)
			return (wanted + i) % PROCESSES;
	return -1;
}

/* Replaces "an offset in the result of the n-th mmap" by addresses. Returns false if the
 * operation is impossible here. */
static int resolve(struct op *op, const struct region *regions, int count)
{
	const struct region *region;

	if (!op->ref)
		return 1;
	if (op->ref > count || !regions[op->ref - 1].len)
		return 0;
	region = &regions[op->ref - 1];
	if (op->addr >= region->len)
		op->addr %= region->len;
	if (op->len > region->len - op->addr)
		op->len = region->len - op->addr;
	if (op->kind != OP_LOAD && op->kind != OP_STORE && op->kind != OP_COPY && op->kind != OP_FILL)
		op->addr &= ~(PAGE - 1);
	if (op->kind == OP_MREMAP && !(op->flags & MREMAP_MAYMOVE) && op->new_len > op->len)
		op->new_len = op->len;
	op->addr += region->at;
	return 1;
}

static int executable(const struct kernel_process *process, uint64_t addr)
{
	static char text[1 << 16];
	static struct area areas[512];
	int n, i;

	kernel_text(process->maps, text, sizeof text);
	n = parse_maps(text, areas, 512);
	/* The first area above may grow down to it. */
	for (i = 0; i < n; i++)
		if (addr < areas[i].end)
			return areas[i].perms[2] == 'x';
	return 0;
}

static int compare_outcomes(const struct op *op, const struct outcome *kernel, const struct outcome *engine)
{
	if (kernel->result == engine->result && kernel->signal == engine->signal &&
	    (!kernel->signal || kernel->code == engine->code) && kernel->hash == engine->hash)
		return 1;
	return differs("%s: kernel %#llx (%lld) signal %d code %d bytes %x; engine %#llx (%lld) signal %d code %d bytes %x", kind_names[op->kind],
		       (long long)kernel->result, (long long)kernel->result, kernel->signal, kernel->code, kernel->hash,
		       (long long)engine->result, (long long)engine->result, engine->signal, engine->code, engine->hash);
}

/* Compares the content of a file at the end. For a file on disk, what has been written back. */
static int compare_file(struct engine *engine, int fd, int disk, const unsigned char *bytes)
{
	static unsigned char there[64 * PAGE];
	struct stat status;
	uint64_t i;

	fstat(fd, &status);
	if ((uint64_t)status.st_size != engine->disks[disk].size)
		return differs("file %d: sizes", disk);
	CHECK(pread(fd, there, sizeof there, 0) == (ssize_t)status.st_size);
	for (i = 0; i < engine->disks[disk].size; i++)
		if (there[i] != bytes[i])
			return differs("file of disk %d, byte %#llx at the end: kernel %#x, engine %#x", disk, (unsigned long long)i, there[i], bytes[i]);
	return 1;
}

/* Runs a history once. Returns the step after which the sides differ, or -1. */
static int run_once(const struct op *ops, int count)
{
	static struct engine engine;
	struct kernel_process processes[PROCESSES];
	struct region regions[MAX_STEPS];
	struct mm_config config;
	struct mm *first = NULL;
	int fds[FILES], i, step, known = 0, failed = -1, has_shared = 0;

	memset(processes, 0, sizeof processes);
	difference[0] = 0;
	open_files(fds);
	if (!kernel_only)
		config = config_here();
	kernel_look(&processes[0], kernel_first(fds));
	if (!kernel_only) {
		engine_start(&engine, format, &config, fds, names);
		first = imitate(&engine, &config, &processes[0]);
		SAME(mm_fork(first, MM_FORK_COPY, &engine.mm[0]), 0);
	}
	for (step = 0; step < count && failed < 0; step++) {
		struct op op = ops[step];
		struct outcome kernel, ours;
		int child = 0, number;

		memset(&kernel, 0, sizeof kernel);
		memset(&ours, 0, sizeof ours);
		if (left_out[op.kind])
			continue;
		number = live(processes, op.process);
		if (op.kind == OP_MMAP)
			regions[known++].len = 0;
		if (!resolve(&op, regions, known))
			continue;
		if (op.kind == OP_FORK) {
			while (child < PROCESSES && processes[child].pid)
				child++;
			if (child == PROCESSES)
				continue;
		}
		if (op.kind == OP_EXIT && live(processes, (number + 1) % PROCESSES) == number)
			continue;
		if (op.kind == OP_TRUNCATE || op.kind == OP_PUNCH) {
			int fd = op.file == 1 ? fds[0] : fds[op.file];

			if (op.kind == OP_TRUNCATE ? ftruncate(fd, (off_t)op.len) : fallocate(fd, 3, (off_t)op.addr, (off_t)op.len))
				continue;
			if (!kernel_only)
				engine_file(&engine, &op);
		} else {
			if (op.kind == OP_FETCH)
				op.prot = executable(&processes[number], op.addr);
			if (verbose) {
				fprintf(stderr, "%4d: ", step);
				write_op(stderr, &op);
			}
			if (!kernel_do(number, &op, child, &kernel)) {
				differs("the kernel's process does not answer");
				failed = step;
				break;
			}
			if (op.kind == OP_EXIT)
				kernel_gone(&processes[number]);
			if (op.kind == OP_FORK)
				kernel_look(&processes[child], slots[child].pid);
			if (verbose)
				fprintf(stderr, "      kernel %#llx signal %d code %d\n", (long long)kernel.result, kernel.signal, kernel.code);
			if (!kernel_only) {
				int how = mode == 2 ? op.flags & 1 : mode;

				if (op.kind == OP_FORK && how)
					has_shared = 1;
				engine_do(&engine, number, &op, child, how, &ours);
				if (!compare_outcomes(&op, &kernel, &ours))
					failed = step;
			}
			if (op.kind == OP_MMAP && kernel.result > 0)
				regions[known - 1] = (struct region){(uint64_t)kernel.result, (op.len + PAGE - 1) & ~(PAGE - 1)};
			if (op.kind == OP_MREMAP && op.ref && kernel.result > 0)
				regions[op.ref - 1] = (struct region){(uint64_t)kernel.result, (op.new_len + PAGE - 1) & ~(PAGE - 1)};
		}
		for (i = 0; i < PROCESSES && failed < 0 && !kernel_only; i++) {
			char why[256] = "";
			int r;

			if (!processes[i].pid)
				continue;
			if (mm_check(engine.mm[i], why, sizeof why)) {
				differs("mm_check of process %d: %s", i, why);
				failed = step;
			} else if (!compare_maps(&processes[i], engine.mm[i], i) ||
				   !compare_pages(&engine, &processes[i], engine.mm[i], i, WINDOW, PAGES, has_shared)) {
				failed = step;
			}
			for (r = 0; r < known && failed < 0; r++)
				if (regions[r].len && regions[r].at >= WINDOW_END && regions[r].len <= PAGES * PAGE &&
				    !compare_pages(&engine, &processes[i], engine.mm[i], i, regions[r].at, (int)(regions[r].len / PAGE), has_shared))
					failed = step;
		}
	}
	for (i = 0; i < PROCESSES; i++)
		if (processes[i].pid) {
			kill(processes[i].pid, SIGKILL);
			kernel_gone(&processes[i]);
		}
	if (!kernel_only) {
		static unsigned char memory[(FILE_PAGES + 2) * PAGE];
		const char *wrong;

		for (i = 0; i < PROCESSES; i++) {
			mm_put(engine.mm[i]);
			engine.mm[i] = NULL;
		}
		mm_put(first);
		/* A file in memory has no disk to be written to: its content is read while it is open. */
		SAME(mm_new(&config, engine.phys, NULL, &first), 0);
		SAME(mm_mmap(first, WINDOW, sizeof memory, PROT_READ, MAP_SHARED | MAP_FIXED, engine.files[2], 0), WINDOW);
		i = (int)mm_copy_out(first, WINDOW, memory, engine.disks[1].size);
		if (failed < 0 && (uint64_t)i != engine.disks[1].size) {
			differs("memory cannot be read at the end");
			failed = count;
		}
		mm_put(first);
		if (failed < 0 && !compare_file(&engine, fds[2], 1, memory))
			failed = count;
		wrong = engine_end(&engine);
		if (failed < 0 && wrong) {
			differs("%s", wrong);
			failed = count;
		}
		if (failed < 0 && (!compare_file(&engine, fds[0], 0, engine.disks[0].bytes) || !compare_file(&engine, fds[3], 2, engine.disks[2].bytes)))
			failed = count;
	}
	for (i = 0; i < FILES; i++)
		close(fds[i]);
	return failed;
}

/* Runs a history until the sides agree, or differ without a concurrent move of pages, up to a
 * limit. */
static int run(const struct op *ops, int count)
{
	int tries, step = -1;

	for (tries = 0; tries < 12; tries++) {
		unsigned long long before = pages_moved();

		step = run_once(ops, count);
		if (step < 0 || pages_moved() == before)
			break;
	}
	return step;
}

/* Removes the operations that a difference does not need, and prints the rest. */
static void cut_down(struct op *ops, int count)
{
	static struct op some[MAX_STEPS];
	int chunk, i;

	for (chunk = count / 2 ? count / 2 : 1; chunk; chunk /= 2) {
		for (i = 0; i + chunk <= count;) {
			int j, left = 0, step;

			for (j = 0; j < count; j++) {
				if (j >= i && j < i + chunk && ops[j].kind == OP_MMAP && free_place) {
					/* Its number stays taken. */
					some[left] = ops[j];
					some[left++].len = 0;
				} else if (j < i || j >= i + chunk) {
					some[left++] = ops[j];
				}
			}
			step = run(some, left);
			if (step >= 0 && (left < count || memcmp(some, ops, sizeof *ops * (size_t)count))) {
				count = step < left ? step + 1 : left;
				memcpy(ops, some, sizeof *ops * (size_t)left);
			} else {
				i += chunk;
			}
		}
	}
	run(ops, count);
	for (i = 0; i < count; i++)
		write_op(stderr, &ops[i]);
	fprintf(stderr, "%s\n", difference);
}

static int histories(uint64_t seed, int runs, int steps)
{
	static struct op ops[MAX_STEPS];
	int r, i, step, maps;

	for (r = 0; r < runs; r++, seed++) {
		draw_state = seed * 0x9e3779b97f4a7c15ull + 1;
		for (i = 0, maps = 0; i < steps; i++)
			ops[i] = draw_op(free_place, &maps);
		step = run(ops, steps);
		if (step < 0)
			continue;
		fprintf(stderr, "mm_diff -n %d -r 1 -f %d -m %d%s %llu: step %d: %s\n", steps, (int)format, mode, free_place ? " -p" : "",
			(unsigned long long)seed, step, difference);
		cut_down(ops, step < steps ? step + 1 : steps);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	int steps = 120, runs = 1, option, chosen = 0;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	/* A sanitizer's own memory lies in the window. */
	puts("ok");
	return 0;
#endif
	if (!(personality(0xffffffff) & ADDR_NO_RANDOMIZE)) {
		personality(ADDR_NO_RANDOMIZE);
		execv("/proc/self/exe", argv);
	}
	while ((option = getopt(argc, argv, "n:r:f:m:x:pkv")) != -1) {
		switch (option) {
		case 'n':
			steps = atoi(optarg);
			break;
		case 'r':
			runs = atoi(optarg);
			break;
		case 'f':
			format = (enum mm_format)atoi(optarg);
			break;
		case 'm':
			mode = atoi(optarg);
			break;
		case 'x': {
			int kind;

			for (kind = 0; kind < OP_KINDS; kind++)
				left_out[kind] |= !strcmp(optarg, kind_names[kind]);
			break;
		}
		case 'p':
			free_place = 1;
			break;
		case 'k':
			kernel_only = 1;
			break;
		case 'v':
			verbose = 1;
			break;
		default:
			return 2;
		}
		chosen = 1;
	}
	if (steps < 1 || steps > MAX_STEPS)
		return 2;
	kernel_start();
	if (chosen || optind < argc) {
		if (histories(optind < argc ? strtoull(argv[optind], NULL, 0) : 1, runs, steps))
			return 1;
	} else {
		/* A selection that takes some seconds. */
		uint64_t seed = 1;
		unsigned f;

		for (f = 0; f < FORMATS; f++, seed += 100) {
			for (mode = 0; mode < 3; mode++) {
				format = formats[f];
				free_place = 0;
				if (histories(seed + 10 * (unsigned)mode, f ? 1 : 5, steps))
					return 1;
				free_place = f == 0;
				if (free_place && histories(seed + 10 * (unsigned)mode, 3, steps))
					return 1;
			}
		}
	}
	puts("ok");
	return 0;
}
