/* Works on its memory in several threads and children until it is told to end, and notices whatever should not happen to it.
 * A line "more N" on standard input is answered when N rounds more are done, and a program more was run; "quit" ends it. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static atomic_long rounds, errors, alarms, programs;
static atomic_int ending;
static int blocked[2];

static void wrong(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	errors++;
}

static void on_alarm(int signal)
{
	alarms++;
}

static void *work(void *argument)
{
	unsigned seed = (unsigned)(long)argument;
	while (!ending) {
		size_t pages = 3 + rand_r(&seed) % 9;
		char *area = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (area == MAP_FAILED) {
			wrong("mmap");
			continue;
		}
		area[4096] = 7;
		if (mprotect(area + 4096, 4096, PROT_READ))
			wrong("mprotect");
		area = mremap(area, 4096, 5 * 4096, MREMAP_MAYMOVE | MREMAP_DONTUNMAP) == MAP_FAILED ? area : area;
		if (area[4096] != 7)
			wrong("content");
		munmap(area, pages * 4096);
		free(malloc(200000 + rand_r(&seed) % 100000));
		rounds++;
		usleep(200);
	}
	return NULL;
}

static void *children(void *argument)
{
	while (!ending) {
		int status = 0;
		pid_t child = fork();
		if (child == 0) {
			munmap(mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1 << 19);
			_exit(5);
		}
		if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 5)
			wrong("fork");
		char *arguments[] = { "true", NULL };
		if (posix_spawnp(&child, "true", NULL, NULL, arguments, environ))
			wrong("posix_spawn");
		else if (waitpid(child, &status, 0) != child || status != 0)
			wrong("spawned");
		programs++;
		usleep(3000);
	}
	return NULL;
}

static void *wait_for_a_byte(void *argument)
{
	char byte;
	if (read(blocked[0], &byte, 1) != 1 || byte != 'x')
		wrong("read");
	return NULL;
}

int main(void)
{
	pthread_t threads[5];
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerval often = { { 0, 10000 }, { 0, 10000 } };
	char line[64];
	int number;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	if (pipe(blocked))
		return 1;
	for (number = 0; number < 3; number++)
		pthread_create(&threads[number], NULL, work, (void *)(long)number);
	pthread_create(&threads[3], NULL, children, NULL);
	pthread_create(&threads[4], NULL, wait_for_a_byte, NULL);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin) && sscanf(line, "more %d", &number) == 1) {
		/* One may be under way. */
		long until = rounds + number, alarmed = alarms, run = programs + 2;
		while (rounds < until || alarms == alarmed || programs < run)
			usleep(1000);
		printf("done\n");
		fflush(stdout);
	}
	ending = 1;
	if (write(blocked[1], "x", 1) != 1)
		wrong("write");
	for (number = 0; number < 5; number++)
		pthread_join(threads[number], NULL);
	printf("errors %ld\n", (long)errors);
	return 0;
}
