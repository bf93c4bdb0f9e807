#include "report/suppressions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/query-value.h"
#include "store/statement.h"

struct suppressions {
	char **rules;
	size_t n;
	size_t n_allocated;
};

struct suppressions *suppressions_free(struct suppressions *suppressions)
{
	if (!suppressions)
		return NULL;
	for (size_t i = 0; i < suppressions->n; i++)
		free(suppressions->rules[i]);
	free(suppressions->rules);
	free(suppressions);
	return NULL;
}

static void cleanup(struct suppressions **suppressions)
{
	*suppressions = suppressions_free(*suppressions);
}
#define auto_suppressions __attribute__((cleanup(cleanup)))

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* One line without its end. */
static int parse_line(struct suppressions *suppressions, const char *line, size_t n_bytes)
{
	static const char kind[] = "leak:";

	for (; n_bytes && is_blank(*line); line++)
		n_bytes--;
	while (n_bytes && is_blank(line[n_bytes - 1]))
		n_bytes--;
	if (n_bytes == 0 || *line == '#')
		return 0;
	if (n_bytes <= strlen(kind) || memcmp(line, kind, strlen(kind)) != 0 ||
	    memchr(line, '\0', n_bytes))
		return -EINVAL;

	int r = grow_array(&suppressions->rules, suppressions->n, &suppressions->n_allocated,
			   sizeof(*suppressions->rules));
	if (r < 0)
		return r;
	char *rule = strndup(line + strlen(kind), n_bytes - strlen(kind));
	if (!rule)
		return -ENOMEM;
	suppressions->rules[suppressions->n++] = rule;
	return 0;
}

int suppressions_parse(const char *text, size_t n_bytes, struct suppressions **ret_suppressions,
		       unsigned *ret_line)
{
	auto_suppressions struct suppressions *suppressions = calloc(1, sizeof(*suppressions));
	const char *end = text + n_bytes;
	unsigned number = 0;

	if (!suppressions)
		return -ENOMEM;
	while (text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		const char *next = stop ? stop + 1 : end;
		number++;
		int r = parse_line(suppressions, text, (size_t)((stop ? stop : end) - text));
		if (r < 0) {
			*ret_line = number;
			return r;
		}
		text = next;
	}
	*ret_suppressions = steal_ptr(&suppressions);
	return 0;
}

int suppressions_read(const char *path, struct suppressions **ret_suppressions, unsigned *ret_line)
{
	auto_fclose FILE *file = fopen(path, "re");
	auto_free char *text = NULL;
	size_t n_allocated = 0;

	*ret_line = 0;
	if (!file)
		return -errno;
	/* Everything up to a NUL, which no such file has. */
	errno = 0;
	ssize_t n = getdelim(&text, &n_allocated, '\0', file);
	if (n < 0 && errno)
		return -errno;
	return suppressions_parse(text, n < 0 ? 0 : (size_t)n, ret_suppressions, ret_line);
}

/* The next piece of a pattern lies at the text's begin, or anywhere in it; then behind it. */
static const char *find_piece(const char *text, const char *piece, size_t n_bytes, bool is_first)
{
	if (is_first)
		return strncmp(text, piece, n_bytes) == 0 ? text + n_bytes : NULL;
	const char *found = n_bytes ? memmem(text, strlen(text), piece, n_bytes) : text;
	return found ? found + n_bytes : NULL;
}

bool suppressions_match(const char *pattern, const char *text)
{
	bool is_first = *pattern == '^';
	bool is_open = false; /* a * stands right before */

	if (!text || !*text)
		return false;
	pattern += is_first;
	while (*pattern) {
		size_t n_bytes = strcspn(pattern, "*$");
		if (*pattern == '*') {
			is_first = false;
			is_open = true;
			pattern++;
			continue;
		}
		if (*pattern == '$')
			return *text == '\0' || is_open;
		if (!*text)
			return false;
		text = find_piece(text, pattern, n_bytes, is_first);
		if (!text)
			return false;
		is_first = is_open = false;
		pattern += n_bytes;
	}
	return true;
}

static const char frames_sql[] =
	"WITH RECURSIVE path(id, parent_id, frame_id, depth) AS ("
	"  SELECT id, parent_id, frame_id, 0 FROM stack WHERE id = :run"
	"  UNION ALL SELECT stack.id, stack.parent_id, stack.frame_id, path.depth + 1"
	"  FROM path JOIN stack ON stack.id = path.parent_id WHERE path.depth < 1000)"
	" SELECT coalesce(frame_line.function, frame.function), file, path FROM path"
	" JOIN frame ON frame.id = frame_id LEFT JOIN frame_line USING (frame_id)";

/* The rule that matches any text of the row, or NULL. */
static const char *match_row(const struct suppressions *suppressions, sqlite3_stmt *row)
{
	for (size_t i = 0; i < suppressions->n; i++)
		for (int column = 0; column < 3; column++)
			if (suppressions_match(suppressions->rules[i],
					       statement_string_or_null(row, column)))
				return suppressions->rules[i];
	return NULL;
}

static const char *match_stack(const struct suppressions *suppressions, sqlite3_stmt *frames,
			       int64_t stack_id)
{
	const char *rule = NULL;

	sqlite3_reset(frames);
	sqlite3_bind_int64(frames, 1, stack_id);
	while (!rule && statement_advance(frames) == SQLITE_ROW)
		rule = match_row(suppressions, frames);
	return rule;
}

static int insert(sqlite3_stmt *stmt, int64_t stack_id, const char *rule)
{
	sqlite3_reset(stmt);
	sqlite3_bind_int64(stmt, 1, stack_id);
	sqlite3_bind_text(stmt, 2, rule, -1, SQLITE_STATIC);
	return statement_advance(stmt) == SQLITE_DONE ? 0 : -EPROTO;
}

static int fill_table(const struct suppressions *suppressions, sqlite3 *db, int64_t run_id)
{
	sqlite3_stmt *sites = report_sql_prepare(
		db, "SELECT stack_id FROM site WHERE run_id = :run AND live_blocks > 0", run_id,
		-1);
	sqlite3_stmt *frames = report_sql_prepare(db, frames_sql, 0, -1);
	sqlite3_stmt *row = report_sql_prepare(
		db, "INSERT OR REPLACE INTO temp.suppressed VALUES (?, ?)", 0, -1);
	int r = sites && frames && row ? 0 : -EPROTO;

	while (r == 0 && statement_advance(sites) == SQLITE_ROW) {
		int64_t stack_id = sqlite3_column_int64(sites, 0);
		const char *rule = match_stack(suppressions, frames, stack_id);
		if (rule)
			r = insert(row, stack_id, rule);
	}
	sqlite3_finalize(sites);
	sqlite3_finalize(frames);
	sqlite3_finalize(row);
	return r;
}

int suppressions_table(const struct suppressions *suppressions, sqlite3 *db, int64_t run_id)
{
	static const char make_sql[] = "DROP TABLE IF EXISTS temp.suppressed;"
				       "CREATE TEMP TABLE suppressed(stack_id INTEGER PRIMARY KEY,"
				       " rule TEXT NOT NULL)";

	if (sqlite3_exec(db, make_sql, NULL, NULL, NULL) != SQLITE_OK)
		return -EPROTO;
	return suppressions ? fill_table(suppressions, db, run_id) : 0;
}
