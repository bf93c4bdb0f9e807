#pragma once
/* The modes of a series: keys of a config file through the option table of `record`. */
#include "cli/heimdallr-variables.h"
#include "cli/options/option.h"
#include "runner/run-options.h"
#include "series/config-file.h"

struct series_mode_set {
	struct option_set options;
	struct heimdallr heimdallr;
};

/* One for each mode of a series. */
struct series_modes {
	struct series_mode_set *sets;
	struct run_options *options;
	size_t n;
};

/* A series_option_check. user is a struct option_set of `record` that may be scribbled in. */
int series_modes_check(void *user, const char *key, const char *value, char *message);

/*
 * Begin a set of `record` with its defaults and variables, without a command. 0 or a negative
 * errno.
 */
int series_modes_begin(struct option_set *set);

/*
 * Work out the options of every mode. Heimdallr's variables hold for modes that do not say
 * otherwise, unless is_compat: there the mode lines have all. Returns 0, or -EINVAL with one line
 * in message.
 */
int series_modes_make(const struct series *series, bool is_compat, struct series_modes *ret_modes,
		      char *message);
void series_modes_finish(struct series_modes *modes); /* safe on a zeroed one */
