#pragma once
/*
 * --trigger: conditions such as live>2G, and what they are of. Pure: asks no clock, does nothing.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRIGGERS_MAX	16
#define TRIGGER_POINTS	64u
#define TRIGGER_MESSAGE 256

/* What a recording is like now. */
struct trigger_measures {
	uint64_t now_ns; /* CLOCK_MONOTONIC */
	uint64_t live_bytes;
	uint64_t old_bytes;
	uint64_t n_allocations; /* so far */
	uint64_t n_events; /* births and ends of blocks so far */
	uint64_t rss_bytes; /* of all processes */
	uint64_t limit_bytes; /* what rss>N% is a part of */
};

enum trigger_kind {
	TRIGGER_LIVE,
	TRIGGER_RSS,
	TRIGGER_RATE,
	TRIGGER_LEAKED,
	TRIGGER_GROWTH,
	TRIGGER_IDLE,
	/* Of the program's end: */
	TRIGGER_EXIT,
	TRIGGER_CRASH,
	TRIGGER_OOM,
	TRIGGER_KINDS
};

struct trigger {
	enum trigger_kind kind;
	char text[64]; /* as it was given */
	double bound; /* bytes, allocations, or ns of idle>; of rss>N%: a part of 1 */
	bool is_part; /* of the limit */
	uint64_t span_ns; /* rate and growth: in which it must grow by so much; 0: none */
	uint64_t fired_ns; /* 0: never */
	/* rate and growth: values in time; point i is at i % TRIGGER_POINTS */
	struct {
		uint64_t ns;
		uint64_t value;
	} points[TRIGGER_POINTS];
	uint64_t n_points; /* that were ever taken */
	uint64_t changed_ns; /* idle: when an event was seen last */
	uint64_t last_events;
};

struct triggers {
	struct trigger items[TRIGGERS_MAX];
	size_t n;
};

/*
 * Read texts (NULL at the end; may be NULL), each one condition. Returns 0, or -EINVAL with one
 * line in message.
 */
int triggers_read(const char *const *texts, struct triggers *ret_triggers,
		  char message[TRIGGER_MESSAGE]);

/* Whether one of them needs the live totals, or the memory limit. */
bool trigger_needs_totals(const struct trigger *trigger);

/* Whether it is about how the program ends; such a one never holds before. */
bool trigger_is_of_end(const struct trigger *trigger);

/*
 * Whether a condition of the end holds: status is as from wait() (-1: not known), was_oom: the
 * kernel has killed something for want of memory. ret_value: how it ended, for a person.
 */
bool trigger_is_end(const struct trigger *trigger, int status, bool was_oom,
		    char ret_value[static 32]);

/*
 * Whether a condition holds now; ret_value (at least 32 bytes) is what was measured, for a person.
 * To be asked again and again, some ten times a second.
 */
bool trigger_holds(struct trigger *trigger, const struct trigger_measures *now,
		   char ret_value[static 32]);

/* Of --old-after and --cooldown (NULL: 60 s), in ns; 0: it is no time of a second or more. */
uint64_t trigger_time_ns(const char *text);

#define TRIGGER_SNAPSHOT "snapshot"

/*
 * Of an action (--on-trigger): the length of the window that it begins; 0: it is another one,
 * -EINVAL: it has none. Whether it is a command of the shell.
 */
int64_t trigger_window_ns(const char *action);
bool trigger_is_command(const char *action);

/* Of all actions, NULL at the end (may be NULL): is there a window, and which is the command? */
bool triggers_begin_windows(const char *const *actions);
const char *triggers_command(const char *const *actions);
