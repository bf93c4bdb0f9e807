/* What we do in a process that is entered and left; runner/attach/ makes a thread call us. */
#include <errno.h>
#include <string.h>

#include "schemas/attach.h"
#include "tracealloc/environment.h"
#include "tracealloc/fork.h"
#include "tracealloc/functions/functions.h"
#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/image.h"
#include "tracealloc/late.h"
#include "tracealloc/plugin/plugin.h"
#include "tracealloc/sandbox.h"
#include "tracealloc/stack/module.h"
#include "tracealloc/stack/stack-bounds.h"
#include "tracealloc/stack/symbol.h"

TA_EXPORT void memsight_1_attach(struct attach_call *call);

#ifndef MADV_KEEPONFORK
#define MADV_KEEPONFORK 19
#endif

static bool is_watching_forks;
static uint32_t root; /* who was attached to: we, or whom we were forked from */

/* We were preloaded, and nobody records: our functions are where they belong already. */
static bool is_preloaded(void)
{
	return !ta_symbol_is_late();
}

/*
 * There is a recording. Whether it lives its caller finds out: a recorder that was killed, also
 * while we said hello, has left its pool.
 */
static long refuse(struct attach_call *call)
{
	const struct ring_control *control = ta_image.control;

	if (control) {
		call->recorder = control->recorder;
		call->recorder.has_ended = atomic_load(&control->ended) == RING_ENDED;
	}
	return -EBUSY;
}

static long begin(struct attach_call *call)
{
	if (atomic_load(&ta_state.word) != TA_OFF || ta_image.control)
		return refuse(call);
	ta_real_resolve_again();
	ta_late_begin();
	if (ta_module_at(0)) {
		ta_module_check_gone();
		ta_module_forked();
	}
	ta_environment_start_late();
	long r = ta_sandbox_take((const uint64_t *)(uintptr_t)call->filters, call->n_filters);
	if (r < 0)
		return r;
	memcpy(ta_told.socket, call->socket, sizeof(call->socket));
	r = ta_image_attach_late();
	if (r < 0) {
		ta_sandbox_forget();
		memset(ta_told.socket, 0, sizeof(ta_told.socket));
		return r;
	}
	if (!is_watching_forks && !is_preloaded())
		ta_fork_watch();
	is_watching_forks = true;
	root = call->root;
	call->root_at = (uintptr_t)&root;
	return 0;
}

static long commit(struct attach_call *call)
{
	int r = 0;

	if (!ta_image.control)
		return -EINVAL;
	if (!is_preloaded())
		r = ta_late_bind(&call->n_slots);
	if (r == 0)
		ta_late_use_entries((const struct attach_entry *)(uintptr_t)call->entries,
				    call->n_entries);
	if (r == 0)
		ta_functions_commit();
	if (r == 0)
		atomic_store(&ta_state.word, TA_ON);
	return r;
}

static long entries(struct attach_call *call)
{
	if (!is_preloaded())
		call->n_entries =
			ta_late_list_entries((struct attach_entry *)(uintptr_t)call->entries);
	call->root_at = (uintptr_t)&root;
	return 0;
}

static long functions(struct attach_call *call)
{
	ta_functions_list(&call->functions);
	return 0;
}

static long plugins(struct attach_call *call)
{
	/* We are on a stack that is lent to us. */
	ta_stack_learn((uintptr_t)call->first);
	ta_plugins_start();
	return 0;
}

static long plugins_end(struct attach_call *call)
{
	(void)call;
	return ta_plugins_end_late();
}

static long unbind(struct attach_call *call)
{
	if (!ta_image.control)
		return -ENOTCONN;
	call->n_slots = ta_late_unbind();
	return 0;
}

static long end(struct attach_call *call)
{
	struct ring_process *process = ta_image.process;
	/* One that was forked and has had no event yet has no slot, but a copy of its parent's. */
	bool is_own = ta_image.pid == (uint32_t)ta_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);

	if (!ta_image.control)
		return -ENOTCONN;
	atomic_store(&ta_state.word, TA_OFF);
	if (process)
		ta_thread_drop_all((const uint64_t *)(uintptr_t)call->threads, call->n_threads,
				   is_own);
	ta_syscall(SYS_madvise, (long)&ta_state, sizeof(ta_state), MADV_KEEPONFORK, 0, 0, 0);
	/* Pairs with the collector's acquire: all that was written is there. */
	if (process && is_own)
		atomic_store_explicit(&process->state, RING_PROCESS_ENDED, memory_order_release);
	ta_functions_end();
	ta_plugins_forget();
	ta_chunk_unmap();
	ta_late_forget();
	ta_sandbox_forget();
	root = 0;
	memset(&ta_image, 0, sizeof(ta_image));
	memset(ta_told.socket, 0, sizeof(ta_told.socket));
	return 0;
}

#define FLAGS	       UINT64_C(7) /* in a size */
#define MIN_HEAD_BYTES UINT64_C(16)
#define AHEAD	       4

/*
 * From chunk to chunk, as far as sizes lead. Neighbours are often of one size: a head further on
 * is fetched where it would be then.
 */
static long heads(struct attach_call *call)
{
	struct attach_head *to = (struct attach_head *)(uintptr_t)call->heads;
	uint64_t at = call->first, size;
	uint32_t n = 0;

	while (n < call->most_heads && at < call->end && call->end - at >= sizeof(*to)) {
		to[n] = *(const struct attach_head *)(uintptr_t)at;
		size = to[n++].size & ~FLAGS;
		if (size < MIN_HEAD_BYTES || size > call->end - at)
			break;
		at += size;
		__builtin_prefetch((const void *)(uintptr_t)(at + AHEAD * size));
	}
	call->n_heads = n;
	return 0;
}

void memsight_1_attach(struct attach_call *call)
{
	static long (*const steps[])(struct attach_call *) = {
		[ATTACH_BEGIN] = begin,
		[ATTACH_COMMIT] = commit,
		[ATTACH_UNBIND] = unbind,
		[ATTACH_END] = end,
		[ATTACH_HEADS] = heads,
		[ATTACH_ENTRIES] = entries,
		[ATTACH_FUNCTIONS] = functions,
		[ATTACH_PLUGINS] = plugins,
		[ATTACH_PLUGINS_END] = plugins_end,
	};

	if (call->magic != ATTACH_MAGIC || call->version != RING_VERSION ||
	    call->step >= sizeof(steps) / sizeof(*steps))
		call->result = -EPROTO;
	else
		call->result = (int32_t)steps[call->step](call);
}
