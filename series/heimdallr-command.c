#include "series/heimdallr-command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "common/parse.h"
#include "common/text.h"

#define MAX_FILE_BYTES	  (1u << 20)
#define DEFAULT_DIR	  "/mnt/pmem"
#define DEFAULT_SIZE	  "4G"
#define DEFAULT_THRESHOLD "0x1000"

/* The words of a mode line. */
enum field { MODE, HMS, MEM, CPU, DRY, FREQ, N_FIELDS };

#define complain(message, ...) text_refuse(-EINVAL, message, SERIES_MESSAGE_BYTES, __VA_ARGS__)

static int add_program(struct series *series, const char *line, size_t number, char *message)
{
	auto_free char **words = NULL;
	char name[32];
	int err = series_split(line, &words);

	if (err == -EINVAL)
		return complain(message, "'%s' is no command line", line);
	snprintf(name, sizeof(name), "%zu", number);
	struct series_workload *workload = err == 0 ? series_add_workload(series, name) : NULL;
	return workload ? series_texts_add(&workload->commands, line) : -ENOMEM;
}

int series_compat(char *const *operands, size_t n, struct series **ret_series, char *message)
{
	auto_series struct series *series = series_create();
	uint64_t count;
	int err = 0;

	if (!series)
		return -ENOMEM;
	if (n < 3)
		return complain(message, "--compat wants RESULTS COUNT COMMAND...");
	if (parse_number(operands[1], &count) < 0 || count == 0 || count > 1000000)
		return complain(message, "'%s' is no number of runs", operands[1]);
	series->repetitions = (uint32_t)count;
	series->order = SERIES_ORDER_WITHIN_MODE;
	series->is_compat = true;
	series->output = strdup(operands[0]);
	series->name = strdup("compat");
	for (size_t i = 2; i < n && err == 0; i++)
		err = add_program(series, operands[i], i - 1, message);
	if (err < 0 || !series->output || !series->name)
		return err < 0 ? err : -ENOMEM;
	*ret_series = steal_ptr(&series);
	return 0;
}

static const char *variable(const char *name, const char *otherwise)
{
	const char *value = getenv(name);

	return value && *value ? value : otherwise;
}

/* A size that may be 0x hex; 0 means what its absence means. */
static const char *size_variable(const char *name, const char *otherwise, char text[24])
{
	const char *value = variable(name, otherwise);
	char *end;
	unsigned long long number;

	if (strncmp(value, "0x", 2) != 0)
		return strcmp(value, "0") == 0 ? otherwise : value;
	number = strtoull(value, &end, 16);
	if (*end || number == 0)
		return otherwise;
	snprintf(text, 24, "%llu", number);
	return text;
}

static int add_heap(struct series_mode *mode)
{
	char number[24], heap[4096];

	snprintf(heap, sizeof(heap), "pmem:%s,%s", variable("HEIMDALLR_PMEMDIR", DEFAULT_DIR),
		 size_variable("HEIMDALLR_PMEMSIZE", DEFAULT_SIZE, number));
	return series_add_setting(mode, "heap", heap);
}

static int add_threshold(struct series_mode *mode, bool has_heap)
{
	char number[24];
	const char *threshold = variable("TRAC_THRESHOLD", DEFAULT_THRESHOLD);

	if (strncmp(threshold, "0x", 2) == 0) {
		snprintf(number, sizeof(number), "%llu", strtoull(threshold, NULL, 16));
		threshold = number;
	}
	int err = series_add_setting(mode, "min-size", threshold);
	return err == 0 && has_heap ? series_add_setting(mode, "heap-min", threshold) : err;
}

static bool is_node(const char *word)
{
	return *word && strcmp(word, "-") != 0;
}

static int add_nodes(struct series_mode *mode, char *const fields[N_FIELDS], bool records)
{
	char buffers[64];
	int err = 0;

	if (is_node(fields[MEM]))
		err = series_add_setting(mode, "membind", fields[MEM]);
	if (err == 0 && is_node(fields[MEM]) && records) {
		snprintf(buffers, sizeof(buffers), "node:%.50s", fields[MEM]);
		err = series_add_setting(mode, "buffers", buffers);
	}
	if (err == 0 && is_node(fields[CPU]))
		err = series_add_setting(mode, "cpunodebind", fields[CPU]);
	return err;
}

static int add_sampler(struct series_mode *mode, const char *freq, bool samples)
{
	int err = series_add_setting(mode, "source", samples ? "auto" : "none");

	return err == 0 && samples ? series_add_setting(mode, "freq", freq) : err;
}

static int fill_mode(struct series_mode *mode, char *const fields[N_FIELDS],
		     const uint64_t *numbers)
{
	bool is_dry = numbers[DRY] > 0, samples = numbers[FREQ] > 0;
	bool has_heap = !is_dry && numbers[HMS] > 0;
	int err = add_nodes(mode, fields, !is_dry);

	mode->is_dry = is_dry && !samples;
	if (err < 0 || mode->is_dry)
		return err;
	err = add_sampler(mode, fields[FREQ], samples);
	if (err == 0 && is_dry)
		err = series_add_setting(mode, "no-alloc", "yes");
	if (err == 0 && !is_dry)
		err = add_threshold(mode, has_heap);
	return err == 0 && has_heap ? add_heap(mode) : err;
}

static int check_fields(char *const fields[N_FIELDS], uint64_t *numbers, const char *line,
			char *message)
{
	static const enum field number_fields[] = { HMS, DRY, FREQ };

	if (!series_is_mode_name(fields[MODE]))
		return complain(message, "'%s': a mode's name has letters, digits and _ only",
				fields[MODE]);
	for (size_t i = 0; i < 3; i++) {
		if (parse_number(fields[number_fields[i]], &numbers[number_fields[i]]) < 0)
			return complain(message, "'%s': hms, dry and freq are numbers", line);
	}
	if (numbers[FREQ] > 100000)
		return complain(message, "'%s': freq is at most 100000 Hz", line);
	return 0;
}

int series_compat_mode(struct series *series, const char *line, char *message)
{
	auto_free char **fields = NULL;
	uint64_t numbers[N_FIELDS] = { 0 };
	size_t n = 0;
	int err = series_split(line, &fields);

	while (err == 0 && fields[n])
		n++;
	if (err == -ENOMEM)
		return err;
	if (err < 0 || n != N_FIELDS)
		return complain(message, "'%s' is no mode: it wants `mode hms mem cpu dry freq'",
				line);
	err = check_fields(fields, numbers, line, message);
	for (size_t i = 0; i < series->n_modes && err == 0; i++) {
		if (strcmp(series->modes[i].name, fields[MODE]) == 0)
			err = complain(message, "there are two modes '%s'", fields[MODE]);
	}
	if (err < 0)
		return err;
	struct series_mode *mode = series_add_mode(series, fields[MODE]);
	return mode ? fill_mode(mode, fields, numbers) : -ENOMEM;
}

int series_compat_modes(struct series *series, const char *path, char *message)
{
	auto_free char *text = NULL;
	char *rest, *line;
	int err = io_read_file(path, MAX_FILE_BYTES, &text, NULL);

	if (err < 0) {
		complain(message, "cannot read %.300s: %s", path, strerror(-err));
		return err;
	}
	rest = text;
	while (err == 0 && (line = strsep(&rest, "\n"))) {
		line += strspn(line, " \t\r");
		line[strcspn(line, "\r")] = '\0';
		if (*line && *line != '#')
			err = series_compat_mode(series, line, message);
	}
	if (err == 0 && series->n_modes == 0)
		err = complain(message, "%.300s has no mode line", path);
	return err;
}
