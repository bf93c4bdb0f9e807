/* Lines of source files: request "source". */
#include "view/answers/internal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "common/parse.h"
#include "common/text-stream.h"
#include "store/statement.h"

#define MAX_FILE_BYTES	 ((size_t)8 << 20)
#define LINES_BEFORE	 30u
#define LINES_ALTOGETHER 80u

struct place {
	char *file; /* to be freed */
	uint64_t line; /* from 1 */
};

/* FILE:LINE */
static int split(struct view_question *question, struct place *ret_place)
{
	const char *text = question->values->texts[VIEW_FILTER];
	const char *colon = text ? strrchr(text, ':') : NULL;

	if (!colon || parse_number(colon + 1, &ret_place->line) < 0)
		return view_context_refuse(question->context, -EINVAL, "filter is not FILE:LINE");
	ret_place->file = strndup(text, (size_t)(colon - text));
	return ret_place->file ? 0 : -ENOMEM;
}

/* Only what this database calls a source file is ever opened. */
static bool is_named(struct view_question *question, const char *file)
{
	auto_statement sqlite3_stmt *stmt = NULL;
	bool is_there = false;

	if (view_prepare(question, "SELECT 1 FROM frame_line WHERE file = :its_file LIMIT 1",
			 &stmt) == 0) {
		sqlite3_bind_text(stmt, sqlite3_bind_parameter_index(stmt, ":its_file"), file, -1,
				  SQLITE_STATIC);
		is_there = statement_advance(stmt) == SQLITE_ROW;
	}
	return is_there;
}

/* A regular file by an absolute path; no device, pipe or socket, which reading might change. */
static int read_source(const char *path, char **ret_text)
{
	auto_close int fd = -1;
	auto_free char *text = NULL;
	struct stat st;

	if (path[0] != '/')
		return -ENOENT;
	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return errno == EACCES ? -EACCES : -ENOENT;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOENT;
	if ((uint64_t)st.st_size > MAX_FILE_BYTES)
		return -EFBIG;
	text = calloc(1, (size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	ssize_t n = io_read_full(fd, text, (size_t)st.st_size);
	if (n < 0)
		return (int)n;
	*ret_text = steal_ptr(&text);
	return 0;
}

static void write_lines(struct json *json, char *text, uint64_t first)
{
	uint64_t number = 1;

	json_set_open(json, "lines", '[');
	for (char *line = text; line && number < first + LINES_ALTOGETHER; number++) {
		char *end = strchr(line, '\n');
		if (end)
			*end++ = '\0';
		if (number >= first && (end || *line))
			json_text(json, line);
		line = end;
	}
	json_close(json, ']');
}

/* A path in a link: what is neither a letter, a digit nor one of "/-_.~" as %XX. */
static void write_escaped(FILE *out, const char *path)
{
	for (; *path; path++) {
		bool is_plain = isalnum((unsigned char)*path) || strchr("/-_.~", *path);
		fprintf(out, is_plain ? "%c" : "%%%02X", (unsigned char)*path);
	}
}

/* The link of a pattern with {file} and {line}. */
static void write_link(FILE *out, const char *pattern, const char *path, uint64_t line)
{
	static const char file_mark[] = "{file}", line_mark[] = "{line}";

	while (*pattern) {
		if (strncmp(pattern, file_mark, strlen(file_mark)) == 0) {
			write_escaped(out, path);
			pattern += strlen(file_mark);
		} else if (strncmp(pattern, line_mark, strlen(line_mark)) == 0) {
			fprintf(out, "%llu", (unsigned long long)line);
			pattern += strlen(line_mark);
		} else
			fputc(*pattern++, out);
	}
}

static int set_editor(struct view_question *question, const char *path, uint64_t line)
{
	const char *pattern = question->context->editor;
	auto_free char *link = NULL;
	size_t n_bytes = 0;
	bool is_wanted = pattern && *pattern;
	FILE *out = is_wanted ? text_stream_open(&link, &n_bytes) : NULL;

	if (out)
		write_link(out, pattern, path, line);
	if (is_wanted && (!out || text_stream_close(out, &link) < 0))
		return -ENOMEM;
	json_set_text(&question->json, "editor", link);
	return 0;
}

/* text: what lies at the path */
static int write_source(struct view_question *question, const struct place *place, const char *path,
			char *text)
{
	struct json *json = &question->json;
	uint64_t first = place->line > LINES_BEFORE ? place->line - LINES_BEFORE : 1;

	json_open(json, '{');
	json_set_text(json, "file", place->file);
	json_set_integer(json, "first", (int64_t)first);
	write_lines(json, text, first);
	int r = set_editor(question, path, place->line);
	json_close(json, '}');
	return r;
}

/* Compilers name files as they were called: from the folder that programs are often run in, too. */
static int whole_path(struct view_question *question, const char *file, char **ret_path)
{
	auto_statement sqlite3_stmt *stmt = NULL;
	bool is_whole = file[0] == '/';
	int r = 0;

	if (!is_whole)
		r = view_prepare(question, "SELECT directory FROM run WHERE id = :run", &stmt);
	if (r == 0 && !is_whole && statement_advance(stmt) != SQLITE_ROW)
		r = -ENOENT;
	if (r < 0)
		return r;
	return asprintf(ret_path, "%s%s%s", is_whole ? "" : statement_string(stmt, 0),
			is_whole ? "" : "/", file) < 0
		       ? -ENOMEM
		       : 0;
}

int view_source(struct view_question *question)
{
	struct place place = { 0 };
	auto_free char *file = NULL;
	auto_free char *text = NULL;
	auto_free char *path = NULL;
	int r = split(question, &place);

	file = place.file;
	if (r == 0 && !is_named(question, file))
		r = view_context_refuse(question->context, -ENOENT,
					"the database names no such source file");
	if (r < 0)
		return r;
	r = whole_path(question, file, &path) ?: read_source(path, &text);
	if (r == -ENOMEM || r == -EPROTO)
		return r;
	if (r < 0)
		return view_context_refuse(question->context, -ENOENT,
					   "the source file cannot be read here: %s",
					   r == -EFBIG ? "it is too large" : strerror(-r));
	return write_source(question, &place, path, text);
}
