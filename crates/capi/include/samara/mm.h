/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* samara/mm.h: address spaces with Linux's semantics, from C.
 *
 * Results are >= 0, or -errno with Linux's x86-64 numbers, as a system call returns them. Addresses, lengths and offsets are in bytes
 * unless a name says otherwise; ranges are [start, end). Any function may be called from any thread: those that change one address space wait
 * for each other; faults, copies, look-ups and translations do not wait for them unless the area itself is being changed. */
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
struct mm_file; /* an open file description; counted */

/* ---- physical memory ---- */
enum mm_format { MM_X86_64 = 0, MM_X86_64_LA57, MM_AARCH64_4K, MM_RISCV_SV39, MM_RISCV_SV48 };
struct mm_phys_ops {
	void *ctx;
	int (*alloc)(void *ctx, unsigned order, uint64_t *phys);  /* 2^order frames of 4 KiB, aligned to their size, of any content; 0 or -ENOMEM */
	void (*free)(void *ctx, uint64_t phys, unsigned order);   /* as it was allocated: the same start and order */
	void *(*to_virt)(void *ctx, uint64_t phys);               /* where the library reads and writes that frame */
};
/* ops NULL: `frames` frames of the library's own, in one anonymous mapping; otherwise `frames` is ignored */
int mm_phys_new(enum mm_format format, const struct mm_phys_ops *ops, uint64_t frames, struct mm_phys **phys);
/* Its address spaces and cached pages keep it as long as they are; with the last of them, and this, every frame has been given back. */
void mm_phys_put(struct mm_phys *phys);
/* Where the library reads and writes the byte at an address that mm_translate or mm_root gave, whoever the frames are of; NULL if no frame is there. Good until the
 * frame is given back. */
void *mm_phys_virt(struct mm_phys *phys, uint64_t addr);
struct mm_phys_stats {
	uint64_t free;      /* frames not in use, of the library's own */
	uint64_t tables;    /* frames that hold page tables of an address space; none is kept in reserve */
	uint64_t anon;      /* frames of private memory; the zero page is not counted */
	uint64_t file;      /* frames of files' and shared memory */
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
/* The file system, where Linux maps its files otherwise than those of a disk. Two of these, or one and MM_FILE_SHMEM: -EINVAL. */
enum {
	MM_FILE_UNALIGNED = 32, /* its large mappings are not aligned for huge pages: network, proc */
	MM_FILE_STACKED = 64,   /* overlayfs: what is mapped joins no neighbour */
	MM_FILE_FUSE = 128,     /* no mapping vanishes in another */
	MM_FILE_PLACED = 256    /* ramfs: mremap moves a mapping alone */
};
/* Of several opens of one inode, those of the oldest that is still open serve its pages. NULL members: reads give zeroes, the size is unlimited.
 * A SHMEM file's pages live in the library until its last open and mapping have gone, and are never written out.
 * The functions may be called by several threads at once, while an address space that maps the file is locked: they must not call into such a one. */
struct mm_file_ops {
	int (*read_page)(void *ctx, uint64_t pgoff, void *page);        /* fills 4,096 bytes, zeroes beyond the end; 0, or -EIO: SIGBUS at the access */
	int (*write_page)(void *ctx, uint64_t pgoff, const void *page); /* a dirty page, at msync (MS_SYNC) and when it is given up; NULL: dropped then */
	int (*punch)(void *ctx, uint64_t start, uint64_t end);          /* MADV_REMOVE; NULL: write_page with zeroes */
	uint64_t (*size)(void *ctx);                                    /* now, asked at each fault: growth needs no notice; accesses to pages wholly beyond: SIGBUS */
	void (*release)(void *ctx);
};
int mm_file_open(const struct mm_file_info *info, const struct mm_file_ops *ops, void *ctx, struct mm_file **file);
struct mm_file *mm_file_get(struct mm_file *file); /* one more reference, as dup and fork take on a description; gives `file` */
void mm_file_put(struct mm_file *file);   /* mappings keep it as long as they are */
/* As pread(2) and pwrite(2), through the pages that programs map on `phys`: what was stored through a shared mapping is read at once, what is written here is seen in
 * mappings at once, and goes to write_page as stores do. Bytes; fewer at the end of the file: it does not grow by this, so size() comes first, and mm_file_extend.
 * -EBADF if it was not opened for that, -EIO if read_page fails at the first page, -ENOMEM. */
int64_t mm_file_read(struct mm_phys *phys, struct mm_file *file, uint64_t offset, void *to, size_t len);
int64_t mm_file_write(struct mm_phys *phys, struct mm_file *file, uint64_t offset, const void *from, size_t len);
/* The file has become shorter, and size() says so already: pages wholly beyond leave every mapping on `phys`, private copies too; what the last page
 * holds beyond the end is zeroed in the file's page, not in private copies. */
void mm_file_truncate(struct mm_phys *phys, struct mm_file *file, uint64_t size);
/* The file has become longer, and had `before` bytes: what programs have stored beyond these in its last page becomes zero (not of SHMEM files). Growth needs no
 * notice, but without it those bytes are the file's from then on. What is stored there when the page is written out is zeroed in any case. */
void mm_file_extend(struct mm_phys *phys, struct mm_file *file, uint64_t before);
/* Pages of [start, end), both multiples of 4,096, are zero now: they leave every mapping, private copies stay. */
void mm_file_punch(struct mm_phys *phys, struct mm_file *file, uint64_t start, uint64_t end);
/* As fsync(2): every dirty page on `phys` goes to write_page. 0, or the first error, after all have been tried; those that failed stay to be written. Before the
 * last mm_file_put of a file that nothing maps, this tells what that one cannot. */
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
	uint64_t seed;                    /* for what the kernel draws at random; 0: nothing is random */
};
void mm_config_default(struct mm_config *config); /* x86-64's layout, which every format but MM_RISCV_SV39 can address */
void mm_config_for(enum mm_format format, struct mm_config *config); /* the same, and for MM_RISCV_SV39 what it can: addresses below 2^38 */
/* Where task_size was left at its default, mm_new and mm_exec do this for the format of `phys`, with bases that are above it, too. With another one above what the
 * format can address, memory is mapped at addresses that are not canonical, too, and cannot be accessed there. */
/* Layouts that make no sense are -EINVAL: bases that are not in whole pages or above task_size, start_brk at or above it, stack_top above it. */
/* Told in order while a call is performed. A refusal (-errno) undoes the whole call. NULL members are passed over: the call succeeds, and what the caller keeps
 * stays as it is. So a caller that keeps the pages' contents itself needs all of these (without `move`, what mremap moves stays at its old place), and mm_contents.
 * The address space is locked meanwhile: the functions must not call into it. */
struct mm_backend {
	void *ctx;
	int (*map)(void *ctx, uint64_t start, uint64_t end, int prot, int flags, struct mm_file *file, uint64_t offset);
	int (*unmap)(void *ctx, uint64_t start, uint64_t end);
	int (*protect)(void *ctx, uint64_t start, uint64_t end, int prot);
	int (*move)(void *ctx, uint64_t from, uint64_t to, uint64_t len);
};
/* phys NULL: no pages, only the map. backend NULL: none.
 * When memory runs out: mmap, mremap and fork have changed nothing; mprotect leaves each page with its old or its new protection; munmap and madvise may have
 * done a part; MAP_POPULATE and locking at mmap pass over it in silence, as Linux does. mm_put needs no memory. */
int mm_new(const struct mm_config *config, struct mm_phys *phys, const struct mm_backend *backend, struct mm **mm);
/* The same, confined to [base, end), multiples of 4,096: a guest in a part of its host. No call is answered by an address outside, and the backend is told of none,
 * whatever the guest asks for: fixed addresses, hints, MAP_32BIT, brk, targets of mremap, stacks that grow. Mappings are placed downwards from `end`. task_size, mmap_base,
 * legacy_base and mmap_min_addr of config are not looked at, but that task_size is the most that `end` may be: -ENOMEM. start_brk and stack_top lie in the range, or are
 * 0. -EINVAL for a range that is empty or not in whole pages. Children are confined as their parents are. */
int mm_new_within(const struct mm_config *config, uint64_t base, uint64_t end, struct mm_phys *phys, const struct mm_backend *backend, struct mm **mm);
/* What a backend that keeps the pages' contents itself (phys NULL) is told, too, with its ctx; answers as above. The range stays mapped. Without these, madvise and msync
 * succeed, and the caller's memory stays as it is: MADV_DONTNEED keeps the old bytes. With phys, the library's pages are treated as Linux treats them in any case. */
struct mm_contents {
	int (*discard)(void *ctx, uint64_t start, uint64_t end, int advice); /* MADV_DONTNEED, FREE, REMOVE, GUARD_INSTALL, GUARD_REMOVE; what is gone is not brought back when a call is undone */
	int (*sync)(void *ctx, uint64_t start, uint64_t end, int flags);     /* msync, MS_... */
};
/* Once for an address space, before it is used, children as well: their backends have none at first. -EINVAL without a backend, -EBUSY the second time. */
int mm_set_contents(struct mm *mm, const struct mm_contents *contents);
void mm_put(struct mm *mm);               /* exit: everything unmapped, every frame given back */
/* The same, and tells whether it lost anything: dirty pages of files whose last mapping goes with it are written then, and those that cannot be are gone. 0, or the first error
 * of write_page; -ENOMEM: there was no memory to find out. */
int mm_exit(struct mm *mm);
enum { MM_FORK_COPY = 0, MM_FORK_SHARE = 1 /* last-level tables shared until one side changes them */ };
int mm_fork(struct mm *parent, unsigned how, struct mm **child);
/* The same, and the child has a backend (NULL: none, as after mm_fork), which is told of the child's calls, but not of what it inherits: mm_find tells. */
int mm_fork_with(struct mm *parent, unsigned how, const struct mm_backend *backend, struct mm **child);

/* ---- programs: execve ---- */
enum { MM_SETID_NO = 0, MM_SETID_SAME, MM_SETID_OTHER }; /* set-ID bits of the file: none; for who the process is already; for somebody else */
struct mm_program {
	struct mm_file *file;             /* opened for this program; the library puts it */
	uint64_t size;                    /* of the file in bytes */
	int set_id;                       /* MM_SETID_... */
	void *ctx;                        /* for read */
};
struct mm_special { const char *name; uint64_t pages; bool code; }; /* what a kernel maps into each program: [vvar], [vdso] (code) */
struct mm_exec {                          /* start from zeroes */
	const char *path;
	const char *const *argv, *const *envp; /* ended by NULL; NULL: none */
	const struct mm_config *config;   /* limits and the rest; its layout is not looked at. NULL: the default */
	unsigned long personality;        /* personality(2) of the process; with config->seed 0 nothing is random in any case */
	const struct mm_special *special; /* upwards, the code last */
	size_t specials;
	void *ctx;                        /* for open */
	int (*open)(void *ctx, const char *path, struct mm_program *program); /* the program, its interpreter, a script's: 0, or -errno as execve(2) has it */
	int64_t (*read)(void *ctx, uint64_t offset, void *to, size_t len);    /* of headers: bytes, fewer than len only at the end; or -errno */
	/* what the auxiliary vector tells besides addresses (getauxval(3)); 0 for clktck and minsigstksz: 100 and 2048 */
	uint64_t hwcap, hwcap2, clktck, minsigstksz;
	uint32_t uid, euid, gid, egid;
	bool secure;
	unsigned char random[16];
	const uint32_t *descriptor;       /* AT_EXECFD, where a format of binfmt_misc opens the file for its interpreter; NULL: none */
};
struct mm_started {
	uint64_t start;                   /* the first instruction, in the interpreter if there is one */
	uint64_t stack_pointer;           /* the number of arguments is there */
	uint64_t entry, interpreter, headers, vdso, stack_end; /* AT_ENTRY, AT_BASE, AT_PHDR, AT_SYSINFO_EHDR (0: none); end of the stack */
	unsigned bits;                    /* 32 or 64: how wide its addresses are */
	unsigned long personality;        /* from now on */
};
/* A new address space with an ELF program for x86-64 or i386 in it, laid out as Linux does; with phys strings and vectors are on the stack. The backend is as in
 * mm_fork_with. 0; -errno as execve(2): the old program goes on; SIGSEGV: the old one is killed. `exec` and what it points to are not kept. */
int mm_exec(const struct mm_exec *exec, struct mm_phys *phys, const struct mm_backend *backend, struct mm **mm, struct mm_started *started);

/* the calls, as their manual pages; file NULL with MAP_ANONYMOUS */
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
/* A fault that the program takes, for any of the accesses in the mask; an instruction fetch maps the page as a read does. 0: handled, or nothing to do; a
 * signal's number (SIGSEGV 11, SIGBUS 7) with its si_code; -ENOMEM. On x86-64 a load succeeds wherever a store would. */
int mm_fault(struct mm *mm, uint64_t addr, unsigned access, int *si_code);
/* As the program's own loads and stores: faults are taken. Bytes copied; fewer than `len` at the first that raises a signal or finds no memory: mm_fault
 * there tells which. */
size_t mm_copy_out(struct mm *mm, uint64_t addr, void *to, size_t len);
size_t mm_copy_in(struct mm *mm, uint64_t addr, const void *from, size_t len);
/* What the processor would find in the tables now: 0 and the address in physical memory, offset included, or -ENOENT; a page that is there without any access
 * is -ENOENT. prot: MM_READ | MM_WRITE | MM_EXEC, what would succeed without a fault. */
int mm_translate(struct mm *mm, uint64_t addr, uint64_t *phys, unsigned *prot);
/* Who runs a program by translations sets neither accessed nor dirty bits in the tables, and need not. That a page may be written to is decided by a fault, and a page
 * counts as written from that fault on: mm_translate tells MM_WRITE only then. So
 *  - a translation is good until the next call that could change it: one on the address space, msync, madvise or munmap of any mapping of the file, mm_file_...
 *    (but mm_file_read and mm_file_write), and mm_fork. mm_fault and mm_copy_in change those of the page that they are for, if it could not be written to before: it may be in
 *    another place then. Who keeps translations forgets them then; a store by an old one may be missed by msync, or go to a page that is no longer there;
 *  - what msync and the last close write out, and what MADV_PAGEOUT and MADV_FREE may drop, is right by the faults alone;
 *  - dirty in mm_smaps, and MM_PAGE_SOFT_DIRTY, say "could be written", not "was"; referenced says "was faulted in, or used by mm_copy_in and mm_copy_out". */
uint64_t mm_root(struct mm *mm);          /* physical address of the top table: CR3, TTBR0, satp */
/* For callers that keep translations. `invalidate` is called whenever some of [start, end) of an address space are no longer true, by whichever thread makes the call, takes the
 * fault or forks, before the frames are given to anybody else: when it returns, no thread may use what it kept of the range, or be in the middle of an access that does. `asid` is
 * the address space's number; an end of ~0 is the end of all addresses. It must not call into the address spaces of `phys`, whose locks may be held, nor wait for a thread that
 * does. mm_put and mm_exit do not call it: the caller stops using the address space before. Once for a `phys`, before its first address space: -EBUSY the second time. */
int mm_phys_on_invalidate(struct mm_phys *phys, void (*invalidate)(void *ctx, uint32_t asid, uint64_t start, uint64_t end), void *ctx);
uint32_t mm_asid(struct mm *mm);          /* never 0, and unlike those of others on its mm_phys that live; 0 without pages */
/* Goes up with every such moment of this address space, before `invalidate` is called; 0 without pages. A caller with one thread can empty its table when the number has changed. With
 * several, a translation may be kept if the number was the same before mm_translate and after it was put where `invalidate` finds it. */
uint64_t mm_generation(struct mm *mm);
/* What /proc/PID/pagemap tells of the page at addr. EXCLUSIVE: one address space maps it, however tables are shared. The zero page is PRESENT | ZERO. After
 * MM_FORK_SHARE the pages are told as after MM_FORK_COPY, but those of shared mappings may be present in the child, too. */
enum { MM_PAGE_PRESENT = 1, MM_PAGE_FILE = 2, MM_PAGE_EXCLUSIVE = 4, MM_PAGE_SOFT_DIRTY = 8, MM_PAGE_ZERO = 16, MM_PAGE_HUGE = 32 };
unsigned mm_page(struct mm *mm, uint64_t addr);

/* ---- looking ---- */
struct mm_area {
	uint64_t start, end, offset;      /* offset: of start in the file, as maps prints it */
	int prot;                         /* PROT_... */
	bool shared;
	uint64_t inode;
	uint64_t vm_flags;                /* bit i: the i-th of smaps' two-letter flags, by the kernel's own numbers (VM_LOCKED 0x2000 …) */
	char name[64];                    /* as maps prints it, cut short */
};
bool mm_find(struct mm *mm, uint64_t addr, struct mm_area *area); /* the area that holds addr, or the first above it */
/* Text as in /proc/PID/maps and smaps; as snprintf: the length of all of it, `size` bytes at most are written. */
size_t mm_maps(struct mm *mm, char *text, size_t size);
size_t mm_smaps(struct mm *mm, char *text, size_t size);
/* Every invariant of the address space, of its tables, and (when nothing else runs on its mm_phys) of all frames' counts.
 * 0, or -EINVAL and why in words. */
int mm_check(struct mm *mm, char *why, size_t size);

#ifdef __cplusplus
}
#endif
#endif
