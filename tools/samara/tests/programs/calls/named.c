/* Names of memory: long ones and short ones, at the edge of what can be read, with characters that are refused. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif
#ifndef PR_SET_VMA_ANON_NAME
#define PR_SET_VMA_ANON_NAME 0
#endif
#define PAGE 4096UL

static char *area;

/* Parts of it that join when they are named alike, a hole, and what cannot be named. */
static void name(const char *text) {
    unsigned long address = (unsigned long)area, name = (unsigned long)text;
    unsigned long page;

    for (page = 0; page < 6; page += 2) prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, address + page * PAGE, 2 * PAGE, name);
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, address + 5 * PAGE, 4 * PAGE, name);
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, address + 8 * PAGE, 4 * PAGE, name);
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, address + 1, PAGE, name);
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, address, 0, name);
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, address, -PAGE, name);
    prctl(PR_SET_VMA, 1, address, PAGE, name);
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, address, 12 * PAGE, 0);
}

static char *map(unsigned long pages, int prot, int flags, int file) {
    return mmap(NULL, pages * PAGE, prot, flags, file, 0);
}

int main(void) {
    static const unsigned char refused[] = {'[', ']', '\\', '$', '`', '\n', 0x1f, 0x7f, 0x80, 0xff, ' ', '"', '!'};
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    char *text = map(2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    unsigned long n;

    area = map(12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    munmap(area + 7 * PAGE, PAGE);
    mmap(area + 10 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0);
    mmap(area + 11 * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    name("a name");
    name("");
    name((char *)16);
    name((char *)0xffff800000000000);
    for (n = 0; n < sizeof refused; n++) {
        strcpy(text, "a name");
        text[3] = (char)refused[n];
        name(text);
    }
    /* Of 79 and 80 characters, and without an end in sight. */
    for (n = 78; n <= 81; n++) {
        memset(text, 'a', 100);
        text[n] = 0;
        name(text);
    }
    memset(text, 'a', 2 * PAGE);
    name(text);
    /* At the edge of what can be read. */
    mprotect(text + PAGE, PAGE, PROT_NONE);
    name(text + PAGE - 5);
    name(text + PAGE - 80);
    text[PAGE - 1] = 0;
    name(text + PAGE - 5);
    name(text + PAGE - 1);
    mprotect(text, PAGE, PROT_WRITE);
    name(text + PAGE - 5);
    mprotect(text, PAGE, PROT_NONE);
    name(text + PAGE - 5);
    name(map(1, PROT_READ, MAP_PRIVATE, file));
    name(map(1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1));
    return 0;
}
