/* A signal to the program makes a snapshot (--dump-signal), and begins a window (--dump-reset). */
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/parse.h"
#include "runner/collector.h"
#include "runner/processes/image-proc.h"
#include "runner/trace-records-write.h"
#include "schemas/control.h"

#define LOOK_NS	      (UINT64_C(1000000000) / 4)
#define OF_LIBC_FIRST 32
#define OF_LIBC_LAST  33
#define CRASHES	      "is how programs crash: with a handler for it they would not end"
#define ENDS	      "ends programs: with a handler for it they would go on"
#define OF_KERNEL     "is sent by the kernel, for reasons of its own"

static const struct known {
	const char *name;
	int number;
	const char *why_not; /* NULL: programs have it for themselves */
} signals[] = {
	{ "USR1", SIGUSR1, NULL },
	{ "USR2", SIGUSR2, NULL },
	{ "PWR", SIGPWR, NULL },
	{ "KILL", SIGKILL, "cannot be handled by any program" },
	{ "STOP", SIGSTOP, "cannot be handled by any program" },
	{ "SEGV", SIGSEGV, CRASHES },
	{ "BUS", SIGBUS, CRASHES },
	{ "FPE", SIGFPE, CRASHES },
	{ "ILL", SIGILL, CRASHES },
	{ "TRAP", SIGTRAP, CRASHES },
	{ "SYS", SIGSYS, CRASHES },
	{ "ABRT", SIGABRT, CRASHES },
	{ "INT", SIGINT, ENDS },
	{ "TERM", SIGTERM, ENDS },
	{ "HUP", SIGHUP, ENDS },
	{ "QUIT", SIGQUIT, ENDS },
	{ "XCPU", SIGXCPU, ENDS },
	{ "XFSZ", SIGXFSZ, ENDS },
	{ "CHLD", SIGCHLD, OF_KERNEL },
	{ "CONT", SIGCONT, OF_KERNEL },
	{ "TSTP", SIGTSTP, OF_KERNEL },
	{ "TTIN", SIGTTIN, OF_KERNEL },
	{ "TTOU", SIGTTOU, OF_KERNEL },
	{ "URG", SIGURG, OF_KERNEL },
	{ "WINCH", SIGWINCH, OF_KERNEL },
	{ "PIPE", SIGPIPE, OF_KERNEL },
	{ "IO", SIGIO, OF_KERNEL },
	{ "ALRM", SIGALRM, OF_KERNEL },
	{ "VTALRM", SIGVTALRM, OF_KERNEL },
	{ "PROF", SIGPROF, OF_KERNEL },
};
#define N_SIGNALS (sizeof(signals) / sizeof(signals[0]))

/* RTMIN, RTMIN+3, RTMAX-1; 0: it is none. */
static int read_realtime(const char *name)
{
	bool is_min = strncasecmp(name, "RTMIN", 5) == 0;
	uint64_t n = 0;

	if (!is_min && strncasecmp(name, "RTMAX", 5) != 0)
		return 0;
	name += 5;
	if (*name && (*name != (is_min ? '+' : '-') || parse_number(name + 1, &n) < 0))
		return 0;
	if (n > (uint64_t)(SIGRTMAX - SIGRTMIN))
		return 0;
	return is_min ? SIGRTMIN + (int)n : SIGRTMAX - (int)n;
}

/* Its number; 0: why says what is wrong. */
static int read_signal(const char *text, char why[static 160])
{
	const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
	struct parse_nearest nearest = { .word = name };
	int number = read_realtime(name);
	uint64_t n;

	if (isdigit((unsigned char)name[0]) && parse_number(name, &n) == 0 &&
	    n <= (uint64_t)SIGRTMAX)
		number = (int)n;
	for (size_t i = 0; i < N_SIGNALS; i++) {
		parse_nearest_offer(&nearest, signals[i].name);
		if (number != signals[i].number && strcasecmp(name, signals[i].name) != 0)
			continue;
		if (!signals[i].why_not)
			return signals[i].number;
		snprintf(why, 160, "%s %s; take USR1 or USR2", signals[i].name, signals[i].why_not);
		return 0;
	}
	if (number == RING_SIGNAL)
		snprintf(why, 160, "%d is the signal of --source signal; take USR1 or USR2",
			 number);
	else if (number >= OF_LIBC_FIRST && number <= OF_LIBC_LAST)
		snprintf(why, 160, "%d is a signal of the C library's own; take USR1 or USR2",
			 number);
	else if (number > 0)
		return number;
	else if (nearest.name)
		snprintf(why, 160, "'%.40s' is no signal; is %s meant?", text, nearest.name);
	else
		snprintf(why, 160,
			 "'%.40s' is no signal such as USR2, RTMIN+1, or a number up to %d", text,
			 SIGRTMAX);
	return 0;
}

int collector_dump_check(const struct run_options *options, char *message, size_t n_bytes)
{
	char why[160] = "";

	if (options->dump_reset && !options->dump_signal)
		snprintf(message, n_bytes, "--dump-reset needs a --dump-signal");
	else if (options->dump_signal && read_signal(options->dump_signal, why) == 0)
		snprintf(message, n_bytes, "--dump-signal: %s", why);
	else if (options->dump_signal && options->no_alloc)
		snprintf(message, n_bytes,
			 "--dump-signal needs the recording library, which --no-alloc leaves out");
	else
		return 0;
	return -EINVAL;
}

void collector_begin_dump(struct collector *collector)
{
	const struct run_options *options = collector->options;
	char why[160];

	if (!options->dump_signal)
		return;
	collector->dump.number = read_signal(options->dump_signal, why); /* it was checked */
	collector->pool->control->dump_signal = (uint32_t)collector->dump.number;
}

/* ---- What programs make of the signal ---- */

static void warn_of(struct collector *collector, const struct image *image, bool *is_said,
		    const char *what)
{
	if (!*is_said)
		collector_warn(collector, "--dump-signal %s: process %d (%.200s) %s",
			       collector->options->dump_signal, (int)image->pid, image->exe, what);
	*is_said = true;
}

static void look_at(struct collector *collector, struct image *image)
{
	struct collector_dump *dump = &collector->dump;
	bool has_slot = image->slot != IMAGE_NO_SLOT;
	uint32_t whose = has_slot ? atomic_load(&collector->pool->processes[image->slot].dump) : 0;
	bool is_blocked = whose == RING_DUMP_OURS && !dump->said_blocked &&
			  image_blocks_signal(image->pid, dump->number);

	if (whose == RING_DUMP_IN_USE)
		warn_of(collector, image, &dump->said_in_use,
			"handles or ignores the signal itself: there it makes no snapshot");
	/* For a moment libc blocks all signals in forks and births of threads. */
	if (is_blocked && image->blocks_dump)
		warn_of(collector, image, &dump->said_blocked,
			"blocks the signal: the snapshot is made when it is let through, and none "
			"where it is taken by sigwait or a signalfd");
	image->blocks_dump = is_blocked;
}

/* ---- Snapshots ---- */

static void say_snapshot(struct collector *collector, const struct snapshot *snapshot,
			 struct control_reply *answer)
{
	bool has_failed = answer->error < 0;

	(void)snapshot;
	collector->dump.n_snapshots += !has_failed;
	collector_warn(collector, "--dump-signal %s: %s%s", collector->options->dump_signal,
		       has_failed ? "" : "snapshot ", has_failed ? answer->message : answer->path);
}

/* A signal has come: all that was stamped before is to be in the snapshot. */
static void begin(struct collector *collector, uint32_t n_signals)
{
	const struct snapshot asked = { .answer = say_snapshot, .answer_fd = -1 };
	struct collector_dump *dump = &collector->dump;
	uint32_t n = n_signals - dump->n_answered;
	char text[96];
	int len =
		snprintf(text, sizeof(text), "dump-signal %.40s", collector->options->dump_signal);

	if (collector->options->dump_reset && !collector->stopped_ticks)
		collector_turn_window(collector, clock_ticks(collector->clock), text);
	if (n > 1)
		snprintf(text + len, sizeof(text) - (size_t)len, ", %u signals", n);
	collector_set_mark(collector, text);
	dump->n_answered = n_signals;
	collector_ask_snapshot(collector, &asked);
}

/* Those that come while one waits are for the next one. */
static void answer_signals(struct collector *collector)
{
	uint32_t n_signals = atomic_load(&collector->pool->control->n_dump_signals);

	if (n_signals != collector->dump.n_answered &&
	    collector_may_ask_snapshot(collector, say_snapshot))
		begin(collector, n_signals);
}

void collector_tick_dump(struct collector *collector)
{
	struct collector_dump *dump = &collector->dump;

	if (dump->number == 0)
		return;
	answer_signals(collector);
	if (collector->now_ns < dump->next_ns || collector->stopped_ticks)
		return;
	dump->next_ns = collector->now_ns + LOOK_NS;
	for (struct image *image = collector->tracker.images.first; image; image = image->next)
		look_at(collector, image);
}

void collector_end_dump(struct collector *collector)
{
	struct collector_dump *dump = &collector->dump;

	if (dump->number == 0)
		return;
	/* One that waits, and one for what has come since. */
	collector_settle_snapshots(collector);
	answer_signals(collector);
	collector_settle_snapshots(collector);
	store_counter(collector->writer, 0, "dump signals", "signals",
		      atomic_load(&collector->pool->control->n_dump_signals));
	store_counter(collector->writer, 0, "snapshots of dump signals", "snapshots",
		      dump->n_snapshots);
}
