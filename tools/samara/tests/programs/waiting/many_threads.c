#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void*f(void*a){ free(malloc(1<<18)); return 0;}
int main(int c,char**v){ int n=atoi(v[1]); pthread_t*t=malloc(n*sizeof*t); pthread_attr_t at; pthread_attr_init(&at); pthread_attr_setstacksize(&at,65536); int k=0; for(int i=0;i<n;i++) if(!pthread_create(&t[k],&at,f,0))k++; for(int i=0;i<k;i++)pthread_join(t[i],0); printf("%d\n",k); }
