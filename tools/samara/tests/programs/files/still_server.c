/* Areas of a file of FUSE whose server stands still: whoever asks it for anything waits.
   `serve FOLDER USER PROGRAM...` mounts a folder with a `file` in it, which a child serves, and runs a program as that user.
   `map FILE` opens that file, has the server stand still, and maps it. `attached FILE TRACER...` maps some of it, has the server stand still, and has itself
   traced by that program, to which it adds its number, maps more, and has the program interrupted. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "areas_in.h"
#include "fuse_server.h"

#define PAGE 4096UL
/* Who writes here has the server go on. */
#define GO 9
/* Seconds, after which nobody hopes for an end. */
#define LONGEST 60

static char *at;
static pid_t started;

static void told(void)
{
	printf("%d ", areas_in(at, 32 * PAGE));
}

static void map(int page, int pages, int kind, int file, int offset)
{
	int prot = kind == MAP_SHARED ? PROT_READ : PROT_READ | PROT_WRITE;
	mmap(at + page * PAGE, pages * PAGE, prot, kind | MAP_FIXED, file, offset * PAGE);
}

/* Which has four pages, and is mapped in the first. The other descriptor stands for another open file. */
static void map_of(int file, int other)
{
	int ends[2];
	pipe(ends);
	write(ends[1], "x", 1);
	mprotect(at, PAGE, PROT_READ);
	mprotect(at, PAGE, PROT_READ | PROT_WRITE);
	map(1, 1, MAP_PRIVATE, file, 1);
	told();
	map(2, 1, MAP_PRIVATE, other, 2);
	told();
	map(2, 1, MAP_SHARED, file, 2);
	told();
	/* What the kernel writes beyond the end leaves no page, but its trace: these two do not join. */
	map(8, 2, MAP_PRIVATE, file, 8);
	map(20, 2, MAP_PRIVATE, file, 10);
	printf("(%zd ", read(ends[0], at + 8 * PAGE, 1));
	printf("%zd) ", read(ends[0], at + 20 * PAGE, 1));
	told();
	mremap(at + 8 * PAGE, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at + 18 * PAGE);
	told();
	munmap(at, 32 * PAGE);
	/* Ends with an address space of its own, and closes nothing. */
	pid_t child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
	if (!child)
		_exit(0);
	waitpid(child, 0, 0);
}

static int opened_twice(const char *name, int *other)
{
	int file = open(name, O_RDWR);
	*other = open(name, O_RDWR);
	at = mmap(0, 32 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (file < 0 || *other < 0)
		exit(1);
	return file;
}

static void go_on(void)
{
	puts("");
	fflush(stdout);
	write(GO, "x", 1);
}

static int is_traced(void)
{
	static char line[200];
	int tracer = 0;
	FILE *status = fopen("/proc/self/status", "r");
	while (fgets(line, sizeof line, status) && sscanf(line, "TracerPid: %d", &tracer) != 1)
		;
	fclose(status);
	return tracer;
}

static int attached(int count, char **words)
{
	char number[20], byte = 0, *tracing[20] = {0};
	int other, status = -1, start[2], stop[2];
	sprintf(number, "%d", getpid());
	memcpy(tracing, words + 3, (count - 3) * sizeof *words);
	tracing[count - 3] = number;
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	/* Before the file is open, which they would close. What a traced process sends, the tracer takes for no request. */
	pipe(start);
	pipe(stop);
	pid_t tracer = fork();
	if (!tracer) {
		read(start[0], &byte, 1);
		execv(*tracing, tracing);
		_exit(99);
	}
	if (!fork()) {
		read(stop[0], &byte, 1);
		_exit(kill(tracer, SIGINT));
	}
	int file = opened_twice(words[2], &other);
	map(0, 1, MAP_PRIVATE, file, 0);
	fgetxattr(file, "user.still", 0, 0);
	write(start[1], &byte, 1);
	while (!is_traced() && waitpid(tracer, &status, WNOHANG) == 0)
		sched_yield();
	map_of(file, other);
	write(stop[1], &byte, 1);
	while (is_traced() && waitpid(tracer, &status, WNOHANG) == 0)
		sched_yield();
	go_on();
	waitpid(tracer, &status, 0);
	return WEXITSTATUS(status);
}

static void waits_in_vain(int signal)
{
	kill(-started, SIGKILL);
	write(GO, "x", 1);
	write(1, "waits for the server\n", 21);
}

static int served(char **words)
{
	int go[2], device = open("/dev/fuse", O_RDWR), status;
	char options[100];
	snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", device);
	if (device < 0 || unshare(CLONE_NEWNS) || mount(0, "/", 0, MS_REC | MS_PRIVATE, 0) || mount("f", words[2], "fuse", 0, options))
		return puts("may not") < 0;
	fflush(stdout);
	pipe(go);
	dup2(go[1], GO);
	close(go[1]);
	pid_t server = fork();
	if (!server) {
		close(GO);
		serve(&(struct server){.device = device, .in_folder = 1, .pages = 4, .still = go[0]});
	}
	close(device);
	close(go[0]);
	started = fork();
	if (!started) {
		int user = atoi(words[3]);
		setpgid(0, 0);
		if (setresgid(user, user, user) || setresuid(user, user, user))
			return 1;
		execv(words[4], words + 4);
		_exit(99);
	}
	signal(SIGALRM, waits_in_vain);
	alarm(LONGEST);
	waitpid(started, &status, 0);
	alarm(0);
	umount2(words[2], MNT_DETACH);
	close(GO);
	waitpid(server, 0, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

int main(int count, char **words)
{
	int other;
	if (!strcmp(words[1], "serve"))
		return served(words);
	if (!strcmp(words[1], "attached"))
		return attached(count, words);
	int file = opened_twice(words[2], &other);
	fgetxattr(file, "user.still", 0, 0);
	map(0, 1, MAP_PRIVATE, file, 0);
	map_of(file, other);
	go_on();
	return 0;
}
