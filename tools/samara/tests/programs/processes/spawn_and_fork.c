#define _GNU_SOURCE
#include <unistd.h>
#include <spawn.h>
#include <sys/wait.h>
#include <pthread.h>
#include <sys/mman.h>
#include <stdio.h>
extern char**environ;
static volatile int stop;
static void*spin(void*a){ while(!stop){ void*p=mmap(0,8192,3,0x22,-1,0); *(char*)p=1; mprotect(p,4096,1); munmap(p,8192);} return 0;}
int main(){ pthread_t t[3]; for(int i=0;i<3;i++)pthread_create(&t[i],0,spin,0); for(int i=0;i<40;i++){ pid_t p; char*a[]={"true",0}; char*b[]={"nosuch",0}; if(!posix_spawn(&p,"/bin/true",0,0,a,environ)) waitpid(p,0,0); posix_spawn(&p,"/nosuch",0,0,b,environ); p=fork(); if(!p){ void*q=mmap(0,8192,3,0x22,-1,0); *(char*)q=2; munmap(q,8192); _exit(0);} waitpid(p,0,0);} stop=1; for(int i=0;i<3;i++)pthread_join(t[i],0); puts("ok"); }
