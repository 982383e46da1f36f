/* A child is stopped while it works on its memory, goes on when it is told to, and ends then. */
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	volatile int *told = mmap(0, 2 * sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t child = fork();
	if (!child) {
		while (!told[1]) {
			munmap(mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
			told[0] = 1;
			usleep(500);
		}
		_exit(5);
	}
	while (!told[0])
		usleep(500);
	kill(child, SIGSTOP);
	waitpid(child, &status, WUNTRACED);
	printf("stopped %d by %d\n", WIFSTOPPED(status), WSTOPSIG(status));
	kill(child, SIGCONT);
	waitpid(child, &status, WCONTINUED);
	printf("continued %d\n", WIFCONTINUED(status));
	told[1] = 1;
	waitpid(child, &status, 0);
	printf("exit %d\n", WEXITSTATUS(status));
	return 0;
}
