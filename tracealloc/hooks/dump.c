#include "tracealloc/hooks/dump.h"

#include <stddef.h>

#include "tracealloc/agent/agent.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/sampler.h"
#include "tracealloc/sandbox.h"

/* Async-signal-safe, and all that happens in the program. */
static void handle(int number)
{
	(void)number;
	atomic_fetch_add_explicit(&ta_image.control->n_dump_signals, 1, memory_order_relaxed);
}

static const struct sigaction ours = { .sa_handler = handle, .sa_flags = SA_RESTART | SA_ONSTACK };

static void note(enum ring_dump whose)
{
	if (ta_image.process)
		atomic_store_explicit(&ta_image.process->dump, whose, memory_order_relaxed);
}

void ta_dump_install(void)
{
	int number = (int)ta_image.control->dump_signal;
	struct sigaction now = { .sa_handler = SIG_DFL };

	if (number == 0)
		return;
#if defined(TA_AGENT)
	if (!ta_agent_may_sample()) {
		note(RING_DUMP_HIDDEN);
		return;
	}
#endif
	ta_image.dump_signal = number;
	/* What is ignored across an exec (nohup) must be so behind the next one, too. */
	if (ta_signal_action(number, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
		ta_signal_action(number, &ours, NULL);
	ta_dump_look_now();
}

void ta_dump_look_now(void)
{
	struct sigaction now = { .sa_handler = SIG_DFL };

	/* A filter may forbid to ask; and a child of vfork would tell of itself. */
	if (ta_sandbox_is_on || !ta_image_is_own())
		return;
	if (ta_signal_action(ta_image.dump_signal, NULL, &now) == 0)
		note(now.sa_handler == handle ? RING_DUMP_OURS : RING_DUMP_IN_USE);
}

__sighandler_t ta_dump_hide(__sighandler_t handler)
{
	return handler == handle ? SIG_DFL : handler;
}

int ta_dump_set(const struct sigaction *action, struct sigaction *old)
{
	static const struct sigaction none = { .sa_handler = SIG_DFL };
	/* A child of vfork sets what is its own alone, and begins another program. */
	bool is_own = ta_image_is_own();
	bool is_default = action && action->sa_handler == SIG_DFL;
	int r = ta_real.sigaction(ta_image.dump_signal, is_default && is_own ? &ours : action, old);

	if (r < 0)
		return r;
	if (old && old->sa_handler == handle)
		*old = none;
	if (action && is_own)
		note(is_default ? RING_DUMP_OURS : RING_DUMP_IN_USE);
	return r;
}
