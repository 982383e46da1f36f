#include <unistd.h>
#include <signal.h>
#include <sys/wait.h>
#include <sys/mman.h>
#include <pthread.h>
#include <stdio.h>
static void *spin(void*a){ for(;;){ void*p=mmap(0,1<<20,3,0x22|0x8000,-1,0); munmap(p,1<<20);} }
int main(){ for(int i=0;i<30;i++){ pid_t p=fork(); if(!p){ pthread_t t; for(int k=0;k<3;k++)pthread_create(&t,0,spin,0); spin(0);} usleep(5000+i*777); kill(p,9); int s; waitpid(p,&s,0);} puts("ok"); }
