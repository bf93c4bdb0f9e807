#include "series/series.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
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

static void series_texts_finish(struct series_texts *texts)
{
	array_free(texts->texts, texts->n, it, free(*it));
	*texts = (struct series_texts){ 0 };
}

static void finish_workload(struct series_workload *workload)
{
	free_all(workload->name, workload->directory, workload->input, workload->check);
	series_texts_finish(&workload->commands);
	series_texts_finish(&workload->environment);
}

static void finish_mode(struct series_mode *mode)
{
	array_free(mode->settings, mode->n_settings, it, free(it->key), free(it->value));
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
	free_all(series->workloads, series->modes, series->name, series->output, series);
	return NULL;
}

int series_texts_add(struct series_texts *texts, const char *text)
{
	auto_free char *copy = strdup(text);

	if (!copy || grow_array_of(&texts->texts, texts->n, 2, sizeof(char *)) < 0)
		return -ENOMEM;
	texts->texts[texts->n++] = steal_ptr(&copy);
	texts->texts[texts->n] = NULL;
	return 0;
}

struct series_workload *series_add_workload(struct series *series, const char *name)
{
	auto_free char *copy = strdup(name);

	if (!copy || grow_array_of(&series->workloads, series->n_workloads, 1,
				   sizeof(*series->workloads)) < 0)
		return NULL;
	series->workloads[series->n_workloads] =
		(struct series_workload){ .name = steal_ptr(&copy) };
	return &series->workloads[series->n_workloads++];
}

struct series_mode *series_add_mode(struct series *series, const char *name)
{
	auto_free char *copy = strdup(name);

	if (!copy || grow_array_of(&series->modes, series->n_modes, 1, sizeof(*series->modes)) < 0)
		return NULL;
	series->modes[series->n_modes] = (struct series_mode){ .name = steal_ptr(&copy) };
	return &series->modes[series->n_modes++];
}

int series_add_setting(struct series_mode *mode, const char *key, const char *value)
{
	auto_free char *own_key = strdup(key);
	auto_free char *own_value = strdup(value);

	if (!own_key || !own_value ||
	    grow_array_of(&mode->settings, mode->n_settings, 1, sizeof(*mode->settings)) < 0)
		return -ENOMEM;
	mode->settings[mode->n_settings++] =
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

	if (!words)
		return -ENOMEM;
	memcpy(text, line, length + 1);
	int err = parse_words(text, words, most, &n);
	if (err < 0 || n == 0)
		return free(words), err < 0 ? err : -EINVAL;
	words[n] = NULL;
	*ret_words = words;
	return 0;
}
