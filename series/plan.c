#include "series/plan.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"

#define MAX_NAME_BYTES 150 /* of a program: leaves room for MODE and N in a folder's name */

/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* A number below n, each as likely as another. */
static uint64_t random_below(uint64_t *state, uint64_t n)
{
	uint64_t most = UINT64_MAX - UINT64_MAX % n, number;

	do {
		number = next_random(state);
	} while (number >= most);
	return number % n;
}

static void shuffle(struct series_item *items, size_t n, uint64_t seed)
{
	for (size_t i = n; i > 1; i--) {
		size_t j = random_below(&seed, i);
		struct series_item item = items[i - 1];

		items[i - 1] = items[j];
		items[j] = item;
	}
}

/* ---- Programs ---- */

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* The program of this name, or NULL. */
static const struct series_program *find_program(const struct series_plan *plan, const char *name)
{
	return array_find(plan->programs, plan->n_programs, it, strcmp(it->name, name) == 0);
}

/* Whether a name belongs to another section: its own, or that of a program of it. */
static bool is_others(const struct series_plan *plan, const struct series_workload *workload,
		      const char *name)
{
	const struct series *series = plan->series;
	const struct series_program *program = find_program(plan, name);

	if (program && program->workload != workload)
		return true;
	for (size_t i = 0; i < series->n_workloads && !series->is_compat; i++) {
		if (&series->workloads[i] != workload &&
		    strcmp(series->workloads[i].name, name) == 0)
			return true;
	}
	return false;
}

/*
 * base, where it is free; SECTION-base where another section has it; the section's second one is
 * NAME-2.
 */
static int name_program(const struct series_plan *plan, const struct series_workload *workload,
			const char *base, char name[SERIES_NAME_BYTES])
{
	char first[SERIES_NAME_BYTES];
	bool has_section = !plan->series->is_compat && is_others(plan, workload, base);
	int n = snprintf(first, sizeof(first), "%s%s%s", has_section ? workload->name : "",
			 has_section ? "-" : "", base);

	if (n > MAX_NAME_BYTES - 4)
		return -EINVAL;
	snprintf(name, SERIES_NAME_BYTES, "%s", first);
	for (unsigned i = 2; find_program(plan, name) || is_others(plan, workload, name); i++)
		snprintf(name, SERIES_NAME_BYTES, "%.140s-%u", first, i);
	return 0;
}

static int add_program(struct series_plan *plan, struct series_program *program)
{
	if (grow_array_of(&plan->programs, plan->n_programs, 1, sizeof(*plan->programs)) < 0)
		return free(program->words), -ENOMEM;
	plan->programs[plan->n_programs++] = *program;
	return 0;
}

/* The words of line with another first one. One allocation, as series_split() makes it. */
static int replace_first(const char *line, const char *first, char ***ret_words)
{
	auto_free char **words = NULL;
	size_t n = 0, n_bytes = strlen(first) + 1;
	int err = series_split(line, &words);

	if (err < 0)
		return err;
	for (; words[n]; n++)
		n_bytes += strlen(words[n]) + 1;

	char **copy = malloc((n + 1) * sizeof(*copy) + n_bytes);
	char *text = (char *)(copy + n + 1);

	if (!copy)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		copy[i] = text;
		text = stpcpy(text, i == 0 ? first : words[i]) + 1;
	}
	copy[n] = NULL;
	*ret_words = copy;
	return 0;
}

/* What a command line of a workload is called: by its section where that says it all. */
struct naming {
	const struct series_workload *workload;
	const char *line;
	bool is_single;
	char *message;
};

/* base and the arguments of line, without what has no place in a folder's name. */
static void add_arguments(const struct naming *naming, const char *base, char name[MAX_NAME_BYTES])
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	const char *rest = naming->line + strcspn(naming->line, " \t");
	size_t n = (size_t)snprintf(name, MAX_NAME_BYTES, "%.100s", base);

	for (; *rest && n < MAX_NAME_BYTES - 8; rest++) {
		if (strchr(allowed, *rest))
			name[n++] = *rest;
	}
	name[n] = '\0';
}

static int add_command(struct series_plan *plan, const struct naming *naming, const char *file)
{
	struct series_program program = { .workload = naming->workload };
	const char *base = naming->is_single ? naming->workload->name : base_of(file);
	char name[MAX_NAME_BYTES];

	if (plan->series->is_compat) { /* arguments are in the name: "foo-n3" of "./foo -n 3" */
		add_arguments(naming, base, name);
		base = name;
	}
	int err = name_program(plan, naming->workload, base, program.name);
	if (err < 0)
		snprintf(naming->message, SERIES_MESSAGE_BYTES,
			 "the name '%.200s' is too long for a folder", base);
	err = err ?: replace_first(naming->line, file, &program.words);
	return err < 0 ? err : add_program(plan, &program);
}

/* Patterns are looked for where the workload runs. */
static int find_files(const struct series_workload *workload, const char *pattern, glob_t *ret)
{
	char path[PATH_MAX];

	if (workload->directory && pattern[0] != '/')
		snprintf(path, sizeof(path), "%s/%s", workload->directory, pattern);
	else
		snprintf(path, sizeof(path), "%s", pattern);
	int r = glob(path, GLOB_BRACE | (workload->directory ? 0 : GLOB_TILDE), NULL, ret);
	return r == GLOB_NOMATCH ? -ENOENT : r ? -ENOMEM : 0;
}

static int expand_command(struct series_plan *plan, struct naming *naming)
{
	auto_free char **words = NULL;
	glob_t files = { 0 };
	int err = series_split(naming->line, &words);

	if (err < 0)
		return err;
	if (!strpbrk(words[0], "*?[{"))
		return add_command(plan, naming, words[0]);
	err = find_files(naming->workload, words[0], &files);
	if (err == -ENOENT)
		snprintf(naming->message, SERIES_MESSAGE_BYTES,
			 "[workload %.100s]: no file fits '%.300s'", naming->workload->name,
			 words[0]);
	naming->is_single = naming->is_single && files.gl_pathc == 1;
	/* Found below the folder, run in it. */
	size_t skip = naming->workload->directory && words[0][0] != '/'
			      ? strlen(naming->workload->directory) + 1
			      : 0;
	for (size_t i = 0; i < files.gl_pathc && err == 0; i++)
		err = add_command(plan, naming, files.gl_pathv[i] + skip);
	globfree(&files);
	return err;
}

static int expand_workload(struct series_plan *plan, const struct series_workload *workload,
			   char *message)
{
	int err = 0;

	for (size_t i = 0; i < workload->commands.n && err == 0; i++) {
		struct naming naming = { workload, workload->commands.texts[i],
					 workload->commands.n == 1 && !plan->series->is_compat,
					 message };

		err = expand_command(plan, &naming);
	}
	return err;
}

/* ---- Order ---- */

/* How many runs stand next to each other in one draw, and what decides about their order. */
static void order_items(struct series_plan *plan)
{
	size_t n_pairs = plan->n_programs * plan->series->n_modes;
	size_t n_block = plan->series->order == SERIES_ORDER_BLOCKS
				 ? n_pairs
				 : plan->n_programs * plan->series->repetitions;

	if (plan->series->order == SERIES_ORDER_SEQUENTIAL)
		return;
	for (size_t i = 0; i < plan->n_items; i += n_block) {
		uint64_t state = plan->seed + i / n_block;

		shuffle(plan->items + i, n_block, next_random(&state));
	}
}

/* The place of a run before anything is shuffled. */
static size_t place_of(const struct series_plan *plan, uint32_t program, uint32_t mode,
		       uint32_t repetition)
{
	const struct series *series = plan->series;
	size_t n = series->repetitions, n_modes = series->n_modes;

	switch (series->order) {
	case SERIES_ORDER_BLOCKS:
		return (repetition * plan->n_programs + program) * n_modes + mode;
	case SERIES_ORDER_WITHIN_MODE:
		return (mode * n + repetition) * plan->n_programs + program;
	default:
		return (program * n_modes + mode) * n + repetition;
	}
}

static int lay_out(struct series_plan *plan)
{
	const struct series *series = plan->series;

	plan->n_items = plan->n_programs * series->n_modes * series->repetitions;
	plan->items = calloc(plan->n_items, sizeof(*plan->items));
	if (!plan->items)
		return -ENOMEM;
	for (uint32_t p = 0; p < plan->n_programs; p++)
		for (uint32_t m = 0; m < series->n_modes; m++)
			for (uint32_t n = 0; n < series->repetitions; n++)
				plan->items[place_of(plan, p, m, n)] =
					(struct series_item){ p, m, n + 1 };
	order_items(plan);
	return 0;
}

int series_plan_make(const struct series *series, uint64_t seed, struct series_plan *ret_plan,
		     char *message)
{
	struct series_plan plan = { .series = series, .seed = seed };
	int err = 0;

	for (size_t i = 0; i < series->n_workloads && err == 0; i++)
		err = expand_workload(&plan, &series->workloads[i], message);
	err = err ?: lay_out(&plan);
	if (err < 0)
		return series_plan_finish(&plan), err;
	*ret_plan = plan;
	return 0;
}

void series_plan_finish(struct series_plan *plan)
{
	array_free(plan->programs, plan->n_programs, it, free(it->words));
	free(plan->items);
	*plan = (struct series_plan){ 0 };
}

void series_item_name(const struct series_plan *plan, const struct series_item *item,
		      char ret_name[SERIES_NAME_BYTES])
{
	snprintf(ret_name, SERIES_NAME_BYTES, "%.150s.%.90s.%" PRIu32,
		 plan->programs[item->program].name, plan->series->modes[item->mode].name,
		 item->repetition);
}
