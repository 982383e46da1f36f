/* The header alone, in strict C from C99 on and in C++: every name, and the values of the
 * constants. */
#include <samara/mm.h>
#include <stdio.h>
#include <string.h>

static int told;

static int on_unmap(void *ctx, uint64_t start, uint64_t end)
{
	(void)ctx;
	told += end > start;
	return 0;
}

int main(void)
{
	struct mm_config config;
	struct mm_backend backend;
	struct mm_phys_stats stats;
	struct mm_file_info info;
	struct mm_area area;
	struct mm_phys *phys = NULL;
	struct mm_file *file = NULL;
	struct mm *mm = NULL, *child = NULL;
	char text[256], why[64];
	unsigned char vec[2], byte = 7;
	uint64_t where;
	unsigned prot;
	int code, wrong = 0;
	int64_t at;

	wrong |= MM_X86_64 != 0 || MM_X86_64_LA57 != 1 || MM_AARCH64_4K != 2 || MM_RISCV_SV39 != 3 || MM_RISCV_SV48 != 4;
	wrong |= MM_UNLIMITED != ~0ull;
	mm_config_default(&config);
	memset(&backend, 0, sizeof backend);
	backend.unmap = on_unmap;
	wrong |= mm_phys_new(MM_X86_64, NULL, 256, &phys);
	wrong |= mm_new(&config, phys, &backend, &mm);
	memset(&info, 0, sizeof info);
	info.name = "/file";
	info.inode = 1;
	info.flags = MM_FILE_READ | MM_FILE_WRITE | MM_FILE_SHMEM;
	wrong |= (MM_FILE_NOEXEC | MM_FILE_APPEND) != 12;
	wrong |= mm_file_open(&info, NULL, NULL, &file);
	at = mm_mmap(mm, 0, 8192, 3, 0x22, NULL, 0);
	wrong |= at <= 0;
	wrong |= mm_mmap(mm, 0, 8192, 1, 1, file, 0) <= 0;
	wrong |= mm_mprotect(mm, (uint64_t)at, 4096, 3) | mm_pkey_mprotect(mm, (uint64_t)at, 4096, 3, -1);
	wrong |= mm_copy_in(mm, (uint64_t)at, &byte, 1) != 1 || mm_copy_out(mm, (uint64_t)at, &byte, 1) != 1 || byte != 7;
	wrong |= mm_fault(mm, (uint64_t)at, MM_READ | MM_WRITE, &code);
	wrong |= mm_fault(mm, (uint64_t)at, MM_EXEC, &code) != 11 || code != 2;
	wrong |= mm_translate(mm, (uint64_t)at, &where, &prot) || prot != (MM_READ | MM_WRITE);
	wrong |= (mm_page(mm, (uint64_t)at) & 55) != (MM_PAGE_PRESENT | MM_PAGE_EXCLUSIVE);
	wrong |= (MM_PAGE_FILE | MM_PAGE_SOFT_DIRTY | MM_PAGE_ZERO | MM_PAGE_HUGE) != 58;
	wrong |= mm_root(mm) == 0;
	wrong |= mm_mincore(mm, (uint64_t)at, 8192, vec) || (vec[0] & 1) != 1 || (vec[1] & 1) != 0;
	wrong |= mm_madvise(mm, (uint64_t)at, 4096, 4) | mm_mlock2(mm, (uint64_t)at, 4096, 0) | mm_munlock(mm, (uint64_t)at, 4096);
	wrong |= mm_mlockall(mm, 1) | mm_munlockall(mm) | mm_msync(mm, (uint64_t)at, 4096, 4);
	wrong |= mm_mbind(mm, (uint64_t)at, 4096, 0, 0, 0);
	wrong |= mm_remap_file_pages(mm, (uint64_t)at, 4096, 0, 0, 0) != -22;
	wrong |= mm_set_vma_name(mm, (uint64_t)at, 4096, "name") > 0;
	wrong |= mm_pkey_free(mm, 15) != -22;
	wrong |= mm_pkey_alloc(mm, 1, 0) != -22;
	wrong |= mm_fork(mm, MM_FORK_COPY, &child);
	mm_put(child);
	wrong |= mm_fork_with(mm, MM_FORK_SHARE, &backend, &child);
	wrong |= !mm_find(mm, (uint64_t)at, &area) || area.start != (uint64_t)at || area.shared;
	wrong |= mm_maps(mm, text, sizeof text) == 0 || mm_smaps(mm, text, sizeof text) == 0;
	wrong |= mm_mremap(mm, (uint64_t)at, 8192, 4096, 0, 0) != at;
	wrong |= mm_brk(mm, 0) != 0;
	wrong |= mm_mseal(mm, (uint64_t)at, 4096, 0);
	wrong |= mm_munmap(mm, (uint64_t)at, 4096) != -1 || told != 1;
	wrong |= mm_check(mm, why, sizeof why);
	mm_file_punch(phys, file, 0, 4096);
	mm_file_extend(phys, file, 4096);
	wrong |= mm_file_get(file) != file;
	mm_file_put(file);
	wrong |= mm_file_read(phys, file, 0, text, 0) != 0 || mm_file_write(phys, file, 0, text, 0) > 0;
	wrong |= mm_phys_virt(phys, mm_root(mm)) == NULL || mm_phys_virt(phys, ~0ull) != NULL;
	mm_config_for(MM_RISCV_SV39, &config);
	wrong |= config.task_size != 1ull << 38;
	mm_file_truncate(phys, file, 0);
	mm_phys_stats(phys, &stats);
	wrong |= stats.tables == 0;
	mm_put(mm);
	mm_put(child);
	mm_file_put(file);
	mm_phys_stats(phys, &stats);
	wrong |= stats.tables != 0 || stats.anon != 0 || stats.file != 0 || stats.shared_tables != 0;
	mm_phys_put(phys);
	puts(wrong ? "wrong" : "ok");
	return wrong;
}
