#include "series/series.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/parse.h"

struct series *series_create(void)
{
	struct series *series = calloc(1, sizeof(*series));

	if (!series)
		return NULL;
	series->repetitions = 1;
	series->timeout_ns = SERIES_FOREVER;
	return series;
}

void series_texts_finish(struct series_texts *texts)
{
	for (size_t i = 0; i < texts->n; i++)
		free(texts->texts[i]);
	free(texts->texts);
	*texts = (struct series_texts){ 0 };
}

static void finish_workload(struct series_workload *workload)
{
	free(workload->name);
	free(workload->directory);
	free(workload->input);
	free(workload->check);
	series_texts_finish(&workload->commands);
	series_texts_finish(&workload->environment);
}

static void finish_mode(struct series_mode *mode)
{
	for (size_t i = 0; i < mode->n_settings; i++) {
		free(mode->settings[i].key);
		free(mode->settings[i].value);
	}
	free(mode->settings);
	free(mode->name);
	series_texts_finish(&mode->environment);
}

struct series *series_destroy(struct series *series)
{
	if (!series)
		return NULL;
	for (size_t i = 0; i < series->n_workloads; i++)
		finish_workload(&series->workloads[i]);
	for (size_t i = 0; i < series->n_modes; i++)
		finish_mode(&series->modes[i]);
	series_texts_finish(&series->environment);
	free(series->workloads);
	free(series->modes);
	free(series->name);
	free(series->output);
	free(series);
	return NULL;
}

int series_texts_add(struct series_texts *texts, const char *text)
{
	auto_free char *copy = strdup(text);
	char **grown = reallocarray(texts->texts, texts->n + 2, sizeof(*grown));

	if (grown)
		texts->texts = grown;
	if (!grown || !copy)
		return -ENOMEM;
	grown[texts->n++] = steal_ptr(&copy);
	grown[texts->n] = NULL;
	return 0;
}

/* Room for one more of n items. */
static void *grow(void *items, size_t n, size_t item_bytes)
{
	return reallocarray(items, n + 1, item_bytes);
}

struct series_workload *series_add_workload(struct series *series, const char *name)
{
	struct series_workload *grown =
		grow(series->workloads, series->n_workloads, sizeof(*grown));
	auto_free char *copy = strdup(name);

	if (grown)
		series->workloads = grown;
	if (!grown || !copy)
		return NULL;
	grown[series->n_workloads] = (struct series_workload){ .name = steal_ptr(&copy) };
	return &grown[series->n_workloads++];
}

struct series_mode *series_add_mode(struct series *series, const char *name)
{
	struct series_mode *grown = grow(series->modes, series->n_modes, sizeof(*grown));
	auto_free char *copy = strdup(name);

	if (grown)
		series->modes = grown;
	if (!grown || !copy)
		return NULL;
	grown[series->n_modes] = (struct series_mode){ .name = steal_ptr(&copy) };
	return &grown[series->n_modes++];
}

int series_add_setting(struct series_mode *mode, const char *key, const char *value)
{
	struct series_setting *grown = grow(mode->settings, mode->n_settings, sizeof(*grown));
	auto_free char *own_key = strdup(key);
	auto_free char *own_value = strdup(value);

	if (grown)
		mode->settings = grown;
	if (!grown || !own_key || !own_value)
		return -ENOMEM;
	grown[mode->n_settings++] =
		(struct series_setting){ steal_ptr(&own_key), steal_ptr(&own_value) };
	return 0;
}

bool series_is_mode_name(const char *name)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

	return *name && strlen(name) <= SERIES_MODE_BYTES && name[strspn(name, allowed)] == '\0';
}

int series_split(const char *line, char ***ret_words)
{
	size_t length = strlen(line), most = length / 2 + 1, n = 0;
	char **words = malloc((most + 1) * sizeof(*words) + length + 1);
	char *text = (char *)(words + most + 1);
	int err;

	if (!words)
		return -ENOMEM;
	memcpy(text, line, length + 1);
	err = parse_words(text, words, most, &n);
	if (err < 0 || n == 0) {
		free(words);
		return err < 0 ? err : -EINVAL;
	}
	words[n] = NULL;
	*ret_words = words;
	return 0;
}
