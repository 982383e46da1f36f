// What is open, mapped with each protection: of some file systems nothing may be executed, whatever their mount says.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096 };
static int refused;

static void each_protection(int file) {
    static const int kinds[] = {MAP_PRIVATE, MAP_SHARED, MAP_SHARED_VALIDATE};
    for (int kind = 0; file >= 0 && kind < 3; kind++)
        for (int protection = 0; protection < 8; protection++) {
            char *at = mmap(0, PAGE, protection, kinds[kind], file, 0);
            refused += at == MAP_FAILED;
            mmap(0, PAGE, protection, kinds[kind] | MAP_GROWSDOWN, file, 0);
            if (at == MAP_FAILED) continue;
            mprotect(at, PAGE, PROT_READ | PROT_EXEC);
            munmap(at, PAGE);
        }
}

int main(int argc, char **argv) {
    int ends[2], data = open(argv[1], O_RDWR | O_CREAT, 0600);
    write(data, argv, PAGE);
    pipe(ends);
    char again[64];
    sprintf(again, "/proc/self/fd/%d", ends[0]);
    int files[] = {
        ends[0], ends[1], open(again, O_RDWR), open(again, O_PATH),
        socket(AF_UNIX, SOCK_STREAM, 0), socket(AF_INET, SOCK_STREAM, 0), socket(AF_NETLINK, SOCK_RAW, 0),
        eventfd(0, 0), epoll_create1(0), syscall(SYS_pidfd_open, getpid(), 0), syscall(SYS_memfd_secret, 0),
        memfd_create("plain", 0), memfd_create("not executable", 8),
        open("/dev/zero", O_RDWR), open("/dev/zero", O_RDONLY), open("/dev/zero", O_WRONLY), open("/dev/null", O_RDWR), open("/dev", O_RDONLY),
        open("/proc", O_RDONLY), open("/proc/self/status", O_RDONLY), open("/proc/self/mem", O_RDWR), open("/proc/self/ns/mnt", O_RDONLY),
        open("/sys", O_RDONLY), open("/", O_RDONLY), open("/", O_PATH),
        data, open(argv[1], O_RDONLY), open(argv[1], O_WRONLY), open(argv[1], O_PATH),
    };
    for (int i = 0; i < sizeof files / sizeof *files; i++) each_protection(files[i]);
    // What may be read may be executed, but nothing of these files.
    personality(READ_IMPLIES_EXEC);
    for (int i = 0; i < sizeof files / sizeof *files; i++) each_protection(files[i]);
    unsigned long ring = 0;
    syscall(SYS_io_setup, 100, &ring);
    mprotect((void *)ring, PAGE, PROT_READ);
    syscall(SYS_io_destroy, ring);
    printf("%s\n", refused ? "some refused" : "none refused");
    return 0;
}
