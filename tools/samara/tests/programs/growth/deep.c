#include <stdio.h>
#include <string.h>
#include <stdlib.h>
static int down(int n){ volatile char b[1024]; memset((void*)b, n, sizeof b); if(n<=0) return b[3]; return down(n-1)+b[n%1024]; }
int main(int c,char**v){ int n = 7300; int r=down(n); void*p=malloc(1<<20); memset(p,1,1<<20); printf("%d\n", r&1); return 0; }
