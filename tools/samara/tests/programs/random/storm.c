// Random storm of memory calls: storm SEED CALLS THREADS FORKS
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/wait.h>
#include <sys/shm.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <unistd.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <errno.h>
#define PG 4096ul
static int fd_rw, fd_ro, fd_mem, fd_zero;
static char *arena; static size_t arena_pages = 64;
struct rng { uint64_t s; };
static uint64_t rnd(struct rng *r){ uint64_t x=r->s; x^=x<<13; x^=x>>7; x^=x<<17; return r->s=x; }
static unsigned below(struct rng *r, unsigned n){ return (rnd(r)>>11)%n; }
static __thread sigjmp_buf jb; static __thread volatile int injb;
static void onsegv(int s){ if(injb) siglongjmp(jb,1); _exit(99); }
static void touch(char *p, int write){ injb=1; if(!sigsetjmp(jb,1)){ if(write) *(volatile char*)p=1; else (void)*(volatile char*)p; } injb=0; }
static int prots[]={0,1,3,3,3,5,7,2,4};
static int advs[]={MADV_NORMAL,MADV_RANDOM,MADV_SEQUENTIAL,MADV_WILLNEED,MADV_DONTNEED,MADV_FREE,MADV_DONTFORK,MADV_DOFORK,MADV_HUGEPAGE,MADV_NOHUGEPAGE,MADV_DONTDUMP,MADV_DODUMP,MADV_WIPEONFORK,MADV_KEEPONFORK,MADV_COLD,MADV_PAGEOUT,MADV_POPULATE_READ,MADV_POPULATE_WRITE,MADV_MERGEABLE,MADV_UNMERGEABLE,102,103,25,77};
static char *addr_in(struct rng *r, int *len){ unsigned a=below(r,arena_pages); unsigned m=arena_pages-a; unsigned n=1+below(r,m<12?m:12); *len=n*PG; return arena+a*PG; }
static void one(struct rng *r){
  int len; char *p=addr_in(r,&len); int len2; char *q=addr_in(r,&len2);
  switch(below(r,24)){
  case 0: case 1: case 2: { int fl=MAP_PRIVATE|MAP_ANONYMOUS|MAP_FIXED; if(!below(r,6)) fl|=MAP_NORESERVE; if(!below(r,8)) fl|=MAP_STACK; if(!below(r,12)) fl|=MAP_LOCKED; if(!below(r,10)) fl|=MAP_POPULATE; if(!below(r,12)) fl=(fl&~MAP_FIXED)|MAP_FIXED_NOREPLACE; if(!below(r,15)) fl=(fl&~MAP_PRIVATE)|MAP_SHARED; if(!below(r,20)) fl|=MAP_GROWSDOWN; mmap(p,len,prots[below(r,9)],fl,-1,0); break; }
  case 3: { int fd=below(r,2)?fd_rw:(below(r,2)?fd_ro:(below(r,2)?fd_mem:fd_zero)); mmap(p,len,prots[below(r,9)],(below(r,3)?MAP_PRIVATE:MAP_SHARED)|MAP_FIXED,fd,below(r,3)?(p-arena):PG*below(r,8)); break; }
  case 4: case 5: munmap(p,len); break;
  case 6: case 7: case 8: mprotect(p,len,prots[below(r,9)]); break;
  case 9: { int fl=below(r,4); if(below(r,3)==0) fl|=4; mremap(p,len,below(r,3)?(size_t)len2:(size_t)len,(fl&2)?(fl|1):fl,q); break; }
  case 10: case 11: madvise(p,len,advs[below(r,sizeof advs/sizeof *advs)]); break;
  case 12: if(below(r,2)) mlock(p,len); else munlock(p,len); break;
  case 13: syscall(SYS_mlock2,p,len,below(r,2)); break;
  case 14: { size_t l=PG*(1+below(r,30)); char*x=mmap(0,l,prots[below(r,9)],MAP_PRIVATE|MAP_ANONYMOUS,-1,0); if(x!=MAP_FAILED && below(r,2)) munmap(x,l); break; }
  case 15: { size_t l=(1ul<<21)*(1+below(r,3))+(below(r,2)?0:PG*below(r,3)); char*x=mmap(0,l,3,(below(r,3)?MAP_PRIVATE:MAP_SHARED)|MAP_ANONYMOUS|(below(r,4)?0:MAP_32BIT),-1,0); if(x!=MAP_FAILED){ if(below(r,2)) touch(x+below(r,l/PG)*PG,1); if(below(r,4)) munmap(x,l);} break; }
  case 16: case 17: case 18: case 19: touch(p,below(r,4)); break;
  case 20: { char*b=sbrk(0); if(below(r,2)) sbrk((long)below(r,5*PG)); else { if(b>(char*)0) sbrk(-(long)below(r,3*PG)); } if(below(r,2)) touch((char*)sbrk(0)-1,1); break; }
  case 21: { int id=shmget(IPC_PRIVATE,len,0600); if(id>=0){ int rmd=below(r,2); void*x=shmat(id,below(r,2)?p:0,(below(r,2)?SHM_REMAP:0)|(below(r,3)?0:SHM_RDONLY)); shmctl(id,IPC_RMID,0); if(x!=(void*)-1&&rmd) shmdt(x);} break; }
  case 22: msync(p,len,below(r,8)); { unsigned char v[64]; mincore(p,len,v);} break;
  case 23: { char*x=mmap(p,len,3,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); if(x!=MAP_FAILED&&x!=p) munmap(x,len); break; }
  }
}
static long calls; static unsigned long seed;
static void *worker(void *a){ struct rng r={seed*7919+(uintptr_t)a*104729+1}; stack_t ss; (void)ss; for(int i=0;i<20;i++) rnd(&r); for(long i=0;i<calls;i++) one(&r); return 0; }
int main(int c,char**v){
  seed=c>1?strtoul(v[1],0,0):1; calls=c>2?atol(v[2]):1000; int th=c>3?atoi(v[3]):1, fk=c>4?atoi(v[4]):0;
  struct sigaction sa={.sa_handler=onsegv,.sa_flags=SA_NODEFER}; sigaction(SIGSEGV,&sa,0); sigaction(SIGBUS,&sa,0);
  char n[]="/tmp/stormXXXXXX"; fd_rw=mkstemp(n); if(ftruncate(fd_rw,PG*40)) return 1; fd_ro=open(n,O_RDONLY); unlink(n); fd_mem=memfd_create("storm",0); if(ftruncate(fd_mem,PG*64)) return 1; fd_zero=open("/dev/zero",O_RDWR);
  arena=mmap(0,(arena_pages+32)*PG,PROT_NONE,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); munmap(arena,(arena_pages+32)*PG); arena+=16*PG;
  for(int f=0;f<=fk;f++){
    if(th<=1) worker((void*)(uintptr_t)(f+1));
    else { pthread_t t[64]; for(int i=0;i<th;i++) pthread_create(&t[i],0,worker,(void*)(uintptr_t)(f*64+i+1)); for(int i=0;i<th;i++) pthread_join(t[i],0); }
    if(f<fk){ pid_t p=fork(); if(p==0){ if(f%2) { for(int i=0;i<3;i++); } worker((void*)(uintptr_t)(f+1000)); _exit(0);} if(f%2==0) waitpid(p,0,0); }
  }
  while(wait(0)>0); 
  return 0; }
