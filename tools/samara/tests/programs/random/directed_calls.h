/* Calls that mostly succeed, for any_calls.c: on memory of one kind, so that areas join, move and part; through other doors than system calls on memory; and
 * on what the kernel has mapped for the program. */

static void *fitting(word pages) { return (void *)(window + below(PAGES - pages + 1) * PAGE); }

/* Anonymous memory and pages of one file, each at the place that it has in the file. */
static void lay(void) {
    word pages = 1 + below(8);
    char *at = fitting(pages);
    int file = one_in(3) ? one_in(2) ? data : memory : -1;
    word flags = MAP_FIXED | (file < 0 ? MAP_ANONYMOUS : 0) | (one_in(file < 0 ? 9 : 2) ? MAP_SHARED : MAP_PRIVATE) | (one_in(8) ? MAP_GROWSDOWN : 0);
    syscall(SYS_mmap, at, pages * PAGE, one_in(3) ? below(8) : 3, flags, file, file < 0 ? 0 : (word)at - window);
}

static void relocate(void) {
    word pages = 1 + below(8), more = 1 + below(8);
    word flags = one_in(4) ? below(2) : MREMAP_MAYMOVE | MREMAP_FIXED | (one_in(4) ? MREMAP_DONTUNMAP : 0);
    if (!one_in(3) || flags & MREMAP_DONTUNMAP) more = pages;
    syscall(SYS_mremap, fitting(pages), one_in(12) ? 0 : pages * PAGE, more * PAGE, flags, fitting(more));
}

static void advise(void) {
    static const int advices[] = {0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 102, 103};
    word pages = 1 + below(8);
    int advice = advices[below(sizeof advices / sizeof *advices)];
    if (large && (advice == 22 || advice == 23)) return;
    if (one_in(6)) syscall(SYS_madvise, roomy + below(3) * HUGE, HUGE, advice);
    else syscall(SYS_madvise, fitting(pages), pages * PAGE, advice);
}

/* Writes where the program itself may not, and reads below what grows. */
static void by_the_back_door(void) {
    char bytes[2 * PAGE] = {1};
    word at = one_in(9) ? address() : page() + below(PAGE);
    if (one_in(3)) {
        struct iovec from = {bytes, 1 + below(sizeof bytes)}, to = {(void *)at, from.iov_len};
        if (one_in(2)) process_vm_writev(getpid(), &from, 1, &to, 1, 0);
        else process_vm_readv(getpid(), &from, 1, &to, 1, 0);
        return;
    }
    int file = open("/proc/self/mem", O_RDWR);
    if (one_in(2)) pwrite(file, bytes, 1 + below(sizeof bytes), at);
    else pread(file, bytes, 1 + below(sizeof bytes), at);
    close(file);
}

static void clear_marks(void) {
    int file = open("/proc/self/clear_refs", O_WRONLY);
    write(file, one_in(3) ? "1" : "4", 1);
    close(file);
}

/* A userfaultfd's own way to fill pages in, and to give them up. */
static void fill_watched(void) {
    static char bytes[4 * PAGE] __attribute__((aligned(4096)));
    word pages = 1 + below(4);
    struct uffdio_range range = {(word)fitting(pages), pages * PAGE};
    // Who accesses what is missing does not wait, for ever where the kernel does it for the program.
    struct uffdio_api api = {UFFD_API, UFFD_FEATURE_SIGBUS, 0};
    if (watcher < 0 && (watcher = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)) >= 0) ioctl(watcher, UFFDIO_API, &api);
    struct uffdio_register area = {range, one_in(2) ? UFFDIO_REGISTER_MODE_MISSING : UFFDIO_REGISTER_MODE_WP, 0};
    if (one_in(2)) ioctl(watcher, UFFDIO_REGISTER, &area);
    struct uffdio_copy copy = {range.start, (word)bytes, range.len, one_in(3) ? UFFDIO_COPY_MODE_WP : 0, 0};
    struct uffdio_zeropage zeroes = {range, 0, 0};
    struct uffdio_writeprotect protect = {range, one_in(2) ? UFFDIO_WRITEPROTECT_MODE_WP : 0};
    struct { struct uffdio_range range; word mode, updated; } poison = {range, 0, 0};
    switch (below(5)) {
    case 0: ioctl(watcher, UFFDIO_COPY, &copy); break;
    case 1: ioctl(watcher, UFFDIO_ZEROPAGE, &zeroes); break;
    case 2: ioctl(watcher, UFFDIO_WRITEPROTECT, &protect); break;
    case 3: ioctl(watcher, _IOWR(0xAA, 8, poison), &poison); break;
    }
    if (!one_in(5)) ioctl(watcher, UFFDIO_UNREGISTER, &range);
}

/* A shared mapping whose pages change places. */
static void shuffle(void) {
    char *at = fitting(6);
    mmap(at, 6 * PAGE, below(8), MAP_SHARED | MAP_FIXED, memory, 0);
    syscall(SYS_remap_file_pages, at + below(6) * PAGE, (1 + below(3)) * PAGE, 0, below(6), 0);
}

/* An area that grows, and accesses below it. */
static void grow(void) {
    word pages = 1 + below(6), hole = 1 + below(12);
    char *at = fitting(pages + hole);
    munmap(at, hole * PAGE);
    mmap(at + hole * PAGE, pages * PAGE, one_in(3) ? below(8) : 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN, -1, 0);
    for (int i = 0; i < 2; i++) access_at((word)at + below(hole * PAGE));
}

/* Of what the kernel has mapped: code, data, the libraries, the stack, the vdso and what is before it. */
static word special(void) {
    char *const here[] = {(char *)special, (char *)files, (char *)&program, (char *)malloc, (char *)stdout};
    word chosen = below(9);
    if (chosen < 5) return ((word)here[chosen] & -PAGE) + below(4) * PAGE - below(4) * PAGE;
    word vdso = getauxval(AT_SYSINFO_EHDR);
    return chosen < 7 ? vdso + 2 * PAGE - below(8) * PAGE : ((word)__builtin_frame_address(0) & -PAGE) - below(40) * PAGE;
}

static void concern_special(void) {
    word at = special(), size = (1 + below(3)) * PAGE;
    switch (below(9)) {
    case 0: syscall(SYS_mprotect, at, size, one_in(2) ? 3 : 5); break;
    case 1: syscall(SYS_madvise, at, size, one_in(2) ? below(26) : 15 + below(6)); break;
    case 2: if (one_in(4)) syscall(SYS_munmap, at, size); break;
    case 3: syscall(SYS_mremap, at, size, size, MREMAP_MAYMOVE | MREMAP_FIXED | (one_in(2) ? MREMAP_DONTUNMAP : 0), fitting(4)); break;
    case 4: syscall(SYS_mremap, at, size, size + PAGE, one_in(2)); break;
    case 5: syscall(SYS_mlock2, at, size, below(2)); break;
    case 6: syscall(SYS_mbind, at, size, 0, 0, 0, 0); break;
    case 7: syscall(SYS_remap_file_pages, at, size, 0, below(3), 0); break;
    case 8: if (one_in(4)) syscall(462, at, size, 0); break;
    }
}

/* Children that end as others do not: by a program of their own while the parent sleeps, or by a signal. */
static void end_early(void) {
    if (!(features & PROCESSES) || depth > 1) return;
    int child = one_in(2) ? vfork() : fork();
    if (child == 0) {
        alarm(patience);
        if (one_in(3)) execl("/bin/true", "true", (char *)0);
        if (one_in(2)) syscall(SYS_munmap, window, PAGES * PAGE);
        if (one_in(2)) kill(getpid(), SIGKILL);
        _exit(0);
    }
    if (child > 0) waitpid(child, 0, 0);
}

static void directed_call(void) {
    word pages = 1 + below(8);
    switch (below(20)) {
    case 0: case 1: case 2: case 3: lay(); break;
    case 4: case 5: case 6: case 7: relocate(); break;
    case 8: case 9: syscall(SYS_mprotect, fitting(pages), pages * PAGE, one_in(2) ? 3 : below(8)); break;
    case 10: case 11: advise(); break;
    case 12: syscall(SYS_munmap, fitting(pages), pages * PAGE); break;
    case 13: by_the_back_door(); break;
    case 14: fill_watched(); break;
    case 15: if (one_in(3)) shuffle(); break;
    case 16: grow(); break;
    case 17: concern_special(); break;
    case 18: if (one_in(2)) clear_marks(); else if (one_in(2)) end_early(); break;
    case 19: syscall(SYS_mlock2, fitting(pages), pages * PAGE, below(2)); syscall(SYS_munlock, fitting(pages), pages * PAGE); break;
    }
    if (one_in(2)) access_at(page() + below(PAGE));
}
