#include "cli/series-text.h"

#include <inttypes.h>
#include <string.h>

#include "cli/cmd.h"

#define NS_PER_S       1e9
#define BAR_COLUMNS    20
#define MAX_PLAN_RUNS  20
#define MAX_FAILURES   20
#define DURATION_BYTES 32

static const char *const orders[] = {
	[SERIES_ORDER_BLOCKS] = "blocks: each repetition has every program and mode once, shuffled",
	[SERIES_ORDER_SEQUENTIAL] = "sequential: program by program, mode by mode",
	[SERIES_ORDER_WITHIN_MODE] = "shuffle-within-mode: mode by mode, shuffled inside",
};

/* ---- The plan ---- */

static void put_words(FILE *to, char *const *words)
{
	for (; *words; words++) {
		bool is_plain = **words && !strpbrk(*words, " \t\n'\"\\$`&|;<>()*?[]#~");

		fprintf(to, is_plain ? " %s" : " '%s'", *words);
	}
	fputc('\n', to);
}

static void put_programs(FILE *to, const struct series_plan *plan)
{
	for (size_t i = 0; i < plan->n_programs; i++) {
		const struct series_program *program = &plan->programs[i];

		fprintf(to, "  program %s:", program->name);
		put_words(to, program->words);
	}
}

static void put_modes(FILE *to, const struct series *series)
{
	for (size_t i = 0; i < series->n_modes; i++) {
		const struct series_mode *mode = &series->modes[i];

		fprintf(to, "  mode %s:%s", mode->name,
			mode->is_dry ? " the natural program, timed" : "");
		for (size_t s = 0; s < mode->n_settings; s++)
			fprintf(to, " --%s=%s", mode->settings[s].key, mode->settings[s].value);
		if (!mode->is_dry && mode->n_settings == 0)
			fputs(" as `memsight record' does by default", to);
		fputc('\n', to);
	}
}

static void put_order(FILE *to, const struct series_plan *plan)
{
	char name[SERIES_NAME_BYTES];

	fprintf(to, "order %s\n", orders[plan->series->order]);
	for (size_t i = 0; i < plan->n_items && i < MAX_PLAN_RUNS; i++) {
		series_item_name(plan, &plan->items[i], name);
		fprintf(to, "  %zu. %s\n", i + 1, name);
	}
	if (plan->n_items > MAX_PLAN_RUNS)
		fprintf(to, "  ... and %zu more\n", plan->n_items - MAX_PLAN_RUNS);
}

void series_text_plan(FILE *to, const struct series_plan *plan)
{
	const struct series *series = plan->series;

	fprintf(to,
		"series %s: %zu program%s x %zu mode%s x %" PRIu32
		" repetition%s = %zu runs into %s\n",
		series->name, plan->n_programs, plan->n_programs == 1 ? "" : "s", series->n_modes,
		series->n_modes == 1 ? "" : "s", series->repetitions,
		series->repetitions == 1 ? "" : "s", plan->n_items, series->output);
	put_programs(to, plan);
	put_modes(to, series);
	if (series->warm_ups)
		fprintf(to, "each program runs %" PRIu32 " time%s before, by itself, to warm up\n",
			series->warm_ups, series->warm_ups == 1 ? "" : "s");
	fprintf(to, "seed %" PRIu64 "\n", plan->seed);
	put_order(to, plan);
}

/* ---- Progress ---- */

/* 7.3 s, 4 min 12 s, 2 h 05 min. */
static const char *duration(int64_t ns, char text[DURATION_BYTES])
{
	int64_t seconds = ns / 1000000000;

	if (ns < 0)
		snprintf(text, DURATION_BYTES, "?");
	else if (ns < 1000000000)
		snprintf(text, DURATION_BYTES, "%.1f ms", (double)ns / 1e6);
	else if (seconds < 60)
		snprintf(text, DURATION_BYTES, "%.1f s", (double)ns / NS_PER_S);
	else if (seconds < 3600)
		snprintf(text, DURATION_BYTES, "%d min %02d s", (int)(seconds / 60),
			 (int)(seconds % 60));
	else
		snprintf(text, DURATION_BYTES, "%" PRId64 " h %02d min", seconds / 3600,
			 (int)(seconds / 60 % 60));
	return text;
}

static void put_bar(const struct series_text *text, const struct series_progress *progress)
{
	size_t n = progress->n_earlier + progress->n_done;
	int filled = (int)(BAR_COLUMNS * n / (progress->n_all ? progress->n_all : 1));
	char elapsed[DURATION_BYTES], left[DURATION_BYTES], line[512];

	snprintf(line, sizeof(line), "[%.*s%.*s] %zu/%zu  %s  %s, %s left", filled,
		 "####################", BAR_COLUMNS - filled, "....................", n,
		 progress->n_all, progress->name, duration(progress->elapsed_ns, elapsed),
		 duration(progress->left_ns, left));
	fprintf(stderr, "\r\033[K%.*s", (int)text->columns - 1, line);
	fflush(stderr);
}

static void put_line(FILE *to, const struct series_progress *progress)
{
	const struct series_outcome *outcome = progress->outcome;
	char wall[DURATION_BYTES];

	fprintf(to, "%zu/%zu %s: %s, %s", progress->n_earlier + progress->n_done, progress->n_all,
		progress->name, series_result_name(outcome->result),
		duration((int64_t)outcome->wall_ns, wall));
	if (outcome->result != SERIES_OK)
		fprintf(to, ", exit status %d%s%s", outcome->exit_status,
			outcome->problem[0] ? ": " : "", outcome->problem);
	fputc('\n', to);
	fflush(to);
}

void series_text_progress(void *user, const struct series_progress *progress)
{
	const struct series_text *text = user;
	bool has_failed = progress->outcome && progress->outcome->result != SERIES_OK;

	if (text->log && progress->outcome)
		put_line(text->log, progress);
	if (text->is_quiet)
		return;
	if (text->is_terminal && has_failed)
		fputs("\r\033[K", stderr);
	if (progress->outcome && (!text->is_terminal || has_failed))
		put_line(stderr, progress);
	if (text->is_terminal)
		put_bar(text, progress);
	if (text->is_terminal && progress->n_earlier + progress->n_done == progress->n_all)
		fputs("\r\033[K", stderr);
}

void series_text_warn(void *user, const char *line)
{
	const struct series_text *text = user;

	if (text->is_terminal && !text->is_quiet)
		fputs("\r\033[K", stderr);
	if (text->log)
		fprintf(text->log, "%s\n", line);
	cmd_warn("%s", line);
}

void series_text_failures(const struct series_plan *plan, const struct series_folder *folder)
{
	char name[SERIES_NAME_BYTES];
	size_t n = 0;

	for (size_t i = 0; i < plan->n_items; i++) {
		series_item_name(plan, &plan->items[i], name);

		enum series_result result = series_folder_result(folder, name);

		if (result == SERIES_OK || result == SERIES_MISSING)
			continue;
		if (n++ < MAX_FAILURES)
			cmd_warn("%s: %s (%s/%s/" SERIES_RUN_FILE ", stderr)", name,
				 series_result_name(result), plan->series->output, name);
	}
	if (n > MAX_FAILURES)
		cmd_warn("... and %zu more", n - MAX_FAILURES);
}
