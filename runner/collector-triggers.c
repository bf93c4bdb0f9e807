/* Live totals (record --live-totals), and what is done when they reach a bound (--trigger). */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "runner/collector.h"
#include "runner/launch/memory-limit.h"
#include "schemas/control.h"

#define NS_PER_SECOND UINT64_C(1000000000)
#define LOOK_NS	      (NS_PER_SECOND / 10)
#define VMSTAT_BYTES  (1u << 20)
#define NO_TIME	      "--%s: '%.60s' is not a time of a second or more, such as 60s"

/* Why a condition cannot be measured in such a recording; NULL: it can. */
static const char *why_not(const struct run_options *options, const struct trigger *trigger)
{
	if (trigger_is_of_end(trigger) && triggers_begin_windows(options->trigger_actions))
		return "cannot begin a window: the program has ended";
	if (trigger_is_of_end(trigger) && trigger->kind != TRIGGER_EXIT && options->n_attach > 0)
		return "needs a program that memsight has started: of others nobody hears how they "
		       "end";
	if (!trigger_needs_totals(trigger))
		return NULL;
	if (options->no_alloc)
		return "needs allocations, which --no-alloc leaves out";
	if (options->sample_bytes)
		return "needs every block, of which --sample-bytes picks some (rss does not)";
	if (options->events && !(options->events & RING_EVENTS_HEAP))
		return "needs `heap' among --events";
	if (triggers_begin_windows(options->trigger_actions))
		return "cannot begin a window: allocations are not known while recording is off "
		       "(rss is)";
	return NULL;
}

int collector_triggers_check(const struct run_options *options, struct triggers *ret_triggers,
			     char message[TRIGGER_MESSAGE])
{
	int err = triggers_read(options->triggers, ret_triggers, message);
	unsigned n_commands = 0;

	for (size_t i = 0; err == 0 && i < ret_triggers->n; i++) {
		const char *why = why_not(options, &ret_triggers->items[i]);

		if (!why)
			continue;
		snprintf(message, TRIGGER_MESSAGE, "--trigger: %s %s", ret_triggers->items[i].text,
			 why);
		err = -EINVAL;
	}
	for (const char *const *action = options->trigger_actions; err == 0 && action && *action;
	     action++) {
		n_commands += trigger_is_command(*action);
		if (trigger_window_ns(*action) >= 0 && **action && n_commands < 2)
			continue;
		snprintf(message, TRIGGER_MESSAGE,
			 n_commands > 1 ? "--on-trigger: one command: '%.60s' is another one"
					: "--on-trigger: '%.60s' is not `snapshot', window:TIME "
					  "such as window:10s, or a command",
			 *action);
		err = -EINVAL;
	}
	if (err < 0)
		return err;
	if (options->trigger_actions && ret_triggers->n == 0)
		snprintf(message, TRIGGER_MESSAGE, "--on-trigger needs a --trigger");
	else if (trigger_time_ns(options->cooldown) == 0)
		snprintf(message, TRIGGER_MESSAGE, NO_TIME, "cooldown", options->cooldown);
	else if (trigger_time_ns(options->old_after) == 0)
		snprintf(message, TRIGGER_MESSAGE, NO_TIME, "old-after", options->old_after);
	else if (options->live_totals && options->no_alloc)
		snprintf(message, TRIGGER_MESSAGE,
			 "--live-totals needs allocations, which --no-alloc leaves out");
	else
		return 0;
	return -EINVAL;
}

/* How often the kernel has killed for want of memory, of a control group or of the host. */
static uint64_t count_oom_kills(void)
{
	static const char name[] = "\noom_kill ";
	auto_free char *text = NULL;

	if (io_read_file("/proc/vmstat", VMSTAT_BYTES, &text, NULL) < 0)
		return 0;
	const char *line = strstr(text, name);
	return line ? strtoull(line + strlen(name), NULL, 10) : 0;
}

int collector_begin_totals(struct collector *collector)
{
	const struct run_options *options = collector->options;
	struct collector_triggers *own = &collector->triggers;
	char message[TRIGGER_MESSAGE];
	bool is_wanted = options->live_totals;
	uint64_t old_ns = trigger_time_ns(options->old_after);

	/* It was checked before. */
	collector_triggers_check(options, &own->list, message);
	own->n_oom_kills = count_oom_kills();
	own->cooldown_ns = trigger_time_ns(options->cooldown);
	for (size_t i = 0; i < own->list.n; i++)
		is_wanted |= trigger_needs_totals(&own->list.items[i]);
	if (!is_wanted)
		return 0;
	collector->totals =
		live_totals_create((uint32_t)(old_ns / NS_PER_SECOND), collector->ticks_per_second);
	collector->tracker.totals = collector->totals;
	return collector->totals ? 0 : -ENOMEM;
}

/* ---- What is done ---- */

static void describe(const struct collector *collector, const struct trigger_call *call)
{
	char pid[16], trace[PATH_MAX];

	if (!output_absolute_path(collector->output, trace))
		trace[0] = '\0';
	snprintf(pid, sizeof(pid), "%d", (int)collector->command_pid);
	setenv("MEMSIGHT_PID", pid, 1);
	setenv("MEMSIGHT_TRIGGER", call->fired, 1);
	setenv("MEMSIGHT_TRACE", trace, 1);
	setenv("MEMSIGHT_SNAPSHOT", call->snapshot ? call->snapshot : "", 1);
}

/* A process of its own, with the recorder's environment; what became of it is seen later. */
static void start_command(struct collector *collector)
{
	struct collector_triggers *own = &collector->triggers;
	char *const words[] = { "sh", "-c",
				(char *)triggers_command(collector->options->trigger_actions),
				NULL };
	posix_spawnattr_t attributes;
	sigset_t none, all;

	describe(collector, &own->calls[0]);
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	int err = posix_spawn(&own->command_pid, "/bin/sh", NULL, &attributes, words, environ);
	posix_spawnattr_destroy(&attributes);
	if (err != 0) {
		own->command_pid = 0;
		collector_warn(collector, "--on-trigger: cannot start /bin/sh: %s", strerror(err));
	}
	free(own->calls[0].snapshot);
	own->n_calls--;
	memmove(own->calls, own->calls + 1, own->n_calls * sizeof(*own->calls));
}

/* options are waitpid's. */
static void reap_command(struct collector *collector, int options)
{
	struct collector_triggers *own = &collector->triggers;
	int status;

	if (own->command_pid && waitpid(own->command_pid, &status, options) != 0) {
		own->command_pid = 0;
		if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
			collector_warn(collector, "--on-trigger: the command ended with status %d",
				       WEXITSTATUS(status));
	}
	/* One after the other. */
	if (own->command_pid == 0 && own->n_calls > 0)
		start_command(collector);
}

void collector_end_commands(struct collector *collector)
{
	struct collector_triggers *own = &collector->triggers;

	while (own->command_pid || own->n_calls > 0)
		reap_command(collector, 0);
}

/* What a condition asks for is done: the command is to be run, if there is one. */
static void call(struct collector *collector, const struct snapshot *snapshot,
		 struct control_reply *answer)
{
	struct collector_triggers *own = &collector->triggers;
	struct trigger_call *next = &own->calls[own->n_calls];

	if (answer->error < 0)
		collector_warn(collector, "%s", answer->message);
	if (!triggers_command(collector->options->trigger_actions))
		return;
	if (own->n_calls == TRIGGERS_MAX) {
		collector_warn(collector,
			       "--on-trigger: %s: the command has not ended yet, and %d calls wait "
			       "for it; it is not run",
			       snapshot->fired, TRIGGERS_MAX);
		return;
	}
	snprintf(next->fired, sizeof(next->fired), "%s", snapshot->fired);
	next->snapshot = answer->error == 0 && answer->path[0] ? strdup(answer->path) : NULL;
	own->n_calls++;
}

static void fire(struct collector *collector, struct trigger *trigger, const char *value)
{
	const char *const *action = collector->options->trigger_actions;
	static const char *const usual[] = { TRIGGER_SNAPSHOT, NULL };
	const struct snapshot asked = { .answer = call, .answer_fd = -1, .fired = trigger->text };
	bool has_snapshot = false;
	char text[128];

	trigger->fired_ns = collector->now_ns;
	snprintf(text, sizeof(text), "trigger %s", trigger->text);
	collector_set_mark(collector, text);
	collector_warn(collector, "trigger %s: %s", trigger->text, value);
	for (action = action ? action : usual; *action; action++) {
		int64_t ns = trigger_window_ns(*action);

		if (ns > 0)
			collector_begin_window(collector, text, (uint64_t)ns);
		has_snapshot |= strcmp(*action, TRIGGER_SNAPSHOT) == 0;
	}
	if (has_snapshot)
		collector_ask_snapshot(collector, &asked);
	else
		call(collector, &asked, &(struct control_reply){ 0 });
}

void collector_end_triggers(struct collector *collector)
{
	struct triggers *list = &collector->triggers.list;
	bool was_oom = count_oom_kills() > collector->triggers.n_oom_kills;
	char value[32];

	for (size_t i = 0; i < list->n && collector->command_has_ended; i++)
		if (trigger_is_of_end(&list->items[i]) && !collector->stopped_ticks &&
		    !collector->has_left &&
		    trigger_is_end(&list->items[i], collector->wait_status, was_oom, value))
			fire(collector, &list->items[i], value);
}

/* ---- Each round ---- */

static uint64_t count_lost(const struct collector *collector)
{
	uint64_t n = collector->tracker.n_losses;

	for (struct image *image = collector->tracker.images.first; image; image = image->next)
		if (image->slot != IMAGE_NO_SLOT) {
			struct ring_process *slot = &collector->pool->processes[image->slot];

			n += atomic_load(&slot->n_dropped) + atomic_load(&slot->n_nested) +
			     atomic_load(&slot->n_late);
		}
	return n;
}

/* What the program may have: of its control groups, or all that is there. */
static uint64_t find_limit(const struct collector *collector)
{
	uint64_t limit = run_memory_limit(collector->command_pid);
	uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	return limit && limit < all ? limit : all;
}

static void fill_header(struct collector *collector, struct trigger_measures *now)
{
	struct live_header *header = live_totals_header(collector->totals);

	now->live_bytes = atomic_load(&header->live_bytes);
	now->old_bytes = atomic_load(&header->old_bytes);
	now->n_allocations = atomic_load(&header->n_allocations);
	now->n_events = now->n_allocations + atomic_load(&header->n_frees);
	atomic_store(&header->rss_bytes, now->rss_bytes);
	atomic_store(&header->n_lost, count_lost(collector));
	atomic_store(&header->n_processes, collector->tracker.images.n_live);
	atomic_store(&header->is_paused, !collector->control.is_on);
}

static void look_at_triggers(struct collector *collector, const struct trigger_measures *now)
{
	uint64_t cooldown_ns = collector->triggers.cooldown_ns;
	struct triggers *list = &collector->triggers.list;
	char value[32];

	for (size_t i = 0; i < list->n; i++) {
		struct trigger *trigger = &list->items[i];

		if (trigger_needs_totals(trigger) && !collector->control.is_on)
			continue;
		if (!trigger_holds(trigger, now, value))
			continue;
		if (trigger->fired_ns == 0 || collector->now_ns - trigger->fired_ns >= cooldown_ns)
			fire(collector, trigger, value);
	}
}

void collector_tick_totals(struct collector *collector)
{
	struct collector_triggers *own = &collector->triggers;
	struct trigger_measures now = { .now_ns = collector->now_ns };

	if (collector->totals)
		live_totals_tick(collector->totals, collector->now_ns,
				 drain_safe_ticks(&collector->drain));
	if (collector->now_ns < own->next_ns || (!collector->totals && own->list.n == 0))
		return;
	own->next_ns = collector->now_ns + LOOK_NS;
	reap_command(collector, WNOHANG);
	for (struct image *image = collector->tracker.images.first; image; image = image->next)
		now.rss_bytes += image->pages.last_bytes;
	if (own->limit_bytes == 0)
		own->limit_bytes = find_limit(collector);
	now.limit_bytes = own->limit_bytes;
	if (collector->totals)
		fill_header(collector, &now);
	if (!collector->stopped_ticks)
		look_at_triggers(collector, &now);
}
