#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
/* Signals to the process group, to which a tracer may belong. */
static volatile int terms, users, times;
static void handler(int signal) { *(signal == SIGTERM ? &terms : signal == SIGUSR1 ? &users : &times) += 1; }
int main() {
  signal(SIGTERM, handler);
  signal(SIGUSR1, handler);
  signal(SIGRTMIN, handler);
  for (int i = 0; i < 3; i++) {
    kill(0, SIGTERM); usleep(20000);
    kill(0, SIGUSR1); usleep(20000);
    kill(0, SIGRTMIN); usleep(20000);
  }
  printf("%d %d %d\n", terms, users, times);
}
