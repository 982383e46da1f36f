/* Processes of several threads are killed twice, by themselves and from outside, while their first thread takes pages away that others write to. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH (64 * 4096L)

static char *volatile pages;

static void *writes(void *unused)
{
	for (;;)
		for (long at = 0; at < LENGTH; at += 4096)
			pages[at] = 1;
	return unused;
}

static void *kills(void *delay)
{
	usleep((long)delay);
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGKILL);
	return 0;
}

static void dies(int delay)
{
	pthread_t thread;
	pages = mmap(0, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_create(&thread, 0, writes, 0);
	pthread_create(&thread, 0, writes, 0);
	pthread_create(&thread, 0, kills, (void *)(long)delay);
	for (;;)
		madvise(pages, LENGTH, MADV_DONTNEED);
}

int main(int count, char **words)
{
	int rounds = count > 1 ? atoi(words[1]) : 60;
	for (int n = 0; n < rounds; n++) {
		int delay = n * 131 % 3000, child = fork();
		if (child == 0)
			dies(delay);
		usleep(delay + 900);
		for (int again = 0; again < 200 && waitpid(child, 0, WNOHANG) == 0; again++) {
			kill(child, SIGKILL);
			usleep(again);
		}
		waitpid(child, 0, 0);
	}
	return 0;
}
