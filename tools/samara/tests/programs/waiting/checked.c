/* For sanitizers, which reserve terabytes: waits with some bytes that are known. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *block;

__attribute__((noinline)) void waits(void)
{
	puts("ready");
	fflush(stdout);
	pause();
	puts("not reached");
}

int main(void)
{
	block = malloc(100000);
	memset(block, 0x5a, 100000);
	waits();
	return block[5];
}
