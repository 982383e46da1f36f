#include <unistd.h>
#include <sys/wait.h>
#include <stdio.h>
#include <stdlib.h>
int main(int c,char**v){ int d=atoi(v[1]); for(int i=0;i<3&&d>0;i++){ if(!fork()){ free(malloc(1<<20)); char b[9]; sprintf(b,"%d",d-1); if(i&1) execl(v[0],v[0],b,(char*)0); d--; i=-1; continue;} } while(wait(0)>0); return 0; }
