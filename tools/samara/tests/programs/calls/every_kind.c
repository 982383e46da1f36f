#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/shm.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/prctl.h>
#include <linux/aio_abi.h>
#include <unistd.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
int main(){ aio_context_t c=0; printf("io_setup %ld\n", syscall(SYS_io_setup,16,&c)); 
 printf("io_destroy %ld\n", syscall(SYS_io_destroy,c));
 int id=shmget(IPC_PRIVATE,20000,0600|IPC_CREAT); void*p=shmat(id,0,0); memset(p,1,100); void*q=shmat(id,0,SHM_RDONLY); shmdt(p); shmdt(q); shmctl(id,IPC_RMID,0);
 void*s=mmap(0,65536,3,MAP_SHARED|MAP_ANONYMOUS,-1,0); void*s2=mmap(0,65536,3,MAP_SHARED|MAP_ANONYMOUS,-1,0); memset(s,1,10); munmap(s,4096);
 int m=memfd_create("m",0); ftruncate(m,1<<20); void*f=mmap(0,1<<20,3,MAP_SHARED,m,0); void*g=mmap(0,1<<20,1,MAP_PRIVATE,m,4096); munmap(f,4096);
 struct rlimit r; getrlimit(RLIMIT_AS,&r); r.rlim_cur=1ul<<32; setrlimit(RLIMIT_AS,&r); void*big=mmap(0,1ul<<33,3,0x22,-1,0); printf("big %d\n", big==MAP_FAILED);
 prctl(0x53564d41,0,s,4096,"hello");
 long rr; asm volatile("int $0x80":"=a"(rr):"a"(90),"b"(0):"memory"); printf("i386 %ld\n", rr);
 asm volatile("int $0x80":"=a"(rr):"a"(45),"b"(0):"memory"); printf("i386 brk %d\n", rr!=0);
 personality(0x0400000); int ex=shmget(IPC_PRIVATE,4096,0600); shmat(ex,0,0); shmat(ex,0,SHM_RDONLY); shmctl(ex,IPC_RMID,0); void*x=mmap(0,4096,1,0x22,-1,0); void*y=mmap(0,4096,3,0x122,-1,0);
 mlock(x,4096); mlockall(MCL_CURRENT); munlockall(); unsigned char v[16]; mincore(s2,65536,v); msync(s2,4096,MS_SYNC); syscall(462,x,4096,0);
 int z=open("/dev/zero",2); void*zz=mmap(0,8192,3,MAP_PRIVATE,z,0); void*zs=mmap(0,8192,3,MAP_SHARED,z,0); memset(zz,1,1); memset(zs,1,1); munmap(zs,4096);
 puts("end"); return 0; }
