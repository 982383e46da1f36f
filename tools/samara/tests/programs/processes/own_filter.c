/* A filter of the program's own that wants a tracer, for calls that its tracer looks at and for one that it does not: the kernel finds none, as this program has
 * none of its own. With an argument, all data are tried that a filter can say: emulated machines would take minutes for that. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096UL

int main(int count, char **words)
{
	/* What is said for getuid is its first argument. */
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getuid, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_TRACE),
		BPF_STMT(BPF_RET | BPF_A, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | 0x5a01),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munlock, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
	char *at = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int refused = 0;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return puts("may not") < 0;
	for (unsigned data = 0; data < 0x10000; data += count > 1 ? 1 : 97)
		refused += syscall(SYS_getuid, data) == -1 && errno == ENOSYS;
	printf("%d ", refused);
	printf("%d ", mprotect(at, PAGE, PROT_READ) ? errno : 0);
	munmap(at + PAGE, PAGE);
	printf("%d\n", munlock(at, PAGE) ? errno : 0);
	return 0;
}
