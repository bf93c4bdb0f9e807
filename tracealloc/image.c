#include "tracealloc/image.h"

#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "schemas/recording.h"
#include "tracealloc/attach.h"
#include "tracealloc/environment.h"
#include "tracealloc/hooks/dump.h"
#include "tracealloc/hooks/entry.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/limit.h"
#include "tracealloc/own-time.h"
#include "tracealloc/pause.h"
#include "tracealloc/pick/pick.h"
#include "tracealloc/rebind.h"
#include "tracealloc/ring/clock.h"
#include "tracealloc/sampler.h"
#include "tracealloc/sandbox.h"
#include "tracealloc/stack/module.h"
#include "tracealloc/stack/stack-bounds.h"
#include "tracealloc/stack/stack-hash.h"
#include "tracealloc/state.h"
#include "tracealloc/thread.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define WAIT_MAX_NS (UINT64_C(2) * RECORDING_PATIENCE_MS * 1000000)

uint32_t ta_image_wait(void)
{
	uint64_t deadline = ta_ticks_raw() + WAIT_MAX_NS;
	uint32_t state;

	while ((state = atomic_load(&ta_state.word)) == TA_BUSY) {
		ta_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
		if (ta_ticks_raw() > deadline)
			atomic_compare_exchange_strong(&ta_state.word, &state, TA_OFF);
	}
	return state;
}

static uint32_t own_pid(void)
{
	return (uint32_t)ta_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

/* Is the mapping what its size promises? It is used without further checks. */
static bool is_sound(const struct ring_control *control, uint64_t pool_bytes, uint32_t slot)
{
	return control->magic == RING_MAGIC && control->version == RING_VERSION &&
	       control->n_processes <= RING_MAX_PROCESSES && slot < control->n_processes &&
	       control->n_chunks <= RING_MAX_CHUNKS && control->n_shared <= control->n_chunks &&
	       control->control_bytes >=
		       ring_control_bytes(control->n_processes, control->n_chunks) &&
	       control->control_bytes + (uint64_t)control->n_shared * RING_CHUNK_BYTES <=
		       pool_bytes &&
	       control->trips_at <= control->control_bytes &&
	       control->n_trips * sizeof(uint64_t) <= control->control_bytes - control->trips_at;
}

static void take_settings(struct ring_control *control)
{
	ta_image.control = control;
	ta_image.chunks = (uint8_t *)control + control->control_bytes;
	ta_image.chunk_states = ring_chunk_states(control);
	ta_image.forks = ring_forks(control);
	ta_image.n_chunks = control->n_chunks;
	ta_image.n_shared = control->n_shared;
	ta_image.wanted = control->events | TA_EVENTS_ALWAYS;
	ta_image.events = ta_image.wanted;
	ta_image.flags = control->flags;
	ta_image.stacks = ta_own_stacks(control->stacks); /* is_measured: of a forked child */
	ta_image.clock = control->clock;
	ta_image.min_bytes = control->min_bytes;
	ta_image.ticks_per_ms = control->ticks_per_ms;
	ta_image.signal_period_ns = control->signal_period_ns;
	ta_image.page_bytes =
		control->page_bytes > TA_PAGE_BYTES ? control->page_bytes : TA_PAGE_BYTES;
	ta_image.max_frames = control->max_frames;
	if (ta_image.max_frames == 0 || ta_image.max_frames > RING_MAX_FRAMES)
		ta_image.max_frames = RING_MAX_FRAMES;
}

static uint64_t fork_ticks(void)
{
	return ta_tls.thread ? ta_tls.thread->fork_ticks : 0;
}

static void fork_is_claimed(void)
{
	const struct ta_thread *thread = ta_tls.thread;

	if (!thread || !thread->fork_ticks || thread->fork_place >= RING_MAX_FORKS)
		return;
	uint64_t told = thread->fork_told_ticks;
	/* Somebody else's by now, if this child is very late. */
	atomic_compare_exchange_strong(&ta_image.forks[thread->fork_place], &told, 0);
}

/* Fill the slot that is ours. */
static void take_slot(uint32_t slot, uint32_t generation, uint32_t parent_slot,
		      enum ring_birth birth)
{
	struct ring_process *process = &ring_processes(ta_image.control)[slot];

	process->pid = ta_image.pid;
	process->parent_slot = parent_slot;
	process->birth = birth;
	process->start_ticks = ta_ticks_begin();
	process->fork_ticks = birth == RING_BIRTH_FORK ? fork_ticks() : 0;
	ta_image.slot = slot;
	ta_image.generation = generation;
	ta_image.process = process;
	ta_rebind_begin();
	atomic_fetch_add_explicit(&process->n_late, atomic_exchange(&ta_image.n_early, 0),
				  memory_order_relaxed);
	atomic_store_explicit(&process->state, RING_PROCESS_READY, memory_order_release);
}

/* What the image needs of itself: done while the collector writes its welcome. */
static void prepare(void)
{
	size_t n_bytes;
	const char *maps = ta_attach_maps(&n_bytes);

	ta_real_resolve();
	ta_stack_bounds_main(maps, n_bytes, &ta_image.stack_start, &ta_image.stack_end);
	ta_hash_begin();
	ta_module_list();
}

static int attach_exec(bool is_late)
{
	struct recording_welcome welcome = { 0 };
	const void *plan = NULL;
	void *pool = NULL;

	if (!ta_told.socket[0])
		return -ENOENT;
	int r = (int)ta_syscall(SYS_madvise, (long)&ta_state, sizeof(ta_state), MADV_WIPEONFORK, 0,
				0, 0);
	if (r < 0)
		return r;
	ta_image.is_late = is_late;
	if (!is_late)
		ta_limit_make_private_room();
	bool has_no_counter = ta_sandbox_has_no_counter();
	ta_image.pid = own_pid();
	r = ta_attach_begin(ta_told.socket, ta_image.pid);
	if (r < 0)
		return r;
	prepare();
	r = ta_attach_end(r, &welcome, &pool, &plan);
	if (r < 0)
		return r;
	if (!is_sound(pool, welcome.pool_bytes, welcome.slot)) {
		ta_syscall(SYS_munmap, (long)pool, (long)welcome.pool_bytes, 0, 0, 0, 0);
		return -EPROTO;
	}
	take_settings(pool);
	if (!ta_pick_begin()) {
		ta_syscall(SYS_munmap, (long)pool, (long)welcome.pool_bytes, 0, 0, 0, 0);
		ta_image.control = NULL;
		return -ENOMEM;
	}
	ta_image.pool_bytes = welcome.pool_bytes;
	ta_image.plan = plan;
	ta_image.plan_bytes = welcome.plan_bytes;
	ta_limit_publish();
	if (has_no_counter && ta_image.clock == RING_CLOCK_TICKS)
		ta_sandbox_use_clock(welcome.ticks, welcome.raw_ns);
	take_slot(welcome.slot, welcome.generation, UINT32_MAX, RING_BIRTH_EXEC);
	ta_sampler_install();
	if (!is_late) {
		ta_dump_install();
		ta_entry_arm();
	}
	ta_image.has_key = pthread_key_create(&ta_image.key, ta_thread_exit) == 0;
	return 0;
}

/* Claim a slot as the child of the image whose memory we are a copy of. */
static int attach_fork(void)
{
	struct ring_control *control = ta_image.control;
	struct ring_process *processes = ring_processes(control);
	uint32_t parent_slot = ta_image.slot;

	for (uint32_t i = 0; i < control->n_processes && i < RING_MAX_PROCESSES; i++) {
		uint32_t expected = RING_PROCESS_FREE;
		uint32_t used = i;

		if (!atomic_compare_exchange_strong(&processes[i].state, &expected,
						    RING_PROCESS_CLAIMED))
			continue;
		while (used <= i &&
		       !atomic_compare_exchange_weak(&control->processes_used, &used, i + 1))
			;
		ta_image.pid = own_pid();
		take_slot(i, processes[i].generation, parent_slot, RING_BIRTH_FORK);
		fork_is_claimed();
		ta_dump_look();
		ta_module_forked();
		return 0;
	}
	fork_is_claimed();
	return -EAGAIN;
}

void ta_image_attach(void)
{
	bool is_fork = ta_image.control != NULL;
	int saved = errno;

	if (!is_fork)
		ta_environment_start();
	int r = is_fork ? attach_fork() : attach_exec(false);
	ta_real_resolve(); /* unless it was done */
	if (r == 0 && ta_image.flags & RING_FLAG_WRITES)
		ta_attach_lend(ta_told.socket);
	if (r == 0 && is_fork)
		ta_thread_forked();
	if (r < 0 && is_fork)
		ta_image_count_late(); /* in the parent's slot: its child is not recorded */
	atomic_store(&ta_state.word, r == 0 ? TA_ON : TA_OFF);
	if (r == 0)
		ta_pause_obey(); /* and a forked image goes on in its parent's pause */
	errno = saved;
}

int ta_image_attach_late(void)
{
	int r = attach_exec(true);

	/* A filter may end whoever asks for what is lent. */
	if (r == 0 && ta_image.flags & RING_FLAG_WRITES && !ta_sandbox_is_on)
		ta_attach_lend(ta_told.socket);
	return r;
}
