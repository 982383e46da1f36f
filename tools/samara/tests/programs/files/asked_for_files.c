#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/fanotify.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
/* Is asked for leave whenever a program is opened, which its child becomes, and maps memory before it answers. The argument is that program. */
int main(int count, char **words) {
  int asked = fanotify_init(FAN_CLASS_CONTENT, O_RDONLY), status;
  if (asked < 0 || fanotify_mark(asked, FAN_MARK_ADD, FAN_OPEN_PERM, AT_FDCWD, words[1])) return puts("may not") < 0;
  int child = fork();
  if (!child) { execl(words[1], words[1], NULL); _exit(99); }
  while (waitpid(child, &status, WNOHANG) != child) {
    struct fanotify_event_metadata event;
    struct pollfd ready = { asked, POLLIN };
    if (poll(&ready, 1, 20) < 1 || read(asked, &event, sizeof event) < (int)sizeof event) continue;
    munmap(mmap(0, 8192, 3, 0x22, -1, 0), 4096);
    write(asked, &(struct fanotify_response){ event.fd, FAN_ALLOW }, sizeof(struct fanotify_response));
    close(event.fd);
  }
  printf("%d\n", WEXITSTATUS(status));
}
