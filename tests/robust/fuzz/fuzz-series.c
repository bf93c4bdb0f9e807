/* Reads whatever bytes as the config file of a series, and lays out the runs that it asks for. */
#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "series/config-file.h"
#include "series/plan.h"
#include "tests/robust/fuzz/fuzz.h"

#define MAX_REPETITIONS 20u

/* Refuses some options and some values, as the table of `record` does. */
static int check_option(void *user, const char *key, const char *value, char *message)
{
	(void)user;
	if (strchr(key, 'q') || (value && strchr(value, '?'))) {
		snprintf(message, SERIES_MESSAGE_BYTES, "no option --%s", key);
		return -EINVAL;
	}
	return 0;
}

/*
 * Whether all command lines can be split; false where one would look for files: they are not the
 * input's.
 */
static bool split_commands(const struct series *series)
{
	bool is_plain = true;

	for (size_t i = 0; i < series->n_workloads; i++) {
		const struct series_texts *commands = &series->workloads[i].commands;

		for (size_t j = 0; j < commands->n; j++) {
			char **words = NULL;
			if (series_split(commands->texts[j], &words) == 0)
				FUZZ_REQUIRE(words && words[0]);
			free(words);
			is_plain = is_plain && !strpbrk(commands->texts[j], "*?[{~");
		}
	}
	return is_plain;
}

static void lay_out(const struct series *series)
{
	char message[SERIES_MESSAGE_BYTES] = "", name[SERIES_NAME_BYTES];
	struct series_plan plan = { 0 };

	if (series->repetitions > MAX_REPETITIONS)
		return;
	int r = series_plan_make(series, 1, &plan, message);
	FUZZ_REQUIRE(r == 0 || r == -ENOMEM || message[0]);
	for (size_t i = 0; r == 0 && i < plan.n_items; i++) {
		FUZZ_REQUIRE(plan.items[i].program < plan.n_programs);
		FUZZ_REQUIRE(plan.items[i].mode < series->n_modes);
		series_item_name(&plan, &plan.items[i], name);
	}
	if (r == 0)
		FUZZ_REQUIRE(plan.n_items ==
			     plan.n_programs * series->n_modes * series->repetitions);
	series_plan_finish(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	struct series_file_reader reader = { check_option, NULL };
	char path[FUZZ_PATH_BYTES], message[SERIES_MESSAGE_BYTES] = "";
	auto_series struct series *series = NULL;
	auto_close __attribute__((unused)) int fd = fuzz_file_open(bytes, n_bytes, path);
	int r = series_file_read(path, &reader, &series, message);

	FUZZ_REQUIRE((r == 0) == (series != NULL));
	FUZZ_REQUIRE(r == 0 || (message[0] && !strchr(message, '\n')));
	if (r == 0 && split_commands(series))
		lay_out(series);
	return 0;
}
