/* Waits with every kind of memory that is a file to the kernel, though no path leads to it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#define PAGE 4096

static void *waits(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void map(int file, int flags)
{
	char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, flags, file, 0);
	if (at == MAP_FAILED)
		abort();
	at[0] = 1;
}

static void attach(void)
{
	int id = shmget(IPC_PRIVATE, PAGE, 0600);
	char *at = shmat(id, NULL, 0);
	if (at == (void *)-1)
		abort();
	at[0] = 1;
	shmctl(id, IPC_RMID, NULL);
}

int main(void)
{
	char name[] = "/tmp/shared_kinds.XXXXXX";
	pthread_t id;
	int file;
	map(-1, MAP_SHARED | MAP_ANONYMOUS);
	attach();
	attach();
	file = memfd_create("in memory", 0);
	if (ftruncate(file, PAGE))
		return 1;
	map(file, MAP_SHARED);
	file = open("/dev/zero", O_RDWR);
	map(file, MAP_SHARED);
	map(file, MAP_PRIVATE);
	file = mkstemp(name);
	if (ftruncate(file, PAGE) || unlink(name))
		return 1;
	map(file, MAP_SHARED);
	map(file, MAP_PRIVATE);
	if (pthread_create(&id, NULL, waits, NULL))
		return 1;
	puts("ready");
	fflush(stdout);
	waits(NULL);
	return 0;
}
