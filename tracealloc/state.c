#include "tracealloc/state.h"

#include "tracealloc/thread.h"

union ta_state_page ta_state __attribute__((aligned(TA_LARGEST_PAGE_BYTES))) TA_LARGE;
struct ta_image ta_image;
struct ta_told ta_told TA_LARGE;
_Atomic(struct ta_thread *) ta_threads;

#if !defined(TA_AGENT)
_Thread_local struct ta_own ta_tls
	__attribute__((tls_model("initial-exec"))) = { .seen = (uint32_t)TA_SEEN_NONE,
						       .known = (uint32_t)TA_SEEN_NONE };
#endif

void ta_image_count_late(void)
{
	struct ring_process *process = ta_image.process;

	atomic_fetch_add_explicit(process ? &process->n_late : &ta_image.n_early, 1,
				  memory_order_relaxed);
}

void ta_image_count_sealed(void)
{
	if (ta_image.process)
		atomic_fetch_add_explicit(&ta_image.process->n_sealed, 1, memory_order_relaxed);
}

void ta_image_stop(void)
{
	atomic_store(&ta_state.word, TA_OFF);
}

void ta_image_next_epoch(void)
{
	uint32_t state = atomic_load(&ta_state.word);
	uint32_t next;

	do {
		next = (state & TA_PAUSES) | ((state + TA_ON_EPOCH) & ~TA_PAUSES);
	} while ((state & TA_ON) && !atomic_compare_exchange_weak(&ta_state.word, &state, next));
}
