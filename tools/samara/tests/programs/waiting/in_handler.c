/* Waits within a signal's handler, which has a stack of its own. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static char handler_stack[65536];

static void handler(int number)
{
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}

static void raises(void)
{
	raise(SIGUSR1);
}

int main(void)
{
	stack_t stack = { .ss_sp = handler_stack, .ss_size = sizeof(handler_stack) };
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raises();
	return 0;
}
