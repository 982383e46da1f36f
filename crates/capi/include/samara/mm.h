/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* samara/mm.h: address spaces with Linux's semantics, from C.
 *
 * Results are >= 0, or -errno with Linux's x86-64 numbers, as a system call returns them.
 * Addresses, lengths and offsets are in bytes unless a name says otherwise. Ranges are [start,
 * end). Any thread may call any function. Calls that change one address space wait for each
 * other. Faults, copies, look-ups and translations do not wait for them unless the area itself
 * is being changed. */
#ifndef SAMARA_MM_H
#define SAMARA_MM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

struct mm;      /* an address space */
struct mm_phys; /* physical memory: frames and the format of page tables */
struct mm_file; /* an open file description, reference-counted */

/* ---- physical memory ---- */
enum mm_format { MM_X86_64 = 0, MM_X86_64_LA57, MM_AARCH64_4K, MM_RISCV_SV39, MM_RISCV_SV48 };
struct mm_phys_ops {
	void *ctx;
	int (*alloc)(void *ctx, unsigned order, uint64_t *phys);  /* 2^order frames of 4 KiB, aligned to their size, with any content; 0 or -ENOMEM */
	void (*free)(void *ctx, uint64_t phys, unsigned order);   /* with the start and order of the allocation */
	void *(*to_virt)(void *ctx, uint64_t phys);               /* where the library reads and writes that frame */
};
/* With ops NULL, `frames` frames of the library's own memory, in one anonymous mapping.
 * Otherwise `frames` is ignored. */
int mm_phys_new(enum mm_format format, const struct mm_phys_ops *ops, uint64_t frames, struct mm_phys **phys);
/* Drops the caller's reference. Address spaces and cached pages keep the memory alive. When the
 * last of them is gone, too, every frame has been freed. */
void mm_phys_put(struct mm_phys *phys);
/* Returns where the library reads and writes the byte at an address that mm_translate or mm_root
 * returned, for frames of any owner. Returns NULL if there is no frame. Valid until the frame is
 * freed. */
void *mm_phys_virt(struct mm_phys *phys, uint64_t addr);
struct mm_phys_stats {
	uint64_t free;      /* unused frames of the library's own memory */
	uint64_t tables;    /* frames of page tables of address spaces; no reserve is kept */
	uint64_t anon;      /* frames of private memory; the zero page is not counted */
	uint64_t file;      /* frames of files and shared memory */
	uint64_t shared_tables; /* tables that more than one address space uses */
};
void mm_phys_stats(struct mm_phys *phys, struct mm_phys_stats *stats);

/* ---- files ---- */
enum { MM_FILE_READ = 1, MM_FILE_WRITE = 2, MM_FILE_NOEXEC = 4, MM_FILE_APPEND = 8, MM_FILE_SHMEM = 16 /* memfd, tmpfs */ };
struct mm_file_info {
	const char *name;                 /* as maps prints it */
	uint32_t major, minor;            /* device */
	uint64_t inode;                   /* the same device and inode: the same pages, on one mm_phys */
	unsigned flags;                   /* MM_FILE_... */
};
/* The file system, for files that Linux maps differently from those of a disk. Two of these, or
 * one and MM_FILE_SHMEM: -EINVAL. */
enum {
	MM_FILE_UNALIGNED = 32, /* does not align large mappings for huge pages: network file systems, proc */
	MM_FILE_STACKED = 64,   /* overlayfs: a new mapping does not merge with neighbours */
	MM_FILE_FUSE = 128,     /* FUSE: no existing mapping merges into another */
	MM_FILE_PLACED = 256    /* ramfs: mremap moves one mapping at a time */
};
/* The functions of an open. Of several opens of one inode, the oldest serves its pages. With
 * NULL members, reads return zeroes and the size is unlimited. The pages of a SHMEM file live in
 * the library until its last open and mapping are gone, and are never written out. Several
 * threads may call the functions at once, while an address space that maps the file is locked:
 * they must not call such an address space. */
struct mm_file_ops {
	int (*read_page)(void *ctx, uint64_t pgoff, void *page);        /* fills 4,096 bytes, with zeroes beyond the end; 0, or -EIO: SIGBUS at the access */
	int (*write_page)(void *ctx, uint64_t pgoff, const void *page); /* gets a dirty page, at msync (MS_SYNC) and at eviction; NULL: dropped */
	int (*punch)(void *ctx, uint64_t start, uint64_t end);          /* MADV_REMOVE; NULL: write_page with zeroes */
	uint64_t (*size)(void *ctx);                                    /* the current size, queried at each fault; pages entirely beyond it: SIGBUS */
	void (*release)(void *ctx);
};
int mm_file_open(const struct mm_file_info *info, const struct mm_file_ops *ops, void *ctx, struct mm_file **file);
struct mm_file *mm_file_get(struct mm_file *file); /* takes another reference, as dup and fork do; returns `file` */
void mm_file_put(struct mm_file *file);   /* mappings keep the file alive */
/* Read and write like pread(2) and pwrite(2), through the pages that programs map on `phys`.
 * Stores through a shared mapping are read at once. Written bytes are visible in mappings at
 * once, and go to write_page as stores do. Return the number of bytes, which is smaller at the
 * end of the file. The file does not grow: change size() first, and call mm_file_extend. -EBADF
 * if it was not opened for that, -EIO if read_page fails at the first page, -ENOMEM. */
int64_t mm_file_read(struct mm_phys *phys, struct mm_file *file, uint64_t offset, void *to, size_t len);
int64_t mm_file_write(struct mm_phys *phys, struct mm_file *file, uint64_t offset, const void *from, size_t len);
/* Call this after the file has become shorter and size() reports the new size. Pages entirely
 * beyond the end leave every mapping on `phys`, private copies too. The bytes of the last page
 * beyond the end are zeroed in the file's page, not in private copies. */
void mm_file_truncate(struct mm_phys *phys, struct mm_file *file, uint64_t size);
/* Call this after the file has become longer than its former `before` bytes. Bytes that programs
 * have stored beyond these in its last page become zero (not in SHMEM files). Growth needs no
 * notice, but without it those bytes belong to the file from then on. Bytes that are stored
 * there while the page is written out are zeroed in any case. */
void mm_file_extend(struct mm_phys *phys, struct mm_file *file, uint64_t before);
/* Call this after the pages of [start, end), both multiples of 4,096, have become zero. They
 * leave every mapping. Private copies stay. */
void mm_file_punch(struct mm_phys *phys, struct mm_file *file, uint64_t start, uint64_t end);
/* Writes every dirty page on `phys` by write_page, like fsync(2). Returns 0, or the first error
 * after all pages have been tried. Pages that failed stay dirty. Call it before the last
 * mm_file_put of an unmapped file, which cannot report errors. */
int mm_file_sync(struct mm_phys *phys, struct mm_file *file);

/* ---- address spaces ---- */
#define MM_UNLIMITED (~0ull)
struct mm_config {                        /* start from mm_config_default() */
	uint64_t task_size, mmap_base, legacy_base, mmap_min_addr;
	uint64_t start_brk, stack_top;    /* 0: none yet */
	uint64_t rlim_as, rlim_data, rlim_stack, rlim_memlock;
	uint64_t max_map_count;
	int overcommit;                   /* 0, 1, 2 */
	bool ipc_lock;                    /* CAP_IPC_LOCK */
	uint64_t seed;                    /* for random choices of the kernel; 0: nothing is random */
};
void mm_config_default(struct mm_config *config); /* x86-64's layout, which every format but MM_RISCV_SV39 can address */
void mm_config_for(enum mm_format format, struct mm_config *config); /* the same, limited to addresses below 2^38 for MM_RISCV_SV39 */
/* If task_size has its default, mm_new and mm_exec apply mm_config_for with the format of
 * `phys`, to bases above its limit, too. With another task_size above what the format can
 * address, memory is also mapped at non-canonical addresses, and cannot be accessed there. */
/* Invalid layouts are -EINVAL: bases that are not in whole pages or above task_size, start_brk
 * at or above it, stack_top above it. */
/* Functions that are called in order while a call is performed. A refusal (-errno) undoes the
 * whole call. NULL members are skipped: the call succeeds, and the caller's own state stays
 * unchanged. So a caller that keeps the pages' contents itself needs all of these (without
 * `move`, what mremap moves stays at its old address), and mm_contents. The address space is
 * locked during the call: the functions must not call it. */
struct mm_backend {
	void *ctx;
	int (*map)(void *ctx, uint64_t start, uint64_t end, int prot, int flags, struct mm_file *file, uint64_t offset);
	int (*unmap)(void *ctx, uint64_t start, uint64_t end);
	int (*protect)(void *ctx, uint64_t start, uint64_t end, int prot);
	int (*move)(void *ctx, uint64_t from, uint64_t to, uint64_t len);
};
/* Creates an address space. phys NULL: no pages, only the map. backend NULL: none. When memory
 * runs out, mmap, mremap and fork have changed nothing. mprotect leaves each page with its old
 * or its new protection. munmap and madvise may have done a part. MAP_POPULATE and locking at
 * mmap ignore it, as Linux does. mm_put needs no memory. */
int mm_new(const struct mm_config *config, struct mm_phys *phys, const struct mm_backend *backend, struct mm **mm);
/* Creates an address space that is confined to [base, end), multiples of 4,096: a guest in a
 * part of its host. No call returns an address outside, and the backend is notified of none,
 * whatever the guest requests: fixed addresses, hints, MAP_32BIT, brk, targets of mremap, stacks
 * that grow. Mappings are placed downwards from `end`. task_size, mmap_base, legacy_base and
 * mmap_min_addr of config are ignored, except that `end` above task_size is -ENOMEM. start_brk
 * and stack_top lie in the range, or are 0. -EINVAL for a range that is empty or not in whole
 * pages. Children are confined like their parents. */
int mm_new_within(const struct mm_config *config, uint64_t base, uint64_t end, struct mm_phys *phys, const struct mm_backend *backend, struct mm **mm);
/* Further functions for a backend that keeps the pages' contents itself (phys NULL). They get
 * its ctx, and return values as above. The range stays mapped. Without these functions, madvise
 * and msync succeed, and the caller's memory stays unchanged: MADV_DONTNEED keeps the old bytes.
 * With phys, the library's pages are treated as Linux treats them in any case. */
struct mm_contents {
	int (*discard)(void *ctx, uint64_t start, uint64_t end, int advice); /* MADV_DONTNEED, FREE, REMOVE, GUARD_INSTALL, GUARD_REMOVE; undoing a call does not restore discarded content */
	int (*sync)(void *ctx, uint64_t start, uint64_t end, int flags);     /* msync, MS_... */
};
/* Call once for an address space, before it is used. This includes children, whose backends have
 * none at first. -EINVAL without a backend, -EBUSY the second time. */
int mm_set_contents(struct mm *mm, const struct mm_contents *contents);
void mm_put(struct mm *mm);               /* exit: unmaps everything and frees every frame */
/* Like mm_put, and reports losses. Dirty pages of files whose last mapping goes with the address
 * space are written now, and those that cannot be written are lost. Returns 0, or the first
 * error of write_page. -ENOMEM: there was no memory to find out. */
int mm_exit(struct mm *mm);
enum { MM_FORK_COPY = 0, MM_FORK_SHARE = 1 /* last-level tables are shared until one side changes them */ };
int mm_fork(struct mm *parent, unsigned how, struct mm **child);
/* Like mm_fork, with a backend for the child (NULL: none, as after mm_fork). The backend is
 * notified of the child's calls, but not of what the child inherits: use mm_find. */
int mm_fork_with(struct mm *parent, unsigned how, const struct mm_backend *backend, struct mm **child);

/* ---- programs: execve ---- */
enum { MM_SETID_NO = 0, MM_SETID_SAME, MM_SETID_OTHER }; /* set-ID bits of the file: none; for the IDs of the process; for other IDs */
struct mm_program {
	struct mm_file *file;             /* opened for this program; the library drops the reference */
	uint64_t size;                    /* size of the file in bytes */
	int set_id;                       /* MM_SETID_... */
	void *ctx;                        /* for read */
};
struct mm_special { const char *name; uint64_t pages; bool code; }; /* an area that a kernel maps into each program: [vvar], [vdso] (code) */
struct mm_exec {                          /* initialise with zeroes */
	const char *path;
	const char *const *argv, *const *envp; /* ended by NULL; NULL: none */
	const struct mm_config *config;   /* limits and settings; its layout is ignored. NULL: the default */
	unsigned long personality;        /* personality(2) of the process; with config->seed 0 nothing is random in any case */
	const struct mm_special *special; /* upwards, the code last */
	size_t specials;
	void *ctx;                        /* for open */
	int (*open)(void *ctx, const char *path, struct mm_program *program); /* opens the program, its interpreter, or a script's: 0, or -errno as in execve(2) */
	int64_t (*read)(void *ctx, uint64_t offset, void *to, size_t len);    /* reads headers: the number of bytes, less than len only at the end; or -errno */
	/* values of the auxiliary vector besides addresses (getauxval(3)); 0 for clktck and minsigstksz: 100 and 2048 */
	uint64_t hwcap, hwcap2, clktck, minsigstksz;
	uint32_t uid, euid, gid, egid;
	bool secure;
	unsigned char random[16];
	const uint32_t *descriptor;       /* AT_EXECFD, where a format of binfmt_misc opens the file for its interpreter; NULL: none */
};
struct mm_started {
	uint64_t start;                   /* the first instruction, in the interpreter if there is one */
	uint64_t stack_pointer;           /* points to the number of arguments */
	uint64_t entry, interpreter, headers, vdso, stack_end; /* AT_ENTRY, AT_BASE, AT_PHDR, AT_SYSINFO_EHDR (0: none); end of the stack */
	unsigned bits;                    /* width of its addresses: 32 or 64 */
	unsigned long personality;        /* from now on */
};
/* Creates an address space with an ELF program for x86-64 or i386, laid out as Linux does. With
 * phys, strings and vectors are on the stack. The backend is as in mm_fork_with. Returns 0;
 * -errno as execve(2): the old program continues; SIGSEGV: the old one is killed. `exec` and
 * what it points to are not kept. */
int mm_exec(const struct mm_exec *exec, struct mm_phys *phys, const struct mm_backend *backend, struct mm **mm, struct mm_started *started);

/* The system calls, as in their manual pages. file is NULL with MAP_ANONYMOUS. */
int64_t mm_mmap(struct mm *mm, uint64_t addr, uint64_t len, int prot, int flags, struct mm_file *file, uint64_t offset);
int mm_munmap(struct mm *mm, uint64_t addr, uint64_t len);
int mm_mprotect(struct mm *mm, uint64_t addr, uint64_t len, int prot);
int mm_pkey_mprotect(struct mm *mm, uint64_t addr, uint64_t len, int prot, int pkey);
int mm_pkey_alloc(struct mm *mm, unsigned flags, unsigned rights);
int mm_pkey_free(struct mm *mm, int pkey);
int64_t mm_mremap(struct mm *mm, uint64_t old_addr, uint64_t old_len, uint64_t new_len, int flags, uint64_t new_addr);
uint64_t mm_brk(struct mm *mm, uint64_t addr);
int mm_madvise(struct mm *mm, uint64_t addr, uint64_t len, int advice);
int mm_mlock2(struct mm *mm, uint64_t addr, uint64_t len, int flags);
int mm_munlock(struct mm *mm, uint64_t addr, uint64_t len);
int mm_mlockall(struct mm *mm, int flags);
int mm_munlockall(struct mm *mm);
int mm_msync(struct mm *mm, uint64_t addr, uint64_t len, int flags);
int mm_mincore(struct mm *mm, uint64_t addr, uint64_t len, unsigned char *vec);
int mm_mseal(struct mm *mm, uint64_t addr, uint64_t len, unsigned long flags);
int mm_remap_file_pages(struct mm *mm, uint64_t addr, uint64_t len, int prot, uint64_t pgoff, int flags);
int mm_mbind(struct mm *mm, uint64_t addr, uint64_t len, int mode, uint64_t nodes, unsigned flags);
int mm_set_mempolicy_home_node(struct mm *mm, uint64_t addr, uint64_t len, unsigned long home, unsigned long flags);
int mm_set_vma_name(struct mm *mm, uint64_t addr, uint64_t len, const char *name);

/* ---- pages (address spaces with mm_phys) ---- */
enum { MM_READ = 1, MM_WRITE = 2, MM_EXEC = 4 };
/* Handles a fault of the program, for any of the accesses in the mask. An instruction fetch maps
 * the page as a read does. Returns 0: handled, or nothing to do; a signal's number (SIGSEGV 11,
 * SIGBUS 7) with its si_code; or -ENOMEM. On x86-64 a load succeeds wherever a store would. */
int mm_fault(struct mm *mm, uint64_t addr, unsigned access, int *si_code);
/* Copy like the program's own loads and stores, including faults. Return the number of bytes
 * copied. It is smaller than `len` if a byte raises a signal or finds no memory: mm_fault there
 * tells which. */
size_t mm_copy_out(struct mm *mm, uint64_t addr, void *to, size_t len);
size_t mm_copy_in(struct mm *mm, uint64_t addr, const void *from, size_t len);
/* Looks up what the processor would find in the tables now. Returns 0 and the physical address,
 * offset included, or -ENOENT. A present page without any access is -ENOENT. prot: the accesses
 * that would succeed without a fault, MM_READ | MM_WRITE | MM_EXEC. */
int mm_translate(struct mm *mm, uint64_t addr, uint64_t *phys, unsigned *prot);
/* A caller that runs a program by translations sets neither accessed nor dirty bits in the
 * tables, and need not. A fault decides that a page may be written to, and the page counts as
 * written from that fault on. mm_translate reports MM_WRITE only then. So
 *  - a translation is valid until the next call that could change it: one on the address space,
 *    msync, madvise or munmap of any mapping of the file, mm_file_... (but mm_file_read and
 *    mm_file_write), and mm_fork. mm_fault and mm_copy_in change the translation of their page
 *    if it could not be written to before: it may then be at another address. A caller that
 *    keeps translations drops them then. Otherwise msync may miss a store by an old one, or the
 *    store may go to a page that is gone;
 *  - faults alone make correct what msync and the last close write out, and what MADV_PAGEOUT
 *    and MADV_FREE may drop;
 *  - dirty in mm_smaps, and MM_PAGE_SOFT_DIRTY, mean "could be written", not "was written".
 *    Referenced means "was faulted in, or used by mm_copy_in and mm_copy_out". */
uint64_t mm_root(struct mm *mm);          /* physical address of the top table: CR3, TTBR0, satp */
/* For callers that keep translations. `invalidate` is called whenever some translations of
 * [start, end) of an address space become invalid, by any thread that makes the call, takes the
 * fault or forks, before the frames are reused. When it returns, no thread may use what it kept
 * of the range, or be in the middle of an access that does. `asid` is the address space's
 * number. An end of ~0 is the end of all addresses. The function must not call the address
 * spaces of `phys`, whose locks may be held, nor wait for a thread that does. mm_put and mm_exit
 * do not call it: the caller must stop using the address space before. Set it once for a `phys`,
 * before its first address space: -EBUSY the second time. */
int mm_phys_on_invalidate(struct mm_phys *phys, void (*invalidate)(void *ctx, uint32_t asid, uint64_t start, uint64_t end), void *ctx);
uint32_t mm_asid(struct mm *mm);          /* unique among the live address spaces of its mm_phys, never 0; 0 without pages */
/* Returns a number that rises with every such invalidation of this address space, before
 * `invalidate` is called. 0 without pages. A caller with one thread can empty its table when the
 * number has changed. With several threads, a translation may be kept if the number was the same
 * before mm_translate and after it was stored where `invalidate` finds it. */
uint64_t mm_generation(struct mm *mm);
/* Returns what /proc/PID/pagemap reports about the page at addr. EXCLUSIVE: one address space
 * maps it, however tables are shared. The zero page is PRESENT | ZERO. After MM_FORK_SHARE the
 * pages are reported as after MM_FORK_COPY, but those of shared mappings may also be present in
 * the child. */
enum { MM_PAGE_PRESENT = 1, MM_PAGE_FILE = 2, MM_PAGE_EXCLUSIVE = 4, MM_PAGE_SOFT_DIRTY = 8, MM_PAGE_ZERO = 16, MM_PAGE_HUGE = 32 };
unsigned mm_page(struct mm *mm, uint64_t addr);

/* ---- inspection ---- */
struct mm_area {
	uint64_t start, end, offset;      /* offset: of start in the file, as maps prints it */
	int prot;                         /* PROT_... */
	bool shared;
	uint64_t inode;
	uint64_t vm_flags;                /* bit i: the i-th of smaps' two-letter flags, by the kernel's own numbers (VM_LOCKED 0x2000 …) */
	char name[64];                    /* as maps prints it, truncated */
};
bool mm_find(struct mm *mm, uint64_t addr, struct mm_area *area); /* finds the area that contains addr, or the first above it */
/* Text as in /proc/PID/maps and smaps. Like snprintf, returns the length of the whole text and
 * writes at most `size` bytes. */
size_t mm_maps(struct mm *mm, char *text, size_t size);
size_t mm_smaps(struct mm *mm, char *text, size_t size);
/* Checks every invariant of the address space, of its tables, and (if nothing else runs on its
 * mm_phys) of all frames' counts. Returns 0, or -EINVAL and the reason in words. */
int mm_check(struct mm *mm, char *why, size_t size);

#ifdef __cplusplus
}
#endif
#endif
