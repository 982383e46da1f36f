/* Translations that the caller keeps: what it must forget, the numbers, and a virtual processor
 * during calls of another thread. */
#include "mm_check.h"
#include <sched.h>
#include <stdbool.h>

struct told {
	unsigned calls;
	uint32_t asid;
	uint64_t start, end;
};

static void note(void *ctx, uint32_t asid, uint64_t start, uint64_t end)
{
	struct told *told = ctx;

	told->calls++;
	told->asid = asid;
	told->start = start;
	told->end = end;
}

static void told_of_each_call(void)
{
	unsigned f;

	for (f = 0; f < FORMATS; f++) {
		struct told told = {0};
		struct mm_phys *phys = phys_new(formats[f], 512);
		struct mm *mm, *child;
		uint64_t before;

		SAME(mm_phys_on_invalidate(phys, NULL, NULL), -EINVAL);
		SAME(mm_phys_on_invalidate(NULL, note, &told), -EINVAL);
		SAME(mm_phys_on_invalidate(phys, note, &told), 0);
		SAME(mm_phys_on_invalidate(phys, note, &told), -EBUSY);
		mm = mm_in(formats[f], phys);
		CHECK(mm_asid(mm) != 0);
		SAME(mm_mmap(mm, AT, 8 * PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
		CHECK(put(mm, AT, 1));
		CHECK(put(mm, AT + PG, 2));
		SAME(told.calls, 0);
		SAME(mm_generation(mm), 0);
		SAME(mm_munmap(mm, AT, PG), 0);
		SAME(told.calls, 1);
		SAME(told.asid, mm_asid(mm));
		CHECK(told.start <= AT && AT + PG <= told.end);
		SAME(mm_generation(mm), 1);
		SAME(mm_mprotect(mm, AT + PG, PG, PROT_READ), 0);
		SAME(mm_generation(mm), 2);
		CHECK(told.start <= AT + PG && AT + 2 * PG <= told.end);
		SAME(mm_mprotect(mm, AT + PG, PG, RW), 0);
		CHECK(put(mm, AT + PG, 3));
		/* A fork protects, and the next write copies. */
		before = mm_generation(mm);
		SAME(mm_fork(mm, MM_FORK_COPY, &child), 0);
		CHECK(mm_generation(mm) > before);
		CHECK(mm_asid(child) != mm_asid(mm));
		SAME(mm_generation(child), 0);
		before = mm_generation(mm);
		CHECK(put(mm, AT + PG, 4));
		CHECK(mm_generation(mm) > before);
		SAME(told.asid, mm_asid(mm));
		SAME(get(child, AT + PG), 3);
		mm_put(child);
		mm_put(mm);
		mm_phys_put(phys);

		/* Without pages there are no translations. */
		mm = mm_in(formats[f], NULL);
		SAME(mm_munmap(mm, AT, PG), 0);
		SAME(mm_asid(mm), 0);
		SAME(mm_generation(mm), 0);
		mm_put(mm);
		SAME(mm_asid(NULL), 0);
		SAME(mm_generation(NULL), 0);
	}
}

/* The translation of one page, and the lock that its virtual processor holds while it uses it. */
struct vcpu {
	pthread_mutex_t lock;
	struct mm_phys *phys;
	struct mm *mm;
	_Atomic uint64_t *word; /* NULL: not known */
	atomic_ullong gone;     /* words up to this one have gone */
	atomic_bool done;
};

/* The virtual processor leaves its accesses, and finds nothing afterwards. */
static void shoot(void *ctx, uint32_t asid, uint64_t start, uint64_t end)
{
	struct vcpu *vcpu = ctx;

	(void)asid;
	if (start >= AT + PG || end <= AT)
		return;
	pthread_mutex_lock(&vcpu->lock);
	vcpu->word = NULL;
	pthread_mutex_unlock(&vcpu->lock);
}

static void *loads(void *argument)
{
	struct vcpu *vcpu = argument;

	while (!atomic_load(&vcpu->done)) {
		uint64_t generation = mm_generation(vcpu->mm), phys;
		unsigned prot, i;
		int code;

		/* Outside of the lock: other threads may wait for a thread that takes a fault. */
		if (mm_fault(vcpu->mm, AT, MM_READ, &code) != 0 || mm_translate(vcpu->mm, AT, &phys, &prot) != 0)
			continue;
		pthread_mutex_lock(&vcpu->lock);
		vcpu->word = mm_phys_virt(vcpu->phys, phys);
		if (mm_generation(vcpu->mm) != generation)
			vcpu->word = NULL;
		for (i = 0; i < 50; i++) {
			uint64_t before = atomic_load(&vcpu->gone), found;

			if (vcpu->word) {
				found = atomic_load_explicit(vcpu->word, memory_order_relaxed);
				CHECK(found == 0 || found > before);
			}
			/* Between two instructions. */
			pthread_mutex_unlock(&vcpu->lock);
			pthread_mutex_lock(&vcpu->lock);
		}
		pthread_mutex_unlock(&vcpu->lock);
	}
	return NULL;
}

static void beside_a_vcpu(void)
{
	struct vcpu vcpu = {.lock = PTHREAD_MUTEX_INITIALIZER, .phys = phys_new(MM_X86_64, 2048)};
	pthread_t thread;
	uint64_t round;

	SAME(mm_phys_on_invalidate(vcpu.phys, shoot, &vcpu), 0);
	vcpu.mm = mm_in(MM_X86_64, vcpu.phys);
	SAME(mm_mmap(vcpu.mm, AT, PG, RW, ANON | MAP_FIXED, NULL, 0), AT);
	CHECK(pthread_create(&thread, NULL, loads, &vcpu) == 0);
	for (round = 1; round <= 300; round++) {
		/* If a reader of tables has lost its processor, there may be no memory for a moment. */
		while (mm_copy_in(vcpu.mm, AT, &round, sizeof round) != sizeof round)
			sched_yield();
		if (round % 2)
			SAME(mm_madvise(vcpu.mm, AT, PG, MADV_DONTNEED), 0);
		else
			while (mm_mmap(vcpu.mm, AT, PG, RW, ANON | MAP_FIXED, NULL, 0) != (int64_t)AT)
				sched_yield();
		atomic_store(&vcpu.gone, round);
	}
	atomic_store(&vcpu.done, true);
	pthread_join(thread, NULL);
	sound(vcpu.mm);
	mm_put(vcpu.mm);
	mm_phys_put(vcpu.phys);
}

int main(void)
{
	told_of_each_call();
	beside_a_vcpu();
	puts("ok");
	return 0;
}
