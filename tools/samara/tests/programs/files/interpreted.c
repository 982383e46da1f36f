/* Files that formats of binfmt_misc name an interpreter for, which is this program itself: with each of the flags, and with one format behind another. The
 * argument is a folder. Prints what the interpreter finds, or that the machine does not allow it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int put(const char *path, const char *text, int flags)
{
	int file = open(path, O_WRONLY | flags, 0700);
	int done = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
	if (file >= 0)
		close(file);
	return done;
}

int main(int count, char **words)
{
	static const char *const flags[] = {"", "P", "O", "OC", "OCF", "OP", "F"};
	if (getenv("INTERPRETER")) {
		free(malloc(1 << 20));
		mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		printf("%d%s\n", count, getauxval(AT_EXECFD) ? "f" : "");
		return 0;
	}
	char own[4096], format[4096], path[4200], text[9000];
	ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
	own[length < 0 ? 0 : length] = 0;
	snprintf(format, sizeof format, "%s/formats", words[1]);
	mkdir(format, 0700);
	snprintf(text, sizeof text, "0 %d 1", geteuid());
	snprintf(path, sizeof path, "0 %d 1", getegid());
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) || !put("/proc/self/uid_map", text, 0) || !put("/proc/self/setgroups", "deny", 0) ||
	    !put("/proc/self/gid_map", path, 0) || mount("b", format, "binfmt_misc", 0, 0))
		return puts("may not") < 0;
	setenv("INTERPRETER", "yes", 1);
	for (int i = 0; i < 8; i++) {
		/* The last is a file whose interpreter is such a file. */
		snprintf(text, sizeof text, ":format%d:M::MAGIC%d::%s%s:%s", i, i, i < 7 ? own : words[1], i < 7 ? "" : "/0", i < 7 ? flags[i] : "");
		snprintf(path, sizeof path, "%s/register", format);
		if (!put(path, text, 0))
			continue;
		snprintf(path, sizeof path, "%s/%d", words[1], i);
		snprintf(text, sizeof text, "MAGIC%d\n", i);
		put(path, text, O_CREAT);
		if (fork() == 0) {
			execl(path, "name", "one", "two", (char *)0);
			_exit(1);
		}
		wait(0);
	}
	return 0;
}
