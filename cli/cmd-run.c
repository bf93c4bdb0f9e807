#include "cli/cmd-run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>

#include "cli/cmd.h"
#include "cli/database.h"
#include "cli/functions-table.h"
#include "cli/options/record-options.h"
#include "cli/series-text.h"
#include "common/cleanup.h"
#include "common/parse.h"
#include "common/text.h"
#include "runner/placement/placement.h"
#include "runner/run-command.h"
#include "series/heimdallr-command.h"
#include "series/execute.h"

/* What the series says itself, of each run. */
static const char *const own[] = { "output",  "dir",   "force", "report-on-exit",
				   "analyze", "quiet", "help",	"functions-dry-run",
				   "format" };

/*
 * Begin a set of `record` with its defaults and variables, without a command. 0 or a negative
 * errno.
 */
static int series_modes_begin(struct option_set *set)
{
	static char program[] = "true";
	char *words[] = { program, NULL };

	return option_parse(COMMAND_RECORD, 1, words, set);
}

/* Files are named from where the series is started; its runs have folders of their own. */
static int assign(struct option_set *set, const char *key, const char *value)
{
	bool is_file = strcmp(key, option_row(OPTION_FUNCTION_LIST)->name) == 0 ||
		       strcmp(key, option_row(OPTION_LOAD)->name) == 0;
	char *path = is_file ? realpath(value, NULL) : NULL;
	int r = path ? option_keep(set, path) : 0;

	return r < 0 ? r : option_assign(set, key, path ? path : value, OPTION_FROM_FILE);
}

/* A series_option_check. user is a struct option_set of `record` that may be scribbled in. */
static int series_modes_check(void *user, const char *key, const char *value, char *message)
{
	struct option_set *scratch = user;

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		if (strcmp(key, own[i]) == 0)
			return text_refuse(-EINVAL, message, SERIES_MESSAGE_BYTES,
					   "'%s' is the series' own, not a mode's", key);
	}
	int r = assign(scratch, key, value);
	if (r == -EINVAL)
		snprintf(message, SERIES_MESSAGE_BYTES, "%s", scratch->message);
	return r;
}

static int fill(struct series_mode_set *set, const struct series_mode *mode, bool is_compat)
{
	int r = series_modes_begin(&set->options);

	for (size_t i = 0; i < mode->n_settings && r == 0; i++)
		r = assign(&set->options, mode->settings[i].key, mode->settings[i].value);
	r = r ?: option_take_preset(&set->options);
	return r == 0 && !is_compat ? heimdallr_read(&set->options, &set->heimdallr) : r;
}

static void series_modes_finish(struct series_modes *modes)
{
	for (size_t i = 0; modes->sets && i < modes->n; i++) {
		heimdallr_finish(&modes->sets[i].heimdallr);
		option_finish(&modes->sets[i].options);
	}
	free_all(modes->sets, modes->options);
	*modes = (struct series_modes){ 0 };
}

/*
 * Work out the options of every mode. Heimdallr's variables hold for modes that do not say
 * otherwise, unless is_compat: there the mode lines have all. Returns 0, or -EINVAL with one line
 * in message.
 */
static int series_modes_make(const struct series *series, bool is_compat,
			     struct series_modes *ret_modes, char *message)
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
	if (r < 0)
		return series_modes_finish(&modes), r;
	*ret_modes = modes;
	return 0;
}

#define STOPPED 130 /* as a shell says of SIGINT */

/* Say what went wrong; returns the exit status. */
static int cmd_run_fail(const struct cmd_series *run, int err)
{
	const char *message = run->message[0] ? run->message : strerror(-err);

	if (err == -ECANCELED)
		return CMD_USAGE; /* it was said */
	return err == -EINVAL || err == -ENOENT ? cmd_usage("run: %s", message)
						: cmd_fail("run: %s", message);
}

/* ---- What is asked for ---- */

static int read_compat(struct cmd_series *run)
{
	const struct option_set *options = run->options;
	const char *modes = option_text(options, OPTION_MODES);
	int err = series_compat(options->operands, (size_t)options->n_operands, &run->series,
				run->message);

	if (err < 0)
		return err;
	if (modes)
		return series_compat_modes(run->series, modes, run->message);
	return series_compat_mode(run->series, SERIES_COMPAT_MODE, run->message);
}

static int read_file(struct cmd_series *run)
{
	auto_options struct option_set scratch = { 0 };
	struct series_file_reader reader = { series_modes_check, &scratch };

	if (option_text(run->options, OPTION_MODES))
		return text_refuse(-EINVAL, run->message, sizeof(run->message),
				   "--modes goes with --compat");
	if (run->options->n_operands != 1)
		return text_refuse(-EINVAL, run->message, sizeof(run->message),
				   "name one config file "
				   "(schemas/series.example.ini shows one), or use --compat");
	int err = series_modes_begin(&scratch);
	if (err == -EINVAL)
		snprintf(run->message, sizeof(run->message), "%s", scratch.message);
	return err < 0 ? err
		       : series_file_read(run->options->operands[0], &reader, &run->series,
					  run->message);
}

static int set_text(char **field, const char *text)
{
	free(*field);
	*field = strdup(text);
	return *field ? 0 : -ENOMEM;
}

/* Options stand over the config. */
static int take_options(struct cmd_series *run)
{
	const struct option_set *options = run->options;
	struct series *series = run->series;
	const char *output = option_text(options, OPTION_SERIES_OUTPUT);
	const char *timeout = option_text(options, OPTION_TIMEOUT);

	if (option_origin(options, OPTION_REPETITIONS) > OPTION_FROM_DEFAULT) {
		series->repetitions = (uint32_t)option_number(options, OPTION_REPETITIONS);
		if (series->repetitions == 0 || series->repetitions > 1000000)
			return text_refuse(-EINVAL, run->message, sizeof(run->message),
					   "--repetitions is a number from 1 to 1000000");
	}
	if (option_origin(options, OPTION_SEED) > OPTION_FROM_DEFAULT) {
		series->seed = option_number(options, OPTION_SEED);
		series->has_seed = true;
	}
	if (timeout && parse_duration(timeout, &series->timeout_ns) < 0)
		return text_refuse(-EINVAL, run->message, sizeof(run->message),
				   "--timeout: '%s' is no time such as 30s or 5min", timeout);
	return output ? set_text(&series->output, output) : 0;
}

/* What the file left out. */
static int fill_in(struct cmd_series *run)
{
	struct series *series = run->series;
	const char *file = run->options->operands[0];
	auto_free char *base = strdup(text_base_name(file));
	char *dot = base ? strrchr(base, '.') : NULL;
	char output[SERIES_NAME_BYTES];
	int err = base ? 0 : -ENOMEM;

	if (dot && dot > base)
		*dot = '\0';
	if (err == 0 && !series->name)
		err = set_text(&series->name, base);
	if (err == 0 && !series->output) {
		snprintf(output, sizeof(output), "%.200s-results", series->name);
		err = set_text(&series->output, output);
	}
	return err;
}

static int read_series(struct cmd_series *run)
{
	int err = option_flag(run->options, OPTION_COMPAT) ? read_compat(run) : read_file(run);

	err = err ?: take_options(run) ?: fill_in(run);
	return err == 0 ? series_modes_make(run->series, option_flag(run->options, OPTION_COMPAT),
					    &run->modes, run->message)
			: err;
}

/* ---- Whether it can be done here ---- */

static int check_mode(struct cmd_series *run, size_t i)
{
	struct run_options *options = &run->modes.options[i];
	char problem[SERIES_MESSAGE_BYTES - 96] = "";
	struct placement placement;

	if (run->series->modes[i].is_dry)
		options->heap = options->buffers = NULL;
	int err = run_check(options, problem, sizeof(problem));
	err = err ?: placement_find(options, &placement, problem, sizeof(problem));
	if (err < 0)
		snprintf(run->message, sizeof(run->message), "mode %s cannot be done here: %s%s",
			 run->series->modes[i].name, problem[0] ? problem : strerror(-err),
			 run->series->is_compat ? "; --modes FILE chooses others" : "");
	return err;
}

static int choose_of(const struct cmd_series *run, size_t mode, const char *program,
		     struct functions_chosen *chosen, const struct run_functions **ret_functions)
{
	const struct functions_of of = { .name = program };

	*ret_functions = NULL;
	if (run->series->modes[mode].is_dry)
		return 0;
	/* It says itself what is wrong. */
	return functions_choose(&run->modes.sets[mode].options, &of, true, chosen, ret_functions) ==
			       CMD_DONE
		       ? 0
		       : -ECANCELED;
}

/* For a run, and until its process ends. */
static int choose_functions(void *user, size_t mode, struct run_options *options)
{
	static struct functions_chosen chosen;

	return choose_of(user, mode, options->command[0], &chosen, &options->functions);
}

/* Also what the modes choose of it. */
static int check_program(struct cmd_series *run, const struct series_program *program)
{
	char path[PATH_MAX], name[PATH_MAX];
	const char *command = program->words[0];
	char why[320];

	snprintf(name, sizeof(name), "%s%s%s",
		 program->workload->directory && command[0] != '/' && strchr(command, '/')
			 ? program->workload->directory
			 : "",
		 program->workload->directory && command[0] != '/' && strchr(command, '/') ? "/"
											   : "",
		 command);
	int err = run_command_find(name, path);
	for (size_t i = 0; err == 0 && i < run->series->n_modes; i++) {
		auto_functions_chosen struct functions_chosen chosen = { 0 };
		const struct run_functions *unused;

		err = choose_of(run, i, path, &chosen, &unused);
	}
	if (err == 0 || err == -ECANCELED)
		return err;
	run_command_explain(name, err, why, sizeof(why));
	return text_refuse(err, run->message, sizeof(run->message),
			   "program %.100s: cannot run '%.140s': %.200s", program->name, name, why);
}

static int check_all(struct cmd_series *run)
{
	int err = 0;

	for (size_t i = 0; i < run->series->n_modes && err == 0; i++)
		err = check_mode(run, i);
	for (size_t i = 0; i < run->plan.n_programs && err == 0; i++)
		err = check_program(run, &run->plan.programs[i]);
	return err == -ENOENT || err == -ECANCELED || err == 0 ? err : -EINVAL;
}

/* ---- Carrying it out ---- */

/*
 * In a process of its own: whatever becomes of it, the runs are there. Returns whether there is a
 * database.
 */
static bool analyze(const struct cmd_series *run)
{
	char log[PATH_MAX];
	int status;

	snprintf(log, sizeof(log), "%.4000s/analyze.log", run->series->output);
	pid_t pid = fork();
	if (pid == 0) {
		int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

		series_process_begin();
		if (fd >= 0 && dup2(fd, 1) == 1 && dup2(fd, 2) == 2)
			execl("/proc/self/exe", "memsight", "analyze", run->series->output,
			      (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return false;
	if (status != 0)
		cmd_warn("not all runs could be analysed: %s says why", log);
	return WIFEXITED(status) && WEXITSTATUS(status) != 127;
}

static int conclude(struct cmd_series *run, const struct series_totals *totals)
{
	series_text_failures(&run->plan, &run->folder);
	if (totals->was_stopped) {
		cmd_warn("stopped after %zu of %zu runs; the same command goes on", totals->n_done,
			 totals->n_all);
		return STOPPED;
	}
	bool wants_database = !option_flag(run->options, OPTION_NO_ANALYZE) &&
			      !option_texts(run->options, OPTION_ONLY) && totals->n_done > 0;

	if (!option_flag(run->options, OPTION_QUIET))
		cmd_warn("%zu runs done, %zu of %zu not as expected", totals->n_done, totals->n_bad,
			 totals->n_all);
	if (wants_database && analyze(run) && !option_flag(run->options, OPTION_QUIET))
		cmd_warn("next: memsight report %s/memsight.db --stat | --overhead | --list",
			 run->series->output);
	return totals->n_bad ? CMD_FAILED : CMD_DONE;
}

static int execute(struct cmd_series *run)
{
	const char *log_name = option_text(run->options, OPTION_LOG);
	auto_fclose FILE *log = log_name ? fopen(log_name, "ae") : NULL;
	struct series_text text = {
		.log = log,
		.is_quiet = option_flag(run->options, OPTION_QUIET),
		.is_terminal = isatty(STDERR_FILENO) == 1,
		.columns = database_terminal_width(STDERR_FILENO),
	};
	struct series_request request = {
		.plan = &run->plan,
		.folder = &run->folder,
		.modes = run->modes.options,
		.prepare = choose_functions,
		.user = run,
		.fail_fast = option_flag(run->options, OPTION_FAIL_FAST),
		.retry = option_flag(run->options, OPTION_RETRY),
		.only = option_texts(run->options, OPTION_ONLY),
		.observer = { &text, series_text_progress, series_text_warn },
	};
	struct series_totals totals;

	if (log_name && !log)
		return cmd_fail("run: cannot write %s: %s", log_name, strerror(errno));
	int err = series_run(&request, &totals, run->message);
	return err < 0 ? cmd_run_fail(run, err) : conclude(run, &totals);
}

static int lay_out(struct cmd_series *run, uint64_t seed)
{
	int err = series_plan_make(run->series, seed, &run->plan, run->message);

	return err == 0 ? check_all(run) : err;
}

/* Draw a seed that a person can type again. */
static int draw_seed(const struct series *series, uint64_t *ret_seed)
{
	uint32_t drawn;

	if (series->has_seed) {
		*ret_seed = series->seed;
		return 0;
	}
	if (getrandom(&drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn))
		return -errno;
	*ret_seed = drawn;
	return 0;
}

static int check_only(struct cmd_series *run, uint64_t seed)
{
	int err = lay_out(run, seed);

	if (err < 0)
		return cmd_run_fail(run, err);
	series_text_plan(stdout, &run->plan);
	return CMD_DONE;
}

/* How far it is: what the folder holds, and what Slurm has. */
static int status_only(struct cmd_series *run, uint64_t seed)
{
	if (access(run->series->output, F_OK) != 0)
		return cmd_fail("run: %s is not there: the series has not begun",
				run->series->output);
	int err = series_folder_open(run->series, true, &seed, &run->folder, run->message);
	if (err == -EBUSY) {
		printf("under way: a memsight on this host is at it\n");
		err = series_folder_look(run->series, &run->folder);
	}
	err = err ?: series_plan_make(run->series, seed, &run->plan, run->message);
	return err < 0 ? cmd_run_fail(run, err) : cmd_run_status(run);
}

static int carry_out(struct cmd_series *run, uint64_t seed)
{
	bool is_part = option_texts(run->options, OPTION_ONLY) != NULL;
	uint64_t drawn = seed;
	int err = lay_out(run, seed); /* what cannot be done leaves no folder */

	err = err ?: series_folder_open(run->series, is_part, &seed, &run->folder, run->message);
	if (err == 0 && seed != drawn) {
		series_plan_finish(&run->plan);
		err = series_plan_make(run->series, seed, &run->plan, run->message);
	}
	err = err ?: series_folder_check(&run->folder, &run->plan, run->message);
	if (err < 0)
		return cmd_run_fail(run, err);
	if (option_choice(run->options, OPTION_EXECUTOR) == CHOICE_EXECUTOR_SLURM)
		return cmd_run_slurm(run);
	if (!option_flag(run->options, OPTION_QUIET) && !is_part)
		cmd_warn("series %s: %zu runs into %s, seed %llu", run->series->name,
			 run->plan.n_items, run->series->output, (unsigned long long)seed);
	return execute(run);
}

static int choose(struct cmd_series *run, uint64_t seed)
{
	if (option_flag(run->options, OPTION_CHECK))
		return check_only(run, seed);
	if (option_flag(run->options, OPTION_STATUS))
		return status_only(run, seed);
	return carry_out(run, seed);
}

int cmd_run(const struct option_set *options)
{
	struct cmd_series run = { .options = options, .folder = SERIES_FOLDER_CLOSED };
	uint64_t seed = 0;
	int err = read_series(&run), status;

	err = err ?: draw_seed(run.series, &seed);
	status = err < 0 ? cmd_run_fail(&run, err) : choose(&run, seed);
	series_folder_close(&run.folder);
	series_plan_finish(&run.plan);
	series_modes_finish(&run.modes);
	series_destroy(run.series);
	return status;
}
