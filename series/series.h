#pragma once
/*
 * A series of runs: which programs, in which modes, how often, in which order. Read from a config
 * file (config-file.h) or from Heimdallr's command line (heimdallr-command.h), laid out by plan.h,
 * carried out by run.h. All strings are owned by the series.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SERIES_MESSAGE_BYTES 512
#define SERIES_MODE_BYTES    64 /* the longest name of a mode */
#define SERIES_FOREVER	     INT64_MAX

enum series_order {
	SERIES_ORDER_BLOCKS, /* each repetition is a block of all programs and modes, shuffled */
	SERIES_ORDER_SEQUENTIAL, /* program by program, mode by mode */
	SERIES_ORDER_WITHIN_MODE, /* mode by mode; programs and repetitions shuffled inside */
};

/* Strings, NULL behind the last. */
struct series_texts {
	char **texts;
	size_t n;
};

/* A key of a [mode] that is an option of `record`. */
struct series_setting {
	char *key;
	char *value;
};

struct series_workload {
	char *name; /* of the section */
	struct series_texts commands; /* each a whole command line, as written */
	char *directory; /* NULL: where memsight was started */
	struct series_texts environment; /* NAME=VALUE */
	char *input; /* file for standard input; NULL: /dev/null */
	char *check; /* command that looks at the output; NULL: none */
	int expected_status; /* exit status of success */
};

struct series_mode {
	char *name; /* [A-Za-z0-9_]+ */
	bool is_dry; /* the natural program: nothing preloaded, nothing sampled */
	struct series_setting *settings;
	size_t n_settings;
	struct series_texts environment;
};

struct series {
	char *name;
	char *output; /* folder of the results */
	uint32_t repetitions;
	uint32_t warm_ups; /* of each workload, before the first block; not kept */
	uint64_t seed;
	bool has_seed; /* else one is drawn when the series begins */
	enum series_order order;
	bool is_compat; /* from Heimdallr's command line: programs are named as there */
	int64_t timeout_ns; /* of one run; SERIES_FOREVER */
	int64_t cool_down_ns; /* rest after each run */
	struct series_texts environment;
	struct series_workload *workloads;
	size_t n_workloads;
	struct series_mode *modes;
	size_t n_modes;
};

/* An empty series with the defaults: 1 repetition, blocks, no timeout. */
struct series *series_create(void);
struct series *series_destroy(struct series *series); /* accepts NULL, returns NULL */

static inline void series_cleanup(struct series **series)
{
	*series = series_destroy(*series);
}
#define auto_series __attribute__((cleanup(series_cleanup)))

/* Append a copy of text. 0 or -ENOMEM. */
int series_texts_add(struct series_texts *texts, const char *text);

/* Append a workload or mode of this name, to be filled in by the caller; NULL without memory. */
struct series_workload *series_add_workload(struct series *series, const char *name);
struct series_mode *series_add_mode(struct series *series, const char *name);
int series_add_setting(struct series_mode *mode, const char *key, const char *value);

/* Whether a name can stand in PROGRAM.MODE.N: letters, digits and _, at most 64. */
bool series_is_mode_name(const char *name);

/*
 * Split a command line into words as a shell does, without expansion. *ret_words is one allocation
 * with its strings: free it. 0, -EINVAL (a quote is not closed, or no word), -ENOMEM.
 */
int series_split(const char *line, char ***ret_words);
