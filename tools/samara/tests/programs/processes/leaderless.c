/* Its first thread ends, and others go on: they make calls, fork, and become another program, as they are told to. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096

static char path[64];
static char known[PAGE] __attribute__((aligned(PAGE))) = { 1 };
static char *shared;

static void rounds(int count)
{
	int rw = PROT_READ | PROT_WRITE;
	for (int i = 0; i < count; i++) {
		char *at = mmap(NULL, 5 * PAGE, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		at[0] = at[4 * PAGE] = 1;
		mprotect(at + PAGE, PAGE, PROT_READ);
		free(malloc(1 << 18));
		munmap(at, (1 + i % 5) * PAGE);
		munmap(at, 5 * PAGE);
	}
}

/* Ends when it is told to: who looks at the process by this thread must find another. */
static void *brief(void *pipe)
{
	char byte;
	return read(*(int *)pipe, &byte, 1) == 1 ? NULL : pipe;
}

static void *stays(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static int first_has_ended(void)
{
	char text[256] = "", *behind;
	int file = open(path, O_RDONLY);
	if (read(file, text, sizeof text - 1) < 0)
		abort();
	close(file);
	behind = strrchr(text, ')');
	return behind && (behind[2] == 'Z' || behind[2] == 'X');
}

static void *works(void *end)
{
	char line[256];
	while (!first_has_ended())
		usleep(1000);
	printf("ready %lx\n", (long)known);
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, "more ", 5)) {
			rounds(atoi(line + 5));
		} else if (!strcmp(line, "fork")) {
			int status = -1;
			pid_t child = fork();
			if (child == 0) {
				rounds(20);
				_exit(0);
			}
			if (waitpid(child, &status, 0) != child || status != 0)
				abort();
		} else if (!strcmp(line, "end one")) {
			if (write(*(int *)end, "x", 1) != 1)
				abort();
		} else if (!strncmp(line, "exec ", 5)) {
			execl(line + 5, line + 5, NULL);
			abort();
		}
		puts("done");
		fflush(stdout);
	}
	exit(7);
}

int main(void)
{
	static int ends[2];
	pthread_t id;
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", getpid());
	memset(known, 0x5a, sizeof known);
	shared = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(shared, 0x44, PAGE);
	if (pipe(ends))
		return 1;
	/* The one of the lowest number after the first is the one that ends. */
	if (pthread_create(&id, NULL, brief, &ends[0]) || pthread_create(&id, NULL, stays, NULL)
	    || pthread_create(&id, NULL, works, &ends[1]))
		return 1;
	pthread_exit(NULL);
}
