/* `memsight top' in a terminal. */
#include "cli/top/top.h"

#ifndef HAVE_NCURSES

#include "cli/cmd.h"

bool top_has_screen(void)
{
	return false;
}

int top_screen(struct top *top, struct top_session *session, const struct top_wish *wish)
{
	(void)top;
	(void)session;
	(void)wish;
	return CMD_FAILED;
}

#else

#include <ctype.h>
#include <langinfo.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <ncurses.h>

#include "cli/cmd.h"
#include "cli/top/session.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/human-number.h"
#include "common/text.h"
#include "report/text/fit-text.h"

#define FILTER_BYTES  128
#define FIRST_ROW     5 /* of the screen: above are what holds for all, two curves, the head */
#define LABEL_COLUMNS 28
#define LEAST_ROWS    3
#define KEY_ESCAPE    27
#define KEY_ERASE     127
#define KEYS	      "enter stack  < > sort  / filter  t threads  space halt  s save  q quit"

enum panel {
	PANEL_NONE,
	PANEL_STACK,
	PANEL_THREADS,
};

struct screen {
	struct top *top;
	struct top_session *session;
	struct top_wish wish;
	char filter[FILTER_BYTES];
	bool is_typing; /* the filter */
	bool stands; /* still */
	enum panel panel;
	size_t chosen; /* row */
	size_t first; /* row that is shown first */
	char chosen_name[512]; /* stays chosen when rows change places */
	char message[512];
	bool is_unicode;
	uint64_t next_ns; /* CLOCK_MONOTONIC: of the next refresh */
	int signal_fd; /* for signals that quit: those of ncurses would leave all as it is */
};

/* ---- Draw ---- */

/* A text in at most so many columns, from where the cursor is to be; names may hold anything. */
static void put_text(int line, int column, const char *text, int width)
{
	auto_free char *fitted = NULL;
	size_t n_bytes = 0;

	if (width <= 0)
		return;
	FILE *out = open_memstream(&fitted, &n_bytes);
	if (!out)
		return;
	fit_write(out, text, (unsigned)width);
	fclose(out);
	mvaddstr(line, column, text_hide_controls(fitted));
}

/* The last values of a ring as a curve from 0 to the highest of them. */
static void draw_curve(const struct screen *screen, int line, const char *label,
		       const uint64_t points[TOP_POINTS])
{
	static const char *const blocks[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char *const letters[] = { " ", ".", ":", "-", "=", "+", "*", "#", "@" };
	uint32_t n_all = screen->top->n_refreshes;
	uint32_t n = n_all < TOP_POINTS ? n_all : TOP_POINTS;
	uint64_t most = 1;
	char text[64];

	if ((int)n > COLS - LABEL_COLUMNS)
		n = COLS > LABEL_COLUMNS ? (uint32_t)(COLS - LABEL_COLUMNS) : 0;
	for (uint32_t i = n_all - n; i < n_all; i++)
		if (points[i % TOP_POINTS] > most)
			most = points[i % TOP_POINTS];
	snprintf(text, sizeof(text), "%-5s up to %s", label, format_bytes((int64_t)most).text);
	put_text(line, 0, text, LABEL_COLUMNS - 1);
	move(line, LABEL_COLUMNS);
	for (uint32_t i = n_all - n; i < n_all; i++) {
		size_t height = (size_t)((double)points[i % TOP_POINTS] * 8 / (double)most + 0.5);

		addstr(screen->is_unicode ? blocks[height] : letters[height]);
	}
}

static int draw_table(struct screen *screen, int n_lines)
{
	struct top *top = screen->top;
	char cells[TOP_CELLS_BYTES];
	int at = 0, width = 0, n_cells;

	top_write_head(screen->wish.sort, cells, &at, &width);
	n_cells = (int)fit_columns(cells);
	attron(A_BOLD);
	mvaddnstr(FIRST_ROW - 1, 0, cells, COLS);
	put_text(FIRST_ROW - 1, n_cells, "site", COLS - n_cells);
	attroff(A_BOLD);
	mvchgat(FIRST_ROW - 1, at, width, A_REVERSE | A_BOLD, 0, NULL);
	for (int i = 0; i < n_lines && screen->first + (size_t)i < top->n_rows; i++) {
		const struct top_row *row = &top->rows[screen->first + (size_t)i];

		top_write_cells(row, cells);
		put_text(FIRST_ROW + i, 0, cells, COLS);
		put_text(FIRST_ROW + i, n_cells, row->name, COLS - n_cells);
		if (screen->first + (size_t)i == screen->chosen)
			mvchgat(FIRST_ROW + i, 0, -1, A_REVERSE, 0, NULL);
	}
	return n_cells;
}

static void draw_stack(struct screen *screen, int line, int n_lines)
{
	struct top *top = screen->top;
	uint32_t site = screen->chosen < top->n_rows ? top->rows[screen->chosen].site : 0;
	const struct live_site *totals = &top->header->sites[site];
	char text[192];

	snprintf(text, sizeof(text), "Call stack, process %u, %s allocations of %s", totals->pid,
		 format_count((int64_t)atomic_load(&totals->n_allocations)).text,
		 format_bytes((int64_t)atomic_load(&totals->allocated_bytes)).text);
	attron(A_BOLD);
	put_text(line, 0, text, COLS);
	attroff(A_BOLD);
	for (int i = 0; i + 1 < n_lines; i++) {
		const char *frame = top_frame(top, site, (size_t)i);

		if (!frame)
			break;
		put_text(line + 1 + i, 2, frame, COLS - 2);
	}
}

static int compare_threads(const void *a, const void *b, void *threads)
{
	const struct live_thread *rows = threads;
	uint64_t one = atomic_load(&rows[*(const uint32_t *)a].allocated_bytes);
	uint64_t other = atomic_load(&rows[*(const uint32_t *)b].allocated_bytes);

	return one < other ? 1 : one > other ? -1 : 0;
}

static void draw_threads(struct screen *screen, int line, int n_lines)
{
	const struct live_header *header = screen->top->header;
	uint32_t n = atomic_load(&header->n_threads);
	uint32_t order[LIVE_MAX_THREADS];
	char text[256];

	if (n > LIVE_MAX_THREADS)
		n = LIVE_MAX_THREADS;
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), compare_threads, (void *)header->threads);
	attron(A_BOLD);
	put_text(line, 0,
		 "       pid        tid      allocated  allocations          frees  thread", COLS);
	attroff(A_BOLD);
	for (int i = 0; i + 1 < n_lines && (uint32_t)i < n; i++) {
		const struct live_thread *row = &header->threads[order[i]];

		snprintf(text, sizeof(text), "%10u %10u %14s %12s %14s  %.16s", row->pid, row->tid,
			 format_bytes((int64_t)atomic_load(&row->allocated_bytes)).text,
			 format_count((int64_t)atomic_load(&row->n_allocations)).text,
			 format_count((int64_t)atomic_load(&row->n_frees)).text, row->name);
		put_text(line + 1 + i, 0, text, COLS);
	}
}

static const char *state_of(const struct screen *screen)
{
	if (screen->session->has_ended)
		return "ended";
	if (screen->stands)
		return "this page stands still: space goes on";
	return screen->top->now.is_paused ? "recording is paused" : "recording";
}

static void draw_foot(struct screen *screen)
{
	char text[FILTER_BYTES + 64];

	if (screen->is_typing || screen->filter[0])
		snprintf(text, sizeof(text), "filter: %s%s", screen->filter,
			 screen->is_typing ? "_" : "   (escape: all)");
	attron(A_REVERSE);
	mvhline(LINES - 1, 0, ' ', COLS);
	put_text(LINES - 1, 0,
		 screen->message[0]			  ? screen->message
		 : screen->is_typing || screen->filter[0] ? text
							  : KEYS,
		 COLS - 1);
	attroff(A_REVERSE);
}

/* How many rows of the table can be seen. */
static int table_lines(const struct screen *screen)
{
	int n = LINES - FIRST_ROW - 1;

	if (screen->panel != PANEL_NONE)
		n /= 2;
	return n < LEAST_ROWS ? LEAST_ROWS : n;
}

/* The row that was chosen stays it, and can be seen. */
static void keep_chosen(struct screen *screen)
{
	struct top *top = screen->top;
	size_t n = (size_t)table_lines(screen);

	for (size_t i = 0; i < top->n_rows; i++)
		if (strncmp(top->rows[i].name, screen->chosen_name,
			    sizeof(screen->chosen_name) - 1) == 0)
			screen->chosen = i;
	if (screen->chosen >= top->n_rows)
		screen->chosen = top->n_rows ? top->n_rows - 1 : 0;
	if (screen->chosen < screen->first)
		screen->first = screen->chosen;
	if (screen->chosen >= screen->first + n)
		screen->first = screen->chosen - n + 1;
}

static void draw(struct screen *screen)
{
	int n_lines = table_lines(screen);
	char line[TOP_LINE_BYTES + 96];
	char now[TOP_LINE_BYTES];

	erase();
	snprintf(line, sizeof(line), "memsight top   process %u   %u process%s, %u thread%s   %s",
		 screen->session->recording.status.command_pid, screen->top->now.n_processes,
		 screen->top->now.n_processes == 1 ? "" : "es", screen->top->now.n_threads,
		 screen->top->now.n_threads == 1 ? "" : "s", state_of(screen));
	put_text(0, 0, line, COLS);
	top_write_now(&screen->top->now, now);
	put_text(1, 0, now, COLS);
	draw_curve(screen, 2, "live", screen->top->live_points);
	draw_curve(screen, 3, "RSS", screen->top->rss_points);
	draw_table(screen, n_lines);
	if (screen->panel == PANEL_STACK)
		draw_stack(screen, FIRST_ROW + n_lines, LINES - FIRST_ROW - n_lines - 1);
	else if (screen->panel == PANEL_THREADS)
		draw_threads(screen, FIRST_ROW + n_lines, LINES - FIRST_ROW - n_lines - 1);
	draw_foot(screen);
	refresh();
}

/* ---- Keys ---- */

static void choose(struct screen *screen, long by)
{
	long last = (long)screen->top->n_rows - 1;
	long row = (long)screen->chosen + by;

	row = row > last ? last : row;
	screen->chosen = row < 0 ? 0 : (size_t)row;
	screen->chosen_name[0] = '\0';
	if (last >= 0)
		snprintf(screen->chosen_name, sizeof(screen->chosen_name), "%s",
			 screen->top->rows[screen->chosen].name);
}

static void sort_by(struct screen *screen, int sort)
{
	screen->wish.sort = (enum top_sort)((sort + TOP_SORTS) % TOP_SORTS);
	screen->first = screen->chosen = 0;
	screen->chosen_name[0] = '\0';
}

static void set_filter(struct screen *screen)
{
	screen->wish.filter = screen->filter[0] ? screen->filter : NULL;
	screen->first = screen->chosen = 0;
}

/* A key while the filter is typed. */
static void type(struct screen *screen, int key)
{
	size_t n = strlen(screen->filter);

	if (key == '\n' || key == '\r' || key == KEY_ENTER || key == KEY_ESCAPE)
		screen->is_typing = false;
	if (key == KEY_ESCAPE)
		screen->filter[0] = '\0';
	else if ((key == KEY_BACKSPACE || key == KEY_ERASE || key == '\b') && n > 0)
		screen->filter[n - 1] = '\0';
	else if (key < 256 && !iscntrl(key) && n + 1 < sizeof(screen->filter))
		snprintf(screen->filter + n, 2, "%c", key);
	set_filter(screen);
}

static const struct {
	int key;
	enum top_sort sort;
} sort_keys[] = {
	{ 'l', TOP_LIVE },   { 'g', TOP_GROWTH }, { 'r', TOP_RATE },
	{ 'o', TOP_LEAKED }, { 'b', TOP_BLOCKS }, { 'a', TOP_AGE },
};

static void toggle(enum panel *panel, enum panel other)
{
	*panel = *panel == other ? PANEL_NONE : other;
}

static void press_other(struct screen *screen, int key)
{
	for (size_t i = 0; i < sizeof(sort_keys) / sizeof(sort_keys[0]); i++)
		if (sort_keys[i].key == key)
			sort_by(screen, (int)sort_keys[i].sort);
	switch (key) {
	case '<':
		sort_by(screen, (int)screen->wish.sort - 1);
		break;
	case '>':
		sort_by(screen, (int)screen->wish.sort + 1);
		break;
	case 's':
		session_save(screen->session, screen->message, sizeof(screen->message));
		break;
	case KEY_ESCAPE:
		screen->filter[0] = '\0';
		set_filter(screen);
		screen->panel = PANEL_NONE;
		break;
	default:
		break;
	}
}

/* False: that was the last one. */
static bool press(struct screen *screen, int key)
{
	screen->message[0] = '\0';
	if (key == KEY_EXIT)
		return false;
	if (screen->is_typing) {
		type(screen, key);
		return true;
	}
	switch (key) {
	case 'q':
		return false;
	case KEY_UP:
	case KEY_DOWN:
		choose(screen, key == KEY_UP ? -1 : 1);
		break;
	case KEY_PPAGE:
	case KEY_NPAGE:
		choose(screen, key == KEY_PPAGE ? -table_lines(screen) : table_lines(screen));
		break;
	case '\n':
	case '\r':
	case KEY_ENTER:
		toggle(&screen->panel, PANEL_STACK);
		break;
	case 't':
		toggle(&screen->panel, PANEL_THREADS);
		break;
	case '/':
		screen->is_typing = true;
		break;
	case ' ':
		screen->stands = !screen->stands;
		break;
	default:
		press_other(screen, key);
	}
	return true;
}

/* ---- Round and round ---- */

/* The next key; KEY_EXIT for a signal that quits. */
static int wait_for_key(const struct screen *screen)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	int ms = now_ns < screen->next_ns ? (int)((screen->next_ns - now_ns) / 1000000) + 1 : 0;
	struct pollfd fds[] = { { .fd = STDIN_FILENO, .events = POLLIN },
				{ .fd = screen->signal_fd, .events = POLLIN },
				{ .fd = screen->session->said_fd, .events = POLLIN } };

	/* When it has ended its end of the pipe is closed, which would wake us for ever. */
	poll(fds, screen->session->has_ended ? 2 : 3, ms);
	return fds[1].revents || (fds[0].revents & (POLLHUP | POLLERR)) ? KEY_EXIT : getch();
}

static int look(struct screen *screen)
{
	bool has_ended = screen->session->has_ended;
	int err = 0;

	/* The last look is that of its end. */
	session_has_ended(screen->session);
	if (clock_ns(CLOCK_MONOTONIC) < screen->next_ns && has_ended == screen->session->has_ended)
		return 0;
	screen->next_ns = clock_ns(CLOCK_MONOTONIC) + (uint64_t)screen->wish.interval_ns;
	if (!has_ended && !screen->stands)
		err = top_refresh(screen->top, &screen->wish, screen->session->began_ns);
	return err;
}

static int go_round(struct screen *screen)
{
	int err = top_refresh(screen->top, &screen->wish, screen->session->began_ns);

	screen->next_ns = clock_ns(CLOCK_MONOTONIC) + (uint64_t)screen->wish.interval_ns;
	while (err == 0) {
		keep_chosen(screen);
		draw(screen);
		int key = wait_for_key(screen);
		for (; key != ERR; key = getch()) {
			if (!press(screen, key))
				return CMD_DONE;
			screen->wish.n_rows = screen->first + (size_t)(2 * LINES);
			err = top_arrange(screen->top, &screen->wish);
		}
		err = err ?: look(screen);
	}
	return err;
}

bool top_has_screen(void)
{
	const char *terminal = getenv("TERM");

	return terminal && *terminal && strcmp(terminal, "dumb") != 0;
}

int top_screen(struct top *top, struct top_session *session, const struct top_wish *wish)
{
	struct screen screen = { .top = top,
				 .session = session,
				 .wish = *wish,
				 .is_unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0 };
	auto_close int signal_fd = signalfd(-1, &wish->quitting, SFD_CLOEXEC);
	SCREEN *terminal = newterm(NULL, stdout, stdin);

	if (!terminal)
		return cmd_fail("top: this terminal (TERM=%s) is not known: --batch prints tables",
				getenv("TERM"));
	screen.signal_fd = signal_fd;
	if (wish->filter)
		snprintf(screen.filter, sizeof(screen.filter), "%s", wish->filter);
	set_filter(&screen);
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(50);
	screen.wish.n_rows = (size_t)(2 * LINES);
	int err = go_round(&screen);
	endwin();
	delscreen(terminal);
	return err < 0 ? cmd_fail("out of memory") : CMD_DONE;
}

#endif
