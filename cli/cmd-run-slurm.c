#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd-run.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "series/slurm.h"

#define MAX_WORDS 256

/* The command that makes one run of this series: ours, without what submits. */
struct command {
	char *words[MAX_WORDS + 1];
	size_t n;
};

static void command_finish(struct command *command)
{
	while (command->n > 0)
		free(command->words[--command->n]);
}
#define auto_command __attribute__((cleanup(command_finish)))

static int add(struct command *command, const char *word)
{
	char *copy = command->n < MAX_WORDS ? strdup(word) : NULL;

	if (!copy)
		return command->n < MAX_WORDS ? -ENOMEM : -E2BIG;
	command->words[command->n++] = copy;
	return 0;
}

/* What says how a series is submitted or looked at, not what it is. */
static bool is_of_submission(enum option_id id)
{
	static const enum option_id ids[] = { OPTION_EXECUTOR, OPTION_SBATCH_ARGS, OPTION_PARALLEL,
					      OPTION_STATUS,   OPTION_CHECK,	   OPTION_ONLY,
					      OPTION_LOG,      OPTION_NO_ANALYZE };

	return array_find(ids, COUNT_OF(ids), it, *it == id);
}

/* An option as it was given, by whatever way: a node may have another environment. */
static int add_option(struct command *command, const struct option_set *options, enum option_id id)
{
	auto_free char *word = NULL;

	if (!option_is_of(id, COMMAND_RUN) || is_of_submission(id) ||
	    options->values[id].origin <= OPTION_FROM_DEFAULT)
		return 0;
	if (asprintf(&word, "--%s=%s", option_row(id)->name, options->values[id].text) < 0)
		return -ENOMEM;
	return add(command, word);
}

static int make_command(const struct option_set *options, const char *memsight,
			struct command *command)
{
	int err = add(command, memsight) ?: add(command, "run");

	for (int id = 0; id < OPTION_COUNT && err == 0; id++)
		err = add_option(command, options, (enum option_id)id);
	for (int i = 0; i < options->n_operands && err == 0; i++)
		err = add(command, options->operands[i]);
	return err;
}

static int say(const struct cmd_series *run, const struct series_submission *submission)
{
	if (submission->n_runs == 0)
		cmd_warn("nothing is missing of %zu runs in %s", run->plan.n_items,
			 run->series->output);
	else
		cmd_warn("%zu runs submitted as job array %s of %zu elements, job %s makes "
			 "%s/memsight.db; `memsight run --status ...' shows how far they are",
			 submission->n_runs, submission->array_id, submission->n_elements,
			 submission->analyze_id, run->series->output);
	return CMD_DONE;
}

int cmd_run_slurm(struct cmd_series *run)
{
	auto_command struct command command = { .n = 0 };
	char memsight[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", memsight, sizeof(memsight) - 1);
	struct series_slurm slurm = {
		.plan = &run->plan,
		.folder = &run->folder,
		.command = command.words,
		.memsight = memsight,
		.arguments = option_text(run->options, OPTION_SBATCH_ARGS),
		.n_parallel = option_number(run->options, OPTION_PARALLEL),
		.retry = option_flag(run->options, OPTION_RETRY),
	};
	struct series_submission submission;
	int err = n < 0 ? -errno : 0;

	memsight[n < 0 ? 0 : n] = '\0';
	err = err ?: make_command(run->options, memsight, &command);
	err = err ?: series_slurm_submit(&slurm, &submission, run->message);
	if (err < 0)
		return cmd_fail("run: %s", run->message[0] ? run->message : strerror(-err));
	return say(run, &submission);
}

/* How many runs have each result. */
static void count_results(const struct cmd_series *run, size_t n[SERIES_CHECK_FAILED + 1])
{
	char name[SERIES_NAME_BYTES];

	memset(n, 0, (SERIES_CHECK_FAILED + 1) * sizeof(*n));
	for (size_t i = 0; i < run->plan.n_items; i++) {
		series_item_name(&run->plan, &run->plan.items[i], name);
		n[series_folder_result(&run->folder, name)]++;
	}
}

int cmd_run_status(struct cmd_series *run)
{
	struct series_slurm_state state;
	size_t n[SERIES_CHECK_FAILED + 1];
	int err = series_slurm_state(&run->folder, &state, run->message);

	count_results(run, n);
	printf("series %s: %zu runs in %s\n", run->series->name, run->plan.n_items,
	       run->series->output);
	for (int i = SERIES_MISSING; i <= SERIES_CHECK_FAILED; i++)
		if (n[i] > 0)
			printf("  %zu %s\n", n[i], series_result_name((enum series_result)i));
	if (err < 0)
		return cmd_fail("run: %s", run->message);
	if (state.array_id[0])
		printf("Slurm, array %s: %zu jobs run, %zu wait%s%s\n", state.array_id,
		       state.n_running, state.n_waiting, state.why[0] ? ": " : "", state.why);
	if (n[SERIES_MISSING] && state.n_running + state.n_waiting == 0)
		printf("the same command without --status does what is missing\n");
	return CMD_DONE;
}
