// Tests threads: mutexes, condition variables, barriers, thread-local variables, robust mutexes,
// timeouts.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static long count;
static int next;
static __thread int own = 7;
static sem_t semaphore;

static void *adder(void *which) {
    own += (int)(long)which;
    for (int i = 0; i < 20000; i++) {
        pthread_mutex_lock(&lock);
        count++;
        pthread_mutex_unlock(&lock);
    }
    pthread_barrier_wait(&barrier);
    return (void *)(long)own;
}

static void *in_turn(void *which) {
    for (int round = 0; round < 50; round++) {
        pthread_mutex_lock(&lock);
        while (next % 3 != (int)(long)which)
            pthread_cond_wait(&turn, &lock);
        next++;
        pthread_cond_broadcast(&turn);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void *dies_with(void *mutex) {
    pthread_mutex_lock(mutex);
    return NULL;
}

static void *posts(void *unused) {
    (void)unused;
    for (int i = 0; i < 1000; i++)
        sem_post(&semaphore);
    return NULL;
}

static void *memory_user(void *which) {
    for (int i = 0; i < 300; i++) {
        size_t size = 1000 + 977 * (size_t)i;
        char *piece = malloc(size);
        memset(piece, (int)(long)which, size);
        if (piece[size - 1] != (char)(long)which)
            puts("memory is another's");
        free(piece);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[8];
    pthread_barrier_init(&barrier, NULL, 8);
    for (long i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, adder, (void *)i);
    for (int i = 0; i < 8; i++) {
        void *result;
        pthread_join(threads[i], &result);
        printf("thread %d: %ld\n", i, (long)result);
    }
    printf("count %ld, own %d\n", count, own);

    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, in_turn, (void *)i);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("turns %d\n", next);

    pthread_mutex_t robust;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
    pthread_create(&threads[0], NULL, dies_with, &robust);
    pthread_join(threads[0], NULL);
    printf("robust: %s\n", pthread_mutex_lock(&robust) == EOWNERDEAD ? "owner died" : "?");
    pthread_mutex_consistent(&robust);
    pthread_mutex_unlock(&robust);

    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 50 * 1000 * 1000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&lock);
    printf("in time: %s\n", strerror(pthread_cond_timedwait(&turn, &lock, &until)));
    pthread_mutex_unlock(&lock);

    sem_init(&semaphore, 0, 0);
    pthread_create(&threads[0], NULL, posts, NULL);
    for (int i = 0; i < 1000; i++)
        sem_wait(&semaphore);
    pthread_join(threads[0], NULL);
    puts("semaphore done");

    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, memory_user, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    puts("memory done");
    return 0;
}
