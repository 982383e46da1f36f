/* What another process writes below an area that grows makes it grow: as far as the limits of that other one allow, whatever its owner's are. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul

int main(void)
{
	char *room = mmap(NULL, 1024 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int to_child[2], to_parent[2];
	char byte = 1;
	if (room == MAP_FAILED || pipe(to_child) || pipe(to_parent) || munmap(room, 1024 * PAGE))
		return 1;
	char *at = mmap(room + 1000 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
	if (at == MAP_FAILED)
		return 1;
	*at = 1;
	pid_t child = fork();
	if (child == 0) {
		struct rlimit few = {16 * PAGE, 16 * PAGE};
		if (setrlimit(RLIMIT_STACK, &few))
			_exit(1);
		/* Each time the parent has written, two calls: in the midst of what has grown, and elsewhere. */
		for (int n = 0; n < 4; n++) {
			if (write(to_parent[1], &byte, 1) != 1 || read(to_child[0], &byte, 1) != 1)
				_exit(2);
			mprotect(at - 4 * PAGE, PAGE, n & 1 ? PROT_READ : PROT_READ | PROT_WRITE);
			mprotect(at + PAGE, PAGE, n & 1 ? PROT_READ : PROT_READ | PROT_WRITE);
		}
		_exit(0);
	}
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/mem", child);
	int memory = open(path, O_RDWR);
	int grown = 0;
	for (int n = 0; n < 4; n++) {
		if (read(to_parent[0], &byte, 1) != 1)
			return 1;
		grown += pwrite(memory, "x", 1, (uintptr_t)at - (8 + 40 * n) * PAGE) == 1;
		if (write(to_child[1], &byte, 1) != 1)
			return 1;
	}
	int status;
	if (waitpid(child, &status, 0) != child)
		return 1;
	printf("%d\n", grown);
	return WEXITSTATUS(status);
}
