/* When recording is on: windows, and what others ask a recording for. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "common/text.h"
#include "runner/collector.h"
#include "runner/trace-records-write.h"
#include "schemas/control.h"
#include "schemas/trace-control.h"

#define START_POLL_NS UINT64_C(5000000) /* a program has come to --start-after: samples begin */
#define CPU_POLL_NS   UINT64_C(5000000) /* the least time between looks at CPU clocks */
#define PATIENCE_NS   UINT64_C(1000000000)

#define FUNCTION "function:"

/* SYMBOL or MODULE!SYMBOL; NULL: it is the name of a mark or region, or of a function as well. */
static const char *start_function(const struct run_options *options)
{
	const char *name = options->start_after;

	if (name && strncmp(name, FUNCTION, strlen(FUNCTION)) == 0)
		return name + strlen(FUNCTION);
	return name && strchr(name, '!') && !strchr(name, ':') ? name : NULL;
}

static const char *start_name(const struct run_options *options)
{
	const char *name = options->start_after;

	if (name && strncmp(name, "mark:", 5) == 0)
		return name + 5;
	if (name && strncmp(name, "region:", 7) == 0)
		return name + 7;
	return start_function(options) ? start_function(options) : name;
}

/* Why such a function cannot be led to us; NULL: it can. */
static const char *why_no_function(const struct run_options *options)
{
	const char *name = start_function(options);

	if (!name)
		return NULL;
	if (name[0] == '!' || !name[strcspn(name, "!")] != !strchr(name, '!') ||
	    (strchr(name, '!') && !strchr(name, '!')[1]))
		return "needs a function as MODULE!SYMBOL, such as libfoo.so!begin";
	if (options->n_attach)
		return "a function needs a program that memsight starts; set a mark, or `memsight "
		       "ctl PID pause' and `resume'";
#if !defined(__x86_64__)
	return "a function is for x86-64 only; set a mark with memsight_mark()";
#endif
	return NULL;
}

int collector_control_check(const struct run_options *options, struct window_plan *ret_plan,
			    char *message, size_t n_bytes)
{
	struct window_plan plan;
	const char *name = start_name(options);
	const char *why = NULL;
	int err = window_plan_read(options->windows, &plan, message, n_bytes);

	if (err < 0)
		return err;
	if (plan.has_clock[WINDOW_THREAD] && access("/proc/self/schedstat", R_OK) < 0) {
		snprintf(message, n_bytes,
			 "--windows: thread: needs /proc/PID/schedstat, which this kernel has not; "
			 "process: counts all threads of the program");
		return -EINVAL;
	}
	if (name && !*name)
		why = "needs the name of a function, or of a mark or region of memsight.h";
	else if (why_no_function(options))
		why = why_no_function(options);
	else if (name && options->no_alloc)
		why = "needs the recording library, which --no-alloc leaves out";
	else if (name && !start_function(options) && options->events &&
		 !(options->events & RING_EVENTS_REGIONS))
		why = "needs `regions' among --events";
	else if (name && triggers_begin_windows(options->trigger_actions))
		why = "and windows that a --trigger begins cannot be had together";
	if (why)
		return text_refuse(-EINVAL, message, n_bytes, "--start-after %s", why);
	if (ret_plan)
		*ret_plan = plan;
	return 0;
}

/* ---- On and off ---- */

static void store_window(struct collector *collector, uint64_t end_ticks)
{
	const struct collector_control *control = &collector->control;
	struct trace_window window = {
		.head.type = TRACE_RECORD_WINDOW,
		.begin_ticks = control->window_ticks,
		.end_ticks = end_ticks,
		.number = control->window,
	};

	trace_writer_add(collector->writer, &window, trace_text(control->cause));
}

/* From ticks on everything is recorded. */
static void begin_window(struct collector *collector, uint64_t ticks, const char *cause)
{
	struct collector_control *control = &collector->control;

	snprintf(control->cause, sizeof(control->cause), "%s", cause);
	control->window_ticks =
		ticks > collector->committed_ticks ? ticks : collector->committed_ticks;
	control->window++;
	control->is_on = true;
	store_window(collector, 0);
}

void collector_number_cut(struct collector *collector, uint64_t ticks, bool has_windows)
{
	struct collector_control *control = &collector->control;

	if (has_windows || control->window > 1)
		return;
	control->window = 1; /* as trace_cut() has written it */
	control->window_ticks = ticks;
	snprintf(control->cause, sizeof(control->cause), TRACE_CUT_CAUSE "%s",
		 collector->options->last);
}

static void switch_on(struct collector *collector, const char *cause)
{
	pool_order(collector->pool);
	begin_window(collector, clock_ticks(collector->clock), cause);
	samples_pause(&collector->samples, false);
}

/* All up to now becomes the first window, where there was none. */
static void number_first_window(struct collector *collector)
{
	struct collector_control *control = &collector->control;

	if (control->window > 0)
		return;
	control->window = 1;
	control->window_ticks = collector->first_pair.ticks;
	snprintf(control->cause, sizeof(control->cause), "start");
}

/* What is stamped before is recorded: programs pause at their next events. */
static void switch_off(struct collector *collector)
{
	struct collector_control *control = &collector->control;
	uint64_t ticks = clock_ticks(collector->clock);

	number_first_window(collector);
	control->is_on = false;
	pool_order(collector->pool);
	pool_call(collector->pool, tracker_slots_used(&collector->tracker));
	samples_pause(&collector->samples, true);
	store_window(collector, ticks);
}

/* The next window begins where this one ends: nothing is missing between them. */
void collector_turn_window(struct collector *collector, uint64_t ticks, const char *cause)
{
	if (!collector->control.is_on)
		return;
	number_first_window(collector);
	store_window(collector, ticks);
	begin_window(collector, ticks, cause);
}

/* A name without a word before it may be a function of the program, too. */
static void look_for_function(struct collector *collector)
{
	struct entry *entry = &collector->control.entry;
	const char *name = collector->options->start_after;

	entry->name = start_function(collector->options);
	if (!entry->name && name && !strchr(name, ':') && collector->n_attached == 0 &&
	    entry_is_in_file(collector->program, name))
		entry->name = name;
#if defined(__x86_64__)
	if (entry->name)
		collector->tracker.entry = entry;
#endif
}

void collector_begin_control(struct collector *collector)
{
	struct collector_control *control = &collector->control;
	struct ring_control *shared = collector->pool->control;
	const char *name = start_name(collector->options);
	const struct window_times start = { 0 };
	char message[256];

	/* It was checked before. */
	collector_control_check(collector->options, &control->plan, message, sizeof(message));
	control->awaits_start = name != NULL;
	control->is_on =
		!name &&
		(control->plan.n == 0 ? !triggers_begin_windows(collector->options->trigger_actions)
				      : window_plan_at(&control->plan, &start).spec != NULL);
	if (control->is_on && control->plan.n > 0)
		begin_window(collector, collector->first_pair.ticks, control->plan.specs[0].text);
	else if (control->is_on && collector->options->dump_reset)
		begin_window(collector, collector->first_pair.ticks, "start");
	if (control->is_on)
		return;
	control->window_ticks = collector->first_pair.ticks;
	store_window(collector, control->window_ticks);
	pool_order(collector->pool);
	if (!name)
		return;
	look_for_function(collector);
	/* Where a window begins at once the program itself begins it: nothing is missed. */
	bool begins = control->plan.n == 0 || window_plan_at(&control->plan, &start).spec;
	atomic_store(&shared->start_order, begins ? atomic_load(&shared->order) + 1 : 0);
	atomic_store(&shared->start_after, text_name_id(name));
}

/* One line of each, once. */
static void say_once(struct collector *collector, bool *is_said, const char *what)
{
	if (!*is_said)
		collector_warn(collector, "--start-after: %s", what);
	*is_said = true;
}

/* What becomes of the function in programs. The first ones may only start the one meant. */
static void say_of_function(struct collector *collector)
{
	struct collector_control *control = &collector->control;
	bool is_early = !collector->command_has_ended &&
			collector->now_ns < collector->command_begin_ns + PATIENCE_NS;

	if (atomic_load(&collector->pool->control->n_entries_refused) > 0)
		say_once(collector, &control->said_refused,
			 "its code may not be changed (SELinux, or sealed memory): set a mark with "
			 "memsight_mark()");
	else if (!is_early && control->entry.n_found == 0 && control->entry.problem[0])
		say_once(collector, &control->said_start, control->entry.problem);
}

/* Has a program come to what --start-after names? */
static void look_for_start(struct collector *collector)
{
	struct collector_control *control = &collector->control;
	struct ring_control *shared = collector->pool->control;
	uint64_t ticks = atomic_load(&shared->start_ticks);
	char cause[sizeof(control->cause)];

	say_of_function(collector);
	if (ticks == 0)
		return;
	control->awaits_start = false;
	control->next_ns = 0; /* the plan counts from here */
	snprintf(cause, sizeof(cause), "after %s", start_name(collector->options));
	if (control->is_on || atomic_load(&shared->order) & 1)
		return;
	begin_window(collector, ticks, cause);
	samples_pause(&collector->samples, false);
}

static uint64_t count_cpu(struct collector *collector)
{
	uint64_t sum_ns = 0;

	for (struct image *image = collector->tracker.images.first; image; image = image->next) {
		uint64_t ns = image_cpu_ns(image);

		/*
		 * What it had before an exec, or before it was attached to, is counted or not
		 * ours.
		 */
		if (ns > image->cpu_ns && (image->cpu_ns || image->exec_seq == 0) &&
		    !(image->cpu_ns == 0 && collector->n_attached > 0))
			sum_ns += ns - image->cpu_ns;
		if (ns > image->cpu_ns)
			image->cpu_ns = ns;
	}
	return sum_ns;
}

/* CPU time of the program itself; 0: it has none any more. */
static uint64_t process_ns(const struct collector *collector)
{
	const struct image image = { .pid = collector->command_pid };

	return image_cpu_ns(&image);
}

/* The same of its main thread: clock_gettime() knows threads of our own process only. */
static uint64_t main_thread_ns(pid_t pid)
{
	auto_free char *text = NULL;

	return io_read_proc(pid, "schedstat", 256, &text, NULL) < 0 ? 0 : strtoull(text, NULL, 10);
}

/* One whose process or thread has ended stands still. */
static void read_clocks(struct collector *collector)
{
	struct collector_control *control = &collector->control;
	const struct window_plan *plan = &control->plan;
	uint64_t ns[WINDOW_CLOCKS] = {
		[WINDOW_REAL] = collector->now_ns,
		[WINDOW_CPU] = control->now.ns[WINDOW_CPU] +
			       (plan->has_clock[WINDOW_CPU] ? count_cpu(collector) : 0),
		[WINDOW_PROCESS] = plan->has_clock[WINDOW_PROCESS] ? process_ns(collector) : 0,
		[WINDOW_THREAD] =
			plan->has_clock[WINDOW_THREAD] ? main_thread_ns(collector->command_pid) : 0,
	};

	for (size_t i = 0; i < WINDOW_CLOCKS; i++)
		if (ns[i] > control->now.ns[i])
			control->now.ns[i] = ns[i];
	if (control->has_start)
		return;
	control->has_start = true;
	control->start = control->now;
}

static struct window_times times_since_start(const struct collector_control *control)
{
	struct window_times times;

	for (size_t i = 0; i < WINDOW_CLOCKS; i++)
		times.ns[i] = control->now.ns[i] - control->start.ns[i];
	return times;
}

/* Windows that began and ended while we had no processor. */
static void count_missed(struct collector *collector, const struct window_times *at, bool is_in_one)
{
	struct collector_control *control = &collector->control;
	uint64_t n = window_plan_begun(&control->plan, at);
	uint64_t n_new = n - control->n_begun;
	const struct store_loss missed = {
		.count = n_new - (is_in_one && n_new > 0),
		.to_ticks = clock_ticks(collector->clock),
		.source = "collector",
		.reason = "windows missed: the recorder was late",
	};

	control->n_begun = n;
	store_loss(collector->writer, &missed);
}

/* What the plan wants now; NULL: nothing is to be recorded. */
static const char *ask_plan(struct collector *collector)
{
	struct collector_control *control = &collector->control;

	if (control->plan.n == 0)
		return control->awaits_start ||
				       triggers_begin_windows(collector->options->trigger_actions)
			       ? NULL
			       : "start";
	read_clocks(collector);
	struct window_times at = times_since_start(control);
	struct window_moment moment = window_plan_at(&control->plan, &at);
	count_missed(collector, &at, moment.spec != NULL);
	uint64_t wait_ns = moment.left.ns[WINDOW_REAL];
	for (size_t i = WINDOW_REAL + 1; i < WINDOW_CLOCKS; i++)
		if (moment.left.ns[i] != UINT64_MAX && wait_ns > CPU_POLL_NS)
			wait_ns = CPU_POLL_NS;
	control->next_ns = wait_ns == UINT64_MAX ? UINT64_MAX : collector->now_ns + wait_ns;
	return moment.spec ? moment.spec->text : NULL;
}

/* Let recording be as the plan and others want it. */
static void settle(struct collector *collector, const char *cause)
{
	struct collector_control *control = &collector->control;
	const char *planned = control->awaits_start ? NULL : ask_plan(collector);

	if (planned && control->override == COLLECTOR_RESUMED)
		control->override = COLLECTOR_BY_PLAN;
	bool is_wanted = control->override == COLLECTOR_RESUMED ||
			 (control->override == COLLECTOR_BY_PLAN && planned);
	if (is_wanted && !control->is_on)
		switch_on(collector, cause ? cause : planned);
	else if (!is_wanted && control->is_on)
		switch_off(collector);
}

void collector_begin_window(struct collector *collector, const char *cause, uint64_t length_ns)
{
	struct collector_control *control = &collector->control;

	/* What a person has asked for holds: the pause, or a window without an end. */
	if (control->override == COLLECTOR_PAUSED ||
	    (control->override == COLLECTOR_RESUMED && control->until_ns == 0))
		return;
	control->until_ns = collector->now_ns + length_ns;
	control->override = COLLECTOR_RESUMED;
	settle(collector, cause);
}

/* A window that a trigger has begun is over. */
static void end_window(struct collector *collector)
{
	struct collector_control *control = &collector->control;

	control->until_ns = 0;
	if (control->override == COLLECTOR_RESUMED)
		control->override = COLLECTOR_BY_PLAN;
	settle(collector, NULL);
}

/* ---- Requests ---- */

/* handed_fd goes with it unless it is -1. */
static void reply(int fd, struct control_reply *answer, int handed_fd)
{
	answer->magic = CONTROL_MAGIC;
	answer->version = CONTROL_VERSION;
	/* Who does not wait for it any more does without. */
	io_send(fd, &(struct io_message){ answer, sizeof(*answer), { handed_fd }, handed_fd >= 0 },
		MSG_DONTWAIT);
}

static void fill_status(struct collector *collector, const struct control_request *request,
			struct control_reply *answer)
{
	const struct trace_writer_totals *totals = trace_writer_totals(collector->writer);
	const struct collector_control *control = &collector->control;
	const struct images *images = &collector->tracker.images;

	answer->recorder_pid = (uint32_t)getpid();
	answer->command_pid = (uint32_t)collector->command_pid;
	answer->n_processes = images->n_live;
	answer->is_paused = !control->is_on;
	answer->window = control->window;
	answer->has_stopped = collector->stopped_ticks != 0;
	answer->wall_ns = clock_ns(CLOCK_MONOTONIC) - collector->command_begin_ns;
	answer->n_events = totals->n_events;
	answer->n_samples = totals->n_samples;
	answer->file_bytes = trace_writer_file_bytes(collector->writer);
	if (!output_absolute_path(collector->output, answer->output))
		snprintf(answer->output, sizeof(answer->output), "%s", collector->output->path);
	answer->knows_pid = request->pid && (request->pid == answer->recorder_pid ||
					     images_find(images, (pid_t)request->pid));
}

/* What it asks for with CONTROL_SNAPSHOT. */
static void answer_snapshot(struct collector *collector, const struct snapshot *snapshot,
			    struct control_reply *answer)
{
	if (answer->error < 0)
		fill_status(collector, &(struct control_request){ 0 }, answer);
	reply(snapshot->answer_fd, answer, -1);
}

static void ask_snapshot(struct collector *collector, const struct control_request *request, int fd)
{
	struct snapshot asked = { .answer = answer_snapshot,
				  .answer_fd = fd,
				  .is_forced = request->is_forced };

	snprintf(asked.path, sizeof(asked.path), "%s", request->text);
	collector_ask_snapshot(collector, &asked);
}

void collector_set_mark(struct collector *collector, const char *text)
{
	struct trace_outside_mark mark = { .head.type = TRACE_RECORD_OUTSIDE_MARK,
					   .ticks = clock_ticks(collector->clock) };

	trace_writer_add(collector->writer, &mark, trace_text(text));
}

/* From here on another setting holds. */
static void set_mark_of(struct collector *collector, const char *setting)
{
	char text[CONTROL_MESSAGE_BYTES + sizeof("set ")];

	snprintf(text, sizeof(text), "set %s", setting);
	collector_set_mark(collector, text);
}

static void obey(struct collector *collector, const struct control_request *request,
		 struct control_reply *answer)
{
	struct collector_control *control = &collector->control;

	switch ((enum control_verb)request->verb) {
	case CONTROL_PAUSE:
		control->override = COLLECTOR_PAUSED;
		control->until_ns = 0;
		settle(collector, NULL);
		break;
	case CONTROL_RESUME:
		control->override = COLLECTOR_RESUMED;
		control->until_ns = 0;
		settle(collector, "ctl resume");
		break;
	case CONTROL_MARK:
		collector_set_mark(collector, request->text);
		break;
	case CONTROL_RESET:
		if (control->is_on)
			collector_turn_window(collector, clock_ticks(collector->clock),
					      "ctl reset");
		else
			collector_refuse(answer, -EBUSY,
					 "recording is paused: a window begins when it is resumed");
		break;
	case CONTROL_LOOK:
		collector_look_at_touches(collector);
		if (collector_look_at_pages(collector) < 0)
			collector_refuse(answer, -ENOTSUP,
					 "the recording was begun with --pages off");
		break;
	case CONTROL_TOTALS:
		if (!collector->totals)
			collector_refuse(answer, -ENODATA,
					 "it keeps no live totals: record --live-totals does");
		break;
	case CONTROL_SET:
		collector_set(collector, request->text, answer);
		if (answer->error == 0)
			set_mark_of(collector, answer->message);
		break;
	case CONTROL_STOP:
		if (collector->n_attached > 0) {
			collector->wants_to_leave = true;
			break;
		}
		/* Now, so that who gets the answer may begin another one. */
		pool_end(collector->pool, RING_ENDED);
		collector->was_let_go = true;
		break;
	default:
		break;
	}
}

static bool may_ask(const struct ucred *peer)
{
	return peer->uid == 0 || peer->uid == geteuid();
}

int collector_take_request(struct collector *collector, int fd)
{
	struct control_request request;
	struct control_reply answer = { 0 };
	struct ucred peer;
	int err = recording_receive_control(fd, &request, &peer);

	if (err == -ENOMSG || err == -EAGAIN)
		return err;
	collector->now_ns = clock_ns(CLOCK_MONOTONIC);
	if (err == -EPROTO)
		collector_refuse(&answer, err, "the recorder is of another version of memsight");
	else if (err == 0 && !may_ask(&peer))
		collector_refuse(&answer, -EPERM,
				 "only its own user (id %u) and root control this recording",
				 (unsigned)geteuid());
	else if (err == 0 && collector->stopped_ticks && request.verb != CONTROL_STATUS &&
		 request.verb != CONTROL_STOP && request.verb != CONTROL_SNAPSHOT &&
		 request.verb != CONTROL_TOTALS)
		collector_refuse(&answer, -ESHUTDOWN, "recording has stopped: %s",
				 collector->stop_reason);
	else if (err == 0 && request.verb == CONTROL_SNAPSHOT) {
		ask_snapshot(collector, &request, fd);
		return 0;
	} else if (err == 0)
		obey(collector, &request, &answer);
	if (answer.error != -EPERM)
		fill_status(collector, &request, &answer);
	reply(fd, &answer,
	      answer.error == 0 && request.verb == CONTROL_TOTALS
		      ? live_totals_fd(collector->totals)
		      : -1);
	return 0;
}

/* ---- Each round ---- */

void collector_tick_control(struct collector *collector)
{
	struct collector_control *control = &collector->control;

	if (collector->stopped_ticks)
		return;
	/* An exec has switched sources on that are to be off. */
	if (control->next_ns == 0 && !control->is_on)
		samples_pause(&collector->samples, true);
	if (control->awaits_start)
		look_for_start(collector);
	if (control->next_ns == 0 || (control->plan.n > 0 && !control->awaits_start &&
				      collector->now_ns >= control->next_ns))
		settle(collector, NULL);
	if (control->next_ns == 0)
		control->next_ns = UINT64_MAX;
	if (control->until_ns && collector->now_ns >= control->until_ns)
		end_window(collector);
	if (!control->is_on)
		pool_call(collector->pool, tracker_slots_used(&collector->tracker));
}

uint64_t collector_control_wait(const struct collector *collector)
{
	const struct collector_control *control = &collector->control;
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	uint64_t next_ns = control->next_ns ? control->next_ns : UINT64_MAX;

	if (control->awaits_start)
		return START_POLL_NS;
	if (control->until_ns && control->until_ns < next_ns)
		next_ns = control->until_ns;
	if (next_ns == UINT64_MAX)
		return UINT64_MAX;
	return next_ns > now_ns ? next_ns - now_ns : 0;
}

void collector_end_control(struct collector *collector)
{
	struct collector_control *control = &collector->control;

	if (control->awaits_start)
		look_for_start(collector);
	if (control->awaits_start)
		collector_warn(collector,
			       "--start-after %s: no program came to it, so no allocation is "
			       "recorded%s",
			       collector->options->start_after,
			       control->entry.name || control->said_start
				       ? ""
				       : " (a function that is not in the program's own file is "
					 "function:NAME)");
	else if (control->plan.n > 0 && control->window == 0)
		collector_warn(
			collector,
			"--windows %s: the recording ended before the first window began, so "
			"no allocation is recorded",
			control->plan.specs[0].text);
	if (control->is_on && control->window > 0)
		store_window(collector, clock_ticks(collector->clock));
	cleanup_close(&control->notify_fd);
	control->notify_fd = -1;
}
