#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/database.h"
#include "cli/heatmap-errors.h"
#include "cli/options/selection-options.h"
#include "common/atomic-file.h"
#include "common/cleanup.h"
#include "common/text-stream.h"
#include "report/plot/plot.h"
#include "report/report.h"
#include "store/query-value.h"
#include "store/selection/selection.h"
#include "store/statement.h"

#define POINTS_PER_MM (72 / 25.4)
#define MAX_MM	      2000u
#define MAX_PIXELS    20000u /* each way: cairo's images end at 32767 */
#define LEAST_MM      20u
#define MAX_POINTS    72u
#define LEAST_POINTS  3u
#define LEAST_DPI     30u
#define MAX_DPI	      2400u

/* What is asked for: the options, read once. */
struct job {
	const struct option_set *options;
	struct db *db;
	struct selection selection; /* its runs are owned */
	struct plot_request request;
};

/* ---- Where to ---- */

static bool is_stdout(const char *path)
{
	return strcmp(path, "-") == 0;
}

static int find_format(const struct option_set *options, enum canvas_format *ret_format)
{
	static const char *const endings[CANVAS_FORMAT_COUNT] = { ".svg", ".png", ".pdf" };
	enum option_choice choice = option_choice(options, OPTION_PLOT_FORMAT);
	const char *path = option_text(options, OPTION_PLOT_FILE);
	size_t length = strlen(path);

	if (choice != CHOICE_PLOT_FORMAT_AUTO) {
		*ret_format = (enum canvas_format)(choice - CHOICE_PLOT_FORMAT_SVG);
		return CMD_DONE;
	}
	*ret_format = CANVAS_SVG;
	if (is_stdout(path))
		return CMD_DONE;
	for (int i = 0; i < CANVAS_FORMAT_COUNT; i++) {
		if (length > 4 && strcasecmp(path + length - 4, endings[i]) == 0) {
			*ret_format = (enum canvas_format)i;
			return CMD_DONE;
		}
	}
	return cmd_usage(
		"plot: %s ends with none of .svg, .png and .pdf: name another file, or say which "
		"with --format",
		path);
}

static int check_output(struct job *job)
{
	const char *path = option_text(job->options, OPTION_PLOT_FILE);

	if (!path)
		return cmd_usage(
			"plot: name a file with --output (-o app.svg), or - for standard output");
	int status = find_format(job->options, &job->request.format);
	if (status != CMD_DONE)
		return status;
	if (is_stdout(path) && job->request.format != CANVAS_SVG && isatty(STDOUT_FILENO))
		return cmd_usage("plot: this is not for a terminal: name a file with --output");
	if (!canvas_can(job->request.format))
		return cmd_fail("this memsight was built without cairo, so it "
				"writes .svg only: for png and pdf "
				"install libcairo2-dev and build it again");
	return cmd_check_new(
		path, job->options); /* nothing is computed for a file that must not be written */
}

/* ---- How large ---- */

static int read_bounded(const struct option_set *options, enum option_id id, unsigned low,
			unsigned high, double *ret_number)
{
	uint64_t number = option_number(options, id);

	if (number < low || number > high)
		return cmd_usage("--%s: '%s' is not a number from %u to %u", option_row(id)->name,
				 options->values[id].text, low, high);
	*ret_number = (double)number;
	return CMD_DONE;
}

static int read_size(struct job *job)
{
	const struct option_set *options = job->options;
	struct canvas_size *size = &job->request.size;
	double width = 0, height = 0;

	int status = read_bounded(options, OPTION_PLOT_WIDTH, LEAST_MM, MAX_MM, &width);
	status = status ?: read_bounded(options, OPTION_PLOT_HEIGHT, LEAST_MM, MAX_MM, &height);
	if (status == CMD_DONE)
		status = read_bounded(options, OPTION_FONT_SIZE, LEAST_POINTS, MAX_POINTS,
				      &job->request.font);
	status = status ?: read_bounded(options, OPTION_DPI, LEAST_DPI, MAX_DPI, &size->dpi);
	if (status != CMD_DONE)
		return status;
	size->width = width * POINTS_PER_MM;
	size->height = height * POINTS_PER_MM;
	if (job->request.format == CANVAS_PNG &&
	    (width > height ? width : height) / 25.4 * size->dpi > MAX_PIXELS)
		return cmd_usage("plot: a png has at most %u pixels each way: "
				 "lower --dpi, or write svg or pdf",
				 MAX_PIXELS);
	return CMD_DONE;
}

/* ---- Of what ---- */

static int read_cells(struct job *job)
{
	const struct option_set *options = job->options;
	struct heat_request *heat = &job->request.heat;
	unsigned cells[2] = { 0, 0 };
	double bits = 0;

	int status = cells_read(options, cells);
	if (status != CMD_DONE)
		return status;
	bool has_unit = option_origin(options, OPTION_TIME_UNIT) != OPTION_UNSET;
	bool has_bits = option_origin(options, OPTION_BLOCK_BITS) != OPTION_UNSET;
	if (has_bits)
		status = read_bounded(options, OPTION_BLOCK_BITS, 1, 46, &bits);
	if (status != CMD_DONE)
		return status;
	if (has_unit && (option_number(options, OPTION_TIME_UNIT) < 1 ||
			 option_number(options, OPTION_TIME_UNIT) > INT64_MAX / 4096))
		return cmd_usage("--time-unit: '%s' is not a number of ns that a cell can have",
				 options->values[OPTION_TIME_UNIT].text);
	heat->width = cells[0];
	heat->height = cells[1];
	heat->time_unit_ns = (int64_t)option_number(options, OPTION_TIME_UNIT);
	heat->block_bits = (unsigned)bits;
	return CMD_DONE;
}

/* An option that another kind of figure has would be forgotten in silence. */
static int check_kind(const struct job *job)
{
	static const struct {
		enum option_id option;
		unsigned kinds;
	} rows[] = {
		{ OPTION_CELLS, 1u << PLOT_HEATMAP },
		{ OPTION_OF_SOURCE, 1u << PLOT_HEATMAP },
		{ OPTION_TIME_UNIT, 1u << PLOT_HEATMAP },
		{ OPTION_BLOCK_BITS, 1u << PLOT_HEATMAP },
		{ OPTION_FROM, 1u << PLOT_HEATMAP | 1u << PLOT_TIMELINE },
		{ OPTION_TO, 1u << PLOT_HEATMAP | 1u << PLOT_TIMELINE },
		{ OPTION_PROCESS, 1u << PLOT_HEATMAP | 1u << PLOT_TIMELINE },
		{ OPTION_ADDR, 1u << PLOT_HEATMAP },
		{ OPTION_METRIC, 1u << PLOT_SERIES },
		{ OPTION_BY, 1u << PLOT_FLAME },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (option_origin(job->options, rows[i].option) == OPTION_FROM_LINE &&
		    !(rows[i].kinds & 1u << job->request.kind))
			return cmd_usage(
				"plot: --%s has no meaning for --kind %s",
				option_row(rows[i].option)->name,
				option_choice_name(option_choice(job->options, OPTION_PLOT_KIND)));
	}
	return CMD_DONE;
}

static int read_selection(struct job *job)
{
	sqlite3 *db = db_handle(job->db);

	if (job->request.kind == PLOT_SERIES && !option_text(job->options, OPTION_RUN))
		return CMD_DONE;
	int status = selection_options_read(job->options, db, &job->selection);
	if (status != CMD_DONE)
		return status;
	if (job->selection.n_runs != 1)
		return cmd_usage("plot: a figure is of one run: ask for each of --run %s",
				 option_text(job->options, OPTION_RUN));
	job->request.run_id = job->selection.runs[0];
	job->request.heat.pid = job->selection.pid;
	job->request.heat.from_ns = job->selection.from_ns;
	job->request.heat.to_ns = job->selection.to_ns;
	job->request.heat.low = job->selection.low;
	job->request.heat.high = job->selection.high;
	job->request.size.unix_ns = report_sql_number(
		db, "SELECT start_unix_ns FROM run WHERE id = :run", job->request.run_id);
	return CMD_DONE;
}

/* ---- The figure ---- */

static int complain(const struct job *job, int error, const struct plot_result *result)
{
	const struct option_set *options = job->options;
	const char *path = options->operands[0];
	bool is_series = job->request.kind == PLOT_SERIES;

	if (error == -ENOSPC)
		return cmd_usage(
			"plot: the figure is too small for its text: raise --width or --height, "
			"or lower --font-size");
	if (error == -E2BIG && is_series)
		return cmd_usage("plot: %s has more than %d programs: choose one with --run", path,
				 PLOT_MAX_PROGRAMS);
	if (error == -E2BIG)
		return cmd_usage("plot: cells of that size are %u x %u, at most %d "
				 "each way: take larger ones, or a "
				 "part (--from, --to, --addr)",
				 result->wanted[0], result->wanted[1], PICTURE_MAX_CELLS);
	if (error == -ENXIO && is_series)
		return cmd_fail("%s: no run has a %s; there are %s", path,
				option_text(options, OPTION_METRIC),
				result->detail ? result->detail : "none");
	if (error == -ENOENT && job->request.kind != PLOT_HEATMAP)
		return cmd_fail("%s: there is nothing to draw", path);
	int status = heat_complain(options, error);
	if (status != CMD_DONE)
		return status;
	if (error == -EPROTO)
		return cmd_fail("%s: %s", path, statement_message(db_handle(job->db)));
	return cmd_fail("cannot draw the figure: %s", strerror(-error));
}

/* Each line by itself, as it stands in the figure. */
static void tell_losses(char *losses)
{
	for (char *line; losses && (line = strsep(&losses, "\n"));)
		if (*line)
			cmd_warn("plot: %s", line);
}

/* That of the figure that it replaces. */
static mode_t mode_of(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 ? status.st_mode & 0777 : 0666;
}

/* A device or a pipe is written to. */
static bool is_special(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

static int write_file(const struct job *job, const char *bytes, size_t n)
{
	const char *path = option_text(job->options, OPTION_PLOT_FILE);
	const struct new_file file = {
		path, mode_of(path), option_flag(job->options, OPTION_FORCE) || is_special(path)
	};

	if (is_stdout(path)) {
		int r = fwrite(bytes, 1, n, stdout) == n && fflush(stdout) == 0 ? 0 : -errno;
		return r < 0 ? cmd_fail("cannot write to standard output: %s", strerror(-r))
			     : CMD_DONE;
	}
	int r = new_file_write(&file, bytes, n);
	if (r == -EEXIST)
		return cmd_fail("%s is there already: --force overwrites it", path);
	return r < 0 ? cmd_fail("cannot write %s: %s", path, strerror(-r)) : CMD_DONE;
}

static int draw(struct job *job)
{
	auto_free char *bytes = NULL;
	size_t n = 0;
	FILE *out = text_stream_open(&bytes, &n);
	struct plot_result result = { 0 };

	if (!out)
		return cmd_fail("out of memory");
	int r = plot_write(out, db_handle(job->db), &job->request, &result);
	if (text_stream_close(out, &bytes) < 0 && (r == 0 || r == -EIO))
		r = -ENOMEM;
	int status = r < 0 ? complain(job, r, &result) : write_file(job, bytes, n);
	if (status == CMD_DONE)
		tell_losses(result.losses);
	free_all(result.losses, result.detail);
	return status;
}

/* A timeline of a part is counted anew from the rows, as reports do it. */
static int plot_part(struct job *job)
{
	job->selection.wants = SELECTION_TIMELINE;
	if (job->request.kind == PLOT_TIMELINE && selection_is_part(&job->selection)) {
		int r = selection_apply(job->db, &job->selection);
		if (r == -ENOMEM)
			return cmd_fail("out of memory");
		if (r < 0)
			return cmd_fail("%s: %s", job->options->operands[0],
					statement_message(db_handle(job->db)));
	}
	return draw(job);
}

int cmd_plot(const struct option_set *options)
{
	struct job job = {
		.options = options,
		.request = {
			.kind = (enum plot_kind)(option_choice(options, OPTION_PLOT_KIND) -
						 CHOICE_PLOT_KIND_HEATMAP),
			.title = option_text(options, OPTION_TITLE),
			.metric = option_text(options, OPTION_METRIC),
			.has_no_notes = option_flag(options, OPTION_NO_NOTES),
			.by = (enum profile_metric)profile_metric_find(
				option_choice_name(option_choice(options, OPTION_BY))),
			.heat.source = option_text(options, OPTION_OF_SOURCE),
		},
	};

	job.request.size.title = job.request.title;
	int status = check_kind(&job) ?: check_output(&job);
	status = status ?: read_size(&job);
	status = status ?: read_cells(&job);
	status = status ?: database_open(options->operands[0], options, &job.db);
	status = status ?: read_selection(&job);
	status = status ?: plot_part(&job);
	free((void *)job.selection.runs);
	db_close(job.db);
	return status;
}
