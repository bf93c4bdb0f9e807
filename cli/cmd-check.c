#include "cli/cmd.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/database.h"
#include "common/cleanup.h"
#include "report/check/check.h"
#include "report/text/fit-text.h"
#include "store/statement.h"

static const struct {
	enum option_choice choice;
	check_write_fn *write;
} formats[] = {
	{ CHOICE_CHECK_FORMAT_TEXT, check_write_text },
	{ CHOICE_CHECK_FORMAT_JSON, check_write_json },
	{ CHOICE_CHECK_FORMAT_JUNIT, check_write_junit },
	{ CHOICE_CHECK_FORMAT_GITHUB, check_write_github },
};

static check_write_fn *format_of(const struct option_set *options)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (formats[i].choice == option_choice(options, OPTION_CHECK_FORMAT))
			return formats[i].write;
	return check_write_text;
}

/* "3%", "0.5 %" or "3". */
static int read_tolerance(const struct option_set *options, double *ret_tolerance)
{
	const char *text = option_text(options, OPTION_TOLERANCE);
	char *end = NULL;
	double percent = strtod(text, &end);

	end += strspn(end, " ");
	end += *end == '%';
	if (end == text || *end || !isfinite(percent) || percent < 0)
		return cmd_usage("check: --tolerance=%s is no percentage, such as 3%%", text);
	*ret_tolerance = percent / 100;
	return CMD_DONE;
}

static int read_request(const struct option_set *options, struct check_request *request)
{
	static const enum option_id limits[CHECK_RULE_COUNT] = {
		[CHECK_PEAK] = OPTION_MAX_PEAK,
		[CHECK_LEAKED] = OPTION_MAX_LEAKED,
		[CHECK_RSS] = OPTION_MAX_RSS,
		[CHECK_ALLOCATIONS] = OPTION_MAX_ALLOCATIONS,
	};
	bool has_any = option_text(options, OPTION_AGAINST) != NULL;

	for (enum check_rule rule = 0; rule < CHECK_RULE_COUNT; rule++) {
		uint64_t most = option_row(limits[rule])->type == OPTION_SIZE
					? option_size(options, limits[rule])
					: option_number(options, limits[rule]);

		request->has_most[rule] = option_origin(options, limits[rule]) != OPTION_UNSET;
		request->most[rule] = most > INT64_MAX ? INT64_MAX : (int64_t)most;
		has_any |= request->has_most[rule];
	}
	if (!has_any)
		return cmd_usage(
			"check: no limit; give one, such as --max-leaked 0, --max-peak 500M"
			" or --against BASE");
	request->allows_losses = option_flag(options, OPTION_ALLOW_LOSSES);
	return read_tolerance(options, &request->tolerance);
}

static int write_file(const struct option_set *options, const struct check_results *results)
{
	const char *path = option_text(options, OPTION_CHECK_FILE);
	auto_fclose FILE *file = fopen(path, "we");
	int r = file ? format_of(options)(file, results, options->operands[0]) : -errno;

	if (r == 0 && fclose(steal_ptr(&file)) != 0)
		r = -errno;
	return r < 0 ? cmd_fail("cannot write %s: %s", path, strerror(-r)) : CMD_DONE;
}

struct output {
	check_write_fn *write;
	const struct check_results *results;
	const char *name;
};

static int write_output(FILE *out, void *user)
{
	const struct output *output = user;

	return output->write(out, output->results, output->name);
}

static int write_results(const struct option_set *options, const struct check_results *results)
{
	const char *path = option_text(options, OPTION_CHECK_FILE);
	const struct output output = {
		.write = path ? check_write_text : format_of(options),
		.results = results,
		.name = options->operands[0],
	};
	unsigned width = output.write == check_write_text ? database_text_width(STDOUT_FILENO) : 0;
	int r = fit_lines_write(stdout, width, write_output, (void *)&output);

	if (r == 0 && fflush(stdout) != 0)
		r = -errno;
	if (r < 0)
		return cmd_fail("cannot write the results: %s", strerror(-r));
	return path ? write_file(options, results) : CMD_DONE;
}

static int check_and_write(const struct option_set *options, const struct check_request *request)
{
	struct check_results results;
	sqlite3 *failed = NULL;
	int r = check_runs(request, &results, &failed);
	int status = CMD_DONE;

	if (r == -EPROTO)
		status = cmd_fail("%s: %s", sqlite3_db_filename(failed, "main"),
				  statement_message(failed));
	else if (r < 0)
		status = cmd_fail("cannot check: %s", strerror(-r));
	else
		status = write_results(options, &results);
	if (status == CMD_DONE && check_worst(&results) != CHECK_KEPT)
		status = CMD_FAILED;
	check_results_finish(&results);
	return status;
}

int cmd_check(const struct option_set *options)
{
	auto_side struct database_side base = { 0 };
	auto_side struct database_side side = { 0 };
	struct check_request request = { 0 };
	struct suppressions *suppressions = NULL;
	const char *against = option_text(options, OPTION_AGAINST);
	const char *path = option_text(options, OPTION_CHECK_FILE);
	int status = read_request(options, &request);

	if (status == CMD_DONE && path)
		status = cmd_check_new(path, options);
	status = status ?: database_suppressions(options, &suppressions);
	status = status ?: database_open_side(options->operands[0], options, &side);
	if (status == CMD_DONE && against)
		status = database_open_side(against, options, &base);
	request.sides[0] = base.runs;
	request.sides[1] = side.runs;
	request.suppressions = suppressions;
	status = status ?: check_and_write(options, &request);
	suppressions_free(suppressions);
	return status;
}
