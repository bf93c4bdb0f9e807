#pragma once
/*
 * When recording is on: --windows. Each window is written as [CLOCK:]DELAY[:DURATION[:REPEAT]]: off
 * for DELAY, on for DURATION, and that REPEAT times. Times count from the start of the program, or
 * from what --start-after names. Pure: asks no clock.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WINDOW_PLAN_MAX 64

/* By which clock a window counts; all windows are of all processes, whatever their clock. */
enum window_clock {
	WINDOW_REAL,
	WINDOW_CPU, /* CPU time of all processes of the recording */
	WINDOW_PROCESS, /* CPU time of the program itself, without processes that it starts */
	WINDOW_THREAD, /* CPU time of the program's main thread */
	WINDOW_CLOCKS
};

/* What all clocks show at one moment, in ns. */
struct window_times {
	uint64_t ns[WINDOW_CLOCKS];
};

struct window_spec {
	enum window_clock clock;
	uint64_t delay_ns;
	uint64_t length_ns; /* WINDOW_ENDLESS: until the end */
	uint64_t repeat; /* 0: for ever */
	char text[64]; /* as it was given */
};

#define WINDOW_ENDLESS (UINT64_C(1) << 61)

struct window_plan {
	struct window_spec specs[WINDOW_PLAN_MAX];
	size_t n; /* 0: recording is on */
	bool has_clock[WINDOW_CLOCKS]; /* one of them counts by it */
};

/*
 * Read texts (NULL at the end; may be NULL), each with one or more windows with commas between.
 * Returns 0, or -EINVAL with one line in message: what is wrong, or which two overlap.
 */
int window_plan_read(const char *const *texts, struct window_plan *ret_plan, char *message,
		     size_t n_bytes);

/* What a plan says of a moment. */
struct window_moment {
	const struct window_spec *spec; /* whose window it is in; NULL: recording is off */
	/* By each clock: until the plan may say something else; UINT64_MAX: never. */
	struct window_times left;
};
struct window_moment window_plan_at(const struct window_plan *plan, const struct window_times *at);

/* How many windows have begun by then. */
uint64_t window_plan_begun(const struct window_plan *plan, const struct window_times *at);
