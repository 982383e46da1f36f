/* Both threads of a process in strict mode make a call that they have not left themselves, at once: the process is killed, whichever is the last. */
#define _GNU_SOURCE
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int ready;

static void *strict(void *unused)
{
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	atomic_fetch_add(&ready, 1);
	while (atomic_load(&ready) < 2)
		;
	syscall(SYS_getppid, 7);
	return unused;
}

int main(void)
{
	int killed = 0;
	for (int round = 0; round < 40; round++) {
		int status = 0;
		pid_t child = fork();
		if (child == 0) {
			pthread_t other;
			pthread_create(&other, 0, strict, 0);
			strict(0);
			_exit(1);
		}
		waitpid(child, &status, 0);
		killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	}
	printf("%d\n", killed);
	return 0;
}
