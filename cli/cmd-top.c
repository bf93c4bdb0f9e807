/* memsight top */
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/database.h"
#include "cli/top/session.h"
#include "cli/top/top.h"
#include "common/parse.h"
#include "report/text/fit-text.h"

#define LEAST_INTERVAL_NS 100000000
#define USUAL_ROWS	  20
#define LEAST_NAME	  20u

static int read_interval(const struct option_set *options, int64_t *ret_ns)
{
	const char *text = option_text(options, OPTION_TOP_INTERVAL);

	if (parse_duration(text, ret_ns) < 0 || *ret_ns < LEAST_INTERVAL_NS)
		return cmd_usage("top: --interval: '%s' is not a time of 100ms or more, such as 2s",
				 text);
	return CMD_DONE;
}

/* ---- Tables, one after the other ---- */

static void print_table(const struct top *top, const struct top_wish *wish)
{
	unsigned width = database_text_width(STDOUT_FILENO);
	char now[TOP_LINE_BYTES], cells[TOP_CELLS_BYTES];
	size_t n = wish->n_rows && wish->n_rows < top->n_rows ? wish->n_rows : top->n_rows;

	top_write_now(&top->now, now);
	top_write_head(wish->sort, cells, NULL, NULL);
	unsigned n_cells = fit_columns(cells);
	printf("%s\n%ssite\n", now, cells);
	for (size_t i = 0; i < n; i++) {
		top_write_cells(&top->rows[i], cells);
		fputs(cells, stdout);
		fit_write(stdout, top->rows[i].name,
			  width > n_cells + LEAST_NAME ? width - n_cells : LEAST_NAME);
		putchar('\n');
	}
	putchar('\n');
	fflush(stdout);
}

/* Wait for a look's time. False: somebody wants to end. */
static bool wait_for(int64_t ns, const sigset_t *signals)
{
	const struct timespec time = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
	struct timespec begin, now;
	int64_t left = ns;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (struct timespec rest = time; left > 0;
	     rest = (struct timespec){ .tv_sec = left / 1000000000,
				       .tv_nsec = left % 1000000000 }) {
		int signal_number = sigtimedwait(signals, NULL, &rest);

		if (signal_number == SIGINT || signal_number == SIGTERM || signal_number == SIGHUP)
			return false;
		if (signal_number == SIGCHLD)
			return true; /* the last table is of its end */
		clock_gettime(CLOCK_MONOTONIC, &now);
		left = ns - ((now.tv_sec - begin.tv_sec) * INT64_C(1000000000) + now.tv_nsec -
			     begin.tv_nsec);
	}
	return true;
}

static int print_tables(struct top *top, struct top_session *session,
			const struct option_set *options, const struct top_wish *wish)
{
	uint64_t times = option_number(options, OPTION_TOP_TIMES);
	int64_t interval_ns = wish->interval_ns;
	sigset_t signals = wish->quitting;

	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	for (uint64_t i = 0; times == 0 || i < times; i++) {
		bool goes_on = wait_for(interval_ns, &signals);
		bool has_ended = session_has_ended(session);

		if (top_refresh(top, wish, session->began_ns) < 0)
			return cmd_fail("out of memory");
		print_table(top, wish);
		if (!goes_on || has_ended || ferror(stdout))
			break;
	}
	return CMD_DONE;
}

/* ---- Either way ---- */

static int show(struct top_session *session, const struct option_set *options,
		const struct top_wish *wish, bool has_screen)
{
	struct top top;
	int err = top_begin(&top, session->totals_fd);
	int status = CMD_DONE;

	if (err < 0)
		status = cmd_fail("top: cannot look at the totals: %s", strerror(-err));
	else if (has_screen)
		status = top_screen(&top, session, wish);
	else
		status = print_tables(&top, session, options, wish);
	top_end(&top);
	return status;
}

int cmd_top(const struct option_set *options)
{
	const bool is_limited = option_origin(options, OPTION_LIMIT) > OPTION_FROM_DEFAULT;
	struct top_wish wish = {
		.sort = (enum top_sort)(option_choice(options, OPTION_TOP_SORT) -
					CHOICE_TOP_SORT_LIVE),
		.filter = option_text(options, OPTION_TOP_FILTER),
		.n_rows = is_limited ? option_number(options, OPTION_LIMIT) : USUAL_ROWS,
	};
	bool has_screen = top_has_screen() && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) &&
			  !option_flag(options, OPTION_TOP_BATCH);
	struct top_session session;
	int status = read_interval(options, &wish.interval_ns);

	if (status != CMD_DONE)
		return status;
	setlocale(LC_CTYPE, "");
	/* Signals wait: the program, and a trace that nobody wants, must not stay. */
	sigemptyset(&wish.quitting);
	sigaddset(&wish.quitting, SIGINT);
	sigaddset(&wish.quitting, SIGTERM);
	sigaddset(&wish.quitting, SIGHUP);
	sigprocmask(SIG_BLOCK, &wish.quitting, NULL);
	status = session_begin(&session, options, has_screen);
	status = status ?: show(&session, options, &wish, has_screen);
	int ended = session_end(&session);
	return status == CMD_DONE ? ended : status;
}
