#include "analyze/process/call-texts.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "store/library-frames.h"
#include "store/statement.h"

#define MOST_CALLS 64u /* of a line; more are a table that a macro made */

/* ---- The text of a call ---- */

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$';
}

/* Where the group that ends before `end` begins, "<T>" or "[i]"; NULL: it does not. */
static const char *group_begin(const char *line, const char *end)
{
	char close = end[-1], open = close == ']' ? '[' : close == ')' ? '(' : '<';
	int depth = 0;

	for (const char *at = end; at-- > line;) {
		depth += *at == close;
		depth -= *at == open;
		if (depth == 0)
			return at;
	}
	return NULL;
}

static const char *skip_blanks_back(const char *line, const char *end)
{
	while (end > line && isspace((unsigned char)end[-1]))
		end--;
	return end;
}

/* Begin of a name like "p->rows[i].x", "std::vector<int>" that ends before `end`. */
static const char *name_begin(const char *line, const char *end)
{
	const char *at = end;

	while (at > line) {
		if (is_word(at[-1]) || at[-1] == '.' || at[-1] == ':') {
			at--;
		} else if (at - line >= 2 && at[-1] == '>' && at[-2] == '-') {
			at -= 2;
		} else if (at[-1] == ']' || at[-1] == '>') {
			const char *begin = group_begin(line, at);
			if (!begin)
				return at;
			at = begin;
		} else {
			return at;
		}
	}
	return at;
}

/* The word "new" of an expression in whose last name, or closing bracket, a column is; or NULL. */
static const char *find_new(const char *line, const char *at)
{
	const char *end = at;

	if (*at == ')' || *at == ']')
		end = group_begin(line, at + 1);
	while (end && is_word(*end))
		end++;
	if (!end)
		return NULL;
	const char *before = skip_blanks_back(line, name_begin(line, end));
	bool is_new = before - line >= 3 && strncmp(before - 3, "new", 3) == 0 &&
		      (before - line == 3 || !is_word(before[-4]));
	return is_new ? before - 3 : NULL;
}

/* Where the name of the called function begins and ends, of a column that is in it or behind. */
static bool find_callee(const char *line, const char *at, const char **ret_begin,
			const char **ret_end)
{
	const char *end = at;

	while (is_word(*end) || *end == ':' || *end == '.' || strncmp(end, "->", 2) == 0)
		end += *end == '-' ? 2 : 1;
	if (*end == '<')
		while (*end && *end != '(' && *end != ';')
			end++;
	const char *open = end + strspn(end, " \t"), *new = find_new(line, at);
	bool is_new = end - at == 3 && strncmp(at, "new", 3) == 0;
	if (new && !is_new) {
		*ret_begin = new;
		*ret_end = new + 3;
		return true;
	}
	if (!is_new && *open != '(')
		return false;
	*ret_end = end;
	*ret_begin = is_new ? at : name_begin(line, end);
	return *ret_begin < *ret_end && !isdigit((unsigned char)**ret_begin);
}

/* "(double *)", "static_cast<double *>(" before a call say nothing about it. */
static const char *without_casts(const char *line, const char *end)
{
	for (;;) {
		end = skip_blanks_back(line, end);
		const char *inner = end;
		if (end > line && end[-1] == '(') {
			const char *cast = name_begin(line, end - 1);
			if (!memmem(cast, (size_t)(end - cast), "_cast<", 6))
				return end;
			inner = cast;
		} else if (end > line && end[-1] == ')') {
			inner = group_begin(line, end);
		} else {
			return end;
		}
		if (!inner || (inner > line && is_word(inner[-1])))
			return end;
		end = inner;
	}
}

/* Of "double *A" the name, of "*out" all. */
static const char *target_begin(const char *line, const char *end)
{
	const char *name = name_begin(line, end), *at = name;

	while (at > line && (at[-1] == '*' || at[-1] == ' '))
		at--;
	bool is_statement = at == line || strchr(";{}(", at[-1]);
	while (is_statement && at < name && *at == ' ')
		at++;
	return is_statement ? at : name;
}

static bool print_text(struct call_text *text, const char *line, const char *begin, int n_callee)
{
	bool is_new = n_callee == 3 && strncmp(begin, "new", 3) == 0;
	const char *behind = is_new ? " \u2026" : "(\u2026)";
	const char *before = without_casts(line, begin), *outer = before;
	int n;

	if (before - line >= 2 && before[-1] == '=' && !strchr("=!<>+-*/%&|^", before[-2])) {
		const char *end = skip_blanks_back(line, before - 1);
		const char *target = target_begin(line, end);
		n = snprintf(text->text, CALL_TEXT_BYTES, "%.*s = %.*s%s", (int)(end - target),
			     target, n_callee, begin, behind);
		return target < end && n < (int)CALL_TEXT_BYTES;
	}
	if (before > line && before[-1] == '(')
		outer = name_begin(line, before - 1);
	if (outer == before - 1)
		outer = before;
	n = snprintf(text->text, CALL_TEXT_BYTES, "%.*s%.*s%s%s", (int)(before - outer), outer,
		     n_callee, begin, behind, outer < before ? ")" : "");
	return n < (int)CALL_TEXT_BYTES;
}

bool call_text(const char *line, int column, struct call_text *ret_text)
{
	size_t length = strlen(line);
	const char *begin, *end;

	*ret_text = (struct call_text){ { 0 } };
	if (column < 1 || (size_t)column > length ||
	    !find_callee(line, line + column - 1, &begin, &end))
		return false;
	int n_callee = (int)(end - begin);
	if (n_callee < (int)CALL_TEXT_BYTES && print_text(ret_text, line, begin, n_callee)) {
		memcpy(ret_text->function, begin, (size_t)n_callee);
		return true;
	}
	*ret_text = (struct call_text){ { 0 } };
	return false;
}

/* ---- Lines with several calls ---- */

/* Of frames that are the program's; what lies further in is a library's. */
static const char shared_sql[] =
	"SELECT frame_id, depth, file, line, line_column, path FROM (SELECT frame_id, depth,"
	"  file, line, line_column, path, min(line_column) OVER place AS first, max(line_column)"
	"  OVER place AS last FROM frame_line JOIN frame ON frame.id = frame_id WHERE line_column"
	"  IS NOT NULL AND depth >= user_depth AND call IS NULL WINDOW place AS (PARTITION BY file,"
	"  line)) WHERE first < last ORDER BY file, line";

struct call {
	int64_t frame;
	int64_t depth;
	int column;
	struct call_text text;
};

struct texts {
	sqlite3_stmt *update;
	FILE *source; /* that is open, or NULL */
	char *file; /* its name */
	char *bytes; /* its line n_line */
	size_t n_allocated;
	int n_line;
	int line; /* that calls are of */
	struct call calls[MOST_CALLS];
	size_t n_calls;
};

static void close_source(struct texts *texts)
{
	if (texts->source)
		fclose(texts->source);
	texts->source = NULL;
	free(texts->file);
	texts->file = NULL;
	texts->n_line = 0;
}

static void finish_texts(struct texts *texts)
{
	close_source(texts);
	free(texts->bytes);
}
#define auto_texts __attribute__((cleanup(finish_texts)))

/* A source that is newer than the program is another one; so may be that of a program elsewhere. */
static FILE *open_source(const char *file, const char *program)
{
	struct stat source, built;
	auto_close int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 || fstat(fd, &source) < 0 || !S_ISREG(source.st_mode) ||
	    stat(program, &built) < 0 || source.st_mtime > built.st_mtime)
		return NULL;
	FILE *stream = fdopen(fd, "r");
	if (stream)
		steal_fd(&fd);
	return stream;
}

static const char *read_line(struct texts *texts, int line)
{
	ssize_t n = -1;

	while (texts->source && texts->n_line < line &&
	       (n = getline(&texts->bytes, &texts->n_allocated, texts->source)) >= 0)
		texts->n_line++;
	return texts->source && texts->n_line == line ? texts->bytes : NULL;
}

/* Whether names of sites would not tell two calls apart: they leave allocators out. */
static bool reads_alike(const struct call *a, const struct call *b)
{
	bool is_allocator[] = { frame_allocates(a->text.function),
				frame_allocates(b->text.function) };

	return a->column != b->column && ((is_allocator[0] && is_allocator[1]) ||
					  strcmp(a->text.function, b->text.function) == 0);
}

/* What is written of a call: its text, its column, or nothing where nothing reads like it. */
static const char *find_text(const struct texts *texts, const struct call *call, char *column,
			     size_t n_bytes)
{
	bool is_alone = true, is_unique = *call->text.text;

	snprintf(column, n_bytes, ":%d", call->column);
	for (size_t i = 0; i < texts->n_calls; i++) {
		const struct call *other = &texts->calls[i];
		is_alone &= !reads_alike(call, other);
		is_unique &= other->column == call->column ||
			     strcmp(other->text.text, call->text.text) != 0;
	}
	return is_alone ? NULL : is_unique ? call->text.text : column;
}

/* All calls of a line are there. */
static int write_line(struct texts *texts)
{
	const char *line = read_line(texts, texts->line);
	char column[24];
	int r = 0;

	for (size_t i = 0; line && i < texts->n_calls; i++)
		call_text(line, texts->calls[i].column, &texts->calls[i].text);
	for (size_t i = 0; r == 0 && i < texts->n_calls; i++) {
		const struct call *call = &texts->calls[i];
		const char *text = find_text(texts, call, column, sizeof(column));
		if (!text)
			continue;
		statement_integer(texts->update, 1, call->frame);
		statement_integer(texts->update, 2, call->depth);
		statement_text(texts->update, 3, text);
		r = statement_run(texts->update);
	}
	texts->n_calls = 0;
	return r;
}

static int add_call(struct texts *texts, sqlite3_stmt *row)
{
	const char *file = statement_string(row, 2);
	int line = sqlite3_column_int(row, 3);
	bool is_open = texts->file && strcmp(texts->file, file) == 0;
	int r = 0;

	if (!is_open || texts->line != line)
		r = write_line(texts);
	if (!is_open) {
		close_source(texts);
		texts->source = open_source(file, statement_string(row, 5));
		texts->file = strdup(file);
	}
	texts->line = line;
	if (r == 0 && texts->n_calls < MOST_CALLS)
		texts->calls[texts->n_calls++] = (struct call){
			.frame = sqlite3_column_int64(row, 0),
			.depth = sqlite3_column_int64(row, 1),
			.column = sqlite3_column_int(row, 4),
		};
	return r < 0 || texts->file ? r : -ENOMEM;
}

int call_texts_write(sqlite3 *db)
{
	auto_statement sqlite3_stmt *rows = NULL, *update = NULL;
	auto_texts struct texts texts = { 0 };
	int r = statement_prepare(db, shared_sql, &rows);

	if (r == 0)
		r = statement_prepare(
			db, "UPDATE frame_line SET call = ?3 WHERE frame_id = ?1 AND depth = ?2",
			&update);
	texts.update = update;
	while (r == 0 && (r = statement_step(rows)) > 0)
		r = add_call(&texts, rows);
	return r < 0 ? r : write_line(&texts);
}
