#include "cli/series-modes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/record-options.h"

/* What the series says itself, of each run. */
static const char *const own[] = { "output", "dir", "force", "report", "quiet", "help" };

int series_modes_begin(struct option_set *set)
{
	static char program[] = "true";
	char *words[] = { program, NULL };

	return option_parse(COMMAND_RECORD, 1, words, set);
}

int series_modes_check(void *user, const char *key, const char *value, char *message)
{
	struct option_set *scratch = user;
	int r;

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		if (strcmp(key, own[i]) == 0) {
			snprintf(message, SERIES_MESSAGE_BYTES,
				 "'%s' is the series' own, not a mode's", key);
			return -EINVAL;
		}
	}
	r = option_assign(scratch, key, value, OPTION_FROM_FILE);
	if (r == -EINVAL)
		snprintf(message, SERIES_MESSAGE_BYTES, "%s", scratch->message);
	return r;
}

static int fill(struct series_mode_set *set, const struct series_mode *mode, bool is_compat)
{
	int r = series_modes_begin(&set->options);

	for (size_t i = 0; i < mode->n_settings && r == 0; i++)
		r = option_assign(&set->options, mode->settings[i].key, mode->settings[i].value,
				  OPTION_FROM_FILE);
	return r == 0 && !is_compat ? heimdallr_read(&set->options, &set->heimdallr) : r;
}

int series_modes_make(const struct series *series, bool is_compat, struct series_modes *ret_modes,
		      char *message)
{
	struct series_modes modes = { calloc(series->n_modes, sizeof(*modes.sets)),
				      calloc(series->n_modes, sizeof(*modes.options)),
				      series->n_modes };
	int r = modes.sets && modes.options ? 0 : -ENOMEM;

	for (size_t i = 0; i < series->n_modes && r == 0; i++) {
		r = fill(&modes.sets[i], &series->modes[i], is_compat);
		modes.options[i] = record_options_of(&modes.sets[i].options);
		if (r < 0)
			snprintf(message, SERIES_MESSAGE_BYTES, "mode %s: %s",
				 series->modes[i].name,
				 r == -EINVAL ? modes.sets[i].options.message : strerror(-r));
	}
	if (r < 0) {
		series_modes_finish(&modes);
		return r;
	}
	*ret_modes = modes;
	return 0;
}

void series_modes_finish(struct series_modes *modes)
{
	for (size_t i = 0; modes->sets && i < modes->n; i++) {
		heimdallr_finish(&modes->sets[i].heimdallr);
		option_finish(&modes->sets[i].options);
	}
	free(modes->sets);
	free(modes->options);
	*modes = (struct series_modes){ 0 };
}
