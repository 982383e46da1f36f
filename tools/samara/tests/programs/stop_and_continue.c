#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/wait.h>
#include <sys/mman.h>
int main(){ pid_t p=fork(); if(!p){ for(int i=0;i<200;i++){ void*q=mmap(0,4096,3,0x22,-1,0); munmap(q,4096); usleep(500);} _exit(5);} 
 usleep(10000); kill(p,SIGSTOP); int s; waitpid(p,&s,WUNTRACED); printf("stopped %d by %d\n", WIFSTOPPED(s), WSTOPSIG(s)); kill(p,SIGCONT); waitpid(p,&s,WCONTINUED); printf("continued %d\n", WIFCONTINUED(s)); waitpid(p,&s,0); printf("exit %d\n", WEXITSTATUS(s)); }
