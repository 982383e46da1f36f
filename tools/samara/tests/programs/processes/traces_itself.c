#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include <stdio.h>
int main(){ printf("traceme %ld\n", ptrace(PTRACE_TRACEME,0,0,0)); fflush(stdout); pid_t p=fork(); if(!p){ pause(); _exit(0);} printf("attach %ld\n", ptrace(PTRACE_ATTACH,p,0,0)); kill(p,9); wait(0); return 0; }
