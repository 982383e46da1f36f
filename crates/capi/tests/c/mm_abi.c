/* Sizes, places and values of samara/mm.h, for the test that compares them with the library's. */
#include <samara/mm.h>
#include <stdio.h>

#define SIZE(type) printf("sizeof struct %s %zu\n", #type, sizeof(struct type))
#define PLACE(type, field) printf("offsetof struct %s.%s %zu\n", #type, #field, offsetof(struct type, field))
#define VALUE(name) printf("value %s %llu\n", #name, (unsigned long long)(name))

int main(void)
{
	SIZE(mm_phys_ops);
	PLACE(mm_phys_ops, ctx);
	PLACE(mm_phys_ops, alloc);
	PLACE(mm_phys_ops, free);
	PLACE(mm_phys_ops, to_virt);
	SIZE(mm_phys_stats);
	PLACE(mm_phys_stats, free);
	PLACE(mm_phys_stats, tables);
	PLACE(mm_phys_stats, anon);
	PLACE(mm_phys_stats, file);
	PLACE(mm_phys_stats, shared_tables);
	SIZE(mm_file_info);
	PLACE(mm_file_info, name);
	PLACE(mm_file_info, major);
	PLACE(mm_file_info, minor);
	PLACE(mm_file_info, inode);
	PLACE(mm_file_info, flags);
	SIZE(mm_file_ops);
	PLACE(mm_file_ops, read_page);
	PLACE(mm_file_ops, write_page);
	PLACE(mm_file_ops, punch);
	PLACE(mm_file_ops, size);
	PLACE(mm_file_ops, release);
	SIZE(mm_config);
	PLACE(mm_config, task_size);
	PLACE(mm_config, mmap_base);
	PLACE(mm_config, legacy_base);
	PLACE(mm_config, mmap_min_addr);
	PLACE(mm_config, start_brk);
	PLACE(mm_config, stack_top);
	PLACE(mm_config, rlim_as);
	PLACE(mm_config, rlim_data);
	PLACE(mm_config, rlim_stack);
	PLACE(mm_config, rlim_memlock);
	PLACE(mm_config, max_map_count);
	PLACE(mm_config, overcommit);
	PLACE(mm_config, ipc_lock);
	PLACE(mm_config, seed);
	SIZE(mm_backend);
	PLACE(mm_backend, ctx);
	PLACE(mm_backend, map);
	PLACE(mm_backend, unmap);
	PLACE(mm_backend, protect);
	PLACE(mm_backend, move);
	SIZE(mm_area);
	PLACE(mm_area, start);
	PLACE(mm_area, end);
	PLACE(mm_area, offset);
	PLACE(mm_area, prot);
	PLACE(mm_area, shared);
	PLACE(mm_area, inode);
	PLACE(mm_area, vm_flags);
	PLACE(mm_area, name);
	VALUE(MM_X86_64);
	VALUE(MM_X86_64_LA57);
	VALUE(MM_AARCH64_4K);
	VALUE(MM_RISCV_SV39);
	VALUE(MM_RISCV_SV48);
	VALUE(MM_FILE_READ);
	VALUE(MM_FILE_WRITE);
	VALUE(MM_FILE_NOEXEC);
	VALUE(MM_FILE_APPEND);
	VALUE(MM_FILE_SHMEM);
	VALUE(MM_FORK_COPY);
	VALUE(MM_FORK_SHARE);
	VALUE(MM_READ);
	VALUE(MM_WRITE);
	VALUE(MM_EXEC);
	VALUE(MM_PAGE_PRESENT);
	VALUE(MM_PAGE_FILE);
	VALUE(MM_PAGE_EXCLUSIVE);
	VALUE(MM_PAGE_SOFT_DIRTY);
	VALUE(MM_PAGE_ZERO);
	VALUE(MM_PAGE_HUGE);
	return 0;
}
