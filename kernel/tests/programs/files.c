// Tests files: file descriptors, directories, pipes, poll, links, times.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *what, long result) {
    if (result < 0)
        printf("%s: %s\n", what, strerror(errno));
    else
        printf("%s: %ld\n", what, result);
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

int main(void) {
    umask(022);
    tell("mkdir", mkdir("files", 0777));
    tell("mkdir again", mkdir("files", 0777));
    tell("chdir", chdir("files"));
    char text[256];
    printf("in %s\n", strrchr(getcwd(text, sizeof text), '/'));
    int file = open("one", O_RDWR | O_CREAT | O_EXCL, 0666);
    tell("write", write(file, "0123456789", 10));
    tell("exclusive", open("one", O_RDWR | O_CREAT | O_EXCL, 0666));
    tell("seek", lseek(file, 3, SEEK_SET));
    tell("read", read(file, text, 4));
    printf("%.4s\n", text);
    struct iovec parts[2] = {{text, 2}, {text + 10, 5}};
    tell("readv", readv(file, parts, 2));
    tell("pwrite", pwrite(file, "ab", 2, 100));
    struct stat status;
    fstat(file, &status);
    printf("size %ld mode %o links %ld\n", (long)status.st_size, status.st_mode, (long)status.st_nlink);
    tell("link", link("one", "two"));
    stat("two", &status);
    printf("links %ld\n", (long)status.st_nlink);
    tell("symlink", symlink("two", "three"));
    tell("readlink", readlink("three", text, sizeof text));
    lstat("three", &status);
    printf("link %d size %ld\n", S_ISLNK(status.st_mode), (long)status.st_size);
    tell("loop", symlink("loop", "loop"));
    tell("open loop", open("loop", O_RDONLY));
    tell("open nowhere", open("nowhere/one", O_RDONLY));
    tell("through a file", open("one/two", O_RDONLY));
    tell("directory", open("one", O_RDONLY | O_DIRECTORY));
    tell("write directory", open(".", O_WRONLY));
    tell("rename", rename("two", "four"));
    tell("rename missing", rename("two", "five"));
    tell("rmdir file", rmdir("four"));
    tell("unlink directory", unlink("../files") == 0 ? 0 : -1);
    tell("mkdir deep", mkdir("deep", 0700));
    tell("mkdir deeper", mkdir("deep/er", 0700));
    tell("not empty", rmdir("deep"));
    tell("into itself", rename("deep", "deep/er/x"));
    struct dirent **names;
    int count = scandir(".", &names, NULL, by_name);
    for (int i = 0; i < count; i++)
        printf("  %s %d\n", names[i]->d_name, names[i]->d_type);
    tell("truncate", ftruncate(file, 5));
    tell("at the end", lseek(file, 0, SEEK_END));
    int append = open("one", O_WRONLY | O_APPEND);
    tell("append", write(append, "xyz", 3));
    tell("size", lseek(append, 0, SEEK_CUR));
    int copy = dup2(file, 20);
    printf("dup2 %d, shares the offset %d\n", copy, lseek(copy, 0, SEEK_CUR) == lseek(file, 0, SEEK_CUR));
    printf("cloexec %d", fcntl(file, F_GETFD));
    fcntl(file, F_SETFD, FD_CLOEXEC);
    printf(" %d %d\n", fcntl(file, F_GETFD), fcntl(copy, F_GETFD));
    tell("bad descriptor", read(99, text, 1));
    tell("write only", read(append, text, 1));

    int ends[2];
    tell("pipe", pipe(ends));
    struct pollfd polled[2] = {{ends[0], POLLIN, 0}, {ends[1], POLLOUT, 0}};
    int found = poll(polled, 2, 0);
    printf("poll %d: %d %d\n", found, polled[0].revents, polled[1].revents);
    write(ends[1], "data", 4);
    found = poll(polled, 2, -1);
    printf("poll %d: %d %d\n", found, polled[0].revents, polled[1].revents);
    read(ends[0], text, 10);
    printf("late %d\n", poll(polled, 1, 30));
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    struct timeval limit = {0, 1000};
    printf("select %d\n", select(ends[0] + 1, &set, NULL, NULL, &limit));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    tell("no data", read(ends[0], text, 1));
    close(ends[1]);
    found = poll(polled, 1, -1);
    printf("closed %d: %d\n", found, polled[0].revents);
    tell("end", read(ends[0], text, 1));
    tell("seek a pipe", lseek(ends[0], 0, SEEK_CUR));

    lseek(file, 0, SEEK_SET);
    int target = open("copy", O_RDWR | O_CREAT, 0644);
    tell("sendfile", sendfile(target, file, NULL, 100));
    lseek(target, 0, SEEK_SET);
    tell("copied", read(target, text, 100));
    printf("%.8s\n", text);
    struct timespec times[2] = {{1000, 5}, {2000, 7}};
    tell("utimens", futimens(target, times));
    fstat(target, &status);
    printf("modified %ld.%ld\n", (long)status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    tell("access", access("copy", R_OK | W_OK));
    tell("missing", access("missing", F_OK));
    tell("chmod", chmod("copy", 0755));
    stat("copy", &status);
    printf("mode %o\n", status.st_mode & 0777);
    printf("null %d %zd, full %s\n", (int)write(open("/dev/null", O_WRONLY), "x", 1), read(open("/dev/null", O_RDONLY), text, 1),
           write(open("/dev/full", O_WRONLY), "x", 1) < 0 ? strerror(errno) : "?");
    read(open("/dev/zero", O_RDONLY), text, 3);
    printf("zero %d %d\n", text[0], text[2]);

    fflush(stdout);
    tell("fifo", mkfifo("fifo", 0600));
    fflush(stdout);
    if (fork() == 0) {
        int writer = open("fifo", O_WRONLY);
        write(writer, "through", 7);
        _exit(0);
    }
    int reader = open("fifo", O_RDONLY);
    int length = (int)read(reader, text, sizeof text);
    printf("fifo %.*s\n", length, text);
    wait(NULL);
    unlink("one");
    printf("unlinked: %ld links\n", (fstat(file, &status), (long)status.st_nlink));
    chdir("..");
    system("rm -rf files");
    tell("gone", access("files", F_OK));
    // A child that shares the file descriptors opens one and exits.
    int shared[2];
    pipe(shared);
    pid_t sharer = (pid_t)syscall(SYS_clone, 0x400 /* CLONE_FILES */ | SIGCHLD, 0, 0, 0, 0);
    if (sharer == 0) {
        dup2(shared[1], 77);
        _exit(0);
    }
    tell("shared descriptors", waitpid(sharer, NULL, 0) == sharer ? write(77, "x", 1) : -1);
    tell("shared descriptor of before", write(shared[1], "y", 1));
    return 0;
}
