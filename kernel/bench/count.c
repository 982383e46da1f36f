// A plugin for QEMU that counts how often each instruction is executed while counting is on. Its
// arguments are begin=ADDRESS and end=ADDRESS, at which counting starts and stops, and out=FILE.
// The file gets a line for each instruction: its address in hexadecimal digits, and the count.
//
// The declarations are the part of QEMU's plugin interface that is used (version 1, "QEMU TCG
// Plugins" in its documentation). Debian has no header for it.
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void (*translated)(uint64_t, struct qemu_plugin_tb *);
typedef void (*executed)(unsigned, void *);
typedef void (*ended)(uint64_t, void *);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t, translated);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, executed, int, void *);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, int, void *, uint64_t);
void qemu_plugin_register_atexit_cb(uint64_t, ended, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
EXPORT int qemu_plugin_version = 1;

// A hash table of addresses with open addressing, larger than the number of instructions that are
// ever translated here.
enum { PLACES = 1 << 21 };
static uint64_t address[PLACES], count[PLACES], before[PLACES], sum[PLACES];
static uint64_t begin, end;
static const char *out;
static bool on;

static uint64_t *counter(uint64_t of) {
    uint32_t place = (of * 0x9e3779b97f4a7c15ull) >> 43;
    while (address[place] && address[place] != of)
        place = (place + 1) % PLACES;
    address[place] = of;
    return &count[place];
}

static void turn(unsigned cpu, void *wanted) {
    if (on == (wanted != NULL))
        return;
    on = !on;
    for (int i = 0; i < PLACES; i++) {
        if (!on)
            sum[i] += count[i] - before[i];
        before[i] = count[i];
    }
}

static void block(uint64_t id, struct qemu_plugin_tb *tb) {
    uint64_t at = qemu_plugin_tb_vaddr(tb);
    if (at == begin || at == end)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, turn, 0, at == begin ? &on : NULL);
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        qemu_plugin_register_vcpu_insn_exec_inline(insn, 0, counter(qemu_plugin_insn_vaddr(insn)), 1);
    }
}

static void finish(uint64_t id, void *unused) {
    turn(0, NULL);
    FILE *file = fopen(out, "w");
    for (int i = 0; file && i < PLACES; i++)
        if (sum[i])
            fprintf(file, "%" PRIx64 " %" PRIu64 "\n", address[i], sum[i]);
    if (file)
        fclose(file);
}

EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv) {
    for (int i = 0; i < argc; i++) {
        if (!strncmp(argv[i], "begin=", 6))
            begin = strtoull(argv[i] + 6, NULL, 16);
        if (!strncmp(argv[i], "end=", 4))
            end = strtoull(argv[i] + 4, NULL, 16);
        if (!strncmp(argv[i], "out=", 4))
            out = strdup(argv[i] + 4);
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, block);
    qemu_plugin_register_atexit_cb(id, finish, NULL);
    return out ? 0 : 1;
}
