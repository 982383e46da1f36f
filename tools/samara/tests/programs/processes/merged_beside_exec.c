/* Whether pages are merged by their contents passes to a new program as it was when exec began, though a thread of the parent, whose memory the child shares until
 * then, changes it all the time. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SET_MEMORY_MERGE = 67 };

static void *changes(void *unused)
{
	for (int n = 0;; n++)
		prctl(SET_MEMORY_MERGE, n & 1, 0, 0, 0);
	return unused;
}

int main(void)
{
	pthread_t thread;
	if (pthread_create(&thread, 0, changes, 0))
		return 1;
	for (int n = 0; n < 100; n++) {
		int child = vfork();
		if (child == 0) {
			execl("/bin/true", "true", (char *)0);
			_exit(1);
		}
		waitpid(child, 0, 0);
	}
	return 0;
}
