// Makes the kernel panic, or leak a frame.
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int count, char **arguments) {
    syscall(SYS_reboot, count > 1 ? atoi(arguments[1]) : 0, 0, 0);
    return 0;
}
