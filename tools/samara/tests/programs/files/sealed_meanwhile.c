/* Memory is sealed by one thread while another maps it, who may come too late to write there. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096L

static atomic_int memory = -1, go;

static void *seals(void *unused)
{
	for (int n = 1; n <= 400; n++) {
		while (go < n)
			;
		for (int wait = n % 64 * 100; wait; wait--)
			atomic_load(&go);
		fcntl(memory, F_ADD_SEALS, n & 1 ? F_SEAL_WRITE : F_SEAL_FUTURE_WRITE);
		go = -n;
	}
	return unused;
}

int main(void)
{
	pthread_t thread;
	if (pthread_create(&thread, 0, seals, 0))
		return 1;
	char *at = mmap(0, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int n = 1; n <= 400; n++) {
		memory = memfd_create("sealed", MFD_ALLOW_SEALING);
		if (ftruncate(memory, 4 * PAGE))
			return 1;
		go = n;
		mmap(at + PAGE, PAGE, n & 2 ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_FIXED, memory, 0);
		while (go != -n)
			;
		close(memory);
		munmap(at + PAGE, PAGE);
	}
	pthread_join(thread, 0);
	return 0;
}
