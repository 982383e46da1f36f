// Where all memory to come is locked, what a driver manages is not; a secret is locked by its driver.
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096 };

static void look(int file, unsigned long offset, int flags) {
    char *at = file < 0 ? MAP_FAILED : mmap(0, PAGE, PROT_READ | PROT_WRITE, flags, file, offset);
    if (at == MAP_FAILED) at = file < 0 ? at : mmap(0, PAGE, PROT_READ, flags, file, offset);
    if (at == MAP_FAILED) return;
    // Refused for what is locked.
    msync(at, PAGE, MS_ASYNC | MS_INVALIDATE);
    munlock(at, PAGE);
    msync(at, PAGE, MS_ASYNC | MS_INVALIDATE);
    mlock(at, PAGE);
    msync(at, PAGE, MS_ASYNC | MS_INVALIDATE);
    munmap(at, PAGE);
}

int main(void) {
    char event[128] = {1, 0, 0, 0, 128}, ring[256] = {0};
    int secret = syscall(SYS_memfd_secret, 0), socket_file = socket(AF_INET, SOCK_STREAM, 0);
    int perf = syscall(SYS_perf_event_open, event, 0, -1, -1, 0), uring = syscall(SYS_io_uring_setup, 4, ring);
    int memory = memfd_create("memory", 0);
    if (secret >= 0) ftruncate(secret, PAGE);
    ftruncate(memory, PAGE);
    static const int locks[] = {MCL_FUTURE, MCL_FUTURE | MCL_ONFAULT, 0};
    for (int i = 0; i < 3; i++) {
        if (locks[i]) mlockall(locks[i]);
        else munlockall();
        for (int locked = 0; locked < 2; locked++) {
            int more = locked ? MAP_LOCKED : 0;
            look(socket_file, 0, MAP_PRIVATE | more), look(socket_file, 0, MAP_SHARED | more);
            look(perf, 0, MAP_SHARED | more), look(secret, 0, MAP_SHARED | more);
            look(uring, 0, MAP_SHARED | MAP_POPULATE | more), look(uring, 0x10000000, MAP_SHARED | more);
            look(memory, 0, MAP_PRIVATE | more), look(memory, 0, MAP_SHARED | more);
        }
    }
    return 0;
}
