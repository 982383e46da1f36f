/*
 * The kernel's side: real processes, each of which performs one operation on request. Their maps,
 * pages and bytes are read from outside, so that reading changes nothing.
 */
#ifndef MM_DIFF_KERNEL_H
#define MM_DIFF_KERNEL_H
#include "mm_diff_op.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The result of an operation, on either side. */
struct outcome {
	int64_t result; /* as of a raw system call; of accesses: how many bytes */
	int signal, code;
	unsigned hash;  /* of the bytes read */
};

/* Bits of pages, as MM_PAGE_... */
enum { K_PRESENT = 1, K_FILE = 2, K_EXCLUSIVE = 4, K_ZERO = 16, K_HUGE = 32 };

struct slot {
	atomic_int turn; /* 0: the process waits; 1: it has something to do */
	struct op op;
	int fds[FILES];
	int child;       /* OP_FORK: into this slot */
	struct outcome out;
	int pid;
};

static struct slot *slots; /* shared by all of them */

static inline void slot_wait(struct slot *slot, int until, int seconds)
{
	for (;;) {
		int turn = atomic_load(&slot->turn);
		struct timespec limit = {seconds, 0};

		if (turn == until)
			return;
		if (syscall(SYS_futex, &slot->turn, FUTEX_WAIT, turn, seconds ? &limit : NULL, NULL, 0) < 0 && errno == ETIMEDOUT)
			return;
	}
}

static inline void slot_turn(struct slot *slot, int turn)
{
	atomic_store(&slot->turn, turn);
	syscall(SYS_futex, &slot->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static sigjmp_buf caught;
static volatile int caught_signal, caught_code;

static void on_signal(int signal, siginfo_t *info, void *context)
{
	(void)context;
	caught_signal = signal;
	caught_code = info->si_code;
	siglongjmp(caught, 1);
}

static inline unsigned hash_byte(unsigned hash, unsigned char byte)
{
	return (hash ^ byte) * 16777619u;
}

/* Performs the accesses of the program itself, byte by byte up to the first that raises a
 * signal. */
static void access_bytes(const struct op *op, struct outcome *out)
{
	static volatile uint64_t done;
	static volatile unsigned hash;
	volatile unsigned char *at = (volatile unsigned char *)op->addr;

	done = 0;
	hash = 2166136261u;
	if (sigsetjmp(caught, 0)) {
		out->signal = caught_signal;
		out->code = caught_code;
	} else {
		for (; done < op->len; done++) {
			if (op->kind == OP_STORE || op->kind == OP_FILL)
				at[done] = (unsigned char)(op->flags + done);
			else
				hash = hash_byte(hash, at[done]);
		}
	}
	out->result = (int64_t)done;
	out->hash = hash;
}

/* Jumps there if that must fail. Otherwise reads a byte, which maps the page as a fetch does. */
static void fetch(const struct op *op, struct outcome *out)
{
	struct op load = *op;

	load.len = 1;
	if (op->prot) { /* the area is executable, says the driver */
		access_bytes(&load, out);
		out->hash = 0;
		return;
	}
	if (sigsetjmp(caught, 0)) {
		out->signal = caught_signal;
		out->code = caught_code;
	} else {
		((void (*)(void))op->addr)();
		out->result = 1;
	}
}

static int64_t raw(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
	int64_t result;
	register uint64_t r10 __asm__("r10") = d;
	register uint64_t r8 __asm__("r8") = e;
	register uint64_t r9 __asm__("r9") = f;

	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return result;
}

static void perform_kernel(struct slot *slot, struct outcome *out)
{
	const struct op *op = &slot->op;
	static unsigned char vec[PAGES * 2];
	uint64_t i;

	memset(out, 0, sizeof *out);
	switch (op->kind) {
	case OP_MMAP:
		out->result = raw(SYS_mmap, op->addr, op->len, op->prot, op->flags, op->file == FILES ? -1 : slot->fds[op->file], op->offset);
		break;
	case OP_MUNMAP:
		out->result = raw(SYS_munmap, op->addr, op->len, 0, 0, 0, 0);
		break;
	case OP_MPROTECT:
		out->result = raw(SYS_mprotect, op->addr, op->len, op->prot, 0, 0, 0);
		break;
	case OP_MREMAP:
		out->result = raw(SYS_mremap, op->addr, op->len, op->new_len, op->flags, op->to, 0);
		break;
	case OP_MADVISE:
		out->result = raw(SYS_madvise, op->addr, op->len, op->flags, 0, 0, 0);
		break;
	case OP_MLOCK:
		out->result = raw(SYS_mlock2, op->addr, op->len, op->flags, 0, 0, 0);
		break;
	case OP_MUNLOCK:
		out->result = raw(SYS_munlock, op->addr, op->len, 0, 0, 0, 0);
		break;
	case OP_MSYNC:
		out->result = raw(SYS_msync, op->addr, op->len, op->flags, 0, 0, 0);
		break;
	case OP_MINCORE:
		memset(vec, 0, sizeof vec);
		out->result = raw(SYS_mincore, op->addr, op->len, (uint64_t)vec, 0, 0, 0);
		out->hash = 2166136261u;
		for (i = 0; i < PAGES && out->result == 0; i++)
			out->hash = hash_byte(out->hash, vec[i] & 1);
		break;
	case OP_MSEAL:
		out->result = raw(462, op->addr, op->len, 0, 0, 0, 0);
		break;
	case OP_REMAP:
		out->result = raw(SYS_remap_file_pages, op->addr, op->len, 0, op->offset, 0, 0);
		break;
	case OP_LOAD:
	case OP_STORE:
	case OP_COPY:
	case OP_FILL:
		access_bytes(op, out);
		break;
	case OP_FETCH:
		fetch(op, out);
		break;
	default:
		break;
	}
}

/* The life of a process: performs requests until it is told to exit. It maps nothing of its own. */
static void process_main(int number)
{
	struct slot *slot = &slots[number];

	for (;;) {
		slot_wait(slot, 1, 0);
		if (slot->op.kind == OP_EXIT)
			syscall(SYS_exit_group, 0);
		if (slot->op.kind == OP_FORK) {
			int child = slot->child;
			/* A child of the driver, which waits for its end. */
			long pid = raw(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0, 0);

			if (pid == 0) {
				number = child;
				slot = &slots[child];
				syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
				slot_turn(slot, 0);
				continue;
			}
			slots[child].pid = (int)pid;
			slot->out.result = pid > 0 ? 0 : pid;
		} else {
			perform_kernel(slot, &slot->out);
		}
		slot_turn(slot, 0);
	}
}

/* ---- the driver's view of a process ---- */
struct kernel_process {
	int pid, maps, pagemap, memory;
};

static int open_proc(int pid, const char *what)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/%s", pid, what);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void kernel_look(struct kernel_process *process, int pid)
{
	process->pid = pid;
	process->maps = open_proc(pid, "maps");
	process->pagemap = open_proc(pid, "pagemap");
	process->memory = open_proc(pid, "mem");
}

static void kernel_gone(struct kernel_process *process)
{
	int status;

	waitpid(process->pid, &status, 0);
	close(process->maps);
	close(process->pagemap);
	close(process->memory);
	process->pid = 0;
}

static void kernel_start(void)
{
	struct sigaction action;
	stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16, .ss_flags = 0};

	memset(&action, 0, sizeof action);
	action.sa_sigaction = on_signal;
	action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
	sigaltstack(&stack, NULL);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	slots = mmap(NULL, sizeof *slots * PROCESSES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* Starts the first process of a history, in slot 0. */
static int kernel_first(const int *fds)
{
	int i, pid;

	for (i = 0; i < PROCESSES; i++) {
		memset(&slots[i], 0, sizeof *slots);
		memcpy(slots[i].fds, fds, sizeof slots[i].fds);
	}
	atomic_store(&slots[0].turn, -1);
	pid = fork();
	if (pid == 0) {
		signal(SIGINT, SIG_DFL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		slot_turn(&slots[0], 0);
		process_main(0);
	}
	slot_wait(&slots[0], 0, 5);
	return slots[0].pid = pid;
}

/* Makes slot `number` perform an operation. Returns false if it does not return. */
static int kernel_do(int number, const struct op *op, int child, struct outcome *out)
{
	struct slot *slot = &slots[number];

	slot->op = *op;
	slot->child = child;
	memset(&slot->out, 0, sizeof slot->out);
	if (op->kind == OP_FORK)
		atomic_store(&slots[child].turn, -1);
	slot_turn(slot, 1);
	if (op->kind == OP_EXIT)
		return 1;
	slot_wait(slot, 0, 5);
	if (atomic_load(&slot->turn) != 0)
		return 0;
	if (op->kind == OP_FORK && slot->out.result == 0) {
		slot_wait(&slots[child], 0, 5);
		if (atomic_load(&slots[child].turn) != 0)
			return 0;
	}
	*out = slot->out;
	return 1;
}

struct page_scan {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, category_inverted, category_mask, category_anyof_mask,
		return_mask;
};

static void scan_category(const struct kernel_process *process, uint64_t start, int count, uint64_t category, int bit, unsigned char *bits)
{
	uint64_t found[PAGES][3];
	struct page_scan scan;
	int i, n;

	memset(&scan, 0, sizeof scan);
	scan.size = sizeof scan;
	scan.start = start;
	scan.end = start + (uint64_t)count * PAGE;
	scan.vec = (uint64_t)found;
	scan.vec_len = PAGES;
	scan.category_mask = category;
	scan.return_mask = category;
	n = ioctl(process->pagemap, 0xc0606610 /* PAGEMAP_SCAN */, &scan);
	for (i = 0; i < n; i++) {
		uint64_t at;

		for (at = found[i][0]; at < found[i][1]; at += PAGE)
			bits[(at - start) / PAGE] |= (unsigned char)bit;
	}
}

/* Reads the pagemap of `count` pages from `start` on, at most PAGES. */
static void kernel_pages(const struct kernel_process *process, uint64_t start, int count, unsigned char *bits)
{
	uint64_t words[PAGES];
	int i;

	memset(words, 0, sizeof words);
	if (pread(process->pagemap, words, (size_t)count * 8, (off_t)(start / PAGE * 8)) < 0)
		memset(words, 0, sizeof words);
	for (i = 0; i < count; i++) {
		bits[i] = 0;
		if (words[i] >> 63 & 1)
			bits[i] |= K_PRESENT;
		if (words[i] >> 61 & 1)
			bits[i] |= K_FILE;
		if (words[i] >> 56 & 1)
			bits[i] |= K_EXCLUSIVE;
	}
	scan_category(process, start, count, 1 << 5 /* PAGE_IS_PFNZERO */, K_ZERO, bits);
	scan_category(process, start, count, 1 << 6 /* PAGE_IS_HUGE */, K_HUGE, bits);
}

static size_t kernel_text(int fd, char *text, size_t size)
{
	size_t used = 0;
	ssize_t got;

	lseek(fd, 0, SEEK_SET);
	while (used + 1 < size && (got = read(fd, text + used, size - used - 1)) > 0)
		used += (size_t)got;
	text[used] = 0;
	return used;
}

/* Returns how often the kernel has moved or isolated pages of any process (proc_vmstat(5)). What
 * a process reads about its memory during that is not a property of its history. */
static unsigned long long pages_moved(void)
{
	static const char *const counted[] = {"compact_isolated ", "pgmigrate_", "pgscan_", "thp_split_"};
	static const char *const files[] = {"/proc/vmstat", "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed"};
	unsigned long long sum = 0, number;
	char line[128], *digits;
	unsigned i, k;

	for (i = 0; i < 2; i++) {
		FILE *file = fopen(files[i], "r");

		while (file && fgets(line, sizeof line, file)) {
			int counts = i == 1;

			for (k = 0; k < sizeof counted / sizeof *counted; k++)
				counts |= !strncmp(line, counted[k], strlen(counted[k]));
			digits = strrchr(line, ' ');
			number = strtoull(digits ? digits : line, NULL, 10);
			sum += counts ? number : 0;
		}
		if (file)
			fclose(file);
	}
	return sum;
}
#endif
