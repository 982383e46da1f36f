// Huge pages of the pool as segments (SHM_HUGETLB) and in sealed files: attached twice, read only, where they may not begin, cut, moved and detached.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HUGE (2ul << 20)
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x10
#endif
#ifndef SHM_NORESERVE
#define SHM_NORESERVE 010000
#endif

static void watch(void *at) {
    struct uffdio_api api = {.api = UFFD_API};
    int watcher = syscall(SYS_userfaultfd, 0);
    ioctl(watcher, UFFDIO_API, &api);
    struct uffdio_register some = {{(unsigned long)at, HUGE}, UFFDIO_REGISTER_MODE_MISSING};
    ioctl(watcher, UFFDIO_REGISTER, &some);
    some.mode = UFFDIO_REGISTER_MODE_MINOR;
    ioctl(watcher, UFFDIO_REGISTER, &some);
    close(watcher);
}

static void segment(unsigned long size, int how, char *free) {
    int id = shmget(IPC_PRIVATE, size, IPC_CREAT | SHM_HUGETLB | how | 0600);
    // Before anything shows that it has huge pages.
    shmat(id, free + 4096, 0);
    shmat(id, free + 4096, SHM_REMAP);
    char *some = shmat(id, 0, 0), *other = shmat(id, 0, SHM_RDONLY);
    shmat(id, some + 4096, SHM_REMAP);
    shmat(id, free + 4096, 0);
    shmat(id, free + HUGE + 4097, SHM_RND);
    shmat(id, free + HUGE, 0);
    shmat(id, free + 3 * HUGE, 0);
    shmat(id, free + 4 * HUGE, SHM_RDONLY | SHM_EXEC);
    shmat(id, some, SHM_REMAP);
    if (fork() == 0) {
        shmdt(some);
        shmat(id, 0, 0);
        _exit(0);
    }
    wait(0);
    mprotect(other, HUGE, PROT_READ | PROT_WRITE);
    mprotect(some, 4096, PROT_READ);
    mprotect(some, HUGE, PROT_READ);
    mlock(some, HUGE);
    madvise(some, HUGE, MADV_POPULATE_READ);
    madvise(some, HUGE, MADV_REMOVE);
    madvise(some, 4096, MADV_DONTNEED);
    madvise(some, HUGE, MADV_DONTFORK);
    watch(some);
    munmap(some, 4096);
    mremap(some, 2 * HUGE, 2 * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, free + 8 * HUGE);
    mremap(free + 8 * HUGE, 2 * HUGE, HUGE, 0);
    mremap(free + 8 * HUGE, HUGE, 2 * HUGE, MREMAP_MAYMOVE);
    mremap(free + 8 * HUGE, 0, HUGE, MREMAP_MAYMOVE);
    remap_file_pages(free + 8 * HUGE, HUGE, 0, 0, 0);
    shmdt(free + 8 * HUGE);
    shmdt(some);
    munmap(other, HUGE);
    shmdt(other);
    shmdt(free + HUGE);
    shmdt(free + 4 * HUGE);
    mlockall(MCL_FUTURE);
    shmdt(shmat(id, 0, 0));
    munlockall();
    shmctl(id, IPC_RMID, 0);
}

static void sealed(int seals, int again, char *place) {
    int file = memfd_create("huge", MFD_HUGETLB | MFD_ALLOW_SEALING);
    ftruncate(file, 2 * HUGE);
    // Before the seal, one that cannot become writable does not keep it from being set; one that can does.
    char *early = mmap(0, HUGE, PROT_READ, again ? MAP_SHARED : MAP_PRIVATE, file, 0);
    fcntl(file, F_ADD_SEALS, seals);
    for (int round = 0; round < 2; round++) {
        mprotect(early, HUGE, PROT_READ | PROT_WRITE);
        int both = PROT_READ | PROT_WRITE;
        char *shared = mmap(0, HUGE, both, MAP_SHARED, file, 0), *read = mmap(0, HUGE, PROT_READ, MAP_SHARED, file, 0);
        mprotect(read, HUGE, both);
        char *own = mmap(0, HUGE, both, MAP_PRIVATE, file, HUGE), *second = mmap(0, HUGE, PROT_READ, MAP_SHARED, file, HUGE);
        mprotect(second, HUGE, both);
        mmap(place, HUGE, both, MAP_SHARED | MAP_FIXED, file, 0);
        mmap(place, HUGE, PROT_READ, MAP_SHARED | MAP_FIXED, file, HUGE);
        mprotect(place, HUGE, both);
        remap_file_pages(place, HUGE, 0, 0, 0);
        char *all[] = {shared, read, own, second, early};
        for (int i = 0; i < 5; i++) {
            if (all[i] != MAP_FAILED) {
                munmap(all[i], HUGE);
            }
        }
        // Also where it was known without seals before.
        fcntl(file, F_ADD_SEALS, F_SEAL_WRITE);
        early = mmap(0, HUGE, PROT_READ, MAP_PRIVATE, file, 0);
    }
    munmap(early, HUGE);
    close(file);
}

int main(void) {
    char *room = mmap(0, 24 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    room = (char *)(((unsigned long)room + HUGE - 1) & -HUGE);
    munmap(room, 20 * HUGE);
    char *pool = mmap(0, HUGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    puts(pool == MAP_FAILED ? "none" : "some");
    segment(2 * HUGE, 0, room);
    segment(HUGE + 4096, 0, room);
    segment(2 * HUGE, SHM_NORESERVE, room);
    segment(HUGE, 21 << 26, room);
    int seals[] = {0, F_SEAL_WRITE, F_SEAL_FUTURE_WRITE, F_SEAL_WRITE | F_SEAL_FUTURE_WRITE};
    for (int i = 0; i < 8; i++) {
        sealed(seals[i / 2], i % 2, room + HUGE);
    }
    return 0;
}
